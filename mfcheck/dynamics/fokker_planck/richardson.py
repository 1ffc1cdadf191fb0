"""Nested grids: Richardson extrapolation in the logarithm, and the L1 distances that become the error bar.

Grids n and 2n have no centre in common, so the fine solution is carried to the coarse centres by interpolating log rho
with six points: exact for polynomials to degree five, hence for a Gaussian and for a quartic well's Gibbs density.
"""

from __future__ import annotations

import numpy as np

from mfcheck.dynamics.fokker_planck.grid import Grid

# below this share of the maximum a density is rounding: logs are cut a little under it, ratios are left at 1
_RELATIVE_FLOOR = 1e-13
_LOG_CUT = np.log(1e-15)
_CREDIT = 6.0
_MIDPOINT = np.array([3.0, -25.0, 150.0, 150.0, -25.0, 3.0]) / 256.0
# cubic through four coarse centres at the fine centre a quarter of a cell before the second, reversed after it
_QUARTER = np.array([-7.0, 105.0, 35.0, -5.0]) / 128.0


def log_density(masses: np.ndarray, grid: Grid) -> np.ndarray:
    """log rho on the grid's axes, cut off 34.5 below its maximum."""
    rho = masses.reshape(grid.shape) / grid.cell_volume
    top = rho.max()
    return np.log(np.maximum(rho, top * np.exp(_LOG_CUT)))


def to_coarse(log_fine: np.ndarray, periodic: bool) -> np.ndarray:
    """Values at the centres of the grid with half the cells, by six-point interpolation along each axis."""
    values = log_fine
    for axis in range(log_fine.ndim):
        padded = _pad(np.swapaxes(values, axis, -1), 2, periodic)
        count = values.shape[axis] // 2
        total = _MIDPOINT[0] * padded[..., 0 : 2 * count : 2]
        for k in range(1, 6):
            total += _MIDPOINT[k] * padded[..., k : k + 2 * count : 2]
        values = np.swapaxes(total, -1, axis)
    return values


def to_fine(coarse: np.ndarray, periodic: bool) -> np.ndarray:
    """Values at the centres of the grid with twice the cells, by four-point interpolation along each axis."""
    values = coarse
    for axis in range(coarse.ndim):
        moved = np.swapaxes(values, axis, -1)
        padded = _pad(moved, 2, periodic)
        n = moved.shape[-1]
        fine = np.empty((*moved.shape[:-1], 2 * n))
        windows = [padded[..., k : k + n] for k in range(5)]
        fine[..., 0::2] = sum(w * x for w, x in zip(_QUARTER[::-1], windows[:4], strict=True))
        fine[..., 1::2] = sum(w * x for w, x in zip(_QUARTER, windows[1:], strict=True))
        values = np.swapaxes(fine, -1, axis)
    return values


def _pad(values: np.ndarray, width: int, periodic: bool) -> np.ndarray:
    """Two more cells at each end of the last axis: wrapped, or continued linearly."""
    if periodic:
        return np.concatenate([values[..., -width:], values, values[..., :width]], -1)
    first, last = values[..., :1], values[..., -1:]
    rise, fall = first - values[..., 1:2], last - values[..., -2:-1]
    return np.concatenate([first + 2 * rise, first + rise, values, last + fall, last + 2 * fall], -1)


def log_correction(coarse: np.ndarray, log_fine_there: np.ndarray, grid: Grid) -> np.ndarray:
    """log of clip((rho_f / rho_c)^(1/3), 1/2, 2) at the coarse centres; 0 where rho_c is rounding."""
    log_coarse = log_density(coarse, grid)
    correction = np.clip((log_fine_there - log_coarse) / 3.0, -np.log(2.0), np.log(2.0))
    correction[log_coarse < log_coarse.max() + np.log(_RELATIVE_FLOOR)] = 0.0
    return correction


def extrapolate(fine: np.ndarray, correction: np.ndarray, periodic: bool) -> np.ndarray:
    """rho_f (rho_f / rho_c)^(1/3) on the fine grid, normalised: fourth order, positive, and Gibbs stays Gibbs."""
    result = fine * np.exp(to_fine(correction, periodic)).ravel()
    return result / result.sum()


def two_levels(fine: np.ndarray, coarse: np.ndarray, grid: Grid) -> tuple[np.ndarray, float]:
    """Extrapolated masses on the fine grid, and the L1 Richardson estimate of the error of the FINE solution.

    grid is the coarse one. Two levels cannot show what order they are at, so the whole |rho_f - rho_c| on the coarse
    centres is the estimate (a third of it at order two): the extrapolated masses are better than that by two orders.
    """
    there = to_coarse(log_density(fine, grid.refine()), grid.periodic)
    correction = log_correction(coarse, there, grid)
    distance = float(np.abs(_masses(there, grid) - coarse).sum())
    return extrapolate(fine, correction, grid.periodic), distance


def three_levels(fine: np.ndarray, middle: np.ndarray, coarse: np.ndarray, grid: Grid) -> tuple[np.ndarray, float]:
    """Extrapolated masses on the fine grid, and the L1 Richardson estimate of THEIR error; grid is the middle one.

    Two extrapolated solutions, from (fine, middle) and (middle, coarse), differ on the middle centres by 15/16 of the
    coarser one's error where the order is four: the finer's is then a fifteenth of the difference. A sixth is claimed
    (order 2.8; closed forms showed up to twice a fifteenth), and only where the distances of the plain solutions fall
    by 2^2: the credit shrinks with what their order is off, to none at half an order (the whole difference counts).
    """
    base = grid.coarsen()
    log_middle = log_density(middle, grid)
    fine_there = to_coarse(log_density(fine, grid.refine()), grid.periodic)
    middle_there = to_coarse(log_middle, base.periodic)
    upper = log_correction(middle, fine_there, grid)
    lower = log_correction(coarse, middle_there, base)
    finer = _normalised(np.exp(fine_there + upper))
    coarser = _normalised(np.exp(log_middle + to_fine(lower, base.periodic)))
    difference = float(np.abs(finer - coarser).sum())
    step_up = float(np.abs(_masses(fine_there, grid) - middle).sum())
    step_low = float(np.abs(_masses(middle_there, base) - coarse).sum())
    order = np.log2(max(step_low, 1e-300) / max(step_up, 1e-300))
    trust = min(1.0, max(0.0, 1.0 - 2.0 * abs(order - 2.0)))
    return extrapolate(fine, upper, grid.periodic), difference / _CREDIT**trust


def unresolved(masses: np.ndarray, grid: Grid) -> float:
    """|Fourier coefficient| of the density at a period of four cells, the largest of the axes.

    By Poisson's summation formula it is the error of sums over the grid with a quarter of the cells an axis: near 0
    (exp(-pi^2 sigma^2 / (8 h^2)) for a Gaussian) on every grid whose differences mean anything, and of order one where
    all grids miss the density together, so that comparing them would show nothing.
    """
    marginals = masses.reshape(grid.shape)
    worst = 0.0
    for axis, n in enumerate(grid.shape):
        marginal = marginals if grid.dim == 1 else marginals.sum(1 - axis)
        worst = max(worst, float(abs(np.exp(-2j * np.pi * (n // 4) / n * np.arange(n)) @ marginal)))
    return worst


def _normalised(values: np.ndarray) -> np.ndarray:
    return (values / values.sum()).ravel()


def _masses(log_values: np.ndarray, grid: Grid) -> np.ndarray:
    """Masses [cells] of log densities on the grid's axes."""
    return np.exp(log_values).ravel() * grid.cell_volume
