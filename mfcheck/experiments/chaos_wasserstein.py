"""Family C, distances to the limit: how W1 and W2^2 fall with M, and that they do not grow with time."""

from __future__ import annotations

from collections.abc import Mapping
from functools import lru_cache
from typing import Any

import numpy as np
from numpy.typing import NDArray

from mfcheck.dynamics.fokker_planck import Grid
from mfcheck.dynamics.gaussian import gaussian
from mfcheck.dynamics.langevin import Trajectory, simulate
from mfcheck.experiments.batches import in_batches
from mfcheck.experiments.chaos_limits import (
    BOX,
    TOGETHER,
    apart,
    by_replicate,
    limit,
    limit_of,
    line_law,
    model,
    slices,
    start,
    start_law,
)
from mfcheck.experiments.fluctuations import expected_w1_factor, fluctuation_covariance, independent_w1
from mfcheck.replicates import Measurements, Replicates
from mfcheck.statistics.wasserstein import LineLaw, sliced_wasserstein_1, squared_wasserstein_2, wasserstein_1

Settings = Mapping[str, Any]
Array = NDArray[np.float64]

#: Cells of the two grids on which the covariance of the fluctuations is integrated.
_FLUCTUATION_CELLS = (40, 80)
_BINS = 64


@in_batches(TOGETHER)
def rates_with_particles(settings: Settings, replicates: Replicates) -> Measurements:
    """C1: distances of M particles to the limit, on the line and (sliced) in the plane, for a ladder of M.

    A replicate holds particles_each / M systems of every M. settings: model, plane_model, beta, beta_factor (what
    the particles' beta is multiplied by, 1 as claimed), start_mean, start_variance, step, particles,
    particles_each, plane_particles, plane_particles_each, directions, density_times.
    Measures w1, w2_squared [n, ladder], w1_over_theory [n, ladder], sliced_w1, plane_second_moment_ratio
    [n, plane ladder], histogram [n, T, bins] of the particles and density [n, T, cells] of the limit at density_times
    (the last of them is when distances are taken), and the reference's own bars w1_bar, w2_bar, sliced_w1_bar,
    theory_bar (relative) [n].
    """
    return _on_the_line(settings, replicates) | _in_the_plane(settings, replicates)


@in_batches(TOGETHER)
def growth_with_time(settings: Settings, replicates: Replicates) -> Measurements:
    """C5: W1 of M particles to the limit at several times, [n, T], over the theory's value at the first of them.

    settings: model, beta, beta_factor, start_mean, start_variance, step, times, theory_time, particles, systems,
    theory_systems. Measures w1 [n, T], w1_over_theory [n] (at theory_time, with systems of its own), w1_bar, the
    reference's own distance to its coarser self, and theory_bar (relative).
    """
    times, particles = settings["times"], settings["particles"]
    laws, bar = _line_laws(settings, times)
    theory, theory_bar = _theory(settings, settings["theory_time"], particles)

    theta = _line_run(settings, replicates, particles, settings["systems"], times).observables["theta"].cpu().numpy()
    w1 = np.stack([by_replicate(wasserstein_1(x, law), replicates) for x, law in zip(theta, laws, strict=True)], 1)
    # the constant asks for more systems than the growth, and only up to the theory's time
    until = settings["theory_time"]
    more = _line_run(settings, replicates, particles, settings["theory_systems"], (until,), "theory")
    theta = more.observables["theta"][0].cpu().numpy()
    early = by_replicate(wasserstein_1(theta, laws[times.index(until)]), replicates)
    return {
        "w1": w1,
        "w1_over_theory": early / theory,
        "w1_bar": np.full(len(replicates), bar[0]),
        "theory_bar": np.full(len(replicates), theory_bar + bar[0] / theory),
    }


def _theory(settings: Settings, time: float, particles: int) -> tuple[float, float]:
    where = (settings["model"], settings["beta"], settings["start_mean"], settings["start_variance"])
    return particle_w1(*where, time, particles)


@lru_cache(maxsize=64)
def particle_w1(
    name: str, beta: float, mean: float, variance: float, time: float, particles: int
) -> tuple[float, float]:
    """(E W1(rho_M, rho) that the theory of fluctuations predicts for interacting particles, its relative error bar).

    The exact value for M independent particles times the ratio of the two Gaussian limits.
    """
    ratio, bar = _interaction_factor(name, beta, mean, variance, time)
    solution = limit(name, beta, mean, variance, (time,))
    return ratio * independent_w1(solution.masses[-1].cpu().numpy(), solution.grid.spacing[0], particles), bar / ratio


@lru_cache(maxsize=8)
def _interaction_factor(name: str, beta: float, mean: float, variance: float, time: float) -> tuple[float, float]:
    """lim E W1 of interacting over that of independent particles, extrapolated from two grids, and its error bar.

    The bar is the whole extrapolation (a third of the difference); halving the step of 0.1 moves a ratio by 0.02 %.
    """
    ratios = []
    for cells in _FLUCTUATION_CELLS:
        grid = Grid([BOX], [cells])
        masses, covariance = fluctuation_covariance(
            model(name), gaussian(mean, variance), grid, beta=beta, time=time, step=0.1
        )
        interacting, independent = expected_w1_factor(masses, covariance, grid.spacing[0])
        ratios.append(interacting / independent)
    correction = (ratios[1] - ratios[0]) / 3
    return ratios[1] + correction, abs(correction)


