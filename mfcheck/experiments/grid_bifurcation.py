"""Family P: the Desai-Zwanzig transition on the grid (P8)."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from mfcheck.dynamics.equilibria import desai_zwanzig_equilibria
from mfcheck.dynamics.fokker_planck import Grid, solve_on_grid
from mfcheck.dynamics.gaussian import gaussian
from mfcheck.replicates import Measurements, Replicates
from mfcheck.risks import desai_zwanzig


def transition(settings: Mapping[str, Any], replicates: Replicates) -> Measurements:
    """P8: beta_c bracketed by the grid's own dynamics, and stationary means below it.

    A small mean grows where the law is magnetised and shrinks where it is not: bisection between beta_low and beta_high
    until the bracket is `width` wide. settings: kappa (in the dynamics), cells, time, step, small_mean, beta_low,
    beta_high, width, betas (where the stationary mean is measured), claimed_kappa (of the self-consistency roots).
    Returns low, high [1] of the bracket, means and roots [1, betas], tried [1, n, 2] (beta, growth over the second half
    of the time), and the self-consistency curve curve_beta, curve_mean [1, 200] for the figure.
    """
    low, high = settings["beta_low"], settings["beta_high"]
    tried = []
    while high - low > settings["width"]:
        middle = 0.5 * (low + high)
        half, end = magnetisation(settings, middle, settings["small_mean"], (0.5 * settings["time"], settings["time"]))
        tried.append((middle, end / half))
        low, high = (middle, high) if end > half else (low, middle)
    curve = np.linspace(min(settings["betas"]), max(settings["betas"]), 200)
    means = [magnetisation(settings, beta, 0.3, (settings["time"],))[0] for beta in settings["betas"]]

    def root(beta: float) -> float:
        return desai_zwanzig_equilibria(beta=beta, kappa=settings["claimed_kappa"])[-1]

    return {
        "low": np.array([low]),
        "high": np.array([high]),
        "means": np.array([means]),
        "roots": np.array([[root(beta) for beta in settings["betas"]]]),
        "curve_beta": curve[None],
        "curve_mean": np.array([[root(float(beta)) for beta in curve]]),
        "tried": np.array([tried]),
    }


def magnetisation(settings: Mapping[str, Any], beta: float, start: float, times: tuple[float, ...]) -> list[float]:
    """The mean at the given times from N(start, 0.5^2)."""
    grid = Grid(((-3.5, 3.5),), settings["cells"])
    masses = grid.masses_of(gaussian(start, 0.25).density)
    path = solve_on_grid(
        desai_zwanzig(settings["kappa"]), masses, grid, beta=beta, times=list(times), step=settings["step"]
    )
    return [float(m @ grid.centres[:, 0]) for m in path]
