"""Family T, the coupled system: heads trained on a risk of the tokens' flow, perturbed and refined (T5)."""

from __future__ import annotations

import functools
from collections.abc import Mapping
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from scipy.integrate import solve_ivp
from torch import Tensor

from mfcheck.dynamics.langevin import simulate
from mfcheck.dynamics.tokens import token_velocity
from mfcheck.functional import Risk, velocity
from mfcheck.heads import Head, hardmax_attention, matrix_softmax
from mfcheck.measure import Measure
from mfcheck.replicates import Measurements, Replicates

Array = NDArray[np.float64]

#: The risk STIFFNESS (mean tanh of the tokens at the end - TARGET)^2 / 2 + DECAY E|theta|^2 / 2, fast enough for the
#: error of the training's steps to stand beside that of the layers.
TARGET, STIFFNESS, DECAY = 0.6, 4.0, 0.4


def start_tokens(u: Array) -> Tensor:
    """mu_0 by its quantile function at u, [N, 1]: uniform on [-1, 1.4]."""
    return torch.from_numpy(2.4 * u - 1)[:, None]


def start_heads(z: Array) -> Tensor:
    """rho_0, the image of the uniform law on [0, 1] on a curve in the plane of (A, V), at z: [M, 2]."""
    return torch.from_numpy(np.stack([0.3 + z, 0.8 - 0.5 * z * z], -1))


def midpoints(count: int) -> Array:
    """(i + 1/2) / count: the equal weights 1/count are second order for the laws above."""
    return (np.arange(count) + 0.5) / count


def tokens_at_the_end(head: Head, rho: Measure, mu: Measure, layers: int) -> Measure:
    """The tokens' law after residual steps of 1/layers."""
    x, weights = mu.points, None if bool((mu.weights == mu.weights[0]).all()) else mu.weights
    for _ in range(layers):
        x = x + token_velocity(head, rho, x, weights) / layers
    return Measure(x, mu.weights)


def flow_risk(head: Head, mu: Measure, layers: int) -> Risk:
    """The risk above of a law of heads, the whole flow in it, so that its gradient is that of the whole depth."""

    def risk(rho: Measure) -> Tensor:
        end = tokens_at_the_end(head, rho, mu, layers)
        miss = (mu.weights * torch.tanh(end.points[..., 0])).sum(-1) - TARGET
        return 0.5 * STIFFNESS * miss.square() + 0.5 * DECAY * (rho.weights * rho.points.square().sum(-1)).sum(-1)

    return risk


def trained(head: Head, mu: Measure, heads: Tensor, layers: int, step: float, time: float) -> tuple[Measure, Measure]:
    """The law of heads [M, 2] trained for a time, without noise, and the tokens' law at the end of that depth."""
    run = simulate(flow_risk(head, mu, layers), heads[None], beta=0.0, step=step, steps=round(time / step))
    rho = Measure.uniform(run.final[0])
    return rho, tokens_at_the_end(head, rho, mu, layers)


def dependence(settings: Mapping[str, Any], replicates: Replicates) -> Measurements:
    """T5: how far perturbations eps of (mu_0, rho_0) move the end point, and how joint refinements approach the limit.

    settings: head "softmax" or "hardmax", with a token at the tie x = 0; eps (ladder, of shifts of all tokens and heads
    together); tokens N, heads M, layers, step, time of these runs; and those of `refinement_errors`, which is about
    softmax whatever the head. Returns, leading axis 1: moved [1, eps], the root mean square over heads' and tokens'
    coordinates; refined [1, refinements], distances from the limit, and reference [1], the limit's error.
    """
    head = {"softmax": matrix_softmax, "hardmax": hardmax_attention}[settings["head"]](1)
    tokens, heads = start_tokens(midpoints(settings["tokens"])), start_heads(midpoints(settings["heads"]))
    tokens[0] = 0.0  # all logits are equal there: an exact tie
    ends = []
    for eps in (0.0, *settings["eps"]):
        rho, mu = trained(
            head, Measure.uniform(tokens + eps), heads + eps, settings["layers"], settings["step"], settings["time"]
        )
        ends.append(torch.cat([rho.points.reshape(-1), mu.points.reshape(-1)]))
    moved = [float((end - ends[0]).square().mean().sqrt()) for end in ends[1:]]
    refined, error = refinement_errors(
        tuple(settings["refinements"]), settings["coarsest"], settings["refined_time"], settings["left_coarse"]
    )
    return {"moved": np.array([moved]), "refined": np.array([refined]), "reference": np.array([error])}


