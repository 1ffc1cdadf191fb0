"""Family D, the noise: how much of it the update injects, under every schedule, and of what law it is (D1 to D3)."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
import torch
from torch import Tensor

from mfcheck.dynamics import schedules
from mfcheck.dynamics.brownian import BrownianPath
from mfcheck.dynamics.langevin import simulate
from mfcheck.dynamics.schedules import Schedule
from mfcheck.experiments.batches import in_batches
from mfcheck.replicates import Measurements, Replicates
from mfcheck.risks import quadratic
from mfcheck.statistics.seeds import Stream

#: What multiplies a standard normal in one step, by the name it is written with. The first is the claim's.
AMPLITUDES: dict[str, Callable[[float, float], float]] = {
    "sqrt(2 beta eta)": lambda beta, step: math.sqrt(2 * beta * step),
    "sqrt(beta eta)": lambda beta, step: math.sqrt(beta * step),
    "sqrt(2 beta) eta": lambda beta, step: math.sqrt(2 * beta) * step,
}

#: A quadratic without curvature: the gradient is off, and only the noise moves a particle.
NO_DRIFT = quadratic(0.0)


def beta_for(amplitude: str, beta: float, step: float) -> float:
    """The beta at which a simulator that adds sqrt(2 beta eta) xi adds the named amplitude times xi instead."""
    return AMPLITUDES[amplitude](beta, step) ** 2 / (2 * step)


@in_batches(100)
def injected_variance(settings: Mapping[str, Any], replicates: Replicates) -> Measurements:
    """D1: sums of squares of theta_T - theta_0 with the gradient off, over the predicted variance 2 beta eta T.

    settings: particles, steps T, beta, step eta, amplitude (a key of AMPLITUDES).
    Returns sum_of_squares [n] and degrees [n], how many independent coordinates each sum holds.
    """
    beta, step, steps = settings["beta"], settings["step"], settings["steps"]
    applied = beta_for(settings["amplitude"], beta, step)
    squares = _squared_displacement(settings, replicates, schedules.constant(applied), replicates.stream)
    return {
        "sum_of_squares": squares / (2 * beta * step * steps),
        "degrees": np.full(len(replicates), settings["particles"]),
    }


@in_batches(100)
def annealed_variance(settings: Mapping[str, Any], replicates: Replicates) -> Measurements:
    """D2: the same under each schedule, over sum_k 2 beta_k eta with the sum in closed form (`total_beta`).

    settings: as D1's, and schedules (names), start and end of beta, offset of the logarithmic one, and fault: "none",
    "final beta throughout" (beta_{T-1}), or "shifted by one step" (beta_{k+1} at step k).
    Returns sum_of_squares [n, schedules] and degrees [n].
    """
    step, steps = settings["step"], settings["steps"]
    columns = []
    for name in settings["schedules"]:
        schedule = _faulty(_schedule(name, settings), settings["fault"], steps)
        betas = [beta_for(settings["amplitude"], beta, step) for beta in schedule.betas(steps)]
        applied = Schedule(name, betas.__getitem__)
        squares = _squared_displacement(settings, replicates, applied, replicates.stream.child(name))
        columns.append(squares / (2 * step * total_beta(name, settings)))
    return {
        "sum_of_squares": np.stack(columns, -1),
        "degrees": np.full(len(replicates), settings["particles"]),
    }


def total_beta(name: str, settings: Mapping[str, Any]) -> float:
    """sum_{k < T} beta_k of a schedule from `start` to `end`, by formulas that do not run the schedule itself.

    linear: start T + (end - start)(T - 1)/2; cosine: sum_{k < T} cos(pi k / T) = 1, all but k = 0 cancel in pairs;
    exponential: a geometric sum; logarithmic: start log(offset) sum 1/log(offset + k).
    """
    start, end, steps, offset = settings["start"], settings["end"], settings["steps"], settings["offset"]
    if name == "constant":
        return start * steps
    if name == "linear":
        return start * steps + (end - start) * (steps - 1) / 2
    if name == "cosine":
        return end * steps + (start - end) * (steps + 1) / 2
    if name == "exponential":
        return start * (1 - end / start) / (1 - (end / start) ** (1 / steps))
    return float(start * np.log(offset) * (1 / np.log(offset + np.arange(steps))).sum())


@in_batches(32)
def increments(settings: Mapping[str, Any], replicates: Replicates) -> Measurements:
    """D3: second moments and samples of single-step increments xi_k = (theta_{k+1} - theta_k) / sqrt(2 beta eta).

    A replicate is a block of `systems` systems of `particles` in R^`dimension`, over `steps` steps; the q = M p numbers
    of a system's increment are looked at together. settings: also beta, step, noise: "independent" (the claim),
    "shared" (one noise for all particles), "uniform" (of the same variance) or "averaged" (with the next step's).
    Returns, a replicate: covariance and lag_one, the averages [q, q] of xi_k xi_k' and xi_k xi_{k+1}'; *_squares, those
    of the products' squares (for standard errors); *_count; last_step [systems q], the last step's increments.
    """
    n, systems, steps = len(replicates), settings["systems"], settings["steps"]
    shape = (settings["particles"], settings["dimension"])
    path = BrownianPath(
        replicates.stream,
        settings["step"],
        shape,
        shared=settings["noise"] == "shared",
        law="uniform" if settings["noise"] == "uniform" else "gaussian",
    )
    states = simulate(
        NO_DRIFT,
        torch.zeros(n * systems, *shape, device=replicates.device),
        beta=settings["beta"],
        step=settings["step"],
        steps=steps,
        # that scheme's noise (xi_k + xi_{k+1}) / 2 is correlated in time
        scheme="leimkuhler_matthews" if settings["noise"] == "averaged" else "euler_maruyama",
        noise=path,
        first_replicate=replicates.start * systems,
        observables={"theta": lambda theta: theta.double()},
        record=range(steps + 1),
    ).observables["theta"]
    xi = states.diff(dim=0) / math.sqrt(2 * settings["beta"] * settings["step"])
    xi = xi.reshape(steps, n, systems, -1)
    return (
        _second_moments("covariance", xi, xi)
        | _second_moments("lag_one", xi[:-1], xi[1:])
        | {"last_step": xi[-1].flatten(1).float().cpu().numpy()}
    )


def _second_moments(name: str, left: Tensor, right: Tensor) -> dict[str, np.ndarray]:
    """Averages over steps and systems of left right' and of its entries' squares, [n, q, q] each."""
    steps, n, systems, _ = left.shape
    count = steps * systems
    products = torch.einsum("tnsi,tnsj->nij", left, right) / count
    squares = torch.einsum("tnsi,tnsj->nij", left.square(), right.square()) / count
    return {
        name: products.cpu().numpy(),
        f"{name}_squares": squares.cpu().numpy(),
        f"{name}_count": np.full(n, count),
    }


def _squared_displacement(
    settings: Mapping[str, Any], replicates: Replicates, schedule: Schedule, seed: Stream
) -> np.ndarray:
    """sum over particles of (theta_T - theta_0)^2 with the gradient off, [n]."""
    final = simulate(
        NO_DRIFT,
        torch.zeros(len(replicates), settings["particles"], 1, device=replicates.device),
        beta=schedule,
        step=settings["step"],
        steps=settings["steps"],
        seed=seed,
        first_replicate=replicates.start,
    ).final
    squares: np.ndarray = final.double().square().sum((1, 2)).cpu().numpy()
    return squares


def _schedule(name: str, settings: Mapping[str, Any]) -> Schedule:
    start, end, steps = settings["start"], settings["end"], settings["steps"]
    made: dict[str, Callable[[], Schedule]] = {
        "constant": lambda: schedules.constant(start),
        "linear": lambda: schedules.linear(start, end, steps),
        "cosine": lambda: schedules.cosine(start, end, steps),
        "exponential": lambda: schedules.exponential(start, end, steps),
        "logarithmic": lambda: schedules.logarithmic(start, settings["offset"]),
    }
    return made[name]()


def _faulty(schedule: Schedule, fault: str, steps: int) -> Schedule:
    if fault == "final beta throughout":
        return schedules.constant(schedule(steps - 1))
    if fault == "shifted by one step":
        return Schedule(schedule.name, lambda k: schedule(k + 1))
    return schedule
