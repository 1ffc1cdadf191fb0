"""Family P: free energy, its dissipation identity, and the decay of relative entropy on the grid (P5, P6)."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import torch
from torch import Tensor

from mfcheck.dynamics.equilibria import bakry_emery
from mfcheck.dynamics.fokker_planck import Grid, dissipation, free_energy, solve_on_grid
from mfcheck.dynamics.gaussian import Gaussian, gaussian
from mfcheck.feature_risk import FeatureRisk
from mfcheck.replicates import Measurements, Replicates
from mfcheck.risks import desai_zwanzig, double_well, quadratic

KAPPA = 1.0


def energy_dissipation(settings: Mapping[str, Any], replicates: Replicates) -> Measurements:
    """P5: the dissipation identity in two ladders, and the largest increase of the free energy on the way.

    Desai-Zwanzig from a narrow Gaussian, whose energy without entropy rises as it spreads. settings: beta, cells (the
    ladder of (i)), steps (in time 1, the ladder of (ii)), cells_in_time, entropy (False leaves beta log rho out of psi
    in (i) and the entropy out of F in (ii); what they are held against stays the claim's).
    Returns (i) space: |sum_i psi_i (Q m)_i + int rho |grad psi|^2| [1, r] over the spacings h, for Gaussian rho, where
    the integral is known; (ii) time: sum over the steps of |increment of F - trapezoid of the dissipation| [1, r]; both
    relative to their right-hand side, over h and step [1, r]; increase [1]; and for the figure path_time,
    path_energy [1, steps + 1].
    """
    beta, risk, start = settings["beta"], desai_zwanzig(KAPPA), gaussian(0.8, 0.04)
    results: dict[str, list[float]] = {"space": [], "h": [], "time": []}
    exact = -gradient_norm(start, beta)
    for cells in settings["cells"]:
        grid = Grid(((-3.0, 3.0),), cells)
        rate = dissipation(risk, grid.masses_of(start.density), grid, beta, entropy=settings["entropy"]).discrete
        results["space"].append(abs(rate / exact - 1.0))
        results["h"].append(grid.spacing[0])
    grid = Grid(((-3.0, 3.0),), settings["cells_in_time"])
    increases: list[float] = []
    for steps in settings["steps"]:
        times = np.arange(steps + 1) / steps
        path = _path(risk, start, grid, beta, times)
        energy = np.array([float(free_energy(risk, m, grid, beta, entropy=settings["entropy"])) for m in path])
        rates = np.array([dissipation(risk, m, grid, beta).discrete for m in path])
        trapezoids = 0.5 * np.diff(times) * (rates[1:] + rates[:-1])
        results["time"].append(float(np.abs(np.diff(energy) - trapezoids).sum() / np.abs(trapezoids).sum()))
        increases.append(float(np.diff(energy).max()))
    return {name: np.array([values]) for name, values in results.items()} | {
        "step": 1.0 / np.array([settings["steps"]]),
        "increase": np.array([max(increases)]),
        "path_time": times[None],
        "path_energy": energy[None],
    }


def gradient_norm(law: Gaussian, beta: float) -> float:
    """int rho |grad psi|^2 for Desai-Zwanzig at a Gaussian rho = N(m, v) on the line.

    grad psi = x^3 - x + kappa (x - m) - beta (x - m) / v: a polynomial, which 20 Gauss-Hermite nodes integrate exactly.
    """
    nodes, weights = np.polynomial.hermite_e.hermegauss(20)
    mean, variance = float(law.mean), float(law.covariance)
    centred = np.sqrt(variance) * nodes
    x = mean + centred
    gradient = x**3 - x + (KAPPA - beta / variance) * centred
    return float(weights @ gradient**2 / weights.sum())


def _path(risk: FeatureRisk, start: Gaussian, grid: Grid, beta: float, times: np.ndarray) -> Tensor:
    masses = grid.masses_of(start.density)
    step = float(np.diff(times).max())
    # order four in the step, so that the trapezoid's own second order is what is seen
    return solve_on_grid(risk, masses, grid, beta=beta, times=times.tolist(), step=step, scheme="commutator_free")


def relative_entropy(masses: Tensor, potential: Tensor, beta: float) -> float:
    """KL(m | pi) of masses [cells] to the grid's Gibbs law, as sum_i pi_i (r log r - r + 1) with r = m / pi.

    Every term is non-negative, so that little is lost near equilibrium; log pi comes from the potential, since far out
    pi itself is 0 to rounding where m is not.
    """
    log_pi = torch.log_softmax(-potential / beta, 0)
    return float((torch.special.xlogy(masses, masses) - masses * log_pi - masses + log_pi.exp()).sum())


def entropy_decay(settings: Mapping[str, Any], replicates: Replicates) -> Measurements:
    """P6: relative entropy to the Gibbs law along linear flows.

    The quadratic a x^2 / 2 from N(mean, beta/a), whose entropy decays at 2a: the fitted rate over 2 alpha beta, and
    over the grid's own rate. The quartic x^2/2 + x^4/4, curvature at least 1, where the bound is not tight: the largest
    KL(s) / (KL(0) exp(-2 alpha beta s)) over times and temperatures. settings: beta (the quadratic's), curvature a,
    quartic_betas, cells, rate_factor (1; 2 makes the predicted rate 4a), alpha ("curvature over beta", or "curvature":
    alpha taken as a). Returns ratio, discrete_ratio, crossing, rate, predicted [1]; time and entropy [1, T]; for each
    temperature quartic_time, quartic_entropy and quartic_bound [1, betas, T].
    """
    a, beta = settings["curvature"], settings["beta"]
    grid = Grid(((-6.0, 6.0),), settings["cells"])
    times = np.linspace(0.0, 5.0, 51)
    entropies = _entropies(quadratic(a), gaussian(1.5, beta / a), grid, beta, times)
    # the mean's mode alone is left after s = 2; before it the grid's higher modes decay faster
    late = times >= 2.0
    rate = -float(np.polyfit(times[late], np.log(entropies[late]), 1)[0])
    predicted = settings["rate_factor"] * 2.0 * log_sobolev(a, beta, settings["alpha"]) * beta
    h = grid.spacing[0]
    discrete = settings["rate_factor"] * 2.0 * a * (1.0 - a * h * h / (6.0 * beta))
    paths, bounds = [], []
    short = np.linspace(0.0, 4.0, 41)
    for warmth in settings["quartic_betas"]:
        wide = Grid(((-7.0, 7.0),), settings["cells"])
        path = _entropies(double_well(quartic=1.0, quadratic=1.0), gaussian(1.5, 0.5), wide, warmth, short)
        exponent = settings["rate_factor"] * 2.0 * log_sobolev(1.0, warmth, settings["alpha"]) * warmth
        # ten thousand times above the rounding of a sum of order one
        paths.append(np.where(path > 1e-11, path, np.nan))
        bounds.append(path[0] * np.exp(-exponent * short))
    ratios = np.stack(paths)[:, 1:] / np.stack(bounds)[:, 1:]
    return {
        "ratio": np.array([rate / predicted]),
        "discrete_ratio": np.array([rate / discrete]),
        "crossing": np.array([np.nanmax(ratios)]),
        "rate": np.array([rate]),
        "predicted": np.array([predicted]),
        "time": times[None],
        "entropy": entropies[None],
        "quartic_time": short[None],
        "quartic_entropy": np.stack(paths)[None],
        "quartic_bound": np.stack(bounds)[None],
    }


def log_sobolev(curvature: float, beta: float, alpha: str) -> float:
    """The log-Sobolev constant of a potential of curvature a: a / beta, or a where the temperature is forgotten."""
    return bakry_emery(curvature, beta=beta) if alpha == "curvature over beta" else curvature


def _entropies(risk: FeatureRisk, start: Gaussian, grid: Grid, beta: float, times: np.ndarray) -> np.ndarray:
    assert risk.potential is not None
    potential = risk.potential(grid.centres)
    path = solve_on_grid(
        risk, grid.masses_of(start.density), grid, beta=beta, times=times.tolist(), step=float(times.max())
    )
    return np.array([relative_entropy(m, potential, beta) for m in path])
