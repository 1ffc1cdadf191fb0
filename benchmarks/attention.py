"""ParticleAttention against nn.MultiheadAttention and a loop over heads, and Langevin's noise against bare numbers.

    python benchmarks/attention.py --rounds 20

Forward and backward of self-attention on one thread; all sides take turns, round after round, and each keeps its best
round in CPU time of this process. Outputs and gradients of the sides are compared first. What counts are the ratios.
"""

from __future__ import annotations

import math
import os
import sys
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Annotated

os.environ["OMP_NUM_THREADS"] = os.environ["MKL_NUM_THREADS"] = "1"
sys.path.insert(0, str(Path(__file__).parents[1]))

import torch
import torch.nn.functional as F
import typer
from rich.console import Console
from rich.progress import track
from rich.table import Table
from torch import Tensor, nn

from mfcheck.attention import attend
from mfcheck.attention.noise import add_noise
from mfcheck.attention.optim import Langevin
from mfcheck.attention.particles import ParticleAttention

#: batch, tokens, width, heads, head width, and the ratio to nn.MultiheadAttention to reach (nan: none is set)
SHAPES = (
    (16, 128, 256, 8, 32, 1.0),
    (16, 128, 256, 16, 16, 1.0),
    (16, 128, 256, 32, 8, 0.7),
    (64, 12, 16, 8, 4, math.nan),
    (64, 32, 64, 4, 16, math.nan),
)
#: Numbers in the parameters of the noise test: a layer of width 256, and one of width 1024.
SIZES = (2**18, 2**22)
Side = Callable[[], object]


class Loop(nn.Module):
    """The heads one after another, as the formula reads."""

    def __init__(self, layer: ParticleAttention) -> None:
        super().__init__()
        self.layer = layer

    def forward(self, x: Tensor) -> Tensor:
        layer, total = self.layer, torch.zeros_like(x)
        assert layer.qkv_weight is not None and layer.qkv_bias is not None
        for weight, bias, out in zip(layer.qkv_weight, layer.qkv_bias, layer.out_weight, strict=True):
            q, k, v = (F.linear(x, w, b) for w, b in zip(weight, bias, strict=True))
            total = total + ((q @ k.mT) / layer.head_dim**0.5).softmax(-1) @ v @ out
        return total / layer.num_heads + layer.out_bias


def sides_of(batch: int, tokens: int, width: int, heads: int) -> dict[str, Side]:
    """Forward and backward of each side on the same numbers; raises SystemExit where they do not agree."""
    theirs = nn.MultiheadAttention(width, heads, batch_first=True)
    ours = ParticleAttention.from_multihead(theirs)
    loop = Loop(ParticleAttention.from_multihead(theirs))
    x = torch.randn(batch, tokens, width, requires_grad=True)
    gradient = torch.randn(batch, tokens, width)
    forward: dict[str, Callable[[], Tensor]] = {
        "nn.MultiheadAttention": lambda: theirs(x, x, x, need_weights=False)[0],
        "ParticleAttention": lambda: ours(x, x, x, need_weights=False)[0],
        "a loop over heads": lambda: loop(x),
    }
    seen = []
    for side in forward.values():
        x.grad = None
        output = side()
        output.backward(gradient)
        assert x.grad is not None
        seen.append((output.detach(), x.grad))
    for name, (output, slope) in zip(forward, seen, strict=True):
        # a few hundred float32 roundings of numbers of order the output's
        if not (torch.allclose(output, seen[0][0], atol=1e-4) and torch.allclose(slope, seen[0][1], atol=1e-4)):
            raise SystemExit(f"{name} does not compute what nn.MultiheadAttention does")

    def once(side: Callable[[], Tensor]) -> Side:
        return lambda: side().backward(gradient)

    return {name: once(side) for name, side in forward.items()}


def kernels(batch: int, tokens: int, heads: int, width: int) -> dict[str, Side]:
    """The attention alone, written out and fused, forward and backward: which one `attend` should take."""
    q, k, v = (torch.randn(batch, heads, tokens, width, requires_grad=True) for _ in range(3))
    gradient = torch.randn(batch, heads, tokens, width)

    def written() -> None:
        attend.attend(q, k, v, need_weights=True)[0].backward(gradient)

    def fused() -> None:
        F.scaled_dot_product_attention(q, k, v).backward(gradient)

    return {"fused": fused, "written out": written}


