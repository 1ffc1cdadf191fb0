"""Family T: tokens and depth."""

import numpy as np

from mfcheck.claim import Claim, Control, Criterion
from mfcheck.experiments import depth, depth_coupled, depth_gaussian, depth_stability
from mfcheck.replicates import Measurements
from mfcheck.statistics.estimate import Estimate, deterministic_order, exact, function_of_means, order
from mfcheck.statistics.verdict import Region

CARD = "research card on Langevin mean-field attention heads"

LAYERS = (16, 32, 64, 128, 256)

T1 = Claim(
    id="T1",
    statement="residual steps x <- x + dt V(x) converge to the depth flow at order 1 in dt",
    prediction="slope 1 +- 0.1, against the flow by an independent solver",
    formula=r"\|x^{dt}-x\|\propto dt",
    source=CARD,
    hypotheses="smooth heads, dt = 1/L",
    experiment=depth.residual_order,
    settings={"layers": LAYERS, "heads": 8, "tokens": 12, "scaled": True},
    criteria=(
        Criterion(
            "order in dt",
            lambda m, level: deterministic_order([1 / layers for layers in LAYERS], m["errors"][0], m["reference"][0]),
            Region.around(1.0, absolute=0.1),
        ),
    ),
    controls=(Control("dt not scaled", {"scaled": False}, refutes=("order in dt",)),),
)

TOKENS = (32, 64, 128, 256, 512)


def constant_of_the_rate(
    counts: tuple[int, ...], squares: np.ndarray, constant: float, error: float, level: float
) -> Estimate:
    """sqrt(c / constant), c the limit of N E error^2: its fit by c + b/N to squared errors [n, rungs].

    Least squares in 1/N, weighted by the systems of a rung (1/N of a replicate's tokens, and with their number the
    precision of N error^2). The constant's own error moves the ratio by half of its relative size.
    """
    n = np.array(counts, dtype=np.float64)
    weights = 1 / n
    design = np.stack([np.ones_like(n), 1 / n], -1)
    first = np.linalg.solve(design.T @ (weights[:, None] * design), design.T * weights)[0] * n / constant
    limit = function_of_means(lambda means: np.sqrt(means @ first), squares, level, 0.5 * error / constant)
    return limit


T2 = Claim(
    id="T2",
    statement="N tokens of a compactly supported law are at W2 ~ N^(-1/2) of the continuity equation",
    prediction="slope -0.5 +- 0.1 in N; sqrt(N) W2 tends to the delta method's constant; grid and quantiles agree",
    formula=r"\mathbb{E}\,W_2(\mu^N_t,\mu_t)\propto N^{-1/2}",
    source="Fournier and Guillin 2015; Bobkov and Ledoux 2019; Herty and Liu, arXiv:2608.25055",
    hypotheses="scalar tokens, smooth quantile function, softmax heads; the same residual steps on both sides",
    experiment=depth.number_of_tokens,
    settings={"tokens": TOKENS, "layers": 10, "nodes": 1024, "cells": 256, "mask": "none"},
    # the constant's half-width is 0.055 at the first look's level, of 0.1 (the slope's 0.033)
    replicates=448,
    criteria=(
        Criterion(
            "W2 slope",
            lambda m, level: order(TOKENS, m["w2_squared"], level, power=0.5, reference_errors=_moved_square(m)),
            Region.around(-0.5, absolute=0.1),
        ),
        Criterion(
            "constant of the rate",
            lambda m, level: constant_of_the_rate(TOKENS, m["w2_squared"], *m["constant"][0], level),
            Region.around(1.0, relative=0.1),
        ),
        Criterion(
            "grid against quantiles: W1 over the error bars",
            lambda m, level: exact(m["grid_gap"][0], 1e-6),
            Region.at_most(1.0),
        ),
    ),
    controls=(
        # on tokens in their random order the mask leaves a law's sample a law's sample, and nothing is refuted
        Control(
            "causal mask on sorted tokens",
            {"mask": "causal on sorted tokens"},
            refutes=("W2 slope", "constant of the rate"),
        ),
    ),
    record=lambda m: {
        "grid": depth.GRID,
        "masses": m["masses"][0].tolist(),
        "edges": m["edges"][0].tolist(),
        "histogram": m["histogram"].mean(0).tolist(),
        "one_system": m["histogram"][0].tolist(),
        "constant": float(m["constant"][0, 0]),
    },
)


