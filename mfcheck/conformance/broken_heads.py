"""Heads that break one property each, which the suite must find, and no property that has nothing to do with it.

Each is made by a function without arguments, `mfcheck head mfcheck.conformance.broken_heads:NAME`. `BROKEN` has them
all, with the property that each breaks and those that cannot help breaking, too, with the reason. Unless said otherwise
a mutant is softmax attention in the plane, logits x'Ay and value matrix V, with one thing changed.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor

from mfcheck.conformance.mutant import Broken, registered_in
from mfcheck.heads import Head, Hypotheses, hardmax_attention, matrix_softmax
from mfcheck.heads import causal as causal_attention
from mfcheck.heads.protocol import average_of_tokens, inner_products, split_parameters
from mfcheck.heads.softmax import softmax_average

D = 2


BROKEN: list[Broken] = []
breaks = registered_in(BROKEN)


def softmax(name: str, growth_power: float | None = 1.0, values: Any = None, **changed: Callable[..., Any]) -> Head:
    """Softmax attention with parts exchanged, named for what is wrong with it.

    before(theta, x, tokens, weights) -> the same four; matrices(a, v) -> both; logits(logits, weights);
    average(logits, tokens, weights) -> [..., d]; after(output, theta, x, tokens, weights).
    """

    def function(theta: Tensor, x: Tensor, tokens: Tensor, weights: Tensor) -> Tensor:
        if "before" in changed:
            theta, x, tokens, weights = changed["before"](theta, x, tokens, weights)
        a, v = parts(theta)
        if "matrices" in changed:
            a, v = changed["matrices"](a, v)
        logits = inner_products(torch.einsum("...ab,...a->...b", a, x), tokens)
        if "logits" in changed:
            logits = changed["logits"](logits, tokens, weights)
        average = changed.get("average", softmax_average)(logits, tokens, weights)
        output = torch.einsum("...ab,...b->...a", v, average)
        return changed["after"](output, theta, x, tokens, weights) if "after" in changed else output

    return Head(name, 2 * D * D, D, function, Hypotheses(growth_power=growth_power), values)


def parts(theta: Tensor) -> tuple[Tensor, Tensor]:
    """A and V [..., d, d] of theta."""
    a, v = split_parameters(theta, ((D, D), (D, D)))
    return a, v


def values_of(theta: Tensor, tokens: Tensor) -> Tensor:
    """V y_j of every token, what softmax attention declares as its values."""
    return torch.einsum("...ab,...nb->...na", parts(theta)[1], tokens)


@breaks("shape_and_dtype")
def float32_output() -> Head:
    """Returns single precision whatever comes in."""
    return softmax("float32 output", after=lambda output, *_: output.float())


@breaks("shape_and_dtype")
def one_token_keeps_its_axis() -> Head:
    """Forgets to take away the tokens' axis where there is one token only."""

    def after(output: Tensor, theta: Tensor, x: Tensor, tokens: Tensor, weights: Tensor) -> Tensor:
        return output[..., None, :] if tokens.shape[-2] == 1 else output

    return softmax("one token keeps its axis", after=after)


@breaks("finite")
def softmax_without_maximum() -> Head:
    """Exponentials of the logits themselves, without the maximum subtracted: they overflow."""

    def average(logits: Tensor, tokens: Tensor, weights: Tensor) -> Tensor:
        shares = logits.exp() * weights
        return average_of_tokens(shares, tokens) / shares.sum(-1, keepdim=True)

    return softmax("softmax without the maximum subtracted", average=average)


@breaks("finite")
def kernel_that_underflows() -> Head:
    """A normalised Gaussian kernel of query and keys: far from all keys it is 0/0."""

    def function(theta: Tensor, x: Tensor, tokens: Tensor, weights: Tensor) -> Tensor:
        w, v = parts(theta)
        away = torch.einsum("...ka,...na->...nk", w, x[..., None, :] - tokens).square().sum(-1)
        shares = (-0.5 * away).exp() * weights
        average = average_of_tokens(shares, tokens) / shares.sum(-1, keepdim=True)
        return torch.einsum("...ab,...b->...a", v, average)

    return Head("kernel that underflows", 2 * D * D, D, function)


@breaks("deterministic")
def dropout() -> Head:
    """Dropout of the output, left on."""
    return softmax("dropout", after=lambda output, *_: torch.nn.functional.dropout(output, 0.5))


class _Counting:
    """A head that remembers how often it was asked."""

    def __init__(self) -> None:
        self.calls = 0

    def __call__(self, output: Tensor, *_: Tensor) -> Tensor:
        self.calls += 1
        return output * (1 + 1 / self.calls)


@breaks("deterministic")
def running_statistics() -> Head:
    """A factor that settles over the calls, as running statistics do in training mode."""
    return softmax("running statistics", after=_Counting())


@breaks("inputs_not_modified")
def in_place_centring() -> Head:
    """Centres the tokens where they lie."""

    def before(theta: Tensor, x: Tensor, tokens: Tensor, weights: Tensor) -> tuple[Tensor, ...]:
        # of a copy: what goes into a gradient is not written over
        mean = average_of_tokens(weights, tokens.clone())
        if tokens.ndim == 2 and mean.ndim == 1:
            return theta, x, tokens.sub_(mean), weights
        return theta, x, tokens - mean[..., None, :], weights

    return softmax("in-place centring", before=before)