def _on_the_line(settings: Settings, part: Replicates) -> dict[str, Array]:
    ladder, shown = settings["particles"], settings["density_times"]
    laws, bar = _line_laws(settings, shown)
    w1, w2, theory = [], [], []
    histogram = np.empty(0)
    for particles in ladder:
        last = particles == ladder[-1]
        block = settings["particles_each"] // particles
        run = _line_run(settings, part, particles, block, shown if last else shown[-1:])
        theta = run.observables["theta"].cpu().numpy()
        w1.append(by_replicate(wasserstein_1(theta[-1], laws[-1]), part))
        w2.append(by_replicate(squared_wasserstein_2(theta[-1], laws[-1]), part))
        theory.append(_theory(settings, shown[-1], particles))
        if last:
            histogram = np.stack([_histograms(x, len(part)) for x in theta], 1)
    predicted, theory_bar = np.array(theory).T
    solution = limit_of(settings, shown)
    density = solution.masses.cpu().numpy() / solution.grid.cell_volume
    return {
        "w1": np.stack(w1, 1),
        "w2_squared": np.stack(w2, 1),
        "w1_over_theory": np.stack(w1, 1) / predicted,
        "histogram": histogram,
        "density": np.broadcast_to(density, (len(part), *density.shape)),
        "w1_bar": np.full(len(part), bar[0]),
        "w2_bar": np.full(len(part), bar[1]),
        "theory_bar": np.full(len(part), (theory_bar + bar[0] / predicted).mean()),
    }


def _in_the_plane(settings: Settings, part: Replicates) -> dict[str, Array]:
    time, step = settings["density_times"][-1], settings["step"]
    law = start_law(settings, 2)
    where = (settings["plane_model"], settings["beta"], settings["start_mean"], settings["start_variance"], (time,))
    laws, bar, second_moment = _plane_laws(where, settings["directions"])
    sliced, moment = [], []
    for particles in settings["plane_particles"]:
        block = settings["plane_particles_each"] // particles
        theta = simulate(
            model(settings["plane_model"]),
            start(law, part, "plane", block, particles),
            beta=settings["beta"] * settings["beta_factor"],
            step=step,
            steps=round(time / step),
            scheme="heun",
            seed=part.stream.child("plane", particles),
            first_replicate=part.start * block,
        ).final
        moment.append(by_replicate(theta.square().sum(-1).mean(-1), part) / second_moment)
        sliced.append(by_replicate(sliced_wasserstein_1(theta.cpu().numpy(), laws), part))
    return {
        "sliced_w1": np.stack(sliced, 1),
        "plane_second_moment_ratio": np.stack(moment, 1),
        "sliced_w1_bar": np.full(len(part), bar),
    }


def _line_run(
    settings: Settings, part: Replicates, particles: int, block: int, times: tuple[float, ...], name: str = "line"
) -> Trajectory:
    """Heun's scheme (weak order 2) on the line, `theta` [T, systems, M] recorded at times."""
    step = settings["step"]
    marks = [round(time / step) for time in times]
    return simulate(
        model(settings["model"]),
        start(start_law(settings), part, name, block, particles),
        beta=settings["beta"] * settings["beta_factor"],
        step=step,
        steps=marks[-1],
        scheme="heun",
        seed=part.stream.child(name, particles),
        observables={"theta": lambda theta: theta[..., 0]},
        record=marks,
        first_replicate=part.start * block,
    )


def _line_laws(settings: Settings, times: tuple[float, ...]) -> tuple[list[LineLaw], tuple[float, float]]:
    """The limit at each time, and (W1, W2) at the last between it and the same on half the cells: its error bar."""
    solution, coarser = limit_of(settings, times), limit_of(settings, times, cells=128)
    return [line_law(solution, k) for k in range(len(times))], apart(line_law(solution), line_law(coarser))


@lru_cache(maxsize=4)
def _plane_laws(
    where: tuple[str, float, float, float, tuple[float, ...]], directions: int
) -> tuple[dict[float, LineLaw], float, float]:
    """Projections of the plane's limit, their mean W1 to the same on half the cells, and E |theta|^2."""
    solution, coarser = limit(*where, cells=96, p=2), limit(*where, cells=48, p=2)
    fine, rough = slices(solution, directions), slices(coarser, directions)
    bar = float(np.mean([apart(fine[angle], rough[angle])[0] for angle in fine]))
    measure = solution.measure(-1)
    return fine, bar, float(measure.integrate(lambda points: points.square().sum(-1)))


def _histograms(x: Array, count: int) -> Array:
    """The density of particles in _BINS bins of the box, one histogram a replicate: [count, bins]."""
    cells = np.clip(((x - BOX[0]) / (BOX[1] - BOX[0]) * _BINS).astype(np.intp), 0, _BINS - 1).reshape(count, -1)
    counts = np.stack([np.bincount(row, minlength=_BINS) for row in cells])
    return np.asarray(counts * (_BINS / (BOX[1] - BOX[0]) / cells.shape[1]), dtype=np.float64)
