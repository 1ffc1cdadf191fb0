"""The toy gate's training against the usual script: one model at a time, nn.MultiheadAttention, a DataLoader.

    python benchmarks/gate.py

The ratio is between ordinary heads on both sides, since those are what nn.MultiheadAttention has. One thread, CPU time
a model and step, the best of the rounds, in which the sides take turns.
"""

from __future__ import annotations

import math
import os
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Annotated

os.environ |= {"OMP_NUM_THREADS": "1", "MKL_NUM_THREADS": "1"}
sys.path.insert(0, str(Path(__file__).parents[1]))

import torch
import typer
from rich.console import Console
from rich.table import Table
from torch import Tensor, nn
from torch.utils.data import DataLoader, TensorDataset

from mfcheck.experiments.toy_gate.arms import RECIPE, Arm, Recipe
from mfcheck.experiments.toy_gate.seeds import AT_ONCE, TASK
from mfcheck.experiments.toy_gate.training import Seed, seed, train
from mfcheck.statistics.seeds import stream

REACH = 2.0


class Usual(nn.Module):
    """The classifier as it is usually typed."""

    def __init__(self) -> None:
        super().__init__()
        self.attention = nn.MultiheadAttention(TASK.width, RECIPE.particles, bias=False, batch_first=True)
        self.norm = nn.LayerNorm(TASK.width)
        self.linear = nn.Linear(TASK.width, TASK.classes)

    def forward(self, x: Tensor) -> Tensor:
        update, _ = self.attention(x, x, x, need_weights=False)
        return self.linear(self.norm(x + update).mean(1))


def usual(one: Seed, beta: float, steps: int) -> None:
    """Trains one model by the usual script, with Langevin noise on the attention layer."""
    model = Usual()
    optimizer = torch.optim.SGD(model.parameters(), lr=RECIPE.sgd_step)
    data = TensorDataset(one.training.tokens, one.training.labels)
    loader = DataLoader(data, batch_size=RECIPE.batch, shuffle=True, drop_last=True)
    noisy, amplitude = list(model.attention.parameters()), math.sqrt(2 * beta * RECIPE.sgd_step)
    done = 0
    while True:
        for x, y in loader:
            loss = nn.functional.cross_entropy(model(x), y)
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            with torch.no_grad():
                for parameter in noisy:
                    parameter.add_(torch.randn_like(parameter), alpha=amplitude)
            done += 1
            if done == steps:
                return


def main(rounds: Annotated[int, typer.Option(min=1)] = 5, steps: Annotated[int, typer.Option(min=10)] = 60) -> None:
    """Prints the time of a model's step on both sides, and their ratio."""
    torch.set_num_threads(1)
    recipe = Recipe(steps=steps)
    seeds = [seed(TASK, stream(0, "benchmark", k), torch.float32) for k in range(AT_ONCE)]

    def batched(heads: str, models: int) -> Callable[[], object]:
        arm = Arm(0.005, heads=heads)
        return lambda: train(TASK, recipe, seeds, [(k, arm) for k in range(models)])

    sides: dict[str, tuple[int, Callable[[], object]]] = {
        "usual script": (1, lambda: usual(seeds[0], 0.005, steps)),
        f"mfcheck, {AT_ONCE} models at once": (AT_ONCE, batched("ordinary", AT_ONCE)),
        f"mfcheck, {AT_ONCE} models of particles at once": (AT_ONCE, batched("particles", AT_ONCE)),
        "mfcheck, one model": (1, batched("ordinary", 1)),
    }
    best = dict.fromkeys(sides, math.inf)
    for _ in range(rounds):
        for name, (models, run) in sides.items():
            start = time.process_time()
            run()
            best[name] = min(best[name], (time.process_time() - start) / models / steps)
    table = Table("side", "ms a model and step", "usual script over it")
    for name, seconds in best.items():
        table.add_row(name, f"{1e3 * seconds:.2f}", f"{best['usual script'] / seconds:.2f}")
    Console().print(table)
    ratio = best["usual script"] / best[f"mfcheck, {AT_ONCE} models at once"]
    Console().print(f"to reach: {REACH:g}; {'reached' if ratio >= REACH else 'missed'} ({ratio:.2f})")
    raise typer.Exit(0 if ratio >= REACH else 1)


if __name__ == "__main__":
    typer.run(main)
