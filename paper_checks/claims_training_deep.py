"""Family G, deep networks: G3."""

import numpy as np
from numpy.typing import NDArray

from mfcheck.claim import Claim, Control, Criterion
from mfcheck.experiments import training_deep
from mfcheck.replicates import Measurements
from mfcheck.statistics.estimate import mean
from mfcheck.statistics.median import median
from mfcheck.statistics.verdict import Region

DISCRETE = "|log(decay of the loss / (-2 ln(1 - dt lambda_min / n) / dt))|, median network"
FLOW = "|log(decay of the loss / (2 lambda_min / n))|, median network"
STEP, EVERY = 0.03, 25
VANISHES = "log10 of the last loss over the first"


def _off(m: Measurements, predicted: str) -> NDArray[np.float64]:
    """|log(measured rate / predicted)| of every network; not finite where one of them stalls."""
    with np.errstate(divide="ignore", invalid="ignore"):
        return np.abs(np.log(m["rate"] / m[predicted]))


G3 = Claim(
    id="G3",
    statement="deep residual attention without noise: where the tangent kernel is non-degenerate the loss decays "
    "linearly, in the end at 2 lambda_min(K)/n with K the kernel at the end",
    prediction="measured over predicted rate is 1 within 2 % in the median network, for the descent's own rate and for "
    "the flow's",
    formula=r"-\frac{d}{ds}\log L\to\frac{2\,\lambda_{\min}(K_{\text{end}})}{n},\quad "
    r"\text{in steps: }-\frac{2}{dt}\ln\Big(1-\frac{dt\,\lambda_{\min}}{n}\Big)",
    source="[HL]; Barboni, de Hoop, Furuya, Peyre, arXiv:2605.17660",
    hypotheses="inputs in general position, gradient in the mean-field scaling, beta = 0, no weight decay; a step "
    "below the edge of stability, dt (lambda_min + lambda_max) / n < 2",
    experiment=training_deep.deep_training,
    settings={
        "inputs": 4,
        "tokens": 4,
        "dimension": 3,
        "layers": 3,
        "heads": 8,
        # the flow's rate differs from the descent's by half of dt lambda_min / n, which is 0.01 to 0.03
        "step": STEP,
        "steps": 3000,
        # large enough for the kernel to move by factors; at 2.0 kernels grow to the edge of stability
        "target_scale": 1.0,
        "equal_inputs": False,
        "kernel": "end",
    },
    replicates=32,
    criteria=(
        # the median, not the mean: in one network of a hundred the kernel grows to the edge of stability, where
        # lambda_max decides, and in a few the two least eigenvalues are too close to part before rounding. Without
        # its sign, so that networks above and below do not cancel: at the start the kernel is off on both sides
        Criterion(DISCRETE, lambda m, level: median(_off(m, "predicted"), level), Region.at_most(np.log(1.02))),
        Criterion(FLOW, lambda m, level: median(_off(m, "predicted_flow"), level), Region.at_most(np.log(1.02))),
        # a stalled loss stays within a few powers of ten of its start
        Criterion(VANISHES, lambda m, level: mean(np.log10(m["final"]), level), Region.at_most(-6.0, -12.0)),
    ),
    controls=(
        Control("the kernel at the start", {"kernel": "start"}, refutes=(DISCRETE, FLOW)),
        # a stall is seen long before other losses have reached rounding
        Control("two equal inputs with different targets", {"equal_inputs": True, "steps": 1000}, refutes=(VANISHES,)),
    ),
    record=lambda m: {
        "step": STEP,
        "every": EVERY,
        # of four networks
        "loss": m["loss"][:4, ::EVERY].tolist(),
        **{name: m[name].tolist() for name in ("rate", "predicted", "predicted_flow", "moved", "stiffness", "stall")},
    },
)

CLAIMS = (G3,)
