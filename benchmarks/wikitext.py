"""The language model's speed as ratios: particles over ordinary attention, noise over normal_, data, the sweep.

    python benchmarks/wikitext.py --rounds 12

All sides run in turn, round after round, on one thread, and each keeps its best round, in CPU time of this
process. What counts are the ratios.
"""

from __future__ import annotations

import os
import shutil
import sys
import tempfile
import time
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Annotated

os.environ |= {"OMP_NUM_THREADS": "1", "MKL_NUM_THREADS": "1"}
sys.path.insert(0, str(Path(__file__).parents[1]))

import torch
import typer
from rich.console import Console
from rich.table import Table

from mfcheck.attention.particles import ParticleAttention
from mfcheck.experiments.wikitext.arms import Arm, ModelSettings, Training
from mfcheck.experiments.wikitext.cell import run_cell
from mfcheck.experiments.wikitext.matching import match
from mfcheck.experiments.wikitext.prepared import Windows, prepare
from mfcheck.experiments.wikitext.preset import read_preset
from mfcheck.experiments.wikitext.sweep import sweep, table
from mfcheck.experiments.wikitext.train import Run, begin, train
from mfcheck.statistics.seeds import stream

#: Models in which the arms are compared: those of the presets small and paper, the latter with a smaller vocabulary,
#: batch and depth, since an output layer of 33,278 words would hide the attention and two layers say what six do.
MODELS = {
    "small": (ModelSettings(32, 64, 2, 256), 2048, 8),
    "paper, 2 layers, 2,048 words": (ModelSettings(256, 256, 2, 1024), 2048, 2),
}


def best(rounds: int, *sides: Callable[[], object]) -> list[float]:
    """The best CPU time of each side in seconds, sides in turn."""
    times = [float("inf")] * len(sides)
    for _ in range(rounds):
        for index, side in enumerate(sides):
            began = time.process_time()
            side()
            times[index] = min(times[index], time.process_time() - began)
    return times


def model_run(settings: ModelSettings, words: int, batch: int, arm: Arm, steps: int) -> Run:
    """A run on random tokens, warmed up."""
    tokens = torch.randint(words, (20_000,), generator=torch.Generator().manual_seed(0)).int().numpy()
    training = Training(batch=batch, steps=10**6, rate=1e-3, warmup=0)
    source = stream(0, "benchmark")
    run = begin(
        match(arm, words, settings).shape, arm, training, Windows(tokens, settings.context, batch, source), source
    )
    advance(run, steps)
    return run


class Enough(Exception):
    """Ends a training after a few steps."""


def advance(run: Run, steps: int) -> None:
    """Some steps of the training loop itself."""
    end = run.step + steps

    def stop(run: Run) -> None:
        if run.step == end:
            raise Enough

    try:
        train(run, stop)
    except Enough:
        return


def main(
    rounds: Annotated[int, typer.Option(help="Rounds; each side keeps its best.")] = 12,
    steps: Annotated[int, typer.Option(help="Training steps a round.")] = 5,
    cells: Annotated[bool, typer.Option(help="Also the sweep's overhead, a minute.")] = True,
) -> None:
    torch.set_num_threads(1)
    shown = Table("what", "measured", "wanted")
    ordinary, particles = Arm("m", "multihead", 8), Arm("p", "particles", 8)
    noisy = replace(particles, beta=1e-4)
    for name, (settings, words, batch) in MODELS.items():
        runs = [model_run(settings, words, batch, arm, 2) for arm in (ordinary, particles, noisy)]
        times = best(rounds, *(lambda run=run: advance(run, steps) for run in runs))
        rates = [steps * batch * settings.context / t for t in times]
        shown.add_row(f"{name}: tokens/s, nn.MultiheadAttention", f"{rates[0]:,.0f}", "")
        shown.add_row(f"{name}: particles, M = 8, over it", f"{rates[1] / rates[0]:.2f}", ">= 0.95")
        shown.add_row(f"{name}: particles with noise over it", f"{rates[2] / rates[0]:.2f}", ">= 0.95")
        windows, one = runs[0].windows, times[0] / steps
        loading = best(rounds, lambda windows=windows: [windows.at(step) for step in range(100)])[0] / 100
        shown.add_row(f"{name}: loading data, share of a step", f"{loading / one:.2%}", "< 2 %")
        parameters = [
            p for m in runs[2].model.modules() if isinstance(m, ParticleAttention) for p in m.particle_parameters()
        ]
        noise, bare = noise_against_normal(parameters, rounds)
        shown.add_row(f"{name}: noise over a bare normal_", f"{noise / bare:.2f}", "<= 1.05")
    if cells:
        shown.add_row("sweep over running the cells by hand", f"{sweep_overhead():+.1%}", "< +5 %")
    Console().print(shown)


def noise_against_normal(parameters: list[torch.nn.Parameter], rounds: int) -> tuple[float, float]:
    """Adding noise to the particles' parameters, and normal_ of as many numbers into one tensor."""
    from mfcheck.attention.noise import add_noise

    generator = torch.Generator().manual_seed(0)
    bare = torch.empty(sum(p.numel() for p in parameters))
    repeats = max(1, 10**6 // bare.numel())

    def noise() -> None:
        with torch.no_grad():
            for _ in range(repeats):
                add_noise(parameters, 1e-12, generator)

    def normal() -> None:
        for _ in range(repeats):
            bare.normal_(0.0, 1e-6, generator=generator)

    first, second = best(rounds, noise, normal)
    return first, second


def sweep_overhead() -> float:
    """CPU time of a sweep of nine cells in this process over the same cells run one after another by hand, less 1."""
    preset = read_preset("tiny")
    preset = replace(preset, seeds=3, training=replace(preset.training, steps=400))
    times = {"hand": float("inf"), "sweep": float("inf")}
    for _ in range(2):
        for side in times:
            folder = Path(tempfile.mkdtemp())
            prepare(preset.text, folder / "text")
            cells = [
                replace(cell, matched=match(preset.arm(cell.arm), 200, preset.model)) for cell in table(preset, folder)
            ]
            began = time.process_time()
            if side == "hand":
                for cell in cells:
                    run_cell(cell)
            else:
                sweep(cells)
            times[side] = min(times[side], time.process_time() - began)
            shutil.rmtree(folder)
    return times["sweep"] / times["hand"] - 1


if __name__ == "__main__":
    typer.run(main)
