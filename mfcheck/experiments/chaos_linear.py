"""Family C in the linear mean-field model, drift -a theta - kappa (theta - mean): constants that are known exactly.

Particles run beside copies of the limit process on the same noise and from the same start; the copies' law is known,
so that what they share with the particles cancels from every bias.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from mfcheck.dynamics.gaussian import gaussian
from mfcheck.dynamics.langevin import BrownianPath, simulate
from mfcheck.experiments.batches import in_batches
from mfcheck.experiments.chaos_limits import TOGETHER, by_replicate, start
from mfcheck.feature_risk import FeatureRisk
from mfcheck.replicates import Measurements, Replicates
from mfcheck.risks import linear_attraction, quadratic
from mfcheck.statistics.seeds import Stream

Settings = Mapping[str, Any]
Array = NDArray[np.float64]


@in_batches(TOGETHER)
def stationary_moments(settings: Settings, replicates: Replicates) -> Measurements:
    """C3, C4: variance of the mean, bias of E theta^2 and covariance of two particles in stationarity, for each M.

    Leimkuhler-Matthews, whose stationary law on a quadratic has no bias at any step. settings: a, kappa, beta, step,
    time, particles, particles_each, interaction (True as claimed), shared_noise (False as claimed).
    Measures mean_variance, second_moment_bias, covariance, each [n, ladder].
    """
    rungs = [_moments(settings, replicates, particles) for particles in settings["particles"]]
    return {name: np.stack([rung[name] for rung in rungs], 1) for name in rungs[0]}


def _moments(settings: Settings, part: Replicates, particles: int) -> dict[str, Array]:
    a, kappa, beta = settings["a"], settings["kappa"], settings["beta"]
    interacting, limit = linear_attraction(a, kappa), quadratic(a + kappa)
    initial = start(
        gaussian(0.0, beta / (a + kappa)), part, "linear", settings["particles_each"] // particles, particles
    )
    path = BrownianPath(part.stream.child(particles), settings["step"], (particles, 1), shared=settings["shared_noise"])
    steps = round(settings["time"] / settings["step"])
    scheme = "leimkuhler_matthews"
    theta = _run(interacting if settings["interaction"] else limit, initial, part, path, beta, steps, scheme)
    copy = _run(limit, initial, part, path, beta, steps, scheme)
    second, average = theta.square().mean(-1), theta.mean(-1)
    # E copy^2 is beta / b exactly, so that the bias is what is left of the difference
    bias = second - copy.square().mean(-1)
    # the average of theta_i theta_j over pairs; means are 0
    covariance = (particles * average.square() - second) / (particles - 1)
    values = {"mean_variance": average.square(), "second_moment_bias": bias, "covariance": covariance}
    return {name: by_replicate(value, part) for name, value in values.items()}


@in_batches(TOGETHER)
def bias_expansion(settings: Settings, replicates: Replicates) -> Measurements:
    """C7: the bias of the mean of theta^2 is A eta + B / M (Euler-Maruyama, M particles).

    (i) step_difference [n, steps]: eta against eta / 2 on one path; (ii) particle_difference [n, ladder]: M particles
    against 2M on one path; (iii) the regression of the total bias, against copies of the limit process, on
    (1, eta, 1/M): intercept c0, step_slope A, particle_slope B [n], and the biases [n, cells] themselves.
    settings: a, kappa, beta, beta_factor (1 as claimed), shared_noise (False as claimed), steps_eta, eta_particles,
    eta_systems, eta_time, halving_step, halving_particles, halving_particles_each, halving_time, cells (pairs of eta
    and M), total_particles_each, total_time.
    """
    step = np.stack([_step_difference(settings, replicates, eta) for eta in settings["steps_eta"]], 1)
    halves = np.stack([_halving_difference(settings, replicates, m) for m in settings["halving_particles"]], 1)
    total = np.stack([_total_bias(settings, replicates, eta, m) for eta, m in settings["cells"]], 1)
    design = np.array([(1.0, eta, 1.0 / m) for eta, m in settings["cells"]])
    fitted = total @ np.linalg.pinv(design).T
    return {
        "step_difference": step,
        "particle_difference": halves,
        "total_bias": total,
        "c0": fitted[:, 0],
        "step_slope": fitted[:, 1],
        "particle_slope": fitted[:, 2],
    }


def _step_difference(settings: Settings, part: Replicates, eta: float) -> Array:
    """Mean of theta^2 under steps of eta minus that under eta / 2, on one path."""
    particles, beta = settings["eta_particles"], settings["beta"] * settings["beta_factor"]
    risk = linear_attraction(settings["a"], settings["kappa"])
    initial = _stationary_start(settings, part, "eta", settings["eta_systems"], particles)
    fine = _path(settings, part.stream.child("eta", eta), eta / 2, particles)
    steps = round(settings["eta_time"] / eta)
    coarse_end = _run(risk, initial, part, fine.coarsen(2), beta, steps)
    fine_end = _run(risk, initial, part, fine, beta, 2 * steps)
    return by_replicate((coarse_end.square() - fine_end.square()).mean(-1), part)


def _halving_difference(settings: Settings, part: Replicates, particles: int) -> Array:
    """Mean of theta^2 of the two halves, each a system of M, minus that of all 2M together, on one path."""
    beta, step = settings["beta"] * settings["beta_factor"], settings["halving_step"]
    risk = linear_attraction(settings["a"], settings["kappa"])
    block = settings["halving_particles_each"] // particles
    initial = _stationary_start(settings, part, "halving", block, 2 * particles)
    path = _path(settings, part.stream.child("halving", particles), step, 2 * particles)
    steps = round(settings["halving_time"] / step)
    whole = _run(risk, initial, part, path, beta, steps)
    halves = [
        _run(risk, initial[:, half], part, path.particles(half), beta, steps)
        for half in (slice(0, particles), slice(particles, 2 * particles))
    ]
    apart = torch.cat(halves, 1).square().mean(-1) - whole.square().mean(-1)
    return by_replicate(apart, part)


def _total_bias(settings: Settings, part: Replicates, eta: float, particles: int) -> Array:
    """Mean of theta^2 of the particles minus that of copies of the limit process at beta, on one path.

    The copies run by Leimkuhler-Matthews and start in stationarity, so that E copy^2 = beta / (a + kappa) exactly.
    """
    beta = settings["beta"]
    block = settings["total_particles_each"] // particles
    initial = _stationary_start(settings, part, "total", block, particles)
    noise = part.stream.child("total", eta, particles)
    steps = round(settings["total_time"] / eta)
    risk, limit = linear_attraction(settings["a"], settings["kappa"]), quadratic(settings["a"] + settings["kappa"])
    path = _path(settings, noise, eta, particles)
    theta = _run(risk, initial, part, path, beta * settings["beta_factor"], steps)
    own = BrownianPath(noise, eta, (particles, 1))
    copy = _run(limit, initial, part, own, beta, steps, "leimkuhler_matthews")
    return by_replicate((theta.square() - copy.square()).mean(-1), part)


def _stationary_start(settings: Settings, part: Replicates, name: str, block: int, particles: int) -> Tensor:
    """The limit's stationary law N(0, beta / (a + kappa)), for particles and copies alike."""
    law = gaussian(0.0, settings["beta"] / (settings["a"] + settings["kappa"]))
    return start(law, part, name, block, particles)


def _path(settings: Settings, seed: Stream, step: float, particles: int) -> BrownianPath:
    return BrownianPath(seed, step, (particles, 1), shared=settings["shared_noise"])


def _run(
    risk: FeatureRisk,
    initial: Tensor,
    part: Replicates,
    path: BrownianPath,
    beta: float,
    steps: int,
    scheme: str = "euler_maruyama",
) -> Tensor:
    """The final state [systems, M]."""
    return simulate(
        risk,
        initial,
        beta=beta,
        step=path.step,
        steps=steps,
        scheme=scheme,
        noise=path,
        first_replicate=part.start * (len(initial) // len(part)),
    ).final[..., 0]
