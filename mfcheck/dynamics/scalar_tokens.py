"""Residual steps of scalar tokens under softmax heads in O(N) a step: the averages from power sums of the tokens."""

from __future__ import annotations

import torch
from jaxtyping import Float
from torch import Tensor

from mfcheck.errors import InputError
from mfcheck.heads.protocol import check_finite, check_law
from mfcheck.measure import Measure

#: Powers of the series: up to |a x (y - mean)| = 6 the first one left out is 6^40 / 40! = 2e-17.
TERMS = 40
LARGEST_EXPONENT = 6.0
#: Numbers [systems, tokens] of a chunk under a mask, whose prefix sums hold TERMS times as many: 2 megabytes.
CHUNK = 2**18 // TERMS


def scalar_softmax_flow(
    rho: Measure, tokens: Float[Tensor, "systems n"], *, depth_step: float, layers: int, causal: bool = False
) -> Float[Tensor, "systems n"]:
    """`residual_flow` of `scalar_softmax` heads (a, v), or of `causal` ones, on tokens on the line, without N^2 terms.

    With y measured from the tokens' mean, sum_j e^{z y_j} = sum_k z^k sum_j y_j^k / k! at z = a x: one power series
    serves all places of a system (under a mask, one of the prefix sums), and its derivative in z is the numerator.
    By Jensen the sum is at least N, so that what is cut off and rounding (terms up to e^6) are relative errors of
    1e-13; under a mask it is at least e^-6 times its number of terms, and they of 1e-11. rho: points [M, 2]; tokens
    [systems, N], one law of heads for all. Raises InputError where exponents pass LARGEST_EXPONENT.
    """
    check_law(tokens[..., None], None, 1, "scalar softmax")
    if rho.points.ndim != 2 or rho.points.shape[-1] != 2 or tokens.ndim != 2:
        raise InputError(
            f"scalar heads are a law of points [M, 2] and systems of tokens [systems, N]; they came as "
            f"{tuple(rho.points.shape)} and {tuple(tokens.shape)}"
        )
    heads = [(float(w), float(a), float(v)) for w, (a, v) in zip(rho.weights, rho.points, strict=True)]
    together = max(1, (CHUNK if causal else 4 * CHUNK) // tokens.shape[-1])
    ends = []
    for x in tokens.split(together):
        for _ in range(layers):
            x = x + depth_step * _velocity(heads, x, causal)
        ends.append(x)
    moved = torch.cat(ends)
    check_finite(moved, f"tokens after {layers} steps of {depth_step:g}", "scalar softmax")
    return moved


def _velocity(heads: list[tuple[float, float, float]], x: Tensor, causal: bool) -> Tensor:
    centre = x.mean(-1, keepdim=True)
    y = x - centre
    exponent = max(abs(a) for _, a, _ in heads) * float(x.abs().max() * y.abs().max())
    if not exponent <= LARGEST_EXPONENT:
        raise InputError(
            f"the series of a scalar softmax is cut for exponents a x (y - mean) up to {LARGEST_EXPONENT:g}; they came "
            f"up to {exponent:.3g}: residual_flow has no such limit"
        )
    power, sums = torch.ones_like(y), []
    for k in range(TERMS + 1):
        if k:
            power.mul_(y).div_(k)
        # a mask's average over the first i tokens differs from their sum by a factor that cancels
        sums.append(power.cumsum(-1) if causal else power.mean(-1, keepdim=True))
    velocity = torch.zeros_like(x)
    for weight, a, v in heads:
        z = a * x
        below = sums[TERMS - 1].expand_as(x).clone()
        above = (sums[TERMS] * TERMS).expand_as(x).clone()
        for k in range(TERMS - 2, -1, -1):
            below.mul_(z).add_(sums[k])
            above.mul_(z).add_(sums[k + 1], alpha=k + 1)
        velocity.add_(above.div_(below).add_(centre), alpha=weight * v)
    return velocity
