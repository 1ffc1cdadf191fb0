"""Family G, what noise does to training: G4 and G5."""

import numpy as np

from mfcheck.claim import Claim, Control, Criterion
from mfcheck.experiments import training_noise
from mfcheck.replicates import Measurements
from mfcheck.statistics.estimate import Estimate, exact, mean
from mfcheck.statistics.verdict import Region

BETAS = (0.1, 0.2, 0.4, 0.8, 1.6)


def smallest_increase(m: Measurements, level: float) -> Estimate:
    """The least mean increase between neighbouring betas; its interval holds all of them together (Bonferroni)."""
    steps = np.diff(m["risk"], axis=-1)
    each = 1 - (1 - level) / steps.shape[-1]
    estimates = [mean(column, each) for column in steps.T]
    problem = next((estimate.problem for estimate in estimates if estimate.problem), None)
    lower, upper = (min(getattr(estimate, end) for estimate in estimates) for end in ("lower", "upper"))
    return Estimate(min(e.point for e in estimates), lower, upper, level, len(steps), problem=problem)


GRID, PARTICLES = "least increase on the grid, both weight decays", "least increase by particles"

G4 = Claim(
    id="G4",
    statement="excess diffusion raises the final loss: beta -> L_lambda[rho*_beta] is non-decreasing",
    prediction="no step down between five betas, on the grid and by particles",
    formula=r"\beta<\beta'\ \Rightarrow\ L_\lambda[\rho^{*}_\beta]\le L_\lambda[\rho^{*}_{\beta'}]",
    source="[CARD]; rho*_beta minimises L_lambda + beta Ent, so that each of two betas prefers its own fixed point",
    hypotheses="a loss convex along mixtures, so that rho*_beta is the minimiser; weight decay in the risk",
    experiment=training_noise.risk_against_beta,
    settings={
        "data": 6,
        "tokens": 3,
        "token_scale": 1.3,
        "query_scale": 1.5,
        "teacher": 2.0,
        # under the stronger decay noise brings heads to where the bare risk is lower: it falls from 0.1 to 1.6
        "weight_decays": (0.2, 2.5),
        "betas": BETAS,
        "cells": 96,
        "particles": 64,
        "systems": 8,
        "step": 0.1,
        "time": 5.0,
        "functional": "L_lambda",
    },
    replicates=32,
    criteria=(
        Criterion(
            GRID,
            lambda m, level: exact(m["smallest_step"][0], m["smallest_step_bar"][0]),
            Region.at_least(0.0, 0.1),
        ),
        Criterion(PARTICLES, smallest_increase, Region.at_least(0.0, 0.1)),
    ),
    controls=(
        Control("the free energy in place of the risk", {"functional": "free energy"}, refutes=(GRID,)),
        Control("the bare risk, without weight decay", {"functional": "L"}, refutes=(GRID,)),
    ),
    record=lambda m: {
        "betas": list(BETAS),
        "functionals": list(training_noise.FUNCTIONALS),
        "curve": m["curve"][0].tolist(),
        "risk": m["risk"].mean(0).tolist(),
        "risk_error": (m["risk"].std(0, ddof=1) / len(m["risk"]) ** 0.5).tolist(),
    },
)

TILT = 0.3
LOWER, HOLD = "annealed minus constant, mean energy at the end", "final hold over the relaxation time"
#: The wells of (x^2 - 1)^2 + tilt x differ by 2 tilt to first order; a tenth of that is a difference worth having.
WORTH, WELLS = 0.1 * 2 * TILT, 2 * TILT

G5 = Claim(
    id="G5",
    statement="at equal budget and final beta, annealing from a beta of the order of the barrier, with a hold at the "
    "end, ends lower on a non-convex potential than the final beta held constant",
    prediction="paired difference of the mean energies below a tenth of the wells' difference, downwards",
    formula=r"\mathbb{E}\,U(\text{annealed})-\mathbb{E}\,U(\text{constant})<-\tfrac{1}{10}\Delta U",
    source="simulated annealing; Chizat 2022 for convex risks",
    hypotheses="start in the shallow well; the hold outlasts the relaxation in the deep one",
    experiment=training_noise.annealing_against_constant,
    settings={
        "potential": "tilted",
        "tilt": TILT,
        "start": 1.0,
        "beta_start": 0.5,
        "beta": 0.05,
        "step": 0.01,
        "time": 20.0,
        "annealed": 0.8,
        "particles": 32,
    },
    replicates=64,
    criteria=(
        Criterion(LOWER, lambda m, level: mean(m["annealed"] - m["constant"], level), Region.at_most(-WORTH, -WELLS)),
        Criterion(
            HOLD,
            lambda m, level: exact(m["hold"][0] / m["relaxation"][0]),
            # exp(-2 x 5) of an excess energy is left
            Region.at_least(5.0, 10.0),
        ),
    ),
    controls=(
        # the same noise, contracted onto the same path: the difference is rounding
        Control("a convex potential", {"potential": "convex"}, refutes=(LOWER,)),
        # heads are left hotter than beta: worse, not equivalent
        Control("a convex potential and no hold", {"potential": "convex", "annealed": 1.0}, refutes=(LOWER, HOLD)),
    ),
    record=lambda m: {
        "annealed": float(m["annealed"].mean()),
        "constant": float(m["constant"].mean()),
        "difference": float((m["annealed"] - m["constant"]).mean()),
        **{name: float(m[name][0]) for name in ("barrier", "relaxation", "crossing", "crossing_at_start")},
    },
)

CLAIMS = (G4, G5)
