"""One attempt of the solver: nested grids marched along one mesh of steps, with their Richardson estimates."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from torch import Tensor

from mfcheck.dynamics.fokker_planck.generator import Layout
from mfcheck.dynamics.fokker_planck.grid import Grid, density_masses, normalised_masses
from mfcheck.dynamics.fokker_planck.landscape import FeatureLandscape, Landscape, landscape
from mfcheck.dynamics.fokker_planck.path import Path
from mfcheck.dynamics.fokker_planck.richardson import log_density, three_levels, to_coarse, two_levels, unresolved
from mfcheck.dynamics.fokker_planck.stepping import Dynamics, adaptive_march, follow, march
from mfcheck.errors import InputError
from mfcheck.feature_risk import FeatureRisk
from mfcheck.functional import Risk

Initial = Tensor | np.ndarray | Callable[[Tensor], Any]

MOST_STEPS = 20000
# the share of the tolerance that steps along a known path may leave uncorrected; it is added to the bar
LEFT = 0.05


@dataclass
class Problem:
    risk: Risk
    initial: Initial
    beta: float
    intervals: list[float]
    tolerance: float
    device: str
    # of the last chain of grids asked for: the long steps and the halved ones mostly share it
    lands: dict[tuple[Grid, ...], Landscape] = field(default_factory=dict)
    starts: dict[tuple[Grid, ...], list[np.ndarray]] = field(default_factory=dict)

    def dynamics(self, grids: tuple[Grid, ...]) -> Dynamics:
        land = self.lands.get(grids)
        if land is None:
            land = landscape(self.risk, Layout(grids), self.device)
            self.lands = {grids: land}
        # truncation of each exponential: dozens of them stay far below the tolerance (their sum is in the bar), each
        # far above rounding
        accuracy = max(2e-4 * self.tolerance, 1e-13)
        return Dynamics(land, land.layout, self.beta, accuracy)

    @property
    def linear(self) -> bool:
        """Whether the drift is known not to see the measure."""
        return isinstance(self.risk, FeatureRisk) and self.risk.is_linear

    def start(self, grids: tuple[Grid, ...]) -> list[np.ndarray]:
        """Initial masses on nested grids, coarsest first; given masses belong to the finest."""
        if grids not in self.starts:
            self.starts = {grids: self._start(grids)}
        return list(self.starts[grids])

    def _start(self, grids: tuple[Grid, ...]) -> list[np.ndarray]:
        if callable(self.initial):
            return [density_masses(self.initial, grid) for grid in grids]
        given = self.initial.detach().cpu().numpy() if isinstance(self.initial, Tensor) else np.asarray(self.initial)
        masses = [normalised_masses(np.asarray(given, dtype=np.float64), grids[-1])]
        for grid in grids[-2::-1]:
            values = np.exp(to_coarse(log_density(masses[0], grid.refine()), grid.periodic)).ravel()
            masses.insert(0, values / values.sum())
        return masses


@dataclass
class Mesh:
    """Step lengths towards each time, and what steps twice as long gave: one grid's masses, and the path of `grids`."""

    steps: list[list[float]]
    grid: Grid
    doubled: list[np.ndarray]
    grids: tuple[Grid, ...]
    path: Path

    def path_for(self, grids: tuple[Grid, ...], land: Landscape) -> Path | None:
        """The path for a chain of grids; None where there is none, or too short a one to interpolate.

        Moments of features on some grids stand for those on others, continued in h^2; potentials on the cells do not.
        """
        if len(self.path.times) < 3 or land.linear:
            return None
        if grids == self.grids:
            return self.path
        return self.path.mixed(_shares(self.grids, grids)) if isinstance(land, FeatureLandscape) else None


def _shares(known: tuple[Grid, ...], wanted: tuple[Grid, ...]) -> np.ndarray:
    """[wanted, known]: the line in h^2 through the two nearest of the known grids, coarsest first."""
    shares = np.zeros((len(wanted), len(known)))
    if len(known) == 1:
        return shares + 1.0
    squares = [grid.spacing[0] ** 2 for grid in known]
    for row, grid in zip(shares, wanted, strict=True):
        square = grid.spacing[0] ** 2
        k = 0 if len(known) == 2 or square > squares[1] else 1
        row[k + 1] = (squares[k] - square) / (squares[k] - squares[k + 1])
        row[k] = 1.0 - row[k + 1]
    return shares


@dataclass
class Attempt:
    grid: Grid
    masses: list[np.ndarray]
    space: np.ndarray
    time: np.ndarray
    rounding: float

    def boundary(self) -> np.ndarray:
        return np.array([_boundary_mass(m, self.grid) for m in self.masses])


def together(levels: tuple[Grid, ...]) -> bool:
    """Whether levels advance as one chain: in one dimension the calls cost more than the arithmetic."""
    return levels[0].dim == 1 and not levels[0].periodic


