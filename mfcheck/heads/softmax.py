"""Softmax attention: the average of the values under weights proportional to w_j exp(logit_j)."""

from __future__ import annotations

import math
from collections.abc import Callable

import torch
from jaxtyping import Float
from torch import Tensor

from mfcheck.errors import InputError
from mfcheck.heads.protocol import Head, Hypotheses, average_of_tokens, inner_products, split_parameters

#: What is made of the value parameters before they multiply the averaged token, with its growth power.
VALUES: dict[str, tuple[Callable[[Tensor], Tensor], float]] = {
    "identity": (lambda v: v, 1.0),
    "tanh": (torch.tanh, 0.0),
}


def softmax_average(
    logits: Float[Tensor, "*batch n"], tokens: Float[Tensor, "*batch n d"], weights: Float[Tensor, "*batch n"]
) -> Float[Tensor, "*batch d"]:
    """sum_j w_j e^{logit_j} y_j / sum_j w_j e^{logit_j}, leading axes broadcast; tokens of weight 0 are ignored."""
    shares = unnormalised_shares(logits, weights)
    return average_of_tokens(shares, tokens) / shares.sum(-1)[..., None]


def averages_everywhere(
    seen: Float[Tensor, "*batch k d"], tokens: Float[Tensor, "*batch n d"], weights: Float[Tensor, "*batch n"] | None
) -> Float[Tensor, "*batch k d"]:
    """`softmax_average` with logits seen . y_j at k places of one law, by two products of matrices; weights None: 1/n.

    Half the time of one average a place where there are many tokens. Not differentiable in a weight of 0.
    """
    logits = seen @ tokens.mT
    if weights is not None:
        logits = logits + weights.log()[..., None, :]
    return logits.softmax(-1) @ tokens


def unnormalised_shares(
    logits: Float[Tensor, "*batch n"], weights: Float[Tensor, "*batch n"]
) -> Float[Tensor, "*batch n"]:
    """w_j exp(logit_j) over the largest of them, shape [..., n]: at least one is 1 and none overflows.

    By log-weights, so that a token of tiny weight may carry the largest logit. A token of weight 0 gets 0, whatever
    its logit; its derivative in the weight (a first variation at an appended token) is exp(logit_j) over the largest.
    """
    positive = weights > 0
    log_weights = torch.where(positive, weights, 1.0).log()
    if not weights.requires_grad:
        shifted = logits + log_weights.masked_fill(~positive, -math.inf)
        return (shifted - shifted.amax(-1, keepdim=True).detach()).exp()
    shifted = logits + log_weights
    peak = torch.where(positive, shifted, -math.inf).amax(-1, keepdim=True).detach()
    # a token of weight 0 may stand above the peak: stop its exponential short of overflow
    highest = 0.5 * math.log(torch.finfo(logits.dtype).max)
    limit = torch.full_like(weights, highest).masked_fill(positive, math.inf)
    return torch.minimum(shifted - peak, limit).exp() * torch.where(positive, 1.0, weights)


def softmax_attention(token_dimension: int, head_dimension: int | None = None) -> Head:
    """Softmax attention with all four matrices, v = W_O W_V sum_j softmax_j(x' W_Q' W_K y_j / sqrt(k)) y_j.

    theta packs W_Q, W_K, W_V [k, d] and W_O [d, k], row by row, p = 4 k d; k = head_dimension, d by default. Equal to
    one head of torch.nn.MultiheadAttention without biases. Source: Vaswani et al. 2017.
    """
    d, k = token_dimension, head_dimension or token_dimension
    shapes = ((k, d), (k, d), (k, d), (d, k))
    scale = 1 / math.sqrt(k)

    def function(theta: Tensor, x: Tensor, tokens: Tensor, weights: Tensor) -> Tensor:
        query, key, value, output = split_parameters(theta, shapes)
        # x moves through the matrices before it meets the tokens: n products of d numbers, none with [k, d]
        seen = torch.einsum("...ka,...k->...a", key, torch.einsum("...ka,...a->...k", query, x)) * scale
        average = softmax_average(inner_products(seen, tokens), tokens, weights)
        return torch.einsum("...ak,...k->...a", output, torch.einsum("...ka,...a->...k", value, average))

    def values(theta: Tensor, tokens: Tensor) -> Tensor:
        _, _, value, output = split_parameters(theta, shapes)
        return torch.einsum("...ak,...kb,...nb->...na", output, value, tokens)

    return Head(f"softmax attention (d={d}, k={k})", 4 * k * d, d, function, Hypotheses(growth_power=2.0), values)


def matrix_softmax(token_dimension: int, value: str = "identity") -> Head:
    """Softmax attention with logits x' A y and value matrix V, v = V sum_j softmax_j(x' A y_j) y_j.

    theta packs A and V [d, d], row by row, p = 2 d^2. value "tanh" bounds the head: V is tanh of its parameters,
    entry by entry. Source: [CACP], and Geshkovski et al. for the form with A = W_Q' W_K.
    """
    d = token_dimension
    of_value, growth = _value(value)

    def function(theta: Tensor, x: Tensor, tokens: Tensor, weights: Tensor) -> Tensor:
        a, v = split_parameters(theta, ((d, d), (d, d)))
        seen = torch.einsum("...ab,...a->...b", a, x)
        average = softmax_average(inner_products(seen, tokens), tokens, weights)
        return torch.einsum("...ab,...b->...a", of_value(v), average)

    def values(theta: Tensor, tokens: Tensor) -> Tensor:
        _, v = split_parameters(theta, ((d, d), (d, d)))
        return torch.einsum("...ab,...nb->...na", of_value(v), tokens)

    def everywhere(theta: Tensor, places: Tensor, tokens: Tensor, weights: Tensor | None) -> Tensor:
        a, v = split_parameters(theta, ((d, d), (d, d)))
        return averages_everywhere(places @ a, tokens, weights) @ of_value(v).mT

    hypotheses = Hypotheses(growth_power=growth)
    return Head(f"matrix softmax (d={d}, {value} value)", 2 * d * d, d, function, hypotheses, values, everywhere)


def scalar_softmax(value: str = "identity") -> Head:
    """Softmax attention on scalar tokens, theta = (a, v): v_theta(x) = value(v) sum_j softmax_j(a x y_j) y_j.

    Two parameters, so that the law of heads can be solved on a grid; value "identity" or "tanh" (bounded).
    """
    of_value, growth = _value(value)

    def function(theta: Tensor, x: Tensor, tokens: Tensor, weights: Tensor) -> Tensor:
        a, v = theta.split(1, -1)
        return of_value(v) * softmax_average(inner_products(a * x, tokens), tokens, weights)

    def values(theta: Tensor, tokens: Tensor) -> Tensor:
        return of_value(theta[..., 1])[..., None, None] * tokens

    def everywhere(theta: Tensor, places: Tensor, tokens: Tensor, weights: Tensor | None) -> Tensor:
        a, v = (theta[..., None, k : k + 1] for k in (0, 1))
        return of_value(v) * averages_everywhere(a * places, tokens, weights)

    hypotheses = Hypotheses(growth_power=growth)
    return Head(f"scalar softmax ({value} value)", 2, 1, function, hypotheses, values, everywhere)


def _value(name: str) -> tuple[Callable[[Tensor], Tensor], float]:
    if name not in VALUES:
        raise InputError(f"a head's value is one of {', '.join(VALUES)}; it came as {name!r}")
    return VALUES[name]
