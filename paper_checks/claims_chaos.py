"""Family C: particles against the PDE (propagation of chaos)."""

from typing import Any

import numpy as np

from mfcheck.claim import Claim, Control, Criterion
from mfcheck.dynamics.equilibria import desai_zwanzig_critical_beta
from mfcheck.dynamics.exact import pair_constant
from mfcheck.experiments import chaos, chaos_linear, chaos_wasserstein
from mfcheck.replicates import Measurements
from mfcheck.statistics.estimate import Estimate, function_of_means, mean, order
from mfcheck.statistics.verdict import Region

LADDER, PLANE_LADDER = (64, 128, 256, 512, 1024, 2048), (32, 64, 128, 256, 512)
DENSITY_TIMES = (0.0, 0.2, 0.5, 1.0)


def _w2_slope(m: Measurements, level: float) -> Estimate:
    # |W2(mu, a)^2 - W2(mu, b)^2| <= 2 W2(mu, b) W2(a, b) + W2(a, b)^2
    bar = m["w2_bar"][0]
    return order(LADDER, m["w2_squared"], level, reference_errors=2 * bar * np.sqrt(m["w2_squared"].mean(0)) + bar**2)


def _densities(m: Measurements) -> dict[str, Any]:
    return {
        "times": list(DENSITY_TIMES),
        "box": list(chaos_wasserstein.BOX),
        "particles": LADDER[-1],
        "histogram": m["histogram"].mean(0).tolist(),
        "density": m["density"][0].tolist(),
    }


C1 = Claim(
    id="C1",
    statement="the empirical law of M particles is at W1 ~ M^(-1/2) and W2^2 ~ 1/M of the PDE's, and sliced W1 "
    "~ M^(-1/2) in the plane",
    prediction="slopes -0.5 +- 0.05, -1 +- 0.1, -0.5 +- 0.05; E W1 within 5 % of the theory of fluctuations",
    formula=r"\mathbb{E}\,W_1(\rho_M,\rho)\propto M^{-1/2},\quad \mathbb{E}\,W_2^2(\rho_M,\rho)\propto M^{-1}",
    source="Fournier and Guillin 2015; Bobkov and Ledoux 2019; constant: Sznitman 1991, del Barrio et al. 1999",
    hypotheses="i.i.d. starts, smooth strictly convex potential, tails lighter than Gaussian; Heun's scheme",
    experiment=chaos_wasserstein.rates_with_particles,
    settings={
        "model": "quartic",
        "plane_model": "coupled quartic",
        "beta": 0.5,
        "beta_factor": 1.0,
        "start_mean": 0.8,
        "start_variance": 0.25,
        "step": 0.05,
        "density_times": DENSITY_TIMES,
        "particles": LADDER,
        "particles_each": 2**15,
        "plane_particles": PLANE_LADDER,
        "plane_particles_each": 2**13,
        "directions": 6,
    },
    replicates=32,
    criteria=(
        Criterion(
            "W1 slope",
            lambda m, level: order(LADDER, m["w1"], level, reference_errors=m["w1_bar"][0]),
            Region.around(-0.5, absolute=0.05),
        ),
        Criterion("W2^2 slope", _w2_slope, Region.around(-1.0, absolute=0.1)),
        Criterion(
            "W1 over theory",
            lambda m, level: mean(m["w1_over_theory"].mean(1), level, m["theory_bar"][0]),
            Region.around(1.0, relative=0.05),
        ),
        Criterion(
            "sliced W1 slope",
            lambda m, level: order(PLANE_LADDER, m["sliced_w1"], level, reference_errors=m["sliced_w1_bar"][0]),
            Region.around(-0.5, absolute=0.05),
        ),
        Criterion(
            "E|theta|^2 in the plane over the PDE's",
            lambda m, level: mean(m["plane_second_moment_ratio"][:, -1], level),
            Region.around(1.0, relative=0.02),
        ),
    ),
    controls=(
        Control(
            "particles at 1.2 beta",
            {"beta_factor": 1.2},
            refutes=(
                "W1 slope",
                "W2^2 slope",
                "W1 over theory",
                "sliced W1 slope",
                "E|theta|^2 in the plane over the PDE's",
            ),
        ),
    ),
    record=_densities,
)

COUPLED = (16, 32, 64, 128, 256, 512, 1024)

