"""solve_fokker_planck: masses at the requested times with a certified L1 bar, grid and step from a tolerance."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from math import ceil

import numpy as np
import torch
from torch import Tensor

from mfcheck.dynamics.fokker_planck.generator import check_beta
from mfcheck.dynamics.fokker_planck.grid import FEWEST_CELLS, Grid
from mfcheck.dynamics.fokker_planck.nested import (
    Attempt,
    Initial,
    Mesh,
    Problem,
    check_boundary,
    choose_steps,
    march_levels,
    together,
)
from mfcheck.dynamics.fokker_planck.solution import Solution
from mfcheck.dynamics.fokker_planck.stepping import time_intervals
from mfcheck.errors import InputError
from mfcheck.functional import Risk

# the bar is twice the sum of the Richardson estimates (claim P7)
SAFETY = 2.0
FIRST_CELLS = {1: 64, 2: 48}
MOST_CELLS = {1: 16384, 2: 768}
# shares of the tolerance that space and time may take; the rest is for rounding and the boundary
_SPACE, _TIME = 0.6, 0.3
# a bar in space above this: the grid is not used to measure errors in time
_RESOLVED = 0.02


def solve_fokker_planck(
    risk: Risk,
    initial: Initial,
    grid: Grid,
    *,
    beta: float,
    times: Sequence[float],
    tolerance: float = 1e-5,
    device: str = "cpu",
) -> Solution:
    """Solve d rho/ds = div(rho grad dL/drho) + beta Lap rho on a grid, with a certified L1 bar at every time.

    risk: a FeatureRisk, or any callable Measure -> scalar (one backward pass in the weights an evaluation);
    initial: masses [cells] on the grid, or a density (points [n, p]) -> [n], normalised on the grid; beta > 0 constant;
    times: sorted, >= 0. Where the grid has cells (even on each axis) they are kept, and `tolerance` governs the time
    step only: read what was reached from `error`. Where it has none, they are chosen so that the bar is below
    `tolerance`. The solution is compared on the grids n, n/2 and (where n is a multiple of 4) n/4, and with doubled
    steps; it is extrapolated in space, not in time.
    Raises InputError on bad input, where more than `tolerance` of mass sits at the sides of a no-flux box, and where
    the tolerance is out of reach. Source: [SG], [CC]; bar: claim P7.

    >>> from mfcheck.risks import quadratic
    >>> start = lambda theta: torch.exp(-((theta[:, 0] - 1.5) ** 2) / 0.18)
    >>> solution = solve_fokker_planck(quadratic(), start, Grid([(-4.2, 4.2)]), beta=0.5, times=[1.0], tolerance=1e-6)
    >>> bool(solution.error[0] < 1e-6)
    True
    >>> round(float(solution.measure(0).mean()), 5)  # 1.5 exp(-1)
    0.55182
    """
    check_beta(beta)
    intervals = time_intervals(times)
    if not (np.isfinite(tolerance) and 0 < tolerance < 1):
        raise InputError(f"a tolerance is an L1 distance between 0 and 1; it came as {tolerance}")
    if not isinstance(grid, Grid):
        raise InputError(f"grid is a mfcheck Grid; it came as {type(grid).__name__}")
    problem = Problem(risk, initial, float(beta), intervals, float(tolerance), device)
    if grid.cells is None:
        if not callable(initial):
            raise InputError("initial masses need a grid with cells; leave cells out only with a density callable")
        attempt, mesh = _search(problem, grid)
    else:
        attempt, mesh = _refine_time(problem, _levels(grid), None)
    return _solution(problem, attempt, mesh, times)


def _levels(grid: Grid) -> tuple[Grid, ...]:
    """The grid and its halves, coarsest first: three where the cells allow it, two otherwise."""
    if any(n % 2 or n < 2 * FEWEST_CELLS for n in grid.shape):
        raise InputError(
            f"the error bar solves the grid with half the cells too: each axis needs an even number, at least "
            f"{2 * FEWEST_CELLS}; they came as {grid.shape}"
        )
    half = grid.coarsen()
    if any(n % 2 or n < 2 * FEWEST_CELLS for n in half.shape):
        return half, grid
    return half.coarsen(), half, grid


def _search(problem: Problem, grid: Grid) -> tuple[Attempt, Mesh | None]:
    """Finer grids until the bar is below the tolerance; the next size from the order four of the extrapolated error."""
    sides = [hi - lo for lo, hi in grid.bounds]
    count = float(FIRST_CELLS[grid.dim])
    target = _SPACE * problem.tolerance
    mesh: Mesh | None = None
    reached = np.inf
    while count <= MOST_CELLS[grid.dim]:
        # multiples of four, equal spacings as nearly as that allows
        cells = tuple(4 * max(FEWEST_CELLS, ceil(count * side / max(sides) / 4.0 - 1e-9)) for side in sides)
        levels = _levels(replace(grid, cells=cells))
        reached = 0.0
        if mesh is None and not problem.linear and together(levels):
            # the long steps that choose the mesh also show whether this grid is fine enough
            mesh, attempt = choose_steps(problem, levels, _step_tolerance(_TIME * problem.tolerance))
            reached = SAFETY * attempt.space.max()
        if reached <= target:
            attempt, mesh = _refine_time(problem, levels, mesh)
            reached = SAFETY * attempt.space.max()
            if reached <= target:
                return attempt, mesh
        if reached > _RESOLVED:
            mesh = None  # chosen on a grid that does not see the solution: its time errors say nothing
        growth = (1.1 * reached / target) ** 0.25 if np.isfinite(reached) else 2.0
        count = max(cells) * min(max(growth, 1.1), 3.0)
    raise InputError(
        f"a tolerance of {problem.tolerance:.2g} is out of reach: on {max(cells)} cells an axis the bar in space is "
        f"still {reached:.2g}; ask for a larger tolerance, a tighter box, or a smoother initial density"
    )


def _step_tolerance(target: float) -> float:
    """What one doubled step may err for a target of the whole: errors of order five and four in the step.

    The factor makes most problems pass at the first try (seen on the shipped risks); where it does not, steps shrink.
    """
    return 1.6 * target**1.25


def _refine_time(problem: Problem, levels: tuple[Grid, ...], mesh: Mesh | None) -> tuple[Attempt, Mesh | None]:
    """Solve on nested grids, with steps short enough for the time's share of the tolerance."""
    if problem.linear:
        return march_levels(problem, levels, None), None
    target = _TIME * problem.tolerance
    step_tolerance = _step_tolerance(target)
    for _ in range(8):
        if mesh is None:
            mesh, _first = choose_steps(problem, levels, step_tolerance)
        attempt = march_levels(problem, levels, mesh)
        worst = SAFETY * attempt.time.max()
        if worst <= target:
            return attempt, mesh
        # the doubled steps' error goes like the step to the fourth, the correction of one step to the fifth
        step_tolerance *= 0.7 * (target / worst) ** 1.25
        mesh = None
    raise InputError(
        f"a tolerance of {problem.tolerance:.2g} is out of reach in time: the bar of the time step is still "
        f"{worst:.2g}; is the risk smooth in the measure, and computed in double precision?"
    )


