"""Where the grid's dynamics come to rest: Gibbs densities and fixed points of the mean-field Gibbs map."""

from __future__ import annotations

from itertools import pairwise
from typing import Any

import numpy as np
import torch
from jaxtyping import Float
from torch import Tensor

from mfcheck.dynamics.fokker_planck.generator import Layout, check_beta, checked_potential
from mfcheck.dynamics.fokker_planck.grid import Grid, normalised_masses
from mfcheck.dynamics.fokker_planck.landscape import FeatureLandscape, Landscape, landscape
from mfcheck.errors import InputError
from mfcheck.feature_risk import FeatureRisk
from mfcheck.functional import Risk

_ANDERSON_DEPTH = 6


def gibbs(potential: Any, grid: Grid, beta: float) -> Float[Tensor, " cells"]:
    """The Gibbs masses exp(-U/beta) / Z [cells] of a potential [cells]: exactly stationary on the grid.

    Raises InputError on beta <= 0, a wrong shape, NaN or infinity. Source: claim P4, [SG].
    """
    check_beta(beta)
    return torch.from_numpy(gibbs_masses(checked_potential(potential, grid.size), beta))


def gibbs_masses(potential: np.ndarray, beta: float) -> np.ndarray:
    """exp(-U/beta) / Z as an array, the minimum taken off first."""
    weights = np.exp((potential.min() - potential) / beta)
    return weights / weights.sum()


def gibbs_fixed_point(
    risk: Risk,
    grid: Grid,
    beta: float,
    initial: Tensor | np.ndarray | None = None,
    damping: float | None = None,
    tolerance: float = 1e-12,
    iterations: int = 2000,
    device: str = "cpu",
) -> Float[Tensor, " cells"]:
    """Masses [cells] with rho* = exp(-(dL/drho[rho*]) / beta) / Z, to an L1 residual below tolerance.

    initial: masses to start from (default: uniform); where several fixed points exist the start decides which is found.
    damping in (0, 1]: plain iteration rho <- Gibbs of the potential mixed with that share of the new one (1: undamped).
    None: damped iteration for a while and then Newton on the K moments for a FeatureRisk, Anderson acceleration for
    any other callable. A risk that does not see the measure has its Gibbs density at once.
    Raises InputError on bad input and where the iteration has not converged. Source: [HRSS].
    """
    check_beta(beta)
    if damping is not None and not 0.0 < damping <= 1.0:
        raise InputError(f"damping lies in (0, 1], 1 being undamped; it came as {damping}")
    layout = Layout((grid,))
    land = landscape(risk, layout, device)
    if initial is None:
        m = np.full(grid.size, 1.0 / grid.size)
    else:
        m = normalised_masses(np.asarray(torch.as_tensor(initial).detach().cpu(), dtype=np.float64), grid)
    if damping is not None:
        m, residual = _damped(land, m, beta, damping, tolerance, iterations)
    elif isinstance(land, FeatureLandscape):
        m, residual = _damped(land, m, beta, 0.5, 1e-3, iterations)
        m, residual = _newton(land, m, beta, tolerance)
    else:
        m, residual = _anderson(land, m, beta, tolerance, iterations)
    if not residual <= tolerance:
        raise InputError(
            f"the Gibbs fixed point was not reached: the L1 residual is {residual:.2g}, asked for {tolerance:.2g}, "
            f"with damping={damping} and at most {iterations} iterations; use a smaller damping, damping=None, or "
            "another start"
        )
    return torch.from_numpy(m)


def _image(land: Landscape, m: np.ndarray, beta: float) -> np.ndarray:
    return gibbs_masses(land.potentials(land.state(m)[None])[0], beta)


def _damped(
    land: Landscape, m: np.ndarray, beta: float, damping: float, tolerance: float, iterations: int
) -> tuple[np.ndarray, float]:
    """Iteration on the state (moments, or the potential): the same fixed points, and masses stay Gibbs densities."""
    state = land.state(m)
    for _ in range(iterations):
        image = gibbs_masses(land.potentials(state[None])[0], beta)
        change = float(np.abs(image - m).sum())
        m = image
        # a damped step covers that share of the residual, which is what counts
        if change <= 0.5 * damping * tolerance:
            break
        state = state + damping * (land.state(m) - state)
    return m, float(np.abs(_image(land, m, beta) - m).sum())


def loss_hessian(risk: FeatureRisk, moments: np.ndarray, device: str) -> np.ndarray:
    """loss''(V) [K, K] at moments V [K]."""
    v = torch.from_numpy(moments).to(device)
    loss = risk.loss
    assert loss is not None
    hessian: Tensor = torch.autograd.functional.hessian(lambda x: loss(x).sum(), v)
    return hessian.detach().cpu().numpy()


def _newton(land: FeatureLandscape, m: np.ndarray, beta: float, tolerance: float) -> tuple[np.ndarray, float]:
    """Newton on V = int h dGibbs[V]: the map's derivative is -Cov(h) loss''(V) / beta; steps halved until they help."""
    if land.linear:
        m = _image(land, m, beta)
        return m, 0.0
    h = land.features

    def moments(v: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        masses = gibbs_masses(land.potentials(v[None, None])[0], beta)
        return masses, masses @ h

    v = m @ h
    m, image = moments(v)
    for _ in range(50):
        gap = image - v
        centred = h - image
        covariance = (centred * m[:, None]).T @ centred
        jacobian = np.eye(v.size) + covariance @ loss_hessian(land.risk, v, land.device) / beta
        try:
            move = np.linalg.solve(jacobian, gap)
        except np.linalg.LinAlgError:
            move = gap
        share = 1.0
        while True:
            masses, new = moments(v + share * move)
            if np.linalg.norm(new - v - share * move) <= np.linalg.norm(gap) or share < 1e-4:
                break
            share *= 0.5
        v, image = v + share * move, new
        change = float(np.abs(masses - m).sum())
        m = masses
        if change <= 0.1 * tolerance:
            break
    return m, float(np.abs(_image(land, m, beta) - m).sum())


def _anderson(
    land: Landscape, m: np.ndarray, beta: float, tolerance: float, iterations: int
) -> tuple[np.ndarray, float]:
    """Anderson acceleration of the half-damped iteration on the potential. Source: Walker and Ni, SINUM 49 (2011)."""
    state = land.state(m)
    states: list[np.ndarray] = []
    gaps: list[np.ndarray] = []
    residual = np.inf
    for _ in range(iterations):
        m = gibbs_masses(land.potentials(state[None])[0], beta)
        image = land.state(m)
        residual = float(np.abs(gibbs_masses(land.potentials(image[None])[0], beta) - m).sum())
        if residual <= tolerance:
            break
        # cells of no mass would dominate a plain norm of potentials that grow at infinity
        gap = image - state
        states, gaps = [*states, state][-_ANDERSON_DEPTH:], [*gaps, gap][-_ANDERSON_DEPTH:]
        state = state + 0.5 * gap
        if len(gaps) > 1:
            weight = np.sqrt(m)
            moves = np.stack([b - a for a, b in pairwise(gaps)], 1)
            steps = np.stack([b - a for a, b in pairwise(states)], 1)
            mix, *_ = np.linalg.lstsq(weight[:, None] * moves, weight * gap, rcond=1e-12)
            state = state - (steps + 0.5 * moves) @ mix
    return m, residual