def choose_steps(problem: Problem, levels: tuple[Grid, ...], step_tolerance: float) -> tuple[Mesh, Attempt]:
    """A mesh twice as fine as one chosen by the steps' corrections, and what those long steps give.

    On the finest but one alone, unless the levels advance together.
    """
    group = levels if together(levels) else levels[-2:-1]
    chain = problem.dynamics(group)
    starts = problem.start(levels)
    check_boundary(starts[-1], levels[-1], problem.tolerance)
    start = np.concatenate(starts if len(group) > 1 else starts[-2:-1])
    marched, steps, path = adaptive_march(chain, start, problem.intervals, step_tolerance, MOST_STEPS)
    halves = [[0.5 * tau for tau in group_steps for _ in range(2)] for group_steps in steps]
    by_level = [list(parts) for parts in zip(*(chain.layout.split(m) for m in marched), strict=True)]
    mesh = Mesh(halves, group[-1], by_level[-1], group, path)
    if len(group) < len(levels):
        nothing = np.full(len(marched), np.inf)
        return mesh, Attempt(levels[-1], [], nothing, nothing, 0.0)
    masses, space = _extrapolated(levels, by_level, starts[-1])
    return mesh, Attempt(levels[-1], masses, space, np.full(len(marched), np.inf), 0.0)


def march_levels(problem: Problem, levels: tuple[Grid, ...], mesh: Mesh | None) -> Attempt:
    """Masses at every time on nested grids along one mesh, extrapolated in space, with the Richardson estimates."""
    starts = problem.start(levels)
    check_boundary(starts[-1], levels[-1], problem.tolerance)
    grids, firsts = levels, starts
    if mesh is not None and mesh.grid not in levels:
        # the mesh was chosen on another grid: it comes along, to be compared with its own doubled steps
        grids, firsts = (mesh.grid, *levels), [problem.start((mesh.grid,))[0], *starts]
    plan = [[length] for length in problem.intervals] if mesh is None else mesh.steps
    groups = (
        [(grids, np.concatenate(firsts))]
        if together(levels)
        else [((g,), m) for g, m in zip(grids, firsts, strict=True)]
    )
    by_level, left, rounding = [], 0.0, 0.0
    for group, first in groups:
        chain = problem.dynamics(group)
        path = None if mesh is None else mesh.path_for(group, chain.land)
        if path is None:
            marched = march(chain, first, plan)
        else:
            marched, uncorrected = follow(chain, first, plan, path, LEFT * problem.tolerance)
            left = max(left, uncorrected)
        by_level += [list(parts) for parts in zip(*(chain.layout.split(m) for m in marched), strict=True)]
        rounding += chain.rounding
    masses, space = _extrapolated(levels, by_level[-len(levels) :], starts[-1])
    time = np.zeros(len(plan))
    if mesh is not None:
        # at order four the shorter steps' error is a fifteenth of the difference; the first steps and strong
        # interactions were seen to reach a fifth of it, so a quarter is claimed, and the largest over the times for
        # each of them (two runs may cross at one time by chance)
        halved = by_level[grids.index(mesh.grid)]
        time[:] = max(float(np.abs(a - b).sum()) for a, b in zip(halved, mesh.doubled, strict=True)) / 4.0
    return Attempt(levels[-1], masses, space, time + left, rounding)


def _extrapolated(
    levels: tuple[Grid, ...], by_level: list[list[np.ndarray]], start: np.ndarray
) -> tuple[list[np.ndarray], np.ndarray]:
    """Extrapolated masses at each time and the estimates of their error in space; start: masses on the finest grid."""
    masses, space = [], []
    for results in zip(*by_level, strict=True):
        if len(levels) == 3:
            extrapolated, estimate = three_levels(results[2], results[1], results[0], levels[1])
        else:
            extrapolated, estimate = two_levels(results[1], results[0], levels[0])
        masses.append(extrapolated)
        space.append(estimate + unresolved(results[-1], levels[-1]))
    return masses, np.array(space) + unresolved(start, levels[-1])


def _boundary_mass(m: np.ndarray, grid: Grid) -> float:
    """Mass in the outermost 1/32 of each axis (at least one cell); 0 on a periodic grid."""
    if grid.periodic:
        return 0.0
    inner = m.reshape(grid.shape)[tuple(slice(max(1, n // 32), n - max(1, n // 32)) for n in grid.shape)]
    return max(float(m.sum() - inner.sum()), 0.0)


def check_boundary(m: np.ndarray, grid: Grid, tolerance: float) -> None:
    mass = _boundary_mass(m, grid)
    if mass > tolerance:
        raise InputError(
            f"the box is too small: a mass of {mass:.2g} sits in its outermost cells, more than the tolerance "
            f"{tolerance:.2g}; enlarge the bounds, which came as {list(grid.bounds)}"
        )
