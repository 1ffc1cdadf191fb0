"""The risk that family G trains on: one scalar attention layer with fixed teacher-student data."""

from __future__ import annotations

from collections.abc import Mapping
from functools import lru_cache
from typing import Any

import torch
from jaxtyping import Float
from torch import Tensor

from mfcheck.attention_risk import scalar_attention_layer, scalar_teacher
from mfcheck.dynamics.fokker_planck import Grid
from mfcheck.feature_risk import FeatureRisk
from mfcheck.measure import Measure
from mfcheck.operator import Sequences
from mfcheck.replicates import Replicates
from mfcheck.statistics.seeds import stream

#: Laws of heads lie in this box up to 1e-5 of their mass: five deviations of exp(-lambda |theta|^2 / 2 beta) at
#: beta = lambda. A box of +-3 biases second moments by 1.6 %.
BOX = (-5.0, 5.0)


@lru_cache(maxsize=16)
def data(
    count: int, tokens: int, token_scale: float, query_scale: float, teacher: float
) -> tuple[Sequences, Float[Tensor, " K"]]:
    """K sequences and targets, the same whatever the root seed: they are part of the claim, not of its noise."""
    source = stream(0, "attention layer", "data", count, tokens)
    return scalar_teacher(
        count, tokens, token_scale=token_scale, query_scale=query_scale, teacher=teacher, source=source
    )


def layer(settings: Mapping[str, Any]) -> FeatureRisk:
    """The risk that settings name: data K, tokens N, token_scale, query_scale, teacher, weight_decay."""
    return _layer(*(settings[name] for name in (*_DATA, "weight_decay")))


def layer_data(settings: Mapping[str, Any]) -> tuple[Sequences, Float[Tensor, " K"]]:
    """The sequences and targets of `layer`."""
    return data(*(settings[name] for name in _DATA))


_DATA = ("data", "tokens", "token_scale", "query_scale", "teacher")


@lru_cache(maxsize=16)
def _layer(
    count: int, tokens: int, token_scale: float, query_scale: float, teacher: float, weight_decay: float
) -> FeatureRisk:
    return scalar_attention_layer(*data(count, tokens, token_scale, query_scale, teacher), weight_decay=weight_decay)


def plane(cells: int, half_width: float = BOX[1]) -> Grid:
    """The grid for laws of theta = (a, v), cells an axis."""
    side = (-half_width, half_width)
    return Grid([side, side], [cells, cells])


def draws(
    law: Measure, grid: Grid, replicates: Replicates, name: str, shape: tuple[int, int]
) -> Float[Tensor, "systems M 2"]:
    """Independent draws of a law on a grid, uniform in the cells, for the systems of every replicate; float32.

    shape: (systems of a replicate, M). The stream of replicate r is named ("start", name, r).
    """
    width = torch.tensor(grid.spacing, dtype=torch.float64)
    systems, particles = shape
    parts = []
    for replicate in replicates:
        generator = replicates.stream.child("start", name, replicate).torch()
        chosen = torch.multinomial(law.weights, systems * particles, replacement=True, generator=generator)
        within = torch.rand(systems * particles, 2, generator=generator, dtype=torch.float64) - 0.5
        parts.append((law.points[chosen] + width * within).reshape(systems, particles, 2))
    return torch.cat(parts).float().to(replicates.device)