C2 = Claim(
    id="C2",
    statement="particles stay within E|theta_i - theta_bar_i|^2 ~ 1/M of PDE-driven copies on the same noise",
    prediction="slope -1 +- 0.1; the linear model's constant within 5 %",
    formula=r"\mathbb{E}|\theta_i-\bar\theta_i|^2\propto M^{-1}",
    source="Sznitman 1991, theorem I.1.4; constant: Ornstein-Uhlenbeck means at rates a and a + kappa",
    hypotheses="same start and noise; smooth interaction; Heun's scheme on both sides",
    experiment=chaos.coupling,
    settings={
        "model": "quartic",
        "beta": 0.5,
        "start_mean": 0.8,
        "start_variance": 0.25,
        "step": 0.05,
        "time": 1.0,
        "particles": COUPLED,
        "particles_each": 2**14,
        "same_noise": True,
        "linear_a": 1.0,
        "linear_kappa": 2.0,
        "linear_step": 0.025,
        "linear_particles": 2,
        "linear_systems": 4096,
    },
    replicates=32,
    criteria=(
        Criterion(
            "squared distance slope",
            lambda m, level: order(COUPLED, m["squared_distance"], level),
            Region.around(-1.0, absolute=0.1),
        ),
        Criterion(
            "linear model's constant",
            lambda m, level: mean(m["linear_constant"], level),
            Region.around(1.0, relative=0.05),
        ),
    ),
    controls=(
        Control(
            "independent noises",
            {"same_noise": False},
            refutes=("squared distance slope", "linear model's constant"),
        ),
    ),
)

#: C3, C4 and C7's model: kappa other than a, so that no constant is another by chance.
LINEAR = {"a": 1.0, "kappa": 3.0, "beta": 0.5}
BY_PAIRS = (8, 16, 32, 64)
CONSTANT = pair_constant(LINEAR["a"], LINEAR["kappa"], beta=LINEAR["beta"])
STATIONARY = {
    **LINEAR,
    "step": 0.1,
    "time": 5.0,
    "particles": BY_PAIRS,
    "particles_each": 2**14,
    "interaction": True,
    "shared_noise": False,
}


def _times_m(name: str) -> Criterion:
    """The slope of a quantity that falls like 1/M."""
    return Criterion(
        f"{name} slope",
        lambda m, level: order(BY_PAIRS, m[name.replace(" ", "_")], level),
        Region.around(-1.0, absolute=0.1),
    )


def _constant(name: str, title: str, predicted: float) -> Criterion:
    """M times the quantity, averaged over the ladder (the formula holds for every M)."""
    return Criterion(
        title,
        lambda m, level: mean((m[name] * np.array(BY_PAIRS)).mean(1), level),
        Region.around(predicted, relative=0.05),
    )


C3 = Claim(
    id="C3",
    statement="with drift -a theta - kappa (theta - mean) the mean's variance and the bias of E theta^2 are exact "
    "constants over M in stationarity",
    prediction="M Var(mean) = beta/a and M (E theta^2 - beta/(a+kappa)) = beta kappa/(a (a+kappa)), within 5 %; "
    "slopes -1 +- 0.1",
    formula=r"M\operatorname{Var}(\bar\theta)=\frac{\beta}{a},\quad "
    r"M\Big(\mathbb{E}\theta^2-\frac{\beta}{a+\kappa}\Big)=\frac{\beta\kappa}{a(a+\kappa)}",
    source="Ornstein-Uhlenbeck mean and deviations; Sznitman 1991",
    hypotheses="stationarity at s = 5; Leimkuhler-Matthews, unbiased on quadratics",
    experiment=chaos_linear.stationary_moments,
    settings=STATIONARY,
    replicates=32,
    criteria=(
        _constant("mean_variance", "M Var(mean)", LINEAR["beta"] / LINEAR["a"]),
        _constant("second_moment_bias", "M (E theta^2 - beta/(a+kappa))", CONSTANT),
        _times_m("mean variance"),
        _times_m("second moment bias"),
    ),
    controls=(
        Control("i.i.d. particles of variance beta/(a+kappa)", {"interaction": False}, refutes=("M Var(mean)",)),
        Control("no interaction", {"kappa": 0.0}, refutes=("M (E theta^2 - beta/(a+kappa))",)),
        Control(
            "shared noise",
            {"shared_noise": True},
            refutes=(
                "M Var(mean)",
                "M (E theta^2 - beta/(a+kappa))",
                "mean variance slope",
                "second moment bias slope",
            ),
        ),
    ),
)

C4 = Claim(
    id="C4",
    statement="two tagged particles decorrelate like 1/M",
    prediction="M Cov(theta_1, theta_2) = beta kappa/(a (a+kappa)) within 5 %; slope -1 +- 0.1",
    formula=r"M\operatorname{Cov}(\theta_1,\theta_2)=\frac{\beta\kappa}{a(a+\kappa)}",
    source="Sznitman 1991; C3's model",
    hypotheses="stationarity at s = 5; Leimkuhler-Matthews, unbiased on quadratics",
    experiment=chaos_linear.stationary_moments,
    settings=STATIONARY,
    replicates=32,
    criteria=(_constant("covariance", "M Cov(theta_1, theta_2)", CONSTANT), _times_m("covariance")),
    controls=(
        Control("shared noise", {"shared_noise": True}, refutes=("M Cov(theta_1, theta_2)", "covariance slope")),
    ),
)

TIMES = (1.0, 2.0, 5.0, 10.0, 20.0, 50.0)
EARLY, LATE = TIMES.index(5.0), TIMES.index(50.0)


def _growth(m: Measurements, level: float) -> Estimate:
    w1 = m["w1"][:, [EARLY, LATE]]
    early, late = w1.mean(0)
    bar = float(m["w1_bar"][0] * (1 / early + late / early**2))
    return function_of_means(lambda means: means[..., 1] / means[..., 0], w1, level, reference_error=bar)


