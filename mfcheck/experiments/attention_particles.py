"""Family C on attention itself: heads theta = (a, v) as particles against the law of heads on the 2-D grid (C6)."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from mfcheck.dynamics.fokker_planck import Grid, Solution, solve_fokker_planck
from mfcheck.dynamics.langevin import simulate
from mfcheck.experiments.attention_data import BOX, layer
from mfcheck.experiments.batches import in_batches
from mfcheck.experiments.chaos_limits import TOGETHER, apart, by_replicate, slices, start, start_law
from mfcheck.feature_risk import FeatureRisk
from mfcheck.functional import evaluate, first_variation
from mfcheck.measure import Measure
from mfcheck.replicates import Measurements, Replicates
from mfcheck.statistics.wasserstein import LineLaw, sliced_squared_wasserstein_2

Settings = Mapping[str, Any]
Array = NDArray[np.float64]

#: What is compared with the grid, in the order of the last axis of `moments`.
MOMENTS = ("E a", "E v", "E a^2", "E a v", "E v^2", "risk")
#: The settings that the grid's answer depends on.
_REFERENCE = ("data", "tokens", "token_scale", "query_scale", "teacher", "weight_decay", "beta", "start_mean",
              "start_variance", "times", "directions")  # fmt: skip
_SHOWN_CELLS = 24


@in_batches(TOGETHER)
def heads_against_grid(settings: Settings, replicates: Replicates) -> Measurements:
    """C6: M heads under the attention risk against the solution of the mean-field equation, for a ladder of M.

    A replicate holds particles_each / M systems of every M. settings: the risk's data, tokens, token_scale,
    query_scale, teacher, weight_decay; beta, start_mean, start_variance, step, times (the last of them is when the
    comparison is made), particles, particles_each, directions, scaling ("mean_field" as claimed, or "raw").
    Measures moments [n, ladder, MOMENTS], w2_squared [n, ladder] (sliced W2^2); the grid's expected [n, MOMENTS] and
    their certified bars expected_bars, the bar w2_bar [n] of its sliced W2; and for figures heads [n, T, M, 2] of one
    system of the largest M, and density [n, T, cells, cells] at times.
    """
    risk, step, times = layer(settings), settings["step"], settings["times"]
    grid = reference(settings)
    marks = [round(time / step) for time in times]
    moments, distances = [], []
    heads = np.empty(0)
    for particles in settings["particles"]:
        last = particles == settings["particles"][-1]
        block = settings["particles_each"] // particles
        theta = simulate(
            risk,
            start(start_law(settings, 2), replicates, "heads", block, particles).float(),
            beta=settings["beta"],
            step=step,
            steps=marks[-1],
            scheme="heun",
            scaling=settings["scaling"],
            seed=replicates.stream.child("heads", particles),
            observables={"theta": lambda theta: theta},
            record=marks if last else marks[-1:],
            first_replicate=replicates.start * block,
        ).observables["theta"]
        end = theta[-1].double()
        moments.append(by_replicate(_moments(risk, Measure.uniform(end)), replicates))
        distances.append(by_replicate(sliced_squared_wasserstein_2(end.cpu().numpy(), grid.laws), replicates))
        if last:
            heads = theta[:, ::block].transpose(0, 1).cpu().numpy()
    count = len(replicates)
    return {
        "moments": np.stack(moments, 1),
        "w2_squared": np.stack(distances, 1),
        "expected": np.broadcast_to(grid.moments, (count, len(MOMENTS))),
        "expected_bars": np.broadcast_to(grid.bars, (count, len(MOMENTS))),
        "w2_bar": np.full(count, grid.w2_bar),
        "heads": heads,
        "density": np.broadcast_to(grid.density, (count, *grid.density.shape)),
    }


@dataclass(frozen=True)
class Reference:
    """The grid's answer at the last time: moments with bars [MOMENTS], slices with the bar of their W2, densities."""

    moments: Array
    bars: Array
    laws: dict[float, LineLaw]
    w2_bar: float
    density: Array


def reference(settings: Settings) -> Reference:
    """`Reference` for an experiment's settings, kept between looks and controls."""
    return _reference(tuple((name, settings[name]) for name in _REFERENCE))


@lru_cache(maxsize=4)
def _reference(key: tuple[tuple[str, Any], ...]) -> Reference:
    """From a grid whose cells the solver chooses; the bar of W2 against the same equation on half of them.

    A moment int f drho is off by at most half the range of f in the box times the certified L1 error; for the risk f is
    its first variation, up to the square of that error.
    """
    settings = dict(key)
    risk, directions = layer(settings), settings["directions"]
    solution = _solve(settings, Grid([BOX, BOX]))
    coarser = _solve(settings, solution.grid.coarsen())
    measure = solution.measure()
    values = torch.cat([_monomials(measure.points), first_variation(risk, measure)[:, None]], -1)
    half_range = 0.5 * (values.amax(0) - values.amin(0))
    fine, rough = slices(solution, directions), slices(coarser, directions)
    grid, masses = solution.grid, solution.masses
    while min(grid.shape) > 2 * _SHOWN_CELLS:
        grid, masses = grid.coarsen(), grid.aggregate(masses)
    return Reference(
        moments=_moments(risk, measure).numpy(),
        bars=(half_range * solution.error[-1]).numpy(),
        laws=fine,
        w2_bar=float(np.sqrt(np.mean([apart(fine[angle], rough[angle])[1] ** 2 for angle in fine]))),
        density=(masses / grid.cell_volume).reshape(len(masses), *grid.shape).numpy(),
    )


def _solve(settings: Settings, grid: Grid) -> Solution:
    return solve_fokker_planck(
        layer(settings),
        start_law(settings, 2).density,
        grid,
        beta=settings["beta"],
        times=settings["times"],
        tolerance=1e-4,
    )


def _monomials(points: Tensor) -> Tensor:
    """a, v, a^2, a v, v^2 at points [..., 2]: [..., 5]."""
    a, v = points.unbind(-1)
    return torch.stack([a, v, a * a, a * v, v * v], -1)


def _moments(risk: FeatureRisk, measure: Measure) -> Tensor:
    """MOMENTS of laws of heads, [..., MOMENTS]."""
    return torch.cat([measure.integrate(_monomials), evaluate(risk, measure)[..., None]], -1)