@breaks("inputs_not_modified")
def in_place_tanh() -> Head:
    """Bounds its parameters where they lie."""
    return softmax("in-place tanh", before=lambda theta, x, tokens, weights: (theta.tanh_(), x, tokens, weights))


@breaks("permutation_invariant", {"lipschitz_in_x": "which tokens x sees depends on the one nearest to it"})
def causal() -> Head:
    """A causal mask: x sees the tokens of the list up to its own place."""
    return causal_attention(matrix_softmax(D))


@breaks("permutation_invariant")
def recency() -> Head:
    """Later tokens in the list weigh more: each share is an integral of e^(place) over the token's part of [0, 1]."""

    def average(logits: Tensor, tokens: Tensor, weights: Tensor) -> Tensor:
        until = weights.cumsum(-1)
        shares = until.exp() - (until - weights).exp()
        return softmax_average(logits, tokens, shares)

    return softmax("recency", average=average)


@breaks("law_not_list")
def sum_instead_of_mean() -> Head:
    """The sum over the tokens that weigh anything, where the theory has a mean."""

    def after(output: Tensor, theta: Tensor, x: Tensor, tokens: Tensor, weights: Tensor) -> Tensor:
        return output * (weights > 0).sum(-1, keepdim=True)

    return softmax("sum instead of mean", after=after)


@breaks("law_not_list")
def squared_weights() -> Head:
    """Shares that go with the squares of the weights: two halves of a token count half as much as the whole."""
    return softmax(
        "squared weights", average=lambda logits, tokens, weights: softmax_average(logits, tokens, weights.square())
    )


@breaks("weight_zero_ignored")
def scaled_by_the_longest() -> Head:
    """Logits over the norm of the longest token in the list, whether it weighs anything or not."""

    def logits(values: Tensor, tokens: Tensor, weights: Tensor) -> Tensor:
        return values / (1 + tokens.norm(dim=-1).amax(-1, keepdim=True))

    return softmax("scaled by the longest", logits=logits)


@breaks("weight_zero_ignored")
def centred_on_the_range() -> Head:
    """Tokens shifted by the middle of the range of the list, whether its ends weigh anything or not."""

    def before(theta: Tensor, x: Tensor, tokens: Tensor, weights: Tensor) -> tuple[Tensor, ...]:
        middle = 0.5 * (tokens.amax(-2, keepdim=True) + tokens.amin(-2, keepdim=True))
        return theta, x, tokens - middle, weights

    return softmax("centred on the range", before=before)


@breaks("convex_hull")
def sigmoid_with_values() -> Head:
    """Sigmoid shares, which do not sum to one, with the values of softmax declared."""
    return softmax(
        "sigmoid with values",
        values=values_of,
        average=lambda logits, tokens, weights: average_of_tokens(logits.sigmoid() * weights, tokens),
    )


@breaks("convex_hull")
def output_bias() -> Head:
    """A bias behind the values that are declared."""
    return softmax("output bias", values=values_of, after=lambda output, *_: output + 0.5)


def _data_axes(x: Tensor) -> tuple[int, ...]:
    return tuple(range(x.ndim - 1))


@breaks("batches")
def batch_statistics() -> Head:
    """Queries centred over the batch that they come in."""

    def before(theta: Tensor, x: Tensor, tokens: Tensor, weights: Tensor) -> tuple[Tensor, ...]:
        return theta, x - x.mean(_data_axes(x), keepdim=True) if x.ndim > 1 else x, tokens, weights

    return softmax("batch statistics", before=before)


@breaks("batches")
def weights_of_the_first() -> Head:
    """The first input's weights for the whole batch."""

    def before(theta: Tensor, x: Tensor, tokens: Tensor, weights: Tensor) -> tuple[Tensor, ...]:
        return theta, x, tokens, weights.reshape(-1, weights.shape[-1])[0].expand(weights.shape)

    return softmax("weights of the first", before=before)


@breaks("index_independent")
def index_dependent() -> Head:
    """A factor cos(i) for particle i of the batch."""

    def after(output: Tensor, theta: Tensor, x: Tensor, tokens: Tensor, weights: Tensor) -> Tensor:
        if theta.ndim == 1:
            return output
        index = torch.arange(theta.shape[0], dtype=output.dtype, device=output.device)
        return output * index.cos().reshape(-1, *(1,) * (output.ndim - 1))

    return softmax("index-dependent", after=after)


@breaks("index_independent")
def normalised_over_particles() -> Head:
    """Parameters centred over the particles that they come with."""

    def before(theta: Tensor, x: Tensor, tokens: Tensor, weights: Tensor) -> tuple[Tensor, ...]:
        # a lone particle is left alone
        many = theta.ndim > 1 and theta.shape[0] > 1
        return theta - theta.mean(0, keepdim=True) if many else theta, x, tokens, weights

    return softmax("normalised over particles", before=before)


@breaks(
    "lipschitz_in_law",
    {
        "lipschitz_in_x": "a tie is one of logits x'Ay: x moves it as tokens do",
        "lipschitz_in_theta": "a tie is one of logits x'Ay: A moves it as tokens do",
    },
)
def hardmax() -> Head:
    """All weight on the tokens of the largest logit: it jumps at a tie."""
    return dataclasses.replace(hardmax_attention(D), name="hardmax")
