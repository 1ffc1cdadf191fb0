"""Family D: diffusion and time stepping."""

from collections.abc import Callable
from dataclasses import replace

import numpy as np

from mfcheck.claim import Claim, Control, Criterion
from mfcheck.experiments import diffusion, time_stepping
from mfcheck.replicates import Measurements
from mfcheck.statistics.estimate import (
    Estimate,
    exact,
    function_of_means,
    kolmogorov_distance,
    largest_deviation,
    mean,
    order,
    variance_ratio,
)
from mfcheck.statistics.verdict import Region

CARD = "research card on Langevin mean-field attention heads"


Estimator = Callable[[Measurements, float], Estimate]


def _variance_ratio(column: int, reference_error: float = 0.0) -> Estimator:
    """The pooled variance of one column of sums of squares, which the experiment divided by its prediction."""

    def estimate(m: Measurements, level: float) -> Estimate:
        ratio = variance_ratio(m["sum_of_squares"][:, column], m["degrees"], 1.0, level)
        return replace(ratio, reference_error=reference_error)

    return estimate


D1 = Claim(
    id="D1",
    statement="the noise injected over T steps has variance 2 beta eta T per coordinate",
    prediction="variance / (2 beta eta T) = 1 within 1 %",
    formula=r"\operatorname{Var}\Big(\sum_{k<T}\sqrt{2\beta\eta}\,\xi_k\Big)=2\beta\eta T",
    source=CARD,
    hypotheses="independent Gaussian increments, no drift",
    experiment=diffusion.injected_variance,
    settings={"beta": 0.005, "step": 0.03, "steps": 20, "particles": 10_000, "amplitude": "sqrt(2 beta eta)"},
    replicates=100,
    criteria=(
        Criterion(
            "variance ratio",
            lambda m, level: variance_ratio(m["sum_of_squares"], m["degrees"], 1.0, level),
            Region.around(1.0, relative=0.01),
        ),
    ),
    controls=(
        Control("amplitude sqrt(beta eta)", {"amplitude": "sqrt(beta eta)"}, refutes=("variance ratio",)),
        Control("amplitude sqrt(2 beta) eta", {"amplitude": "sqrt(2 beta) eta"}, refutes=("variance ratio",)),
    ),
)

SCHEDULES = ("constant", "linear", "cosine", "exponential", "logarithmic")
ANNEALED = SCHEDULES[1:]

D2 = Claim(
    id="D2",
    statement="with annealing the injected noise has variance sum_k 2 beta_k eta per coordinate",
    prediction="variance / sum_k 2 beta_k eta = 1 within 1 % under each of five schedules",
    formula=r"\operatorname{Var}\Big(\sum_{k<T}\sqrt{2\beta_k\eta}\,\xi_k\Big)=\sum_{k<T}2\beta_k\eta",
    source=CARD,
    hypotheses="independent Gaussian increments, no drift",
    experiment=diffusion.annealed_variance,
    # 20 steps only: over T of them, a schedule shifted by one step is off by about (beta_0 - beta_T) / sum_k beta_k
    settings={
        "schedules": SCHEDULES,
        "start": 0.01,
        "end": 0.001,
        "offset": 2.0,
        "step": 0.03,
        "steps": 20,
        "particles": 12_500,
        "amplitude": "sqrt(2 beta eta)",
        "fault": "none",
    },
    replicates=100,
    criteria=tuple(
        Criterion(name, _variance_ratio(column), Region.around(1.0, relative=0.01))
        for column, name in enumerate(SCHEDULES)
    ),
    controls=(
        Control("the final beta throughout", {"fault": "final beta throughout"}, refutes=ANNEALED),
        Control("the schedule shifted by one step", {"fault": "shifted by one step"}, refutes=ANNEALED),
        Control("amplitude sqrt(beta eta)", {"amplitude": "sqrt(beta eta)"}, refutes=SCHEDULES),
    ),
)


def _from_identity(name: str, target: float, upper_half: bool) -> Estimator:
    """The largest entry of |average of products - target I|, with standard errors from the products' own squares."""

    def estimate(m: Measurements, level: float) -> Estimate:
        count = int(m[f"{name}_count"].sum())
        average, squares = m[name].mean(0), m[f"{name}_squares"].mean(0)
        errors = np.sqrt((squares - average**2) / count)
        deviations = average - target * np.eye(len(average))
        # a covariance's lower half repeats the upper one
        kept = np.triu_indices(len(average)) if upper_half else np.indices(average.shape).reshape(2, -1)
        return largest_deviation(deviations[tuple(kept)], errors[tuple(kept)], level, count)

    return estimate


