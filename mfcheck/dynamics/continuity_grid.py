"""The continuity equation of scalar tokens on a 1-D grid: conservative and positive at any depth step and cell size."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
import torch
from numpy.typing import NDArray
from scipy.interpolate import PchipInterpolator

from mfcheck.dynamics.tokens import token_velocity
from mfcheck.errors import InputError
from mfcheck.heads import Head
from mfcheck.heads.protocol import check_finite
from mfcheck.measure import Measure

Array = NDArray[np.float64]


@dataclass(frozen=True, eq=False)
class GridFlow:
    """Cell masses [n] of a law of tokens in depth between edges [n + 1], and the error bar of their W1.

    error: W1 to the solution on cells twice as wide, where second order makes it three times its own.
    """

    edges: Array
    masses: Array
    error: float

    @property
    def distribution(self) -> Array:
        """F at the edges, [n + 1]: from 0 to 1."""
        return np.concatenate([[0.0], np.cumsum(self.masses)])

    def wasserstein_1(self, edges: Array, distribution: Array) -> float:
        """W1 = int |F - G| dx to a law with G [k] at edges [k], both laws spread evenly between their edges."""
        places = np.union1d(self.edges, edges)
        ours = np.interp(places, self.edges, self.distribution)
        return float(np.trapezoid(np.abs(ours - np.interp(places, edges, distribution)), places))


def continuity_grid(
    head: Head,
    rho: Measure,
    distribution: Callable[[Array], Array],
    support: tuple[float, float],
    interval: tuple[float, float],
    *,
    depth_step: float,
    layers: int,
    cells: int = 256,
) -> GridFlow:
    """Solves d mu/dt + d(mu V_{rho,mu})/dx = 0 with the tokens' own residual steps, from F = `distribution`.

    Every step carries the cells' edges by x + dt V(x), each with the mass to its left, and reads F off between them by
    monotone cubic interpolation (Fritsch and Butland): masses are differences of an F that rises from 0 to 1, so that
    they sum to 1 and none is negative, whatever the step; no bound on it by the cell, and no upwind flux's diffusion.
    The ends of the support are carried too, so that no mass leaks past them and a jump of the density there costs no
    order: second in the cell, in W1. support: where F rises from 0 to 1; interval: of the grid, which holds the tokens
    through all layers. Runs on cells/2 and cells, for the error bar. Raises InputError where F is none, tokens leave
    the interval, or a step is so long that places change their order.
    """
    if head.token_dimension != 1:
        raise InputError(f"a grid in one dimension takes scalar tokens; head {head.name!r} has {head.token_dimension}")
    if cells < 4 or cells % 2 or not interval[0] <= support[0] < support[1] <= interval[1]:
        raise InputError(
            f"a grid takes an even number of cells from 4 on an interval that holds the support; they came as {cells} "
            f"on {interval} for {support}"
        )
    if not depth_step > 0 or layers < 0:
        raise InputError(f"a depth step is positive and layers are 0 or more; they came as {depth_step} and {layers}")
    (wide, coarse), (edges, fine) = (
        _solve(head, rho, distribution, support, np.linspace(*interval, count + 1), depth_step, layers)
        for count in (cells // 2, cells)
    )
    error = GridFlow(edges, np.diff(fine), 0.0).wasserstein_1(wide, coarse)
    return GridFlow(edges, np.diff(fine), error)


def _solve(
    head: Head,
    rho: Measure,
    distribution: Callable[[Array], Array],
    support: tuple[float, float],
    edges: Array,
    depth_step: float,
    layers: int,
) -> tuple[Array, Array]:
    ends = np.array(support, dtype=np.float64)
    f = np.asarray(distribution(np.clip(edges, *ends)), dtype=np.float64)
    if f.shape != edges.shape or not (np.diff(f) >= 0).all() or abs(f[0]) > 1e-12 or abs(f[-1] - 1) > 1e-12:
        raise InputError(
            f"a distribution function rises from 0 to 1 over the support {support}; at its ends it came as "
            f"{f.flat[0]:.6g} and {f.flat[-1]:.6g}"
        )
    f[0], f[-1] = 0.0, 1.0
    for layer in range(layers):
        within = np.clip(edges, *ends)
        # the middle of what a cell shares with the support, where its mass is
        middles = torch.from_numpy(0.5 * (within[1:] + within[:-1]))[:, None]
        inside = (edges > ends[0]) & (edges < ends[1])
        knots = np.concatenate([ends[:1], edges[inside], ends[1:]])
        places = torch.from_numpy(knots)[:, None]
        velocity = token_velocity(head, rho, middles, torch.from_numpy(np.diff(f)), places)[:, 0]
        check_finite(velocity, f"the velocity on the grid in layer {layer + 1}", head.name)
        moved = knots + depth_step * velocity.numpy()
        if not (np.diff(moved) > 0).all():
            raise InputError(f"a depth step of {depth_step:g} carries places past each other: take a smaller one")
        ends = moved[[0, -1]]
        if ends[0] < edges[0] or ends[1] > edges[-1]:
            raise InputError(
                f"tokens leave the interval [{edges[0]:g}, {edges[-1]:g}] in layer {layer + 1}: they fill "
                f"[{ends[0]:.6g}, {ends[1]:.6g}]"
            )
        carried = PchipInterpolator(moved, np.concatenate([[0.0], f[inside], [1.0]]))
        # what interpolation lacks of rising is its rounding
        f = np.maximum.accumulate(np.clip(carried(np.clip(edges, *ends)), 0.0, 1.0))
    return edges, f
