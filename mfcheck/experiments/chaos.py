"""Family C, synchronous coupling: M particles beside as many copies of the PDE-driven process on the same noise."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray
from torch import Tensor

from mfcheck.dynamics.langevin import BrownianPath, Drift, simulate
from mfcheck.experiments.batches import in_batches
from mfcheck.experiments.chaos_limits import TOGETHER, LimitDrift, by_replicate, model, start, start_law
from mfcheck.feature_risk import FeatureRisk
from mfcheck.replicates import Measurements, Replicates
from mfcheck.risks import linear_attraction, quadratic

Settings = Mapping[str, Any]
Array = NDArray[np.float64]


@in_batches(TOGETHER)
def coupling(settings: Settings, replicates: Replicates) -> Measurements:
    """C2: E|theta_i - theta_bar_i|^2 between particles and PDE-driven copies with the same start and noise.

    settings: model, beta, start_mean, start_variance, step, time, particles, particles_each, same_noise (True as
    claimed), and the linear model's linear_a, linear_kappa, linear_step, linear_particles, linear_systems, whose
    constant is known. Measures squared_distance [n, ladder] and linear_constant [n], M times the distance in the
    linear model over its exact value.
    """
    risk = model(settings["model"])
    step, each = settings["step"], settings["particles_each"]
    limit_drift = LimitDrift.of(settings, round(settings["time"] / step), replicates.device).drift()
    ladder = [
        _distance(settings, replicates, risk, limit_drift, step, particles, each // particles)
        for particles in settings["particles"]
    ]
    return {"squared_distance": np.stack(ladder, 1), "linear_constant": _linear_constant(settings, replicates)}


def linear_coupling_constant(a: float, kappa: float, *, beta: float, variance: float, time: float) -> float:
    """M E|theta_i - theta_bar_i|^2 in the linear mean-field model under synchronous coupling, exact for every M.

    All particles have one distance, that of the means, which are Ornstein-Uhlenbeck at rates a and b = a + kappa on
    one noise: v (e^{-as} - e^{-bs})^2 + 2 beta int_0^s (e^{-au} - e^{-bu})^2 du.
    """
    b = a + kappa

    def integral(rate: float) -> float:
        return -math.expm1(-rate * time) / rate

    gap = math.exp(-a * time) - math.exp(-b * time)
    return variance * gap**2 + 2 * beta * (integral(2 * a) - 2 * integral(a + b) + integral(2 * b))


def _linear_constant(settings: Settings, part: Replicates) -> Array:
    a, kappa, particles = settings["linear_a"], settings["linear_kappa"], settings["linear_particles"]
    mean = settings["start_mean"]
    pull = quadratic(a + kappa)

    def limit_drift(theta: Tensor, s: float) -> Tensor:
        return pull.gradient(theta, None).neg_().add_(kappa * mean * math.exp(-a * s))

    expected = linear_coupling_constant(
        a, kappa, beta=settings["beta"], variance=settings["start_variance"], time=settings["time"]
    )
    distance = _distance(
        settings,
        part,
        linear_attraction(a, kappa),
        Drift(limit_drift),
        settings["linear_step"],
        particles,
        settings["linear_systems"],
    )
    return particles * distance / expected


def _distance(
    settings: Settings, part: Replicates, risk: FeatureRisk, limit_drift: Drift, step: float, particles: int, block: int
) -> Array:
    """Mean squared distance at the end, one a replicate [n]: Heun's scheme on both sides."""
    noises = part.stream.child(risk.name, particles)
    initial = start(start_law(settings), part, risk.name, block, particles)
    ends = []
    for drift, name in ((risk, "particles"), (limit_drift, "particles" if settings["same_noise"] else "copies")):
        ends.append(
            simulate(
                drift,
                initial,
                beta=settings["beta"],
                step=step,
                steps=round(settings["time"] / step),
                scheme="heun",
                noise=BrownianPath(noises.child(name), step, (particles, 1)),
                first_replicate=part.start * block,
            ).final
        )
    return by_replicate((ends[0] - ends[1]).square().mean((-2, -1)), part)