D3 = Claim(
    id="D3",
    statement="the noise is isotropic, Gaussian, and independent across particles, coordinates and steps",
    prediction="covariance of an increment I and lag-1 covariance 0 within 0.02 in every entry; Kolmogorov distance "
    "to N(0, 1) below 0.005",
    formula=r"\mathbb{E}[\xi_i\xi_j^{\top}]=\delta_{ij}I,\quad \sup_x|F_\xi(x)-\Phi(x)|=0",
    source=CARD,
    hypotheses="single-step increments over sqrt(2 beta eta), no drift",
    experiment=diffusion.increments,
    settings={
        "beta": 0.005,
        "step": 0.03,
        "steps": 5,
        "systems": 4000,
        "particles": 4,
        "dimension": 2,
        "noise": "independent",
    },
    replicates=32,
    criteria=(
        Criterion("covariance", _from_identity("covariance", 1.0, upper_half=True), Region.at_most(0.02)),
        Criterion("lag-1 covariance", _from_identity("lag_one", 0.0, upper_half=False), Region.at_most(0.02)),
        Criterion(
            "Kolmogorov distance",
            lambda m, level: kolmogorov_distance(m["last_step"], "norm", level),
            Region.at_most(0.005),
        ),
    ),
    controls=(
        Control("one noise shared by all particles", {"noise": "shared"}, refutes=("covariance",)),
        Control("uniform noise of equal variance", {"noise": "uniform"}, refutes=("Kolmogorov distance",)),
        Control("each step's noise averaged with the next", {"noise": "averaged"}, refutes=("lag-1 covariance",)),
    ),
)

D4 = Claim(
    id="D4",
    statement="without noise a quadratic centred at 0 is contracted by (1 - a eta)^k",
    prediction="relative error below 1e-12 in float64",
    formula=r"\theta_k=(1-\eta a)^k\,\theta_0",
    source=CARD,
    hypotheses="beta = 0, mean-field scaling, risk E a |theta|^2 / 2",
    experiment=time_stepping.contraction,
    settings={
        "curvature": 0.7,
        "contractions": (0.005, 0.1, 0.6, 1.3, 1.9),
        # as many steps as keep (1 - a eta)^k above 1e-50, up to 10,000
        "steps": (10_000, 1000, 100, 90, 1000),
        "differentiated_steps": 100,
        "particles": 8,
        "scaling": "mean_field",
    },
    criteria=(Criterion("relative error", lambda m, level: exact(m["error"].max()), Region.at_most(1e-12)),),
    controls=(Control("drift scaled by 1/M", {"scaling": "raw"}, refutes=("relative error",)),),
    record=lambda m: {"error": m["error"][0]},
)

CONTRACTIONS = (0.1, 0.3, 0.6, 1.0, 1.5)
REMAINDER = 1e-5

D5 = Claim(
    id="D5",
    statement="Euler-Maruyama's stationary variance on a quadratic is beta / (a (1 - a eta / 2))",
    prediction="variance / prediction = 1 within 1 % for a eta = 0.1 to 1.5",
    formula=r"\operatorname{Var}_\infty(\theta)=\frac{\beta}{a\,(1-a\eta/2)}",
    source="claims D5: fixed point of v = (1 - a eta)^2 v + 2 beta eta",
    hypotheses="0 < a eta < 2, chains independent",
    experiment=time_stepping.stationary_variance,
    settings={
        "curvature": 2.0,
        "beta": 0.5,
        "contractions": CONTRACTIONS,
        "chains": 50_000,
        "remainder": REMAINDER,
        "predicted": "chain",
    },
    replicates=32,
    criteria=tuple(
        Criterion(f"a eta = {z}", _variance_ratio(column, REMAINDER), Region.around(1.0, relative=0.01))
        for column, z in enumerate(CONTRACTIONS)
    ),
    controls=(
        Control(
            "the PDE's value beta / a", {"predicted": "Gibbs"}, refutes=tuple(f"a eta = {z}" for z in CONTRACTIONS)
        ),
    ),
    record=lambda m: {"contractions": CONTRACTIONS},
)

D6_SETTINGS = {
    "inverse_steps": (32, 64, 128, 256),
    "inverse_reference": 1024,
    "paths": 1024,
    "anchor_paths": 49_152,
    "beta": 0.5,
    "start_mean": 1.0,
    "start_variance": 0.25,
    "amplitude": "sqrt(2 beta eta)",
    "reference_amplitude": "sqrt(2 beta eta)",
}
#: An error that is C eta against the exact solution is C (eta - eta_ref) against the fine run.
STEPS = tuple(1 / h - 1 / D6_SETTINGS["inverse_reference"] for h in D6_SETTINGS["inverse_steps"])


def _against_pde(m: Measurements, level: float) -> Estimate:
    second_moment, bar = time_stepping.rippled_second_moment(
        D6_SETTINGS["start_mean"], D6_SETTINGS["start_variance"], D6_SETTINGS["beta"]
    )
    return mean(m["second_moment"] / second_moment, level, reference_error=bar / second_moment)


def _magnitude(errors: np.ndarray) -> np.ndarray:
    """The errors with the sign that makes their mean positive: an order is one of |E theta_eta^2 - E theta_ref^2|."""
    return errors * np.sign(errors.mean())


