"""The constants of the rates in the number of tokens (T2, T3): the delta method for laws, on the flow in depth."""

from __future__ import annotations

import numpy as np
import torch
from numpy.typing import NDArray

from mfcheck.dynamics.tokens import token_velocity
from mfcheck.heads import matrix_softmax
from mfcheck.measure import Measure

Array = NDArray[np.float64]


def linearised_quantiles(heads: Array, quantiles: Array, *, depth_step: float, layers: int) -> Array:
    """J [n, n]: how n tokens at the end move with those at the start, under scalar softmax heads (a, v) [M, 2].

    With the quantiles (i + 1/2)/n of a law as tokens it is the derivative of the quantile function at the end by that
    at the start, the interaction included. A step's derivative is written out, d V_i / d x_j = v w_ij (1 + a x_i (x_j -
    average_i)) + delta_ij v a variance_i, and shares nothing with the heads that it is compared with.
    """
    x, total = quantiles, np.eye(len(quantiles))
    for _ in range(layers):
        velocity, step = np.zeros_like(x), np.zeros_like(total)
        for a, v in heads:
            weights = np.exp(a * np.outer(x, x))
            weights /= weights.sum(-1, keepdims=True)
            average = weights @ x
            velocity += v * average
            step += v * weights * (1 + a * x[:, None] * (x - average[:, None]))
            step += np.diag(v * a * (weights @ x**2 - average**2))
        x, total = x + depth_step * velocity / len(heads), total + depth_step * step @ total / len(heads)
    return total


def wasserstein_constant(jacobian: Array, density_quantile: Array) -> float:
    """lim N E W2^2 of N tokens to their law in the limit, from J and q'(u) = 1 / f(q(u)) at u = (i + 1/2)/n.

    sqrt(N) times the error of an empirical quantile function is q' times a Brownian bridge, of covariance
    min(u, v) - u v, where the density is bounded below on a compact support [BL]; without a flow the limit is
    int u (1 - u) q'(u)^2 du, Bobkov and Ledoux's. The flow carries it to its end by J, and W2^2 is int of the square.
    """
    u = (np.arange(len(density_quantile)) + 0.5) / len(density_quantile)
    moved = jacobian * density_quantile
    bridge = np.minimum.outer(u, u) - np.outer(u, u)
    return float(np.einsum("ij,jk,ik->", moved, bridge, moved, optimize=True)) / len(u)


def hermite_law(mean: Array, covariance: Array, nodes: int) -> Measure:
    """N(mean, covariance) in the plane by Gauss and Hermite's rule, nodes^2 weighted points."""
    points, weights = np.polynomial.hermite_e.hermegauss(nodes)
    grid = np.stack(np.meshgrid(points, points, indexing="ij"), -1).reshape(-1, 2)
    mass = np.outer(weights, weights).ravel() / weights.sum() ** 2
    return Measure(torch.from_numpy(mean + grid @ np.linalg.cholesky(covariance).T), torch.from_numpy(mass))


def moment_constants(law: Measure, theta: torch.Tensor, *, depth_step: float, layers: int) -> Array:
    """lim N E |mean - m|^2 and lim N E |covariance - S|^2 of N tokens after residual steps, [2], by the delta method.

    A moment of the end is a function T of the law at the start; its influence function at y, the derivative of T in
    the weight of a token at y, is read off a quadrature of that law by automatic differentiation in its weights, all
    interactions included. N times the variance of T on N tokens tends to that of the influence. theta [p]: one head.
    """
    head, rho = matrix_softmax(law.points.shape[-1]), Measure.uniform(theta[None])
    weights = law.weights.clone().requires_grad_(True)
    x = law.points
    for _ in range(layers):
        x = x + depth_step * token_velocity(head, rho, x, weights)
    end = Measure(x, weights / weights.sum())
    constants = []
    for moment in (end.mean(), end.covariance().reshape(-1)):
        total = 0.0
        for entry in moment:
            (influence,) = torch.autograd.grad(entry, weights, retain_graph=True)
            centred = influence - (law.weights * influence).sum()
            total += float((law.weights * centred.square()).sum())
        constants.append(total)
    return np.array(constants)
