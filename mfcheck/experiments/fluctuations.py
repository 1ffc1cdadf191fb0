"""Fluctuations about the mean-field limit: the constants that the rates of propagation of chaos come with.

sqrt(M) (rho_M - rho) tends to a Gaussian field. On a grid its covariance S solves, with Q the generator along the
limit and B the derivative of Q's action through the measure, S' = (Q + B) S + S (Q + B)' + N, where N is the noise
of independent jumps: for B = 0 the solution is that of independent particles, diag(m) - m m'. So only the difference
X = S - (diag(m) - m m') is integrated: X' = (Q + B) X + X (Q + B)' + B D + D B', D = diag(m) - m m', X(0) = 0.
Source: Sznitman 1991, section I.3; Fernandez and Meleard 1997.
"""

from __future__ import annotations

import numpy as np
import torch
from numpy.typing import NDArray
from scipy import stats
from scipy.linalg import expm

from mfcheck.dynamics.fokker_planck import Grid, generator, solve_on_grid
from mfcheck.dynamics.fokker_planck.equilibrium import loss_hessian
from mfcheck.dynamics.gaussian import Gaussian
from mfcheck.feature_risk import FeatureRisk

Array = NDArray[np.float64]

#: Half-width, in units of the potential, of the numerical derivative of the generator: its square is rounding's size.
_NUDGE = 1e-5


def fluctuation_covariance(
    risk: FeatureRisk, initial: Gaussian, grid: Grid, *, beta: float, time: float, step: float = 0.02
) -> tuple[Array, Array]:
    """(masses m [n], covariance S [n, n] of sqrt(M) (m_M - m)) at a time, for i.i.d. starts from `initial`, on a line.

    Exponential midpoint and Simpson's rule, second order in the step; the grid's own error is second order in its
    spacing.
    """
    count = max(1, round(time / step))
    tau = time / count
    halves = [0.5 * tau * k for k in range(2 * count + 1)]
    law = solve_on_grid(risk, grid.masses_of(initial.density), grid, beta=beta, times=halves, step=tau).numpy()
    excess = np.zeros((grid.size, grid.size))
    source = _source(risk, law[0], grid, beta)
    for k in range(count):
        flow = expm(0.5 * tau * _linearised(risk, law[2 * k + 1], grid, beta))
        middle, later = (_source(risk, law[2 * k + j], grid, beta) for j in (1, 2))
        # Simpson's rule along the flow: the trapezoid rule would miss the fast modes of a source that never ends
        excess = flow @ (flow @ (excess + tau / 6 * source) @ flow.T + 4 * tau / 6 * middle) @ flow.T + tau / 6 * later
        source = later
    return law[-1], np.diag(law[-1]) - np.outer(law[-1], law[-1]) + excess


def expected_w1_factor(masses: Array, covariance: Array, spacing: float) -> tuple[float, float]:
    """lim sqrt(M) E W1(rho_M, rho) for a covariance of fluctuations, and the same for independent particles.

    sqrt(2/pi) int sd(x) dx, where sd^2 is the limit of M Var F_M(x). Source: [BL], theorem 3.2; del Barrio 1999.
    """
    cumulative = np.cumsum(np.cumsum(covariance, 0), 1)
    below = np.cumsum(masses)
    interacting = np.sqrt(np.maximum(np.diag(cumulative), 0.0)).sum()
    independent = np.sqrt(np.maximum(below * (1 - below), 0.0)).sum()
    factor = float(np.sqrt(2 / np.pi)) * spacing
    return factor * float(interacting), factor * float(independent)


def independent_w1(masses: Array, spacing: float, particles: int) -> float:
    """E W1(rho_M, rho) for M independent particles, exact for every M: int E|Bin(M, F)/M - F| dx on the cells' edges.

    De Moivre: E|Bin(M, u)/M - u| = 2 (1 - u) k P(Bin = k) / M with k = floor(M u) + 1.
    """
    u = np.clip(np.cumsum(masses), 0.0, 1.0)
    k = np.floor(particles * u) + 1
    return float(spacing * (2 * (1 - u) * k * stats.binom.pmf(k, particles, u)).sum() / particles)


def _linearised(risk: FeatureRisk, masses: Array, grid: Grid, beta: float) -> Array:
    potential, _ = _potential(risk, masses, grid)
    left, right = _feedback(risk, masses, grid, beta)
    return generator(potential, grid, beta).toarray() + left @ right


def _source(risk: FeatureRisk, masses: Array, grid: Grid, beta: float) -> Array:
    left, right = _feedback(risk, masses, grid, beta)
    half = left @ (right * masses - np.outer(right @ masses, masses))
    return half + half.T


def _feedback(risk: FeatureRisk, masses: Array, grid: Grid, beta: float) -> tuple[Array, Array]:
    """B = left [n, K] right [K, n]: how Q(m) m changes where the moments of a change of the measure are felt."""
    potential, features = _potential(risk, masses, grid)
    columns = [
        (generator(potential + nudge, grid, beta) @ masses - generator(potential - nudge, grid, beta) @ masses) / 2
        for nudge in _NUDGE * features.T
    ]
    return np.stack(columns, -1) / _NUDGE @ loss_hessian(risk, masses @ features, "cpu"), features.T


def _potential(risk: FeatureRisk, masses: Array, grid: Grid) -> tuple[Array, Array]:
    """The first variation [n] and the features [n, K] on the cells."""
    assert risk.features is not None
    features = risk.features(grid.centres)
    field = risk.field_at(torch.from_numpy(masses) @ features)
    return risk.first_variation(grid.centres, field).numpy(), features.numpy()
