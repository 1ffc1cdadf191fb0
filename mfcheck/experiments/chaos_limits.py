"""What family C compares particles with: its models, their mean-field limits on the grid, and the start of both."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

import numpy as np
import torch
from jaxtyping import Float
from numpy.typing import NDArray
from scipy.interpolate import RectBivariateSpline
from torch import Tensor

from mfcheck.dynamics.fokker_planck import Grid, Solution, solve_fokker_planck
from mfcheck.dynamics.gaussian import Gaussian, gaussian
from mfcheck.dynamics.langevin import Drift
from mfcheck.feature_risk import FeatureRisk, Pullback
from mfcheck.replicates import Replicates
from mfcheck.risks import attraction, desai_zwanzig, double_well
from mfcheck.statistics.wasserstein import LineLaw, projected

Array = NDArray[np.float64]

#: The box of every grid on the line, and of those in the plane: less than 1e-9 of a law's mass lies beyond it.
BOX, PLANE_BOX = (-4.0, 4.0), (-3.0, 3.0)
#: Replicates that are simulated together, so that a run of many looks needs no more memory than one of few.
TOGETHER = 32


def model(name: str) -> FeatureRisk:
    """The risks that family C runs on, by the name that settings give."""
    return _MODELS[name]()


def quartic() -> FeatureRisk:
    """U = theta^4/4 + theta^2/2 (strictly convex, tails lighter than Gaussian) with attraction 1 to the mean."""
    return attraction(double_well(1.0, 1.0), 1.0, name="quartic")


def coupled_quartic() -> FeatureRisk:
    """The quartic in the plane with a cross term x y / 2, so that it is no product, and attraction 1 to the mean."""
    line = double_well(1.0, 1.0)
    assert line.potential is not None and line.potential_gradient is not None
    potential, gradient = line.potential, line.potential_gradient
    confinement = FeatureRisk(
        "coupled quartic",
        potential=lambda points: potential(points) + 0.5 * points[..., 0] * points[..., 1],
        potential_gradient=lambda points: gradient(points) + 0.5 * points.flip(-1),
    )
    return attraction(confinement, 1.0, name="coupled quartic")


def convex_along_mixtures() -> FeatureRisk:
    """2 (E tanh 2 theta - 0.8)^2 + E theta^2 / 2: a convex loss of one feature and weight decay."""

    def with_pullback(points: Tensor) -> tuple[Tensor, Pullback]:
        value = torch.tanh(2.0 * points)
        return value, lambda field: value.square().neg_().add_(1.0).mul_(2.0 * field[..., None, :])

    return FeatureRisk(
        "convex along mixtures",
        potential=lambda points: 0.5 * points.square().sum(-1),
        potential_gradient=lambda points: points.clone(),
        features=lambda points: torch.tanh(2.0 * points),
        features_with_pullback=with_pullback,
        loss=lambda moments: 2.0 * (moments - 0.8).square().sum(-1),
        loss_gradient=lambda moments: 4.0 * (moments - 0.8),
    )


_MODELS: Mapping[str, Callable[[], FeatureRisk]] = {
    "quartic": quartic,
    "coupled quartic": coupled_quartic,
    "convex along mixtures": convex_along_mixtures,
    "Desai-Zwanzig": desai_zwanzig,
}


def start_law(settings: Mapping[str, Any], p: int = 1) -> Gaussian:
    """N(start_mean, start_variance I), the law of each particle at time 0 and of the grid's start."""
    return gaussian([settings["start_mean"]] * p, settings["start_variance"])


def start(law: Gaussian, replicates: Replicates, name: str, block: int, particles: int) -> Float[Tensor, "systems M p"]:
    """Independent draws of M particles for `block` systems a replicate, from streams of the replicates' own."""
    variance = law.covariance.diagonal()
    draws = [
        torch.randn(
            (block, particles, law.dimension), generator=_generator(replicates, name, particles, r), dtype=torch.float64
        )
        for r in replicates
    ]
    return (law.mean + torch.cat(draws) * variance.sqrt()).to(replicates.device)


def _generator(replicates: Replicates, name: str, particles: int, replicate: int) -> torch.Generator:
    return replicates.stream.child(name, "start", particles, replicate).torch()


