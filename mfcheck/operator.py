"""The operator V_rho(x) = E_{theta ~ rho} v_theta(x; mu): by particles, on a grid, or by quadrature with its error.

One function does all three, since particles, grids and quadrature rules are all Measures.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
import torch
from jaxtyping import Float
from numpy.typing import ArrayLike
from torch import Tensor

from mfcheck.errors import InputError
from mfcheck.heads.protocol import Head, check_finite, check_law, uniform_weights
from mfcheck.measure import Measure

#: Numbers that one chunk of heads holds at once: 2^17 doubles, a megabyte, stay in a core's second-level cache.
CHUNK = 2**17


@dataclass(frozen=True, eq=False)
class Sequences:
    """K inputs of an attention layer: a query x_k and a law of tokens each.

    queries [K, d], tokens [K, n, d], weights [K, n]. Raises InputError where a law is none (see mfcheck.heads).
    """

    queries: Float[Tensor, "K d"]
    tokens: Float[Tensor, "K n d"]
    weights: Float[Tensor, "K n"]

    def __post_init__(self) -> None:
        count, d = self.queries.shape if self.queries.ndim == 2 else (-1, -1)
        if self.tokens.ndim != 3 or self.tokens.shape[0] != count or self.weights.shape != self.tokens.shape[:-1]:
            raise InputError(
                "sequences are queries [K, d], tokens [K, n, d] and weights [K, n]; they came as "
                f"{tuple(self.queries.shape)}, {tuple(self.tokens.shape)} and {tuple(self.weights.shape)}"
            )
        check_law(self.tokens, self.weights, d, "of these sequences")
        check_finite(self.queries, "queries", "of these sequences")

    @classmethod
    def of(
        cls,
        queries: Float[Tensor, "K d"],
        tokens: Float[Tensor, "*K n d"],
        weights: Float[Tensor, "*K n"] | None = None,
    ) -> Sequences:
        """Sequences of queries [K, d] and tokens [K, n, d], or [n, d] shared by all; weights default to 1/n."""
        weights = uniform_weights(tokens) if weights is None else weights
        count = len(queries)
        return cls(queries, tokens.expand(count, *tokens.shape[-2:]), weights.expand(count, weights.shape[-1]))

    def to(self, like: Tensor) -> Sequences:
        """The same sequences in the dtype and on the device of a tensor."""
        if self.tokens.dtype == like.dtype and self.tokens.device == like.device:
            return self
        weights = self.weights.to(like)
        return Sequences(self.queries.to(like), self.tokens.to(like), weights / weights.sum(-1, keepdim=True))

    def __len__(self) -> int:
        return len(self.queries)


def head_values(head: Head, points: Float[Tensor, "*batch M p"], sequences: Sequences) -> Float[Tensor, "*batch M K d"]:
    """v_theta(x_k; mu_k) of every head theta in points [..., M, p] at every input, shape [..., M, K, d].

    Heads go in chunks, so that no more than a cache holds is alive at once; differentiable. Raises InputError where
    head, points and sequences do not fit each other, or the head returns another shape, or NaN.
    """
    if points.shape[-1] != head.parameter_dimension or sequences.queries.shape[-1] != head.token_dimension:
        raise InputError(
            f"head {head.name!r} takes theta in R^{head.parameter_dimension} and tokens in R^{head.token_dimension}; "
            f"points came as {tuple(points.shape)}, queries as {tuple(sequences.queries.shape)}"
        )
    inputs = sequences.to(points)
    # heads as the last batch axis, the long one that elementwise arithmetic runs along
    queries, tokens, weights = inputs.queries[:, None], inputs.tokens[:, None], inputs.weights[:, None]
    parts = []
    for chunk in points.reshape(-1, head.parameter_dimension).split(max(1, CHUNK // tokens.numel())):
        part = head.function(chunk, queries, tokens, weights)
        expected = (len(inputs), len(chunk), head.token_dimension)
        if tuple(part.shape) != expected:
            head.check_output(part, expected[:-1], points.dtype)
        parts.append(part)
    values = torch.cat(parts, 1).movedim(0, 1).reshape(*points.shape[:-1], len(inputs), head.token_dimension)
    if not bool(torch.isfinite(values.sum())):
        check_finite(points, "theta", head.name)
        head.check_output(values, tuple(values.shape[:-1]), points.dtype)
    return values


def operator(head: Head, rho: Measure, sequences: Sequences) -> Float[Tensor, "*batch K d"]:
    """V_rho(x_k) = sum_i w_i v_{theta_i}(x_k; mu_k), shape [..., K, d], for any law of heads rho with batch axes [...].

    rho: particles (Measure.uniform: this is V_M), a grid density, or a quadrature rule. Raises InputError as
    head_values does.
    """
    return torch.einsum("...m,...mkd->...kd", rho.weights, head_values(head, rho.points, sequences))


@dataclass(frozen=True, eq=False)
class OperatorMoments:
    """Mean and covariance of v_theta(x) over theta ~ rho at K inputs: V_rho, and M times the covariance of V_M.

    mean [K, d]; covariance [K d, K d]; their error bars: the largest difference of any entry between two quadratures.
    """

    mean: Float[Tensor, "K d"]
    covariance: Float[Tensor, "Kd Kd"]
    mean_error: float = 0.0
    covariance_error: float = 0.0

    @property
    def total_variance(self) -> float:
        """E |v - V_rho|^2 over all inputs: the trace of the covariance."""
        return float(self.covariance.trace())


def operator_moments(
    head: Head, rule: Callable[[int], Measure], sequences: Sequences, orders: tuple[int, int] = (40, 60)
) -> OperatorMoments:
    """Mean and covariance of v_theta over rho by quadrature, each with its error.

    rule(order) -> Measure is a quadrature rule of rho, such as gauss_hermite. The values are those of the second
    order; their errors are the difference from the first, which the second improves on where the rule converges.
    Raises InputError where the second order is not larger than the first.
    """
    if orders[0] >= orders[1]:
        raise InputError(f"two quadrature orders, the second one larger, give an error; they came as {orders}")
    coarse, fine = (_moments(head, rule(order), sequences) for order in orders)
    return OperatorMoments(
        *fine,
        mean_error=float((fine[0] - coarse[0]).abs().max()),
        covariance_error=float((fine[1] - coarse[1]).abs().max()),
    )


def _moments(head: Head, rho: Measure, sequences: Sequences) -> tuple[Tensor, Tensor]:
    values = head_values(head, rho.points, sequences)
    mean = torch.einsum("m,mkd->kd", rho.weights, values)
    centred = (values - mean).flatten(1)
    return mean, torch.einsum("m,mi,mj->ij", rho.weights, centred, centred)


def gauss_hermite(mean: Sequence[float], scale: ArrayLike, order: int) -> Measure:
    """The Gaussian law N(mean, S S') on R^p as a tensor Gauss-Hermite rule with order^p nodes, in float64.

    mean [p]; scale: standard deviations [p], or a factor S [p, p]. Exact for polynomials of degree 2 order - 1 in each
    coordinate; converges geometrically for functions analytic about the real axis, as heads are. Raises InputError.
    """
    centre, factor = np.asarray(mean, dtype=np.float64), np.asarray(scale, dtype=np.float64)
    p = len(centre)
    if factor.shape not in ((p,), (p, p)):
        raise InputError(f"a Gaussian's scale is [p] or [p, p] with p = {p}; it came as {factor.shape}")
    nodes, weights = np.polynomial.hermite_e.hermegauss(order)
    line = rule_on_the_line(nodes, weights / weights.sum())
    grid = product(*[line] * p)
    s = torch.as_tensor(np.diag(factor) if factor.ndim == 1 else factor)
    return grid.push(lambda points: torch.as_tensor(centre) + points @ s.T)


def rule_on_the_line(nodes: ArrayLike, weights: ArrayLike) -> Measure:
    """Nodes [n] and weights [n] of a quadrature rule as a Measure on R, in float64."""
    return Measure(
        torch.as_tensor(np.asarray(nodes, dtype=np.float64))[:, None],
        torch.as_tensor(np.asarray(weights, dtype=np.float64)),
    )


def product(*marginals: Measure) -> Measure:
    """The product law of independent marginals: points [n_1 ... n_k, p_1 + ... + p_k], weights multiplied."""
    points, weights = marginals[0].points, marginals[0].weights
    for other in marginals[1:]:
        left = points[:, None, :].expand(-1, len(other.weights), -1)
        right = other.points[None].expand(len(weights), -1, -1)
        points = torch.cat([left, right], -1).flatten(0, 1)
        weights = (weights[:, None] * other.weights).flatten()
    return Measure(points, weights)
