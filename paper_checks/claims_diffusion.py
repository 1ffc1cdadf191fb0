"""Family D: diffusion and time stepping."""

from mfcheck.claim import Claim, Control, Criterion
from mfcheck.experiments import diffusion
from mfcheck.statistics.estimate import variance_ratio
from mfcheck.statistics.verdict import Region

D1 = Claim(
    id="D1",
    statement="the noise injected over T steps has variance 2 beta eta T per coordinate",
    prediction="variance / (2 beta eta T) = 1 within 1 %",
    source="research card on Langevin mean-field attention heads",
    hypotheses="independent Gaussian increments, no drift",
    experiment=diffusion.injected_variance,
    settings={"beta": 0.005, "step": 0.03, "steps": 20, "particles": 10_000, "variance_factor": 1.0},
    replicates=100,
    criteria=(
        Criterion(
            "variance ratio",
            lambda m, level: variance_ratio(m["sum_of_squares"], m["degrees"], 1.0, level),
            Region.around(1.0, relative=0.01),
        ),
    ),
    controls=(
        Control("amplitude sqrt(beta eta)", {"variance_factor": 0.5}, refutes=("variance ratio",)),
        Control("amplitude sqrt(2 beta) eta", {"variance_factor": 0.03}, refutes=("variance ratio",)),
    ),
)

CLAIMS = (D1,)