@functools.lru_cache
def refinement_errors(
    refinements: tuple[int, ...], coarsest: tuple[int, int, int, float], time: float, left_coarse: str
) -> tuple[tuple[float, ...], float]:
    """How far `moments` are from those of the limit where N, M, 1/dt and 1/eta are multiplied together, and its error.

    coarsest: N, M, layers, eta at refinement 1; left_coarse: "nothing", "dt" or "eta", which then stays as it is.
    """
    limit, error = _limit(time)
    number, heads, layers, step = coarsest
    refined = []
    for factor in refinements:
        mu = Measure.uniform(start_tokens(midpoints(factor * number)))
        in_depth, in_time = (1 if left_coarse == name else factor for name in ("dt", "eta"))
        laws = trained(
            matrix_softmax(1), mu, start_heads(midpoints(factor * heads)), in_depth * layers, step / in_time, time
        )
        refined.append(float(np.linalg.norm(moments(*laws) - limit)))
    return tuple(refined), error


def moments(rho: Measure, mu: Measure) -> Array:
    """First and second moments of the heads' coordinates and of the tokens, [6]."""
    parts = [law.integrate(power) for law in (rho, mu) for power in (law.points, law.points.square())]
    return torch.cat(parts).numpy()


@functools.lru_cache
def _limit(time: float) -> tuple[Array, float]:
    """`moments` of the coupled system itself (N, M to infinity, dt, eta to 0), and their error, from two resolutions.

    By other means than the particles': the laws by Gauss and Legendre's rule in their quantiles, the depth by Runge
    and Kutta's fourth-order steps, the training by Dormand and Prince's eighth-order ones with their own step control.
    """
    coarse, fine = (limit_moments(time, nodes, layers) for nodes, layers in ((8, 8), (12, 16)))
    return fine, float(np.linalg.norm(fine - coarse))


def limit_moments(time: float, nodes: int, layers: int) -> Array:
    """`moments` by `nodes` Gauss-Legendre points for each law and `layers` Runge-Kutta steps in depth."""
    head = matrix_softmax(1)
    points, mass = np.polynomial.legendre.leggauss(nodes)
    u, weights = 0.5 * (points + 1), torch.from_numpy(mass / 2)
    mu, heads = Measure(start_tokens(u), weights), start_heads(u)

    def end(rho: Measure) -> Measure:
        x, h = mu.points, 1 / layers
        for _ in range(layers):
            k1 = token_velocity(head, rho, x, weights)
            k2 = token_velocity(head, rho, x + h / 2 * k1, weights)
            k3 = token_velocity(head, rho, x + h / 2 * k2, weights)
            k4 = token_velocity(head, rho, x + h * k3, weights)
            x = x + h / 6 * (k1 + 2 * k2 + 2 * k3 + k4)
        return Measure(x, weights)

    def risk(rho: Measure) -> Tensor:
        miss = (weights * torch.tanh(end(rho).points[..., 0])).sum(-1) - TARGET
        return 0.5 * STIFFNESS * miss.square() + 0.5 * DECAY * (rho.weights * rho.points.square().sum(-1)).sum(-1)

    def drift(_: float, state: Array) -> Array:
        return velocity(risk, Measure(torch.from_numpy(state).reshape(nodes, 2), weights)).numpy().ravel()

    solution = solve_ivp(drift, (0.0, time), heads.numpy().ravel(), method="DOP853", rtol=1e-7, atol=1e-9)
    rho = Measure(torch.from_numpy(solution.y[:, -1].copy()).reshape(nodes, 2), weights)
    return moments(rho, end(rho))