def _solution(problem: Problem, attempt: Attempt, mesh: Mesh | None, times: Sequence[float]) -> Solution:
    masses, boundary = np.stack(attempt.masses), attempt.boundary()
    # only now: on the coarse grids of a search masses may spread to the sides that are not there on a fine one
    for m in attempt.masses:
        check_boundary(m, attempt.grid, problem.tolerance)
    still = np.cumsum(problem.intervals) == 0.0
    if still.any():
        masses[still] = problem.start((attempt.grid,))[0]
    error = SAFETY * (attempt.space + attempt.time) + attempt.rounding + boundary
    steps = [tau for group in mesh.steps for tau in group] if mesh is not None else []

    def tensor(values: np.ndarray) -> Tensor:
        return torch.from_numpy(np.ascontiguousarray(values)).to(problem.device)

    return Solution(
        times=tensor(np.asarray([float(time) for time in times])),
        grid=attempt.grid,
        masses=tensor(masses),
        error=tensor(error),
        boundary_mass=tensor(boundary),
        space_error=tensor(SAFETY * attempt.space),
        time_error=tensor(SAFETY * attempt.time),
        rounding=attempt.rounding,
        steps=len(steps),
        step=max(steps, default=0.0),
        beta=problem.beta,
        risk=problem.risk,
    )
