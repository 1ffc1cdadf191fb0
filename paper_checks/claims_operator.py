"""Family V: the Monte Carlo operator."""

import numpy as np
from scipy import stats

from mfcheck.claim import Claim, Control, Criterion
from mfcheck.experiments import operator, operator_sobol
from mfcheck.replicates import Measurements
from mfcheck.statistics.estimate import Estimate, exact, kolmogorov_distance, largest_deviation, order
from mfcheck.statistics.verdict import Region

PARTICLES = (8, 32, 128, 512, 2048)
SOBOL_PARTICLES = (128, 256, 512, 1024, 2048, 4096, 8192)
INPUTS, TOKENS = 2, 6
#: Where figures compare the law of V2's first input with the normal one.
QUANTILES = np.round(np.concatenate([[0.001, 0.005], np.linspace(0.01, 0.99, 50), [0.995, 0.999]]), 6)


def largest_mean(samples: np.ndarray, level: float, reference: float = 0.0) -> Estimate:
    """max_j |E samples_j| of samples [n, k], with a simultaneous interval."""
    return largest_deviation(samples.mean(0), stats.sem(samples, axis=0), level, len(samples), reference)


def largest_distance(standardised: np.ndarray, level: float) -> Estimate:
    """The largest Kolmogorov distance to N(0, 1) over the inputs of samples [n, systems, inputs], all at once."""
    inputs = standardised.shape[-1]
    each = [kolmogorov_distance(standardised[..., k], "norm", 1 - (1 - level) / inputs) for k in range(inputs)]
    lower, upper = max(e.lower for e in each), max(e.upper for e in each)
    return Estimate(max(e.point for e in each), lower, upper, level, each[0].n)


def _moved(m: Measurements) -> np.ndarray:
    """How far the quadrature's error delta can move the mean squares: 2 delta root mean square."""
    return 2 * m["reference"][0] * np.sqrt(m["mean_square"].mean(0))


_SEQUENCES = operator.scalar_problem(INPUTS, TOKENS)
_MOMENTS = operator.scalar_moments("normal", _SEQUENCES)
SIGNAL = float(_MOMENTS.mean.norm()) / _MOMENTS.total_variance**0.5

V1 = Claim(
    id="V1",
    statement="V_M is unbiased and its root mean square error is the standard deviation of v_theta over sqrt(M)",
    prediction="slope -1/2; constant sd_rho(v_theta(x)) within 5 % at every M; bias 0",
    formula=r"\mathbb{E}V_M=V_\rho,\quad \Big(\mathbb{E}|V_M-V_\rho|^2\Big)^{1/2}="
    r"\frac{\operatorname{sd}_\rho(v_\theta(x))}{\sqrt{M}}",
    source="research card on Langevin mean-field attention heads; [HY]",
    hypotheses="independent heads theta ~ rho with E|v_theta|^2 finite",
    experiment=operator.convergence,
    settings={
        "particles": PARTICLES,
        "heads": 2**19,
        "inputs": INPUTS,
        "tokens": TOKENS,
        "value_law": "normal",
        "subtracted": 0,
    },
    # 64 x 2^19 / 2048 = 16,384 systems at the largest M: their mean square is known within 5 x sqrt(2 / 16384) = 5.5 %
    replicates=64,
    criteria=(
        Criterion(
            "slope of the root mean square",
            lambda m, level: order(PARTICLES, m["mean_square"], level, power=0.5, reference_errors=_moved(m)),
            Region.around(-0.5, absolute=0.03),
        ),
        Criterion(
            "constant at every M: largest |M MSE / variance - 1|",
            lambda m, level: largest_mean(m["scaled"] - 1, level, float((PARTICLES * _moved(m)).max())),
            # a mean square within 1 - 0.95^2 of its prediction has its root within 5 %
            Region.at_most(1 - 0.95**2),
        ),
        Criterion(
            "bias at the smallest M over V_rho",
            lambda m, level: largest_mean(m["bias"], level, float(m["reference"][0] / m["signal"][0])),
            # the commonest fault, 1 / (M - 1), makes it 1/7 at M = 8
            Region.at_most(0.01),
        ),
        Criterion(
            "slope of the median error",
            lambda m, level: order(PARTICLES, m["median"], level),
            Region.around(-0.5, absolute=0.03),
        ),
        Criterion(
            "V_rho away from 0, over the standard deviation",
            lambda m, level: exact(m["signal"][0], m["reference"][0]),
            # half of what the fixed inputs have: a bias relative to V_rho means nothing where V_rho is nothing
            Region.at_least(0.5 * SIGNAL, SIGNAL),
        ),
    ),
    controls=(
        Control(
            "1/(M-1)",
            {"subtracted": 1},
            refutes=("constant at every M: largest |M MSE / variance - 1|", "bias at the smallest M over V_rho"),
        ),
        Control("Student-t(1.5) values", {"value_law": "Student"}, refutes=("slope of the median error",)),
    ),
)

