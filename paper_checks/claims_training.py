"""Family G: convergence of training."""

from typing import Any

import numpy as np

from mfcheck.claim import Claim, Control, Criterion
from mfcheck.experiments import training
from mfcheck.statistics.estimate import Estimate, exact
from mfcheck.statistics.verdict import Region


def hull(values: np.ndarray) -> Estimate:
    """Numbers computed without sampling that are to agree: the interval is from the smallest to the largest."""
    x = np.asarray(values, dtype=np.float64).ravel()
    if not np.isfinite(x).all():
        return exact(float("nan"))
    return Estimate(float(np.median(x)), float(x.min()), float(x.max()), 1.0, 1, details={"values": x.tolist()})


#: The risk of G1 and G2: K = 32 sequences of N = 8 tokens, beta = lambda.
LAYER: dict[str, Any] = {
    "data": 32,
    "tokens": 8,
    "token_scale": 1.0,
    "query_scale": 1.0,
    "teacher": 2.0,
    "weight_decay": 0.2,
    "beta": 0.2,
    "cells": 40,
    "step": 1.0,
}

TAIL_F, TAIL_L1 = "tail rate of F - F* over twice the gap, every start", "tail rate of the L1 distance over the gap"
METASTABLE = "metastable: tail rate of F - F* over twice the gap"
BOUNDS = "largest (F - F*) over a rigorous bound of it"

#: The three regimes of G1: where a rigorous bound says something, where the tail is reached, and a metastable one.
DECAY: dict[str, Any] = LAYER | {
    "bound_token_scale": 0.3,
    "bound_weight_decay": 0.5,
    "bound_beta": 0.5,
    # from s = 20 on the next modes still count: from the start away from the teacher 6 % at s = 20, 2.5 % at 32
    "window": (40.0, 60.0),
    "bound_times": tuple(0.5 * k for k in range(17)),
    # beta below the barrier between the two wells: the gap is 5.5 times smaller, and the tail as much later. From
    # the start away from the teacher the rate over 2 gap is 0.71 at s = 20, 0.93 at 200 and 0.98 at 320
    "metastable_weight_decay": 0.1,
    "metastable_beta": 0.05,
    "metastable_step": 2.0,
    "metastable_window": (360.0, 440.0),
    "rate": "linearised gap",
    "noise": True,
}

#: The settings that the figure names.
SHOWN = ("window", "weight_decay", "beta")

G1 = Claim(
    id="G1",
    statement="one mean-field attention layer with diffusion: F - F* decays exponentially from any start, at least at "
    "the rate of a rigorous log-Sobolev constant, and in the end at twice the gap of the linearised equation",
    prediction="never above the Holley-Stroock and Bakry-Emery bounds; tail rates within 3 % of 2 gap (L1: gap)",
    formula=r"F[\rho_s]-F^{*}\le C\,e^{-2\alpha\beta s},\quad \text{tail rate}=2\times\text{gap}",
    source="[HL]; Nitanda, Wu, Suzuki 2022; Chizat 2022; Holley and Stroock 1987; Bakry and Emery 1985",
    hypotheses="bounded heads, a loss convex along mixtures, weight decay, beta > 0",
    experiment=training.decay,
    settings=DECAY,
    criteria=(
        Criterion(TAIL_F, lambda m, level: hull(m["free_energy_rate"]), Region.around(1.0, relative=0.03)),
        Criterion(TAIL_L1, lambda m, level: hull(m["distance_rate"]), Region.around(1.0, relative=0.03)),
        Criterion(
            METASTABLE, lambda m, level: hull(m["metastable_free_energy_rate"]), Region.around(1.0, relative=0.03)
        ),
        Criterion(BOUNDS, lambda m, level: exact(m["bound"].max()), Region.at_most(1.0)),
        Criterion(
            "bounds not vacuous: the smaller rigorous rate over 2 lambda",
            lambda m, level: exact(m["bound_rates"][0, 0].min() / m["weight_decay_rate"][0]),
            # 2 lambda is the rate without data; a tenth of it is a statement
            Region.at_least(0.1, 0.2),
        ),
    ),
    controls=(
        Control("gap of the frozen potential", {"rate": "frozen gap"}, refutes=(TAIL_F, TAIL_L1, METASTABLE)),
        Control("2 lambda", {"rate": "2 lambda"}, refutes=(TAIL_F, TAIL_L1, METASTABLE, BOUNDS)),
        Control("beta = 0 from a Dirac start", {"noise": False}, refutes=(TAIL_F, TAIL_L1, METASTABLE)),
    ),
    record=lambda m: (
        {
            name: m[name][0].tolist()
            for name in (
                *(prefix + name for prefix in ("", "metastable_") for name in ("times", "curves", "gap")),
                "bound_times",
                "bound_curves",
                "bound_rates",
                "bound",
            )
        }
        | {
            name: DECAY[name]
            for name in (
                "window",
                "beta",
                "metastable_window",
                "weight_decay",
                "metastable_weight_decay",
                "metastable_beta",
            )
        }
    ),
)

AGREE = "largest L1 distance between the limits of three starts and Newton's"

G2 = Claim(
    id="G2",
    statement="the limit is the unique Gibbs fixed point, and the undamped iteration of the Gibbs map converges to it "
    "exactly where lambda_max(Cov(h)) < K beta",
    prediction="three starts and Newton agree to 1e-6 in L1; an iteration multiplies by lambda_max / (K beta)",
    formula=r"\rho^{*}=\frac{1}{Z}\exp\Big(-\frac{1}{\beta}\frac{\delta L_\lambda}{\delta\rho}[\rho^{*}]\Big)",
    source="Hu, Ren, Siska, Szpruch 2019",
    hypotheses="a loss convex along mixtures, weight decay, beta > 0; mean squared error over K data",
    experiment=training.limits,
    settings=LAYER
    | {
        "model": "attention",
        # exp(-0.080 x 220) = 2e-8 of the start's distance is left
        "time": 220.0,
        "iteration_betas": (0.2, 0.1, 0.07, 0.05),
        "iterations": 600,
    },
    criteria=(
        Criterion(AGREE, lambda m, level: exact(m["distances"].max(), m["residual"][0]), Region.at_most(1e-6)),
        Criterion(
            "factor of an iteration over lambda_max(C) / (K beta)",
            lambda m, level: hull(m["multiplier"]),
            Region.around(1.0, relative=0.01),
        ),
        Criterion(
            "betas at which convergence and lambda_max(C) < K beta disagree",
            lambda m, level: exact(np.abs(m["converged"] - (m["ratios"] < 1)).sum()),
            Region.at_most(0.5),
        ),
    ),
    controls=(Control("Desai-Zwanzig below its critical beta", {"model": "Desai-Zwanzig"}, refutes=(AGREE,)),),
    record=lambda m: {name: m[name][0].tolist() for name in ("distances", "multiplier", "converged", "ratios")},
)

CLAIMS: tuple[Claim, ...] = (G1, G2)
