"""Family K: consistency of the scaling."""

from collections.abc import Callable
from dataclasses import replace

from mfcheck.claim import Claim, Control, Criterion
from mfcheck.experiments import scaling
from mfcheck.replicates import Measurements
from mfcheck.statistics.estimate import Estimate, exact, variance_ratio
from mfcheck.statistics.verdict import Region

SHIPPED = tuple(name for name in scaling.SUBJECTS if "index-dependent" not in name)

K1 = Claim(
    id="K1",
    statement="the gradient of a risk in a weight is its first variation, and M times that in a particle is the "
    "gradient of the first variation",
    prediction="both agree to 1e-6 with difference quotients on appending an atom, for every shipped risk and head",
    formula=r"\frac{\delta L}{\delta\rho}(\theta_j)=\frac{\partial R}{\partial w_j},\quad "
    r"\nabla\frac{\delta L}{\delta\rho}(\theta_j)=\frac{1}{w_j}\frac{\partial R}{\partial\theta_j}",
    source="first variation and Wasserstein gradient of a function of points and weights",
    hypotheses="the risk is a differentiable function of the measure; float64",
    experiment=scaling.weights_and_points,
    # two nested difference quotients: eps^2 truncation = 1e-8, rounding |R| 1e-16 / eps^2 = 1e-8
    settings={"risks": SHIPPED, "particles": 16, "eps": 1e-4},
    criteria=(
        Criterion("weights: first variation", lambda m, level: exact(m["potential"].max()), Region.at_most(1e-6)),
        Criterion("points: its gradient", lambda m, level: exact(m["drift"].max()), Region.at_most(1e-6)),
    ),
    controls=(
        Control(
            "a risk that depends on the particle's index",
            {"risks": ("index-dependent",)},
            refutes=("weights: first variation", "points: its gradient"),
        ),
        Control(
            "a head that depends on its index",
            {"risks": ("attention layer: index-dependent",)},
            refutes=("weights: first variation", "points: its gradient"),
        ),
    ),
    record=lambda m: {key: m[key][0] for key in ("potential", "drift", "existing_weight")},
)

PARTICLES = (1, 8, 64)
#: a eta of each scaling; the raw one is large, so that at M = 64 it forgets its start in 150 steps.
MEAN_FIELD_CONTRACTION, RAW_CONTRACTION = 0.4, 1.6
#: What is left of the start at 0: below a tenth of the region's half-width, as a reference's error.
REMAINDER = 5e-4


def _variance(kind: str, column: int) -> Callable[[Measurements, float], Estimate]:
    def estimate(m: Measurements, level: float) -> Estimate:
        ratio = variance_ratio(m[kind][:, column], m["degrees"][:, column], 1.0, level)
        return replace(ratio, reference_error=REMAINDER)

    return estimate


K2 = Claim(
    id="K2",
    statement="the mean-field update samples at beta whatever M, the raw update at M beta; raw(eta, beta) is "
    "mean_field(eta/M, M beta) path by path",
    prediction="Euler-Maruyama's stationary variances for both within 1 %, for M = 1, 8, 64; paths equal to rounding",
    formula=r"\text{raw}(\eta,\beta)=\text{mean-field}(\eta/M,\,M\beta)",
    source="substitution of eta/M and M beta in the update",
    hypotheses="variances on a quadratic, where all particles are independent; paths on an interacting risk",
    experiment=scaling.two_scalings,
    settings={
        "curvature": 2.0,
        "beta": 0.5,
        "particles": PARTICLES,
        "mean_field_contraction": MEAN_FIELD_CONTRACTION,
        "raw_contraction": RAW_CONTRACTION,
        "coordinates": 40_960,
        "remainder": REMAINDER,
        "path_particles": 8,
        "path_steps": 20,
        "exchanged": False,
    },
    replicates=32,
    criteria=(
        *(
            Criterion(f"{kind}, M = {particles}", _variance(kind, column), Region.around(1.0, relative=0.01))
            for kind in ("mean_field", "raw")
            for column, particles in enumerate(PARTICLES)
        ),
        # 20 steps of 10 roundings each at 1.1e-16, which the drift's Lipschitz constant may amplify a little
        Criterion("paths", lambda m, level: exact(m["path_difference"].max()), Region.at_most(1e-12)),
    ),
    controls=(
        # at M = 1 the two are one
        Control(
            "the two exchanged",
            {"exchanged": True},
            refutes=(
                *(f"{kind}, M = {particles}" for kind in ("mean_field", "raw") for particles in PARTICLES[1:]),
                "paths",
            ),
        ),
    ),
    record=lambda m: {
        "particles": PARTICLES,
        "mean_field": m["mean_field"].sum(0) / m["degrees"].sum(0),
        "raw": m["raw"].sum(0) / m["degrees"].sum(0),
        "mean_field_contraction": MEAN_FIELD_CONTRACTION,
        "raw_contraction": RAW_CONTRACTION,
        # in units of beta / a
        "mean_field_predicted": [1 / (1 - MEAN_FIELD_CONTRACTION / 2) for _ in PARTICLES],
        "raw_predicted": [count / (1 - RAW_CONTRACTION / count / 2) for count in PARTICLES],
    },
)

CLAIMS = (K1, K2)