V2 = Claim(
    id="V2",
    statement="sqrt(M) (V_M - V_rho) is Gaussian with the covariance of v_theta over rho",
    prediction="covariance within 10 %, skewness within 0.2 and Kolmogorov distance to the normal law within 0.03",
    formula=r"\sqrt{M}\,(V_M-V_\rho)\to N\big(0,\operatorname{Cov}_\rho(v_\theta(x))\big)",
    source="central limit theorem; research card",
    hypotheses="independent heads with E|v_theta|^2 finite, M large against the squared skewness of v_theta",
    experiment=operator.gaussian_limit,
    settings={"particles": 512, "systems": 512, "inputs": 3, "tokens": TOKENS, "value_law": "normal"},
    # 64 x 512 systems: moments of order 2 within 5.3 sqrt(2 / 32768) = 0.04, of order 3 within 5.3 sqrt(15 / 32768) =
    # 0.11, distances within sqrt(log(2e6) / 65536) = 0.015
    replicates=64,
    criteria=(
        Criterion(
            "covariance: largest deviation over the standard deviations",
            lambda m, level: largest_mean(m["products"] - m["correlation"], level, float(m["reference"][0])),
            Region.at_most(0.1),
        ),
        Criterion(
            "skewness: largest of the inputs",
            lambda m, level: largest_mean(m["cubes"], level),
            Region.at_most(0.2),
        ),
        Criterion(
            "Kolmogorov distance: largest of the inputs",
            lambda m, level: largest_distance(m["standardised"], level),
            # Edgeworth: a skewness of 0.2 moves the law by 0.2 / (6 sqrt(2 pi)) = 0.013; the band is 0.015
            Region.at_most(0.03),
        ),
    ),
    controls=(
        Control(
            "M = 2 with a skewed rho",
            {"particles": 2, "value_law": "squared exponential"},
            # its skewness, near 6, is a mean of third powers with so heavy a tail that no sample pins it down
            refutes=("Kolmogorov distance: largest of the inputs",),
        ),
        Control(
            "M = 2 with exponential values",
            {"particles": 2, "value_law": "exponential"},
            refutes=("skewness: largest of the inputs", "Kolmogorov distance: largest of the inputs"),
        ),
    ),
    record=lambda m: {"quantiles": np.quantile(m["standardised"][..., 0], QUANTILES), "levels": QUANTILES},
)

V3 = Claim(
    id="V3",
    statement="keeping m of M particles at random adds exactly (1/m - 1/M) S^2 to the squared error",
    prediction="mean squared deviation from the pool's average over (1/m - 1/M) S^2 is 1",
    formula=r"\mathbb{E}|V_m-V_M|^2=\Big(\frac1m-\frac1M\Big)S^2",
    source="sampling without replacement from a finite population; half-particle inference of the research card",
    hypotheses="the kept subset is uniform and independent of the heads; S^2 has M - 1 in the denominator",
    experiment=operator.subsets,
    settings={
        "pool": 8,
        "kept": (2, 4),
        "samples": 4000,
        "inputs": INPUTS,
        "tokens": TOKENS,
        "replacement": False,
    },
    # 64 x 4000 subsets: 5 sqrt(2 / 256000) = 1.4 %
    replicates=64,
    criteria=(
        Criterion(
            "all subsets: largest |ratio - 1|",
            lambda m, level: exact(np.abs(m["all_subsets"] - 1).max()),
            # an average of 8 values is rounded by 8 eps |v|, a deviation of size S squared so by 16 eps |v| / S
            # relatively, and sums of up to 70 of them by 70 eps: below 1e-12 while |v| / S is below 250
            Region.at_most(1e-12),
        ),
        Criterion(
            "sampled subsets: largest |ratio - 1|",
            lambda m, level: largest_mean(m["sampled"] - 1, level),
            Region.at_most(0.03),
        ),
    ),
    controls=(
        Control(
            "sampling with replacement",
            {"replacement": True},
            refutes=("all subsets: largest |ratio - 1|", "sampled subsets: largest |ratio - 1|"),
        ),
    ),
)

V4 = Claim(
    id="V4",
    statement="scrambled Sobol particles beat M^(-1/2) for smooth heads in few dimensions",
    prediction="slope of the standard deviation over scrambles below -0.8 (smooth integrands: towards -1 and beyond)",
    formula=r"\Big(\mathbb{E}|V_M-V_\rho|^2\Big)^{1/2}=o(M^{-0.8})",
    source="Owen 1997; research card",
    hypotheses="softmax heads with tokens in the plane, p = 8 normal parameters, logits of order 1",
    experiment=operator_sobol.sobol_convergence,
    settings={"particles": SOBOL_PARTICLES, "pairs": 2, "inputs": INPUTS, "tokens": TOKENS, "head": "softmax"},
    # 128 pairs: the slope of 7 rungs is known within 5 x 0.27 sqrt(2 / 128) / 2 = 0.09
    replicates=64,
    criteria=(
        Criterion(
            "slope of the standard deviation over scrambles",
            lambda m, level: order(SOBOL_PARTICLES, m["variance"], level, power=0.5),
            Region.at_most(-0.8, -1.0),
        ),
        Criterion(
            "variance at the largest M over that of independent particles",
            lambda m, level: largest_mean(m["scaled"][:, -1:], level),
            # what a slope of -0.8 makes of equal variances at the smallest M
            Region.at_most((SOBOL_PARTICLES[0] / SOBOL_PARTICLES[-1]) ** 0.6),
        ),
        Criterion(
            "limit: mean at the largest M against V_rho, over its norm",
            lambda m, level: largest_mean(m["bias"], level, float(m["reference"][0])),
            # differences between scrambles do not see a wrong limit; a tenth of a per cent is 6 of their deviations
            Region.at_most(1e-3),
        ),
    ),
    controls=(
        Control(
            "hardmax heads, d = 2",
            {"head": "hardmax"},
            refutes=(
                "slope of the standard deviation over scrambles",
                "variance at the largest M over that of independent particles",
            ),
        ),
    ),
)

CLAIMS = (V1, V2, V3, V4)
