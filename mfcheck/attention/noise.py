"""Gaussian noise added to parameters in place: one draw for many small ones, cache-sized draws for large ones."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence

import torch
from torch import Tensor

#: How many numbers are drawn at once, by kind of device. On the CPU the noise then stays in the second-level cache
#: between drawing and adding; smaller draws pay for more calls (benchmarks/attention.py).
TILE = {"cpu": 2**16}
TILE_ELSEWHERE = 2**24


def add_noise(
    parameters: Sequence[Tensor],
    variance: float | Sequence[Tensor],
    generator: torch.Generator,
    *,
    scratch: dict[torch.dtype, Tensor] | None = None,
    measure: bool = True,
) -> list[Tensor]:
    """Adds N(0, variance) to every coordinate, in place; returns sums of squares of what was added, 0-d, one a draw.

    parameters: of one device and dtype. variance: one number, or a tensor of each parameter's shape. Drawn in float32,
    in float64 for float64 parameters, whatever the parameters' own precision. scratch: keeps the buffer on the CPU for
    the next call. measure: without it nothing is summed, which saves one pass, and the list is empty.
    """
    first = parameters[0]
    dtype = torch.float64 if first.dtype == torch.float64 else torch.float32
    on_cpu = first.device.type == "cpu"
    tile = TILE.get(first.device.type, TILE_ELSEWHERE)
    buffer = scratch.get(dtype) if on_cpu and scratch is not None else None
    if buffer is None:
        total = min(tile, sum(parameter.numel() for parameter in parameters))
        buffer = first.new_empty(tile if on_cpu and scratch is not None else total, dtype=dtype)
        if on_cpu and scratch is not None:
            scratch[dtype] = buffer
    squares = []
    amplitude = variance**0.5 if isinstance(variance, float) else 1.0
    for batch, count in _packed(_rows(parameters, variance, tile), tile):
        if count > len(buffer):
            # a parameter that cannot be cut
            buffer = first.new_empty(count, dtype=dtype)
        drawn = buffer if count == len(buffer) else buffer[:count]
        drawn.normal_(0.0, amplitude, generator=generator)
        start = 0
        for piece, *scale in batch:
            end = start + piece.numel()
            noise = drawn[start:end].view(piece.shape) if piece.shape != drawn.shape else drawn
            if scale:
                noise.mul_(scale[0].sqrt())
            piece.add_(noise)
            start = end
        if measure:
            squares.append(torch.dot(drawn, drawn))
    return squares


def _rows(parameters: Sequence[Tensor], variance: float | Sequence[Tensor], tile: int) -> list[tuple[Tensor, ...]]:
    """(piece of a parameter,), or with its variances (piece, piece of the variances)."""
    if isinstance(variance, float):
        return [(piece,) for parameter in parameters for piece in _pieces(parameter, tile)]
    rows: list[tuple[Tensor, ...]] = []
    for parameter, own in zip(parameters, variance, strict=True):
        cut = tile if parameter.is_contiguous() and own.is_contiguous() else parameter.numel()
        rows += zip(_pieces(parameter, cut), _pieces(own, cut), strict=True)
    return rows


def _pieces(tensor: Tensor, tile: int) -> tuple[Tensor, ...]:
    """The tensor in pieces of at most `tile` numbers; whole where it is small, or cannot be cut without a copy."""
    if tensor.numel() <= tile or not tensor.is_contiguous():
        return (tensor,)
    return tensor.view(-1).split(tile)


def _packed(rows: Iterable[tuple[Tensor, ...]], tile: int) -> Iterator[tuple[list[tuple[Tensor, ...]], int]]:
    """Neighbouring pieces together as long as they hold at most `tile` numbers, and how many they hold."""
    batch: list[tuple[Tensor, ...]] = []
    held = 0
    for row in rows:
        count = row[0].numel()
        if batch and held + count > tile:
            yield batch, held
            batch, held = [], 0
        batch.append(row)
        held += count
    if batch:
        yield batch, held