D6 = Claim(
    id="D6",
    statement="Euler-Maruyama with additive noise has strong order 1 and weak order 1 in eta",
    prediction="slopes 1 +- 0.1 against a fine run on the same Brownian path, whose E theta^2 is the PDE's within 2 %",
    formula=r"\mathbb{E}|\theta^{\eta}-\theta|\propto\eta,\quad "
    r"|\mathbb{E}f(\theta^{\eta})-\mathbb{E}f(\theta)|\propto\eta",
    source="Talay and Tubaro 1990",
    hypotheses="U' = x + sin 2x, globally Lipschitz and not linear; time 1; weak error of theta^2",
    experiment=time_stepping.coupled_steps,
    settings=D6_SETTINGS,
    replicates=32,
    criteria=(
        Criterion("strong order", lambda m, level: order(STEPS, m["strong"], level), Region.around(1.0, absolute=0.1)),
        Criterion(
            "weak order", lambda m, level: order(STEPS, _magnitude(m["weak"]), level), Region.around(1.0, absolute=0.1)
        ),
        Criterion("fine run against the PDE", _against_pde, Region.around(1.0, relative=0.02)),
    ),
    controls=(
        Control(
            "noise scaled with eta instead of sqrt(eta)",
            {"amplitude": "sqrt(2 beta) eta"},
            refutes=("strong order", "weak order"),
        ),
        # differences between runs that are wrong alike do not see it: only the anchor does
        Control(
            "amplitude sqrt(beta eta) in the fine run too",
            {"amplitude": "sqrt(beta eta)", "reference_amplitude": "sqrt(beta eta)"},
            refutes=("fine run against the PDE",),
        ),
    ),
)

D8_SETTINGS = {
    "curvatures": (0.5, 1.0, 2.0, 4.0),
    "beta": 0.5,
    "step": 0.05,
    "chains": 2500,
    "annealed": 100,
    "steps": 500,
    "schedules": ("linear", "logarithmic"),
    "remainder": 1e-4,
    "record_every": 10,
    "predicted": "chain",
}
_QUADRATIC = {name: D8_SETTINGS[name] for name in ("beta", "step")}
PLATEAU = time_stepping.plateau(D8_SETTINGS["curvatures"], **_QUADRATIC)
LINEAR, LOGARITHMIC = (
    time_stepping.annealed_gap(D8_SETTINGS["curvatures"], **_QUADRATIC, steps=D8_SETTINGS["steps"], schedule=schedule)
    / PLATEAU
    for schedule in D8_SETTINGS["schedules"]
)


def _share_of_plateau(column: int) -> Estimator:
    """The gap left after annealing over the plateau measured by the same replicates."""

    def estimate(m: Measurements, level: float) -> Estimate:
        pair = np.stack([m["gap"][:, column], m["plateau"]], -1)
        return function_of_means(lambda x: x[..., 0] / x[..., 1], pair, level)

    return estimate


D8 = Claim(
    id="D8",
    statement="at constant beta the gap above a quadratic's minimum stays at a plateau; annealing to 0 closes it",
    prediction=f"plateau sum_i beta / (2 (1 - a_i eta / 2)) within 2 %; after a linear schedule below 3 % of it; a "
    f"logarithmic one lags, at {LOGARITHMIC:.3f} of it within 10 %",
    formula=r"\mathbb{E}\,U-\min U=\sum_i\frac{\beta}{2\,(1-a_i\eta/2)}",
    source="Chizat 2022, arXiv:2202.01009",
    hypotheses="0 < a eta < 2; 500 steps of annealing from the plateau",
    experiment=time_stepping.annealing,
    settings=D8_SETTINGS,
    replicates=40,
    criteria=(
        Criterion(
            "plateau",
            lambda m, level: mean(m["plateau_ratio"], level, reference_error=D8_SETTINGS["remainder"]),
            Region.around(1.0, relative=0.02),
        ),
        Criterion("gap after the linear schedule", _share_of_plateau(0), Region.at_most(0.03, prediction=LINEAR)),
        Criterion("gap after the logarithmic schedule", _share_of_plateau(1), Region.around(LOGARITHMIC, relative=0.1)),
    ),
    controls=(
        Control(
            "constant beta called annealed",
            {"schedules": ("constant", "constant")},
            refutes=("gap after the linear schedule", "gap after the logarithmic schedule"),
        ),
        Control("the PDE's plateau p beta / 2", {"predicted": "Gibbs"}, refutes=("plateau",)),
    ),
    record=lambda m: {
        "steps": list(range(0, D8_SETTINGS["steps"] + 1, D8_SETTINGS["record_every"])),
        "curves": m["curves"].mean(0),
        "plateau": PLATEAU,
    },
)

CLAIMS = (D1, D2, D3, D4, D5, D6, D8)
