"""The training loop: AdamW for the drift of everything, noise on the particles, from any step to the last."""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn
from torch.optim import AdamW, Optimizer

from mfcheck.attention.effective_step import known_effective_step
from mfcheck.attention.optim import Langevin
from mfcheck.attention.particles import ParticleAttention
from mfcheck.errors import InputError
from mfcheck.experiments.wikitext.arms import Arm, Training
from mfcheck.experiments.wikitext.model import LanguageModel, Shape, initial_model
from mfcheck.experiments.wikitext.prepared import Windows
from mfcheck.statistics.seeds import Stream


@dataclass
class Run:
    """A training under way: losses [steps] holds the first `step` of them in nats a token; seconds of training."""

    model: LanguageModel
    optimiser: Optimizer
    windows: Windows
    training: Training
    losses: Tensor
    step: int = 0
    seconds: float = 0.0

    @property
    def langevin(self) -> Langevin | None:
        """The optimiser that diffuses, None with ordinary attention."""
        return self.optimiser if isinstance(self.optimiser, Langevin) else None


def begin(shape: Shape, arm: Arm, training: Training, windows: Windows, source: Stream) -> Run:
    """A run at step 0. source: the seed's stream, whose children are shared by all arms of that seed."""
    model = initial_model(shape, source.child("initial")).to(training.device)
    named = list(model.named_parameters())
    matrices = [parameter for name, parameter in named if not name.endswith("bias") and parameter.ndim > 1]
    vectors = [parameter for name, parameter in named if name.endswith("bias") or parameter.ndim == 1]
    base = AdamW(
        [{"params": matrices, "weight_decay": training.weight_decay}, {"params": vectors, "weight_decay": 0.0}],
        lr=training.rate,
        betas=(0.9, 0.99),
        fused=True,
    )
    particles = [module for module in model.modules() if isinstance(module, ParticleAttention)]
    optimiser: Optimizer = base
    if particles:
        optimiser = Langevin(
            base,
            particles,
            arm.diffusion(training.steps),
            scaling=arm.scaling,
            seed=source.child("noise"),
            record_every=0,  # `effective_step` reads the state, which a checkpoint keeps and records it does not
        )
    losses = torch.full((training.steps,), math.nan, device=training.device)
    return Run(model, optimiser, windows, training, losses)


def train(run: Run, each_step: Callable[[Run], Any]) -> None:
    """Trains to the last step, calling each_step(run) after every one of them.

    Raises FloatingPointError where the loss stops being a number: then nothing after it means anything.
    """
    training, model = run.training, run.model
    model.train()
    loss_of: Callable[[Tensor], Tensor] = torch.compile(model.loss) if training.compile else model.loss
    clock = time.perf_counter() - run.seconds
    while run.step < training.steps:
        tokens = run.windows.at(run.step).to(training.device, non_blocking=True)
        for group in run.optimiser.param_groups:
            group["lr"] = training.rate_at(run.step)
        with autocast(training):
            loss = loss_of(tokens)
        run.optimiser.zero_grad(set_to_none=True)
        loss.backward()
        nn.utils.clip_grad_norm_(model.parameters(), training.clip)
        run.optimiser.step()
        run.losses[run.step] = loss.detach()
        run.step += 1
        run.seconds = time.perf_counter() - clock
        # reading a loss waits for the device: not at every step
        if run.step % 50 == 0 or run.step == training.steps:
            _check_finite(run)
        each_step(run)


@contextmanager
def autocast(training: Training) -> Iterator[None]:
    """bfloat16 products where the settings ask for them; parameters, noise and losses stay float32."""
    if training.precision == "float32":
        yield
        return
    with torch.autocast(torch.device(training.device).type, dtype=torch.bfloat16):
        yield


def effective_step(run: Run) -> dict[str, float] | None:
    """What multiplied the particles' averaged gradient in the last step made, over their coordinates: mean, quantiles.

    None with ordinary attention, or before the first step.
    """
    if run.langevin is None or not run.step:
        return None
    base = run.langevin.base
    of = known_effective_step(base)
    assert of is not None
    particles = {p for module in run.model.modules() if isinstance(module, ParticleAttention)
                 for p in module.particle_parameters()}  # fmt: skip
    steps = [of(base, group, p) for group in base.param_groups for p in group["params"] if p in particles]
    every = torch.cat([torch.as_tensor(step).reshape(-1) for step in steps]).double().cpu().numpy()
    low, median, high = np.quantile(every, [0.05, 0.5, 0.95]).tolist()
    return {"mean": float(every.mean()), "low": low, "median": median, "high": high}


def _check_finite(run: Run) -> None:
    seen = run.losses[: run.step]
    if not bool(torch.isfinite(seen).all()):
        first = int((~torch.isfinite(seen)).nonzero()[0])
        raise FloatingPointError(f"the training loss is {float(seen[first])} at step {first}: the run diverged")


def check_resumable(run: Run, step: int) -> None:
    """Raises InputError where a checkpoint's step is none of this run's."""
    if not 0 <= step <= run.training.steps:
        raise InputError(f"a checkpoint stands at a step in [0, {run.training.steps}]; this one is at {step}")
