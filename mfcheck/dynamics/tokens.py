"""Tokens in depth: residual steps x <- x + dt V_{rho,mu}(x) of laws of tokens, and the continuity equation."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
import torch
from jaxtyping import Float
from numpy.typing import NDArray
from torch import Tensor

from mfcheck.errors import InputError
from mfcheck.heads import Head
from mfcheck.heads.protocol import check_finite, check_law, uniform_weights
from mfcheck.measure import Measure

#: Numbers [heads, places, tokens] of one chunk of replicates: 2^18 doubles, 2 megabytes, stay near a core.
CHUNK = 2**18


def token_velocity(
    head: Head,
    rho: Measure,
    tokens: Float[Tensor, "*batch n d"],
    weights: Float[Tensor, "*batch n"] | None = None,
    at: Float[Tensor, "*batch k d"] | None = None,
) -> Float[Tensor, "*batch k d"]:
    """V_{rho,mu}(x) = sum_i w_i v_{theta_i}(x; mu) at the tokens themselves, or at other places [..., k, d].

    rho: heads, points [..., M, p] with weights [..., M], whose batch axes broadcast against those of tokens
    [..., n, d]; the tokens' weights default to 1/n. Differentiable. Does not check its numbers: `residual_flow` does.
    """
    places = tokens if at is None else at
    if head.everywhere is not None and (weights is None or not weights.requires_grad):
        of_heads = None if weights is None else weights[..., None, :]
        values = head.everywhere(rho.points, places[..., None, :, :], tokens[..., None, :, :], of_heads)
        return torch.einsum("...m,...mkd->...kd", rho.weights, values)
    weights = uniform_weights(tokens) if weights is None else weights
    values = head.function(
        rho.points[..., None, :],
        places[..., None, :, :],
        tokens[..., None, None, :, :],
        weights[..., None, None, :],
    )
    return torch.einsum("...m,...mkd->...kd", rho.weights, values)


def residual_flow(
    head: Head,
    rho: Measure,
    tokens: Float[Tensor, "*batch n d"],
    *,
    depth_step: float,
    layers: int,
    weights: Float[Tensor, "*batch n"] | None = None,
    sphere: bool = False,
    passive: Float[Tensor, "*batch k d"] | None = None,
) -> tuple[Float[Tensor, "*batch n d"], Float[Tensor, "*batch k d"]]:
    """Tokens after `layers` steps x <- x + dt V_{rho,mu}(x), and passive places carried along (k = 0: none).

    tokens [..., n, d] with weights [..., n] (default 1/n), on any device; rho: one law of heads for all layers and
    replicates, points [M, p], its mean taken. sphere: tokens are projected to the unit sphere after every step.
    passive places [..., k, d] move with the tokens' velocity and are seen by none, as tokens of weight 0.
    Raises InputError where the laws are none, shapes or steps do not fit, or a token stops being finite.
    Source: research card; [HL].
    """
    check_law(tokens, weights, head.token_dimension, head.name)
    if rho.points.shape[-1] != head.parameter_dimension or rho.points.ndim != 2:
        raise InputError(
            f"head {head.name!r}: one law of heads has points [M, {head.parameter_dimension}]; they came as "
            f"{tuple(rho.points.shape)}"
        )
    if not (math.isfinite(depth_step) and depth_step > 0) or layers < 0:
        raise InputError(f"a depth step is positive and layers are 0 or more; they came as {depth_step} and {layers}")
    carried = tokens.new_empty((*tokens.shape[:-2], 0, tokens.shape[-1])) if passive is None else passive
    batch, count = tokens.shape[:-2], tokens.shape[-2]
    systems = math.prod(batch)
    flat = tokens.reshape(systems, count, -1)
    flat_carried = carried.reshape(systems, carried.shape[-2], tokens.shape[-1])
    together = max(1, CHUNK // (len(rho.weights) * count * (count + carried.shape[-2])))
    pieces = flat.split(together)
    given: Sequence[Tensor | None] = [None] * len(pieces)
    if weights is not None:
        given = weights.expand(tokens.shape[:-1]).reshape(systems, count).split(together)
    ends, ends_carried = [], []
    for x, w, y in zip(pieces, given, flat_carried.split(together), strict=True):
        for _ in range(layers):
            velocity = token_velocity(head, rho, x, w, torch.cat([x, y], -2) if y.shape[-2] else None)
            x, y = x + depth_step * velocity[..., :count, :], y + depth_step * velocity[..., count:, :]
            if sphere:
                x, y = x / x.norm(dim=-1, keepdim=True), y / y.norm(dim=-1, keepdim=True)
        ends.append(x)
        ends_carried.append(y)
    moved, moved_passive = torch.cat(ends), torch.cat(ends_carried)
    check_finite(moved, f"tokens after {layers} steps of {depth_step:g}", head.name)
    return moved.reshape(*batch, *moved.shape[-2:]), moved_passive.reshape(*batch, *moved_passive.shape[-2:])


@dataclass(frozen=True, eq=False)
class QuantileFlow:
    """The continuity equation d mu/dt + d(mu V)/dx = 0 of a compactly supported law, carried by its quantiles.

    middles [n]: the quantile function at (i + 1/2)/n, which carry the mass 1/n each; edges [n + 1]: at i/n. error: the
    L2 distance in the quantile, that is W2, to the solution with half as many nodes, where it converges above its own.
    The velocity is Lipschitz and of one value at a place: quantiles never cross, and a grid's cell masses, differences
    of the increasing F, are non-negative and sum to 1 at any cell size: conservative and positive by construction.
    """

    middles: NDArray[np.float64]
    edges: NDArray[np.float64]
    error: float

    def masses(self, grid_edges: NDArray[np.float64]) -> NDArray[np.float64]:
        """Masses [k] of the cells between edges [k + 1], F linear between nodes. Sum 1 where they span the support."""
        levels = np.linspace(0.0, 1.0, len(self.edges))
        return np.diff(np.interp(grid_edges, self.edges, levels))

    def squared_wasserstein_2(self, tokens: NDArray[np.float64]) -> NDArray[np.float64]:
        """W2^2 of the uniform law on tokens [..., N] on the line to this law, shape [...]; N divides the nodes.

        The mass 1/n of a node lies evenly between its edges. Raises InputError where N does not divide n.
        """
        count = tokens.shape[-1]
        if len(self.middles) % count:
            raise InputError(f"the number of tokens divides the nodes, {len(self.middles)}; it came as {count}")
        cells = self.middles.reshape(count, -1)
        within = np.square(np.diff(self.edges)).mean() / 12
        return np.square(np.sort(tokens, -1)[..., None] - cells).mean((-2, -1)) + within


def quantile_flow(
    head: Head,
    rho: Measure,
    quantile: Callable[[NDArray[np.float64]], NDArray[np.float64]],
    *,
    depth_step: float,
    layers: int,
    nodes: int = 1024,
) -> QuantileFlow:
    """The law of scalar tokens in depth from its quantile function on [0, 1], with an error bar from two resolutions.

    The law is a midpoint rule in the quantile: second order in 1/nodes for smooth quantile functions. depth_step and
    layers as for the tokens it is compared with: T1 is about dt, and a reference with the same steps leaves it out.
    Raises InputError on an odd number of nodes, or a law that is not supported on a bounded interval.
    """
    if nodes < 4 or nodes % 2:
        raise InputError(f"a quantile flow takes an even number of nodes, for its error bar; it came as {nodes}")
    coarse, fine = (
        _carried(head, rho, quantile, depth_step=depth_step, layers=layers, nodes=count)
        for count in (nodes // 2, nodes)
    )
    # the coarse nodes lie on edges of the fine ones: no interpolation
    error = float(np.sqrt(np.square(coarse[0] - fine[1][1::2]).mean()))
    return QuantileFlow(fine[0], fine[1], error)


def _carried(
    head: Head,
    rho: Measure,
    quantile: Callable[[NDArray[np.float64]], NDArray[np.float64]],
    *,
    depth_step: float,
    layers: int,
    nodes: int,
) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    starts = [quantile((np.arange(nodes) + 0.5) / nodes), quantile(np.arange(nodes + 1) / nodes)]
    if not np.isfinite(starts[1]).all() or (np.diff(starts[1]) < 0).any():
        raise InputError("a quantile function is finite on [0, 1], for a compact support, and does not decrease")
    middles, edges = (torch.from_numpy(np.asarray(start, dtype=np.float64))[:, None] for start in starts)
    moved, carried = residual_flow(head, rho, middles, depth_step=depth_step, layers=layers, passive=edges)
    return moved[:, 0].numpy(), carried[:, 0].numpy()
