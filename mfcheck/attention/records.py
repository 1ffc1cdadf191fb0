"""What a Langevin step leaves on record: the effective step over coordinates, and the noise that was added."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
import torch
from torch import Tensor

#: The quantiles of the effective step over coordinates that a record holds.
QUANTILES = (0.05, 0.25, 0.5, 0.75, 0.95)


@dataclass(frozen=True)
class StepRecord:
    """What one step did to the particles of one parameter group.

    step: k, from 0; group: its index in param_groups; beta, eta: as applied; coordinates: how many were moved.
    effective_mean, effective_quantiles: of the effective step over these coordinates (nan where the base optimiser's is
    not known), at QUANTILES. noise_mean_square: of the noise actually added, a coordinate; noise_variance: the
    variance it was drawn with, 2 beta eta, or 2 beta times the mean effective step with preconditioned noise.
    """

    step: int
    group: int
    beta: float
    eta: float
    coordinates: int
    effective_mean: float
    effective_quantiles: tuple[float, ...]
    noise_mean_square: float
    noise_variance: float


class Made(NamedTuple):
    """What is known of a step without asking the device: the first five fields of StepRecord."""

    step: int
    group: int
    beta: float
    eta: float
    coordinates: int


def numbers(
    made: Made,
    steps: Sequence[Tensor | float],
    parameters: Sequence[Tensor],
    squares: Sequence[Tensor],
    preconditioned: bool,
) -> Tensor:
    """The other fields of a StepRecord, in order, as one float64 tensor on the particles' device: nothing waits for it.

    steps: the effective step of each parameter, none where it is not known; squares: sums of squares of the noise.
    """
    mean, quantiles = _summary(steps, parameters)
    added = sum((square.to(mean) for square in squares), torch.zeros_like(mean)) / made.coordinates
    size = mean if preconditioned else torch.full_like(mean, made.eta)
    return torch.cat([mean[None], quantiles, added[None], 2 * made.beta * size[None]])


def written(made: Made, others: Tensor) -> StepRecord:
    """The record of `made` and `numbers`."""
    mean, *quantiles, squares, variance = others.tolist()
    return StepRecord(
        *made,
        effective_mean=mean,
        effective_quantiles=tuple(quantiles),
        noise_mean_square=squares,
        noise_variance=variance,
    )


def full(step: Tensor | float, parameter: Tensor) -> Tensor:
    """An effective step as a tensor of the parameter's shape."""
    return step if isinstance(step, Tensor) else torch.full_like(parameter, step)


def _summary(steps: Sequence[Tensor | float], parameters: Sequence[Tensor]) -> tuple[Tensor, Tensor]:
    """Mean and QUANTILES of the effective step over all coordinates."""
    device = parameters[0].device
    if not any(isinstance(step, Tensor) for step in steps):
        # one group has one eta, and a step that is a number is the same for all its coordinates
        one = torch.tensor(steps[0] if steps else math.nan, dtype=torch.float64, device=device)
        return one, one.expand(len(QUANTILES))
    flat = (full(step, parameter).reshape(-1) for step, parameter in zip(steps, parameters, strict=True))
    every = torch.cat([part.to(device, torch.promote_types(part.dtype, torch.float32)) for part in flat])
    mean = every.mean(dtype=torch.float64)
    # NumPy sorts ten times faster than torch where it can
    ordered = torch.from_numpy(np.sort(every.numpy())) if device.type == "cpu" else every.sort().values
    # between order statistics as torch.quantile, which takes no more than 16 million numbers
    places = torch.tensor(QUANTILES, dtype=torch.float64, device=device) * (every.numel() - 1)
    low = places.floor().long()
    high = (low + 1).clamp(max=every.numel() - 1)
    return mean, torch.lerp(ordered[low].double(), ordered[high].double(), places - low)
