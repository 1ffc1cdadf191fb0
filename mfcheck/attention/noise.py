"""Gaussian noise added to parameters in place: one draw for many small ones, cache-sized draws for large ones."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import torch
from torch import Tensor

#: How many numbers are drawn at once, by kind of device. On the CPU noise and parameter then stay in the second-level
#: cache between drawing and adding, so that adding costs next to nothing beside the draw.
TILE = {"cpu": 2**16}
TILE_ELSEWHERE = 2**24


def add_noise(
    parameters: Sequence[Tensor], variance: float | Sequence[Tensor], generator: torch.Generator
) -> list[Tensor]:
    """Adds N(0, variance) to every coordinate, in place; returns sums of squares of what was added, 0-d, one a draw.

    parameters: of one device and dtype. variance: one number, or a tensor of each parameter's shape. Drawn in float32,
    in float64 for float64 parameters, whatever the parameters' own precision.
    """
    first = parameters[0]
    dtype = torch.float64 if first.dtype == torch.float64 else torch.float32
    tile = TILE.get(first.device.type, TILE_ELSEWHERE)
    isotropic = isinstance(variance, float)
    rows: list[tuple[Tensor, ...]]
    if isotropic:
        rows = [(piece,) for parameter in parameters for piece in _pieces(parameter, tile)]
    else:
        pairs = zip(parameters, variance, strict=True)  # type: ignore[arg-type]
        rows = [row for p, v in pairs for row in zip(_pieces(p, tile), _pieces(v, tile), strict=True)]
    amplitude = variance**0.5 if isinstance(variance, float) else 1.0
    buffer, squares = first.new_empty(0, dtype=dtype), []
    for batch in _packed(rows, tile):
        sizes = [row[0].numel() for row in batch]
        total = sum(sizes)
        if buffer.numel() < total:
            buffer = first.new_empty(total, dtype=dtype)
        drawn = buffer[:total].normal_(0.0, amplitude, generator=generator)
        noise = [part.view_as(row[0]) for part, row in zip(drawn.split(sizes), batch, strict=True)]
        if not isotropic:
            for part, row in zip(noise, batch, strict=True):
                part.mul_(row[1].sqrt())
        for part, row in zip(noise, batch, strict=True):
            row[0].add_(part)
        squares.append(torch.dot(drawn, drawn))
    return squares


def _pieces(tensor: Tensor, tile: int) -> tuple[Tensor, ...]:
    """The tensor in pieces of at most `tile` numbers; whole where it is small, or cannot be cut without a copy."""
    if tensor.numel() <= tile or not tensor.is_contiguous():
        return (tensor,)
    return tensor.view(-1).split(tile)


def _packed(rows: Sequence[tuple[Tensor, ...]], tile: int) -> Iterator[list[tuple[Tensor, ...]]]:
    """Neighbouring pieces together as long as they hold at most `tile` numbers."""
    batch: list[tuple[Tensor, ...]] = []
    held = 0
    for row in rows:
        if batch and held + row[0].numel() > tile:
            yield batch
            batch, held = [], 0
        batch.append(row)
        held += row[0].numel()
    yield batch