def by_replicate(values: Tensor | Array, replicates: Replicates) -> Array:
    """Averages over the block of systems that makes a replicate: [n * block, ...] -> [n, ...]."""
    array = np.asarray(values.detach().cpu() if isinstance(values, Tensor) else values, dtype=np.float64)
    return array.reshape(len(replicates), -1, *array.shape[1:]).mean(1)


@lru_cache(maxsize=32)
def limit(
    name: str, beta: float, mean: float, variance: float, times: tuple[float, ...], cells: int = 256, p: int = 1
) -> Solution:
    """The solution of the mean-field equation from N(mean, variance I), kept between looks and controls."""
    law = gaussian([mean] * p, variance)
    return solve_fokker_planck(
        model(name),
        law.density,
        Grid([BOX] * p, [cells] * p),
        beta=beta,
        times=times,
        tolerance=1e-6 if p == 1 else 1e-5,
    )


def limit_of(settings: Mapping[str, Any], times: Sequence[float], cells: int = 256) -> Solution:
    """`limit` for an experiment's settings: model, beta, start_mean, start_variance."""
    return limit(
        settings["model"],
        settings["beta"],
        settings["start_mean"],
        settings["start_variance"],
        tuple(float(time) for time in times),
        cells,
    )


def line_law(solution: Solution, k: int = -1, pieces: int = 4) -> LineLaw:
    """The limit's law on the line, uniform on a quarter of each cell: finer than what the solution's own error is."""
    ((lo, hi),) = solution.grid.bounds
    heights = solution.cdf(np.linspace(lo, hi, pieces * solution.grid.size + 1), k).numpy()
    return LineLaw(lo, hi, np.maximum(np.diff(heights), 0.0) / (heights[-1] - heights[0]))


def slices(solution: Solution, directions: int, k: int = -1, pieces: int = 4) -> dict[float, LineLaw]:
    """The limit's law in the plane projected on equally spread directions of the half circle.

    Cells are cut in 4 x 4 by a cubic spline through the logarithm of the density, so that a law uniform in each piece
    is nearer to the limit than the limit's own error.
    """
    (first, second), grid = solution.grid.bounds, solution.grid
    logs = np.log(np.maximum(solution.masses[k].cpu().numpy(), 1e-300)).reshape(grid.shape)
    spline = RectBivariateSpline(*grid.axes, np.maximum(logs, logs.max() - 100.0))
    finer = Grid(grid.bounds, [pieces * n for n in grid.shape])
    masses = np.exp(spline(*finer.axes) - logs.max())
    angles = (np.arange(directions) + 0.5) * np.pi / directions
    return {float(angle): projected(masses / masses.sum(), (first, second), float(angle)) for angle in angles}


def apart(law: LineLaw, other: LineLaw, levels: int = 20_000) -> tuple[float, float]:
    """(W1, W2) between two laws on the line, from their quantiles at the middles of `levels` cells."""
    u = (np.arange(levels) + 0.5) / levels
    gap = law.quantile(u) - other.quantile(u)
    return float(np.abs(gap).mean()), float(np.sqrt(np.square(gap).mean()))


@dataclass(frozen=True)
class LimitDrift:
    """The drift in the limit's field, for the PDE-driven process: fields [T, K], one at every time k * step."""

    risk: FeatureRisk
    fields: Float[Tensor, "T K"]
    step: float

    @classmethod
    def of(cls, settings: Mapping[str, Any], steps: int, device: str) -> LimitDrift:
        """From the grid's solution at 0, step, ..., steps * step."""
        solution = limit_of(settings, [k * settings["step"] for k in range(steps + 1)])
        risk = model(settings["model"])
        fields = [risk.field(solution.measure(k)) for k in range(steps + 1)]
        return cls(risk, torch.stack(fields).to(device), settings["step"])

    def __call__(self, theta: Float[Tensor, "R M p"], s: float) -> Float[Tensor, "R M p"]:
        field = self.fields[round(s / self.step)]
        return self.risk.gradient(theta, field.expand(theta.shape[0], -1)).neg_()

    def drift(self) -> Drift:
        """As `simulate` takes it."""
        return Drift(self)
