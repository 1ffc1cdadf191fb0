"""Family D, the drift of Adam: which law it samples with noise that does not know of its preconditioner (D7)."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import torch
from torch import Tensor, optim
from torch.nn import Parameter

from mfcheck.attention.effective_step import known_effective_step
from mfcheck.attention.optim import Langevin
from mfcheck.replicates import Measurements, Replicates, concatenate

#: Replicates that share a generator: the optimiser moves them as one tensor.
TOGETHER = 64


def adam_spread(beta: float, eta: float) -> float:
    """beta + eta/2, the stationary standard deviation under Adam with beta1 = 0, beta2 -> 1 and isotropic noise.

    v is then at a^2 s^2, the drift is -eta theta / s, and s^2 = (1 - eta/s)^2 s^2 + 2 beta eta gives s.
    """
    return beta + eta / 2


def gradient_spread(curvature: float, beta: float, eta: float) -> float:
    """sqrt(beta / (a (1 - a eta / 2))), that of the plain gradient's chain (D5)."""
    return float(np.sqrt(beta / (curvature * (1 - curvature * eta / 2))))


def stationary_spread(settings: Mapping[str, Any], replicates: Replicates) -> Measurements:
    """D7: mean squares and effective steps of chains on quadratics a theta^2 / 2, one parameter group a curvature.

    A replicate is `chains` independent chains. They start at 0 with v at the value that the prediction has for it, run
    `steps` steps, and are looked at every `every` steps after the first `forgotten`. settings: also curvatures, beta,
    step eta, beta2, base ("Adam", or "SGD": the plain gradient) and noise (as Langevin's). TOGETHER replicates, from a
    multiple of it, share a generator, and whole blocks are run: a replicate is the same whatever is asked for with it.
    Returns mean_square and effective_step [n, curvatures], averages over chains and looks, and record_error [n]: the
    relative difference between the optimiser's own record and the effective steps of the replicate's block.
    """
    first, last = replicates.start // TOGETHER, -(-replicates.stop // TOGETHER)
    blocks = concatenate(_block(settings, replicates, index) for index in range(first, last))
    kept = slice(replicates.start - first * TOGETHER, replicates.stop - first * TOGETHER)
    return {name: values[kept] for name, values in blocks.items()}


def _block(settings: Mapping[str, Any], replicates: Replicates, index: int) -> Measurements:
    """TOGETHER replicates, moved as one tensor [TOGETHER, chains] for each curvature."""
    curvatures, beta, every = settings["curvatures"], settings["beta"], settings["every"]
    thetas = [Parameter(torch.zeros(TOGETHER, settings["chains"], device=replicates.device)) for _ in curvatures]
    base = _base(settings, thetas)
    langevin = Langevin(
        base, thetas, beta, noise=settings["noise"], seed=replicates.stream.child(index), record_every=every
    )
    effective = known_effective_step(base)
    assert effective is not None
    squares = torch.zeros(len(curvatures), TOGETHER, dtype=torch.float64, device=replicates.device)
    sizes, looks = torch.zeros_like(squares), 0
    for k in range(settings["steps"]):
        for theta, a in zip(thetas, curvatures, strict=True):
            theta.grad = a * theta.detach()
        langevin.step()
        if k >= settings["forgotten"] and k % every == 0:
            looks += 1
            for j, theta in enumerate(thetas):
                squares[j] += theta.detach().double().square().mean(1)
                step = effective(base, base.param_groups[j], theta)
                sizes[j] += step.double().mean(1) if isinstance(step, Tensor) else step
    recorded = np.zeros(len(curvatures))
    for record in langevin.records:
        if record.step >= settings["forgotten"]:
            recorded[record.group] += record.effective_mean / looks
    effective_step = sizes.t().cpu().numpy() / looks
    error = np.abs(recorded / effective_step.mean(0) - 1).max()
    return {
        "mean_square": squares.t().cpu().numpy() / looks,
        "effective_step": effective_step,
        "record_error": np.full(TOGETHER, error),
    }


def _base(settings: Mapping[str, Any], thetas: list[Parameter]) -> optim.Optimizer:
    groups = [{"params": [theta]} for theta in thetas]
    eta = settings["step"]
    if settings["base"] == "SGD":
        return optim.SGD(groups, lr=eta)
    # fused: the same update in one pass instead of eight
    adam = optim.Adam(groups, lr=eta, betas=(0.0, settings["beta2"]), eps=0.0, fused=True)
    spread = adam_spread(settings["beta"], eta)
    for theta, a in zip(thetas, settings["curvatures"], strict=True):
        adam.state[theta] |= {
            # so many that the correction of v's bias is 1
            "step": torch.tensor(1e3 / (1 - settings["beta2"]), device=theta.device),
            "exp_avg": torch.zeros_like(theta),
            "exp_avg_sq": torch.full_like(theta, (a * spread) ** 2),
        }
    return adam
