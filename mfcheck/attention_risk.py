"""The risk of one mean-field attention layer: a loss of V_rho(x_k) over K data, for any head; fast for scalar heads."""

from __future__ import annotations

import math
from collections.abc import Callable

import torch
from jaxtyping import Float
from torch import Tensor

from mfcheck.errors import InputError
from mfcheck.feature_risk import FeatureRisk, Pullback
from mfcheck.heads import scalar_softmax
from mfcheck.heads.protocol import Head
from mfcheck.operator import Sequences, head_values
from mfcheck.risks import squared_error
from mfcheck.statistics.seeds import Stream

Function = Callable[[Tensor], Tensor]


def attention_layer(
    head: Head,
    sequences: Sequences,
    targets: Float[Tensor, "K d"],
    *,
    loss: Function | None = None,
    weight_decay: float = 0.0,
) -> FeatureRisk:
    """R(rho) = loss(V_rho(x_1), ..., V_rho(x_K)) + lambda/2 E|theta|^2 for a law rho of heads.

    Its features are the head on each datum, h_k(theta) = v_theta(x_k; mu_k), one a coordinate. targets [K, d]; loss: a
    convex function of the predictions [..., K d] -> [...] (default: sum over coordinates of the mean over k of
    (V - y)^2 / 2); weight_decay lambda. Convex along mixtures. Raises InputError. Source: [HL], [HRSS].
    """
    y = _checked_targets(targets, sequences, head.token_dimension)
    own_loss, own_gradient = squared_error(y.flatten())
    # squared_error divides by all K d numbers; a datum's error is the sum over its coordinates
    d = head.token_dimension
    scaled = (lambda v: d * own_loss(v)), (lambda v: d * own_gradient(v))
    decay = _weight_decay(weight_decay)
    return FeatureRisk(
        f"attention layer ({head.name})",
        potential=decay[0],
        potential_gradient=decay[1],
        features=lambda points: head_values(head, points, sequences).flatten(-2),
        loss=loss or scaled[0],
        loss_gradient=scaled[1] if loss is None else None,
    )


def scalar_attention_layer(
    sequences: Sequences, targets: Float[Tensor, " K"], *, loss: Function | None = None, weight_decay: float = 0.0
) -> FeatureRisk:
    """`attention_layer` for scalar softmax heads with bounded value, theta = (a, v) in R^2, with closed forms.

    h_k(theta) = tanh(v) S_k(a), S_k(a) the average of datum k's tokens y under softmax(a x_k y); dS_k/da is x_k times
    the tokens' variance under these weights. Equal to `attention_layer` of that head to rounding.
    """
    y = _checked_targets(targets[:, None] if targets.ndim == 1 else targets, sequences, 1)[:, 0]
    own_loss, own_gradient = squared_error(y)
    decay = _weight_decay(weight_decay)
    # [K, n]: heads go last, the long axis that all arithmetic runs along
    tokens, shares = sequences.tokens[..., 0], sequences.weights
    queries, slopes = sequences.queries[:, 0], sequences.queries * tokens
    # logits are linear in a: the largest is an end of the slopes of the tokens that weigh anything, and about the
    # middle of these it is |a| times half their width
    highest = slopes.masked_fill(shares == 0, -math.inf).amax(-1)
    lowest = slopes.masked_fill(shares == 0, math.inf).amin(-1)
    half = 0.5 * (highest - lowest)
    centred = (slopes - 0.5 * (highest + lowest)[:, None]).masked_fill(shares == 0, 0.0)
    powers = torch.stack([shares, shares * tokens, shares * tokens.square()], 1)

    def with_pullback(points: Tensor) -> tuple[Tensor, Pullback]:
        if points.shape[-1] != 2:
            raise InputError(f"a scalar head is theta = (a, v) in R^2; points came as {tuple(points.shape)}")
        batch = points.shape[:-1]
        a, value = points[..., 0].reshape(-1), torch.tanh(points[..., 1])
        exponentials = torch.outer(centred.to(a).flatten(), a).unflatten(0, centred.shape)
        exponentials.sub_(torch.outer(half.to(a), a.abs())[:, None]).exp_()
        total, first, second = torch.bmm(powers.to(a), exponentials).unbind(1)
        # averages of the tokens and of their squares under the softmax, [K, ...]
        average, square = ((part / total).reshape(-1, *batch) for part in (first, second))

        def pull(field: Tensor) -> Tensor:
            weight = field.movedim(-1, 0)[..., None]
            by_v = (average * weight).sum(0).mul_(1 - value.square())
            variance = torch.addcmul(square, average, average, value=-1)
            by_a = variance.mul_(weight * queries.to(field).reshape(-1, *(1,) * len(batch))).sum(0).mul_(value)
            return torch.stack([by_a, by_v], -1)

        return (average * value).movedim(0, -1), pull

    return FeatureRisk(
        f"attention layer ({scalar_softmax('tanh').name})",
        potential=decay[0],
        potential_gradient=decay[1],
        features=lambda points: with_pullback(points)[0],
        features_with_pullback=with_pullback,
        width=tokens.numel(),
        loss=loss or own_loss,
        loss_gradient=own_gradient if loss is None else None,
    )


def scalar_teacher(
    data: int, tokens: int, *, token_scale: float, query_scale: float, teacher: float, source: Stream
) -> tuple[Sequences, Float[Tensor, " K"]]:
    """K data of one scalar attention layer: queries, token sequences, and the targets that one teacher head gives.

    Queries N(0, query_scale^2), tokens N(0, token_scale^2), targets v_theta(x_k) at theta = (teacher, teacher) of the
    head with value tanh, so that a single head fits all of them. The signs of a and v flipped together give nearly
    the same output: at small beta the landscape has two wells. float64. Raises InputError on empty data.
    """
    if data < 1 or tokens < 1:
        raise InputError(f"a data set has at least one sequence of one token; {data} of {tokens} tokens were asked for")
    generator = source.torch()
    queries = query_scale * torch.randn(data, 1, generator=generator, dtype=torch.float64)
    sequences = Sequences.of(
        queries, token_scale * torch.randn(data, tokens, 1, generator=generator, dtype=torch.float64)
    )
    theta = torch.tensor([teacher, teacher], dtype=torch.float64)
    return sequences, head_values(scalar_softmax("tanh"), theta[None], sequences)[0, :, 0]


def _weight_decay(weight_decay: float) -> tuple[Function | None, Function | None]:
    """lambda/2 |theta|^2 and its gradient, or none of both."""
    if not weight_decay >= 0:
        raise InputError(f"a weight decay is a number >= 0; it came as {weight_decay}")
    if not weight_decay:
        return None, None
    return (lambda points: 0.5 * weight_decay * points.square().sum(-1)), (lambda points: weight_decay * points)


def _checked_targets(targets: Tensor, sequences: Sequences, d: int) -> Tensor:
    expected = (len(sequences), d)
    if not isinstance(targets, Tensor) or tuple(targets.shape) != expected:
        came = tuple(targets.shape) if isinstance(targets, Tensor) else type(targets).__name__
        raise InputError(f"targets are one token a datum, [K, d] = {expected}; they came as {came}")
    if not bool(torch.isfinite(targets).all()):
        raise InputError("targets are finite numbers; they came with NaN or infinity")
    if sequences.queries.shape[-1] != d:
        raise InputError(
            f"this head takes tokens in R^{d}; the sequences have tokens in R^{sequences.queries.shape[-1]}"
        )
    return targets