def _moved_square(m: Measurements) -> np.ndarray:
    """|W2(mu, a)^2 - W2(mu, b)^2| <= W2(a, b) (2 W2(mu, b) + W2(a, b)) for the reference a and the law b itself."""
    bar = m["reference"][0]
    return bar * (2 * m["w2_squared"].mean(0) ** 0.5 + bar)


GAUSSIAN_TOKENS, ODE_LAYERS = (50, 100, 200, 400), (10, 20, 40, 80)


def _gaussian_rate(name: str, index: int) -> tuple[Criterion, Criterion]:
    """The slope and the constant of one moment's error."""
    key = f"{name}_error"
    return (
        Criterion(
            f"{name} slope",
            lambda m, level: order(GAUSSIAN_TOKENS, m[key], level, power=0.5),
            Region.around(-0.5, absolute=0.1),
        ),
        Criterion(
            f"{name}: constant of the rate",
            lambda m, level: constant_of_the_rate(
                GAUSSIAN_TOKENS, m[key], m["constants"][0, index], m["constants_error"][0, index], level
            ),
            Region.around(1.0, relative=0.1),
        ),
    )


T3 = Claim(
    id="T3",
    statement="Gaussian tokens stay Gaussian under softmax attention, with m' = V(m + S A' m), S' = VSA'S + (VSA'S)'",
    prediction="mean and covariance of N tokens at slope -0.5 +- 0.1 in N, with the delta method's constants; the "
    "moments' steps at order 1 from the ODE",
    formula=r"m'=V(m+SA^{\top}m),\quad S'=VSA^{\top}S+(VSA^{\top}S)^{\top}",
    source="Castin, Ablin, Carrillo and Peyre, arXiv:2501.18322",
    hypotheses="spectral radius of (S A' S A)^(1/2) below 1/2; the same residual steps on both sides",
    experiment=depth_gaussian.gaussian_moments,
    settings={
        "problem": "contracting",
        "logit_scale": 1.0,
        "tokens": GAUSSIAN_TOKENS,
        "layers": 10,
        "nodes": 16,
        "logits_in_ode": 1.0,
        "ode_layers": ODE_LAYERS,
    },
    # half-widths at the first look's level: 0.03 of the constants, 0.02 of the slopes; fewer are too skewed
    replicates=100,
    criteria=(
        *_gaussian_rate("mean", 0),
        *_gaussian_rate("covariance", 1),
        Criterion(
            "order of the moments' steps",
            lambda m, level: deterministic_order([1 / layers for layers in ODE_LAYERS], m["ode_error"][0], 1e-9),
            Region.around(1.0, absolute=0.1),
        ),
        Criterion("tilt", lambda m, level: exact(m["tilt"][0], 1e-9), Region.at_most(0.5)),
    ),
    controls=(
        Control(
            "A left out of the ODE",
            {"logits_in_ode": 0.0},
            refutes=("covariance slope", "covariance: constant of the rate"),
        ),
        # The loss is gradual, and why is derived in mfcheck.experiments.depth_gaussian: held at 0.6, just above 1/2, it
        # does not show in the slopes (-0.47 and -0.43, inside the region) but in the covariance's constant, 0.67 of its
        # value. Slopes of -0.36 and -0.34 at 0.8; here -0.25 and -0.20.
        Control(
            "tilt held above 1/2, at 1.2 to 1.4: the rate is lost",
            {"problem": "turning", "logit_scale": 1.2},
            refutes=("mean slope", "covariance slope", "tilt"),
        ),
    ),
    record=lambda m: {
        name: m[name][0].tolist()
        for name in (
            "believed_mean",
            "believed_covariance",
            "empirical_mean",
            "empirical_covariance",
            "drawn",
            "constants",
        )
    },
)

#: The experiment's families of pairs, in its order, in words.
FAMILIES = dict(zip(depth_stability.FAMILIES, ("on the line", "in the plane", "four heads in the plane"), strict=True))