def noises(size: int) -> dict[str, Side]:
    """A bare normal_ of as many numbers; the noise as Langevin adds it; whole steps of SGD and Adam."""
    generator, scratch = torch.Generator().manual_seed(0), {}
    numbers, held = torch.empty(size), [torch.zeros(size)]

    def gradient() -> nn.Parameter:
        parameter = nn.Parameter(torch.zeros(size))
        parameter.grad = torch.zeros(size)
        return parameter

    def step(make: Callable[..., torch.optim.Optimizer], record_every: int | None) -> Side:
        theta = gradient()
        base = make([theta], lr=0.01)
        return (base if record_every is None else Langevin(base, theta, 0.1, record_every=record_every)).step

    return {
        "bare normal_": lambda: numbers.normal_(generator=generator),
        "Langevin's noise": lambda: add_noise(held, 0.002, generator, scratch=scratch, measure=False),
        "Langevin's noise, its size on record": lambda: add_noise(held, 0.002, generator, scratch=scratch),
        "normal_, then add": lambda: held[0].add_(torch.empty(size).normal_(generator=generator), alpha=0.04),
        "step of SGD": step(torch.optim.SGD, None),
        "Langevin step of SGD": step(torch.optim.SGD, 1),
        "step of Adam": step(torch.optim.Adam, None),
        "Langevin step of Adam, no record": step(torch.optim.Adam, 0),
        "Langevin step of Adam, every effective step": step(torch.optim.Adam, 1),
    }


def best(sides: dict[str, Side], rounds: int, repeats: int) -> dict[str, float]:
    """CPU seconds of one call, the best of rounds x repeats calls; the first of each round, which warms up, is untimed.

    Parameters are then in cache, as they are for the noise after the base optimiser's step.
    """
    seconds = dict.fromkeys(sides, math.inf)
    for _ in range(rounds):
        for name, side in sides.items():
            side()
            for _ in range(repeats):
                start = time.process_time()
                side()
                seconds[name] = min(seconds[name], time.process_time() - start)
    return seconds


def told(value: float, reach: float) -> Sequence[str]:
    return (f"{value:.2f}", "-" if math.isnan(reach) else f"<= {reach:g} {'reached' if value <= reach else 'missed'}")


def main(rounds: Annotated[int, typer.Option(min=1)] = 20) -> None:
    """Runs all sides and prints times and ratios."""
    torch.set_num_threads(1)
    torch.manual_seed(0)
    console = Console(width=120)
    table = Table("B, N, d, heads", "MultiheadAttention ms", "ParticleAttention ms", "ratio", "to reach", "loop / ours")
    for batch, tokens, width, heads, head, reach in track(SHAPES, "attention", console=console, transient=True):
        seconds = best(sides_of(batch, tokens, width, heads), rounds, 1 if width > 64 else 20)
        theirs, ours, loop = seconds.values()
        shape = f"{batch}, {tokens}, {width}, {heads} x {head}"
        table.add_row(
            shape, f"{theirs * 1e3:.2f}", f"{ours * 1e3:.2f}", *told(ours / theirs, reach), f"{loop / ours:.2f}"
        )
    console.print(table)
    table = Table("softmax of N tokens, head width", "written out / fused", "attend takes")
    for tokens, head in ((12, 4), (16, 16), (32, 4), (32, 16), (64, 8), (64, 16), (32, 32)):
        seconds = best(kernels(64, tokens, 8, head), rounds, 5)
        small = tokens <= attend.SMALL_TOKENS and head <= attend.SMALL_HEAD
        ratio = seconds["written out"] / seconds["fused"]
        table.add_row(f"{tokens}, {head}", f"{ratio:.2f}", "written out" if small else "fused")
    console.print(table)
    table = Table("noise", "numbers", "ns a number", "over a bare normal_", "to reach")
    for size in track(SIZES, "noise", console=console, transient=True):
        seconds = best(noises(size), rounds, 10)
        for name, each in seconds.items():
            # at the larger size parameters come from main memory, which no order of drawing helps
            reach = 1.05 if name == "Langevin's noise" and size == SIZES[0] else math.nan
            table.add_row(name, f"{size:,}", f"{each / size * 1e9:.2f}", *told(each / seconds["bare normal_"], reach))
    console.print(table)


if __name__ == "__main__":
    typer.run(main)
