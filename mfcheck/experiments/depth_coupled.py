"""Family T, the coupled system: heads trained on a risk of the tokens' flow, perturbed and refined (T5)."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import torch
from torch import Tensor

from mfcheck.dynamics.langevin import simulate
from mfcheck.dynamics.tokens import token_velocity
from mfcheck.functional import Risk
from mfcheck.heads import Head, hardmax_attention, matrix_softmax
from mfcheck.measure import Measure
from mfcheck.replicates import Measurements, Replicates


def flow_risk(head: Head, tokens: Tensor, layers: int, target: float, decay: float) -> Risk:
    """(mean of tanh over the tokens after all layers - target)^2 / 2 + decay E|theta|^2 / 2, of a law of heads.

    tokens [N, 1]; the tokens' flow is run within the risk, so that its gradient is that of the whole depth.
    """

    def risk(rho: Measure) -> Tensor:
        x = tokens.to(rho.points).expand(*rho.weights.shape[:-1], *tokens.shape)
        for _ in range(layers):
            x = x + token_velocity(head, rho, x) / layers
        miss = torch.tanh(x).mean((-2, -1)) - target
        return 0.5 * miss.square() + 0.5 * decay * (rho.weights * rho.points.square().sum(-1)).sum(-1)

    return risk


def end_point(
    head: Head, tokens: Tensor, heads: Tensor, settings: Mapping[str, Any], layers: int, step: float
) -> Tensor:
    """Heads [M, 2] after training, and tokens [N, 1] after the trained depth, as one vector of M 2 + N numbers."""
    risk = flow_risk(head, tokens, layers, settings["target"], settings["decay"])
    steps = round(settings["time"] / step)
    theta = simulate(risk, heads[None], beta=0.0, step=step, steps=steps).final[0]
    x, rho = tokens, Measure.uniform(theta)
    for _ in range(layers):
        x = x + token_velocity(head, rho, x) / layers
    return torch.cat([theta.reshape(-1), x.reshape(-1)])


def start(tokens: int, heads: int) -> tuple[Tensor, Tensor]:
    """mu_0 by N and rho_0 by M midpoint quantiles: tokens uniform on [-1, 1.4], heads on a curve of the plane."""
    u, z = ((torch.arange(count, dtype=torch.float64) + 0.5) / count for count in (tokens, heads))
    return (2.4 * u - 1)[:, None], torch.stack([0.3 + z, 0.8 - 0.5 * z * z], -1)


def dependence(settings: Mapping[str, Any], replicates: Replicates) -> Measurements:
    """T5: how far perturbations eps of (mu_0, rho_0) move the end point, and how joint refinements agree.

    settings: eps (ladder); layers, heads, tokens, step, time, target, decay; head "softmax" or "hardmax", the latter
    with a token at the tie x = 0. refinements: how often M, N, 1/dt and 1/eta are doubled together. Returns, leading
    axis 1: moved [1, rungs] (root mean square) and refined [1, refinements]: the changes of the end point's moments.
    """
    head = {"softmax": matrix_softmax, "hardmax": hardmax_attention}[settings["head"]](1)
    count, number, layers, step = (settings[name] for name in ("tokens", "heads", "layers", "step"))
    tokens, heads = start(count, number)
    tokens[0] = 0.0  # all logits are equal there: an exact tie
    base = end_point(head, tokens, heads, settings, layers, step)
    moved = []
    for eps in settings["eps"]:
        other = end_point(head, tokens + eps, heads + eps, settings, layers, step)
        moved.append(float((other - base).square().mean().sqrt()))
    moments = []
    for k in range(settings["refinements"] + 1):
        factor = 2**k
        fine = end_point(head, *start(count * factor, number * factor), settings, layers * factor, step / factor)
        theta, x = fine[: 2 * number * factor].reshape(-1, 2), fine[2 * number * factor :]
        moments.append(torch.stack([theta[:, 0].mean(), theta[:, 1].mean(), x.mean(), x.square().mean()]).numpy())
    refined = np.linalg.norm(np.diff(np.array(moments), axis=0), axis=-1)
    return {"moved": np.array([moved]), "refined": refined[None]}