T4 = Claim(
    id="T4",
    statement="two flows of tokens move apart in W2 at most by exp(int_0^t L(R_s) ds)",
    prediction="log growth of W2 over the exponent never above 1, and near 1 for translates at A = 0",
    formula=r"W_2(\mu_t,\nu_t)\le\exp\Big(\int_0^t L(R_s)\,ds\Big)\,W_2(\mu_0,\nu_0)",
    source="stability: Herty and Liu, arXiv:2608.25055; the constant is derived in mfcheck.dynamics.stability",
    hypotheses="softmax heads, tokens in a ball of radius R with |A| R^2 <= 0.05",
    experiment=depth_stability.stability,
    settings={"pairs": 12, "tokens": 24, "layers": 64, "head": "softmax", "bound_factor": 1.0, "offset": 1e-6},
    criteria=(
        *(
            Criterion(
                f"{words}: largest growth over the bound",
                lambda m, level, k=k: exact(m["growth"][0, k].max(), 1e-9),
                Region.at_most(1.0),
            )
            for k, words in enumerate(FAMILIES.values())
        ),
        Criterion(
            # (1 + dt)^L against e: 1 - dt/2 = 0.992 at L = 64
            "translates at A = 0: growth over the bound",
            lambda m, level: exact(m["translated"][0], 1e-9),
            Region(0.95, 1.0, 0.992),
        ),
        Criterion("at a tie: growth over the bound", lambda m, level: exact(m["tied"][0], 1e-6), Region.at_most(1.0)),
    ),
    controls=(
        Control("L halved at A = 0", {"bound_factor": 0.5}, refutes=("translates at A = 0: growth over the bound",)),
        Control("hardmax at a tie", {"head": "hardmax"}, refutes=("at a tie: growth over the bound",)),
    ),
    record=lambda m: {
        # by how much the exponent exceeds the growth, at best
        "pessimism": {name: float(1 / row.max()) for name, row in zip(FAMILIES, m["growth"][0], strict=True)},
        "growth": {name: row.tolist() for name, row in zip(FAMILIES, m["growth"][0], strict=True)},
        "translated": float(m["translated"][0]),
        "tied": float(m["tied"][0]),
    },
)

EPSILONS, REFINEMENTS = (0.03, 0.01, 0.003, 0.001, 0.0003), (1, 2, 4)

T5 = Claim(
    id="T5",
    statement="the coupled system (tokens in depth, heads in training) depends continuously on (mu_0, rho_0), and "
    "refinements of N, M, dt and eta agree",
    prediction="perturbations eps move the end point at slope 1 +- 0.1; joint refinements approach an independent "
    "solution of the limit at order 1 +- 0.1",
    formula=r"|X(\mu_0^{\varepsilon},\rho_0^{\varepsilon})-X(\mu_0,\rho_0)|=O(\varepsilon)",
    source="Herty and Liu, arXiv:2608.25055",
    hypotheses="softmax heads, smooth risk",
    experiment=depth_coupled.dependence,
    settings={
        "head": "softmax",
        "eps": EPSILONS,
        "tokens": 12,
        "heads": 8,
        "layers": 3,
        "step": 0.4,
        "time": 40.0,
        "refinements": REFINEMENTS,
        "coarsest": (12, 4, 16, 0.5),
        "refined_time": 1.0,
        "left_coarse": "nothing",
    },
    criteria=(
        Criterion(
            "slope in the perturbation",
            # end points are known to rounding, 1e-15 of numbers of order 1, over so many steps
            lambda m, level: deterministic_order(EPSILONS, m["moved"][0], 1e-12),
            Region.around(1.0, absolute=0.1),
        ),
        Criterion(
            "order of the joint refinement",
            lambda m, level: deterministic_order([1 / k for k in REFINEMENTS], m["refined"][0], m["reference"][0]),
            Region.around(1.0, absolute=0.1),
        ),
    ),
    controls=(
        Control("hardmax at an exact tie", {"head": "hardmax"}, refutes=("slope in the perturbation",)),
        Control("dt not refined", {"left_coarse": "dt"}, refutes=("order of the joint refinement",)),
        Control("eta not refined", {"left_coarse": "eta"}, refutes=("order of the joint refinement",)),
    ),
)

CLAIMS = (T1, T2, T3, T4, T5)