C5 = Claim(
    id="C5",
    statement="for risks convex along mixtures the error of M particles does not grow with time",
    prediction="E W1 at s = 50 over that at s = 5 below 1.5; E W1 at s = 5 within 10 % of the theory of fluctuations",
    formula=r"\sup_s\ \mathbb{E}|L(\rho_M(s))-L(\rho(s))|<\infty",
    source="Chen, Ren and Wang, arXiv:2212.03050; Suzuki, Wu and Nitanda 2023, arXiv:2306.07221",
    hypotheses="risk convex along mixtures, log-Sobolev; Heun's scheme",
    experiment=chaos_wasserstein.growth_with_time,
    settings={
        "model": "convex along mixtures",
        "beta": 0.3,
        "beta_factor": 1.0,
        "start_mean": 0.0,
        "start_variance": 0.25,
        "step": 0.1,
        "times": TIMES,
        "theory_time": TIMES[EARLY],
        "particles": 256,
        "systems": 8,
        "theory_systems": 24,
    },
    replicates=32,
    criteria=(
        Criterion("error at s = 50 over s = 5", _growth, Region.at_most(1.5, prediction=1.0)),
        Criterion(
            "error at s = 5 over theory",
            lambda m, level: mean(m["w1_over_theory"], level, m["theory_bar"][0]),
            Region.around(1, relative=0.1),
        ),
    ),
    controls=(
        # from an asymmetric start the particles and the PDE choose the same well, and nothing grows
        Control(
            "Desai-Zwanzig at 0.4 beta_c from a symmetric start",
            {"model": "Desai-Zwanzig", "beta": 0.4 * desai_zwanzig_critical_beta()},
            refutes=("error at s = 50 over s = 5",),
        ),
        # an error that has stalled at both times has the ratio of one that does not grow
        Control("particles at 1.2 beta", {"beta_factor": 1.2}, refutes=("error at s = 5 over theory",)),
    ),
    record=lambda m: {
        "times": list(TIMES),
        "w1": m["w1"].mean(0).tolist(),
        "standard_error": (m["w1"].std(0, ddof=1) / np.sqrt(len(m["w1"]))).tolist(),
    },
)

HALVING, ETAS = (4, 8, 16, 32), (0.01, 0.005, 0.0025, 0.00125)
#: The spread of the limit's theta^2, of which c0 may be 4 %; the smallest control (1.2 beta) moves it by 20 %.
SECOND_MOMENT = LINEAR["beta"] / (LINEAR["a"] + LINEAR["kappa"])

C7 = Claim(
    id="C7",
    statement="the bias of a smooth observable is A eta + B/M",
    prediction="exponents 1 +- 0.1 in eta and -1 +- 0.1 in M; c0 = 0 within 4 % of E theta^2; "
    "B = beta kappa/(a (a+kappa)) within 10 %",
    formula=r"\mathbb{E}f-\int f\,d\rho=A\eta+\frac{B}{M}",
    source="Suzuki, Wu and Nitanda 2023, arXiv:2306.07221; C3's model",
    hypotheses="Euler-Maruyama, the mean of theta^2; copies of the limit process by Leimkuhler-Matthews",
    experiment=chaos_linear.bias_expansion,
    settings={
        **LINEAR,
        "beta_factor": 1.0,
        "shared_noise": False,
        "steps_eta": ETAS,
        "eta_particles": 64,
        "eta_systems": 16,
        "eta_time": 1.0,
        "halving_step": 0.05,
        "halving_particles": HALVING,
        "halving_particles_each": 6144,
        "halving_time": 2.5,
        "cells": ((0.02, 4), (0.02, 8), (0.02, 16), (0.02, 32), (0.04, 16), (0.01, 16)),
        "total_particles_each": 6144,
        "total_time": 3.5,
    },
    replicates=32,
    criteria=(
        Criterion(
            "exponent of eta", lambda m, level: order(ETAS, m["step_difference"], level), Region.around(1, absolute=0.1)
        ),
        Criterion(
            "exponent of M",
            lambda m, level: order(HALVING, m["particle_difference"], level),
            Region.around(-1, absolute=0.1),
        ),
        Criterion("c0", lambda m, level: mean(m["c0"], level), Region.around(0.0, absolute=0.04 * SECOND_MOMENT)),
        Criterion("B", lambda m, level: mean(m["particle_slope"], level), Region.around(CONSTANT, relative=0.1)),
    ),
    controls=(
        Control("particles at 1.2 beta", {"beta_factor": 1.2}, refutes=("c0",)),
        Control("noise off", {"beta_factor": 0.0}, refutes=("c0", "B")),
        Control("shared noise", {"shared_noise": True}, refutes=("c0",)),
    ),
    record=lambda m: {"A": float(m["step_slope"].mean()), "total_bias": m["total_bias"].mean(0).tolist()},
)

CLAIMS = (C1, C2, C3, C4, C5, C7)
