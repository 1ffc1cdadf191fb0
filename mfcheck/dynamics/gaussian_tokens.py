"""Gaussian tokens under softmax attention stay Gaussian: the ODE of their mean and covariance, and its Euler steps."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray
from scipy.integrate import solve_ivp

from mfcheck.errors import InputError

Array = NDArray[np.float64]


def moment_flow(mean: Array, covariance: Array, logits: Array, value: Array, time: float = 1.0) -> tuple[Array, Array]:
    """Mean [d] and covariance [d, d] after a depth: m' = V(m + S A' m), S' = V S A' S + (V S A' S)', to 1e-10.

    logits A and value V, [d, d]: the logits are x' A y. Tilting N(m, S) by exp(x' A y) moves its mean to m + S A' x,
    so that the velocity is affine in x. Raises InputError where the solution ceases to exist. Source: [CACP].
    """
    d = len(mean)

    def velocity(_: float, state: Array) -> Array:
        m, s = state[:d], state[d:].reshape(d, d)
        half = value @ s @ logits.T @ s
        return np.concatenate([value @ (m + s @ logits.T @ m), (half + half.T).ravel()])

    start = np.concatenate([mean, covariance.ravel()])
    solution = solve_ivp(velocity, (0.0, time), start, method="DOP853", rtol=1e-10, atol=1e-10)
    if not solution.success:
        raise InputError(f"the moments of these Gaussian tokens do not exist up to depth {time}: {solution.message}")
    end = solution.y[:, -1]
    return end[:d], end[d:].reshape(d, d)


def moment_steps(
    mean: Array, covariance: Array, logits: Array, value: Array, *, depth_step: float, layers: int
) -> tuple[Array, Array, float]:
    """Mean, covariance and largest tilt of Gaussian tokens under residual steps, exactly (no error in dt against them).

    A residual step is the affine map x -> x + dt V (m + S A' x): m and S move by it. The tilt is the largest over the
    path of the spectral radius of (S A' S A)^(1/2): below 1/2 the weights exp(x' A y) have a variance [CACP].
    """
    m, s, tilt = mean, covariance, 0.0
    for _ in range(layers):
        tilt = max(tilt, tilt_of(s, logits))
        step = np.eye(len(m)) + depth_step * value @ s @ logits.T
        m, s = step @ m + depth_step * value @ m, step @ s @ step.T
    return m, s, max(tilt, tilt_of(s, logits))


def tilt_of(covariance: Array, logits: Array) -> float:
    """The spectral radius of (S A' S A)^(1/2)."""
    return float(np.sqrt(np.abs(np.linalg.eigvals(covariance @ logits.T @ covariance @ logits)).max()))


def moment_variation(
    mean: Array,
    covariance: Array,
    logits: Array,
    value: Array,
    mean_change: Array,
    covariance_change: Array,
    *,
    depth_step: float,
    layers: int,
) -> tuple[Array, Array]:
    """What small changes of the start, [..., d] and [..., d, d], become under `moment_steps`: its derivative."""
    m, s, dm, ds = mean, covariance, mean_change, covariance_change
    for _ in range(layers):
        step = np.eye(len(m)) + depth_step * value @ s @ logits.T
        step_change = depth_step * value @ ds @ logits.T
        dm = dm @ (step + depth_step * value).T + step_change @ m
        half = step_change @ s @ step.T
        ds = step @ ds @ step.T + half + half.swapaxes(-2, -1)
        m, s = step @ m + depth_step * value @ m, step @ s @ step.T
    return dm, ds
