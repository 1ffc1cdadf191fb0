"""Family D: Adam's drift."""

from collections.abc import Callable

import numpy as np

from mfcheck.claim import Claim, Control, Criterion
from mfcheck.experiments import adam
from mfcheck.replicates import Measurements
from mfcheck.statistics.estimate import Estimate, exact, function_of_means
from mfcheck.statistics.verdict import Region

Estimator = Callable[[Measurements, float], Estimate]

CURVATURES = (0.5, 4.0)
D7_SETTINGS = {
    "curvatures": CURVATURES,
    "beta": 0.5,
    "step": 0.1,
    "beta2": 0.999,
    "base": "Adam",
    "noise": "isotropic",
    "chains": 125,
    # v forgets its start within 1 / (1 - beta2) = 1000 steps: e^-2 to e^-3 of it is left where it is looked at
    "steps": 3000,
    "forgotten": 2000,
    # theta^2 forgets within s / (2 eta) = 2.75 steps
    "every": 10,
}
SPREAD = adam.adam_spread(D7_SETTINGS["beta"], D7_SETTINGS["step"])
#: How small (1 - beta2) beta / eta has to be for v to average over many relaxation times.
AVERAGED = 0.01
assert (1 - D7_SETTINGS["beta2"]) * D7_SETTINGS["beta"] / D7_SETTINGS["step"] <= AVERAGED


def _spread(column: int) -> Estimator:
    """The standard deviation at one curvature over the prediction."""
    return lambda m, level: function_of_means(lambda x: np.sqrt(x[..., column]) / SPREAD, m["mean_square"], level)


def _effective(column: int) -> Estimator:
    """The mean effective step at one curvature over eta / (a s), what it is where v = a^2 s^2."""
    predicted = D7_SETTINGS["step"] / (CURVATURES[column] * SPREAD)
    return lambda m, level: function_of_means(lambda x: x[..., column] / predicted, m["effective_step"], level)


SPREADS = ("std at a = 0.5", "std at a = 4", "std ratio")
STEPS_RATIO = CURVATURES[1] / CURVATURES[0]

D7 = Claim(
    id="D7",
    statement="Adam's drift with isotropic noise does not sample the Gibbs law: on a quadratic its stationary standard "
    "deviation is beta + eta/2 whatever the curvature",
    prediction="std / (beta + eta/2) = 1 within 1 % at a = 0.5 and a = 4, ratio of the two 1 within 1 % (Gibbs: "
    f"{STEPS_RATIO**0.5:.2f}); effective steps eta / (a (beta + eta/2)), their ratio {STEPS_RATIO:g}, within 1 %",
    formula=r"\operatorname{std}_\infty(\theta)=\beta+\frac{\eta}{2}\ \text{whatever the curvature}",
    source="fixed point of s^2 = (1 - eta/s)^2 s^2 + 2 beta eta; Kingma and Ba 2015, arXiv:1412.6980",
    hypotheses="beta1 = 0, epsilon = 0, (1 - beta2) beta / eta <= 0.01",
    experiment=adam.stationary_spread,
    settings=D7_SETTINGS,
    replicates=64,
    criteria=(
        Criterion("std at a = 0.5", _spread(0), Region.around(1.0, relative=0.01)),
        Criterion("std at a = 4", _spread(1), Region.around(1.0, relative=0.01)),
        Criterion(
            "std ratio",
            lambda m, level: function_of_means(lambda x: np.sqrt(x[..., 0] / x[..., 1]), m["mean_square"], level),
            Region.around(1.0, relative=0.01),
        ),
        Criterion("effective step at a = 0.5", _effective(0), Region.around(1.0, relative=0.01)),
        Criterion(
            "effective step ratio",
            lambda m, level: function_of_means(lambda x: x[..., 0] / x[..., 1], m["effective_step"], level),
            Region.around(STEPS_RATIO, relative=0.01),
        ),
        # both average the same float32 numbers in float64: once by replicate, once all together
        Criterion(
            "optimiser's record", lambda m, level: exact(m["record_error"].max()), Region.at_most(1e-9, prediction=0.0)
        ),
    ),
    controls=(
        Control(
            "plain gradient drift",
            {"base": "SGD"},
            refutes=(
                "std at a = 0.5",
                "std at a = 4",
                "std ratio",
                "effective step at a = 0.5",
                "effective step ratio",
            ),
        ),
        Control(
            "noise preconditioned like the drift",
            {"noise": "preconditioned"},
            refutes=SPREADS,
        ),
    ),
    record=lambda m: {
        "curvatures": list(CURVATURES),
        "std": np.sqrt(m["mean_square"].mean(0)),
        "effective_step": m["effective_step"].mean(0),
        "beta": D7_SETTINGS["beta"],
        "eta": D7_SETTINGS["step"],
    },
)

CLAIMS = (D7,)
