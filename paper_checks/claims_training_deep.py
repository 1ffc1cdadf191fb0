"""Family G, deep networks: G3."""

import numpy as np

from mfcheck.claim import Claim, Control, Criterion
from mfcheck.experiments import training_deep
from mfcheck.statistics.estimate import mean
from mfcheck.statistics.verdict import Region

DISCRETE = "|log(decay of the loss / (-2 ln(1 - dt lambda_min / n) / dt))|"
EVERY = 25
VANISHES = "log10 of the last loss over the first"

G3 = Claim(
    id="G3",
    statement="deep residual attention without noise: where the tangent kernel is non-degenerate the loss decays "
    "linearly, in the end at 2 lambda_min(K)/n with K the kernel at the end",
    prediction="the ratio of the two rates is 1 within 2 %, with the descent's own rate in place of the flow's",
    formula=r"-\frac{d}{ds}\log L\to\frac{2\,\lambda_{\min}(K_{\text{end}})}{n},\quad "
    r"\text{in steps: }-\frac{2}{dt}\ln\Big(1-\frac{dt\,\lambda_{\min}}{n}\Big)",
    source="[HL]; Barboni, de Hoop, Furuya, Peyre, arXiv:2605.17660",
    hypotheses="inputs in general position, gradient in the mean-field scaling, beta = 0, no weight decay",
    experiment=training_deep.deep_training,
    settings={
        "inputs": 4,
        "tokens": 4,
        "dimension": 3,
        "layers": 3,
        "heads": 8,
        "step": 0.1,
        "steps": 3000,
        # large enough for the kernel to move by factors
        "target_scale": 2.0,
        "equal_inputs": False,
        "kernel": "end",
    },
    replicates=24,
    criteria=(
        # without its sign, so that networks above and below do not cancel; 2 % of the rate
        Criterion(
            DISCRETE,
            lambda m, level: mean(np.abs(np.log(m["rate"] / m["predicted"])), level),
            Region.at_most(np.log(1.02)),
        ),
        # a stalled loss stays within a few powers of ten of its start
        Criterion(VANISHES, lambda m, level: mean(np.log10(m["final"]), level), Region.at_most(-6.0, -12.0)),
    ),
    controls=(
        # both are seen long before the descent has reached rounding
        Control("the kernel at the start", {"kernel": "start", "steps": 1000}, refutes=(DISCRETE,)),
        Control("two equal inputs with different targets", {"equal_inputs": True, "steps": 1000}, refutes=(VANISHES,)),
    ),
    record=lambda m: {
        "step": 0.1,
        "every": EVERY,
        # of four networks
        "loss": m["loss"][:4, ::EVERY].tolist(),
        **{name: m[name].tolist() for name in ("rate", "predicted", "predicted_flow", "moved", "stall")},
    },
)

CLAIMS = (G3,)
