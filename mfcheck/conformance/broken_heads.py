"""Heads that break exactly one property each: at least two for every property, to see that the suite sees them.

All are softmax attention in the plane (or on the line) with one thing changed. BROKEN: name -> (property, head).
"""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Callable

import numpy as np
import torch
from torch import Tensor

from mfcheck.heads import Head, Hypotheses, hardmax_attention, matrix_softmax, scalar_softmax

HeadFunction = Callable[[Tensor, Tensor, Tensor, Tensor], Tensor]
LINE, PLANE = scalar_softmax(), matrix_softmax(2)


def changed(head: Head, name: str, function: HeadFunction, **hypotheses: object) -> Head:
    """The head with another function, that says of itself what the sound one says."""
    own = dataclasses.replace(Hypotheses(growth_power=1.0), **hypotheses)  # type: ignore[arg-type]
    return dataclasses.replace(head, name=name, function=function, hypotheses=own)


def after(head: Head, change: Callable[[Tensor], Tensor]) -> HeadFunction:
    """The head's function with its output changed."""
    return lambda theta, x, tokens, weights: change(head.function(theta, x, tokens, weights))


def _softmax(theta: Tensor, x: Tensor, tokens: Tensor, weights: Tensor, *, value: Callable[[Tensor], Tensor]) -> Tensor:
    """Scalar softmax attention with its value function spelled out."""
    a, v = theta[..., :1], theta[..., 1:]
    logits = a * x * tokens[..., 0]
    top = torch.where(weights > 0, logits, -math.inf).amax(-1, keepdim=True)
    shares = weights * (logits - top).exp()
    return value(v) * (shares * tokens[..., 0]).sum(-1, keepdim=True) / shares.sum(-1, keepdim=True)


def _without_maximum(theta: Tensor, x: Tensor, tokens: Tensor, weights: Tensor) -> Tensor:
    shares = weights * (theta[..., :1] * x * tokens[..., 0]).exp()
    return theta[..., 1:] * (shares * tokens[..., 0]).sum(-1, keepdim=True) / shares.sum(-1, keepdim=True)


def _narrow_product(theta: Tensor, x: Tensor, tokens: Tensor, weights: Tensor) -> Tensor:
    output = LINE.function(theta, x, tokens, weights)
    # a square that leaves the numbers where theta is larger than 100, multiplied by nothing
    return output + 0 * (theta.square().sum(-1, keepdim=True) * (torch.finfo(theta.dtype).max / 1e4))


def _by_position(tokens: Tensor, weights: Tensor) -> Tensor:
    """Where in the list, by weight, each token's middle lies: linear in it, so that a split token keeps its total."""
    return torch.cumsum(weights, -1) - weights / 2


def _later_weigh_more(theta: Tensor, x: Tensor, tokens: Tensor, weights: Tensor) -> Tensor:
    later = weights * (1 + 0.5 * _by_position(tokens, weights))
    return LINE.function(theta, x, tokens, later / later.sum(-1, keepdim=True))


def _later_count_more(theta: Tensor, x: Tensor, tokens: Tensor, weights: Tensor) -> Tensor:
    a = theta[..., :1]
    logits = a * x * tokens[..., 0]
    top = torch.where(weights > 0, logits, -math.inf).amax(-1, keepdim=True)
    shares = weights * (logits - top).exp()
    coded = tokens[..., 0] * (1 + 0.1 * _by_position(tokens, weights))
    return theta[..., 1:] * (shares * coded).sum(-1, keepdim=True) / shares.sum(-1, keepdim=True)


def _sum(theta: Tensor, x: Tensor, tokens: Tensor, weights: Tensor) -> Tensor:
    return LINE.function(theta, x, tokens, torch.full_like(weights, 1 / tokens.shape[-2]))


def _count(theta: Tensor, x: Tensor, tokens: Tensor, weights: Tensor) -> Tensor:
    # shrinks with the number of tokens: stays in the hull of values that hold 0
    return LINE.function(theta, x, tokens, weights) / tokens.shape[-2]


def _hardmax_value(theta: Tensor, x: Tensor, tokens: Tensor, weights: Tensor) -> Tensor:
    return hardmax_attention(1).function(theta, x, tokens, weights)


def _jump_in_x(theta: Tensor, x: Tensor, tokens: Tensor, weights: Tensor) -> Tensor:
    return LINE.function(theta, x, tokens, weights) * torch.where(x >= 0, 1.0, 0.5).to(x)


def _root_in_x(theta: Tensor, x: Tensor, tokens: Tensor, weights: Tensor) -> Tensor:
    # the fifth root has an infinite slope at 0 and is continuous
    return LINE.function(theta, x.sign() * x.abs().clamp(min=1e-300) ** 0.2, tokens, weights)


def _jump_in_theta(theta: Tensor, x: Tensor, tokens: Tensor, weights: Tensor) -> Tensor:
    return LINE.function(theta, x, tokens, weights) * torch.where(theta[..., :1] >= 0, 1.0, 0.5).to(x)


def _rounded_theta(theta: Tensor, x: Tensor, tokens: Tensor, weights: Tensor) -> Tensor:
    kept = torch.cat([theta[..., :1].round() + (theta[..., :1] - theta[..., :1].detach()), theta[..., 1:]], -1)
    return LINE.function(kept, x, tokens, weights)


def _jump_in_law(theta: Tensor, x: Tensor, tokens: Tensor, weights: Tensor) -> Tensor:
    mean = (weights * tokens[..., 0]).sum(-1, keepdim=True)
    return LINE.function(theta, x, tokens, weights) * torch.where(mean > 0.25, 1.0, 0.5).to(x)


def _support(theta: Tensor, x: Tensor, tokens: Tensor, weights: Tensor) -> Tensor:
    """A bonus for the widest token, however little it weighs: a function of the support, not of W1."""
    widest = torch.where(weights > 0, tokens[..., 0].abs(), 0.0).amax(-1, keepdim=True)
    return LINE.function(theta, x, tokens, weights) * (1 - widest.clamp(max=1) / 2)


def _numpy(theta: Tensor, x: Tensor, tokens: Tensor, weights: Tensor) -> Tensor:
    output = LINE.function(theta, x, tokens, weights)
    return torch.from_numpy(np.array(output.detach().numpy()))


def _batch_mean(theta: Tensor, x: Tensor, tokens: Tensor, weights: Tensor) -> Tensor:
    output = LINE.function(theta, x, tokens, weights)
    return output - output.mean(0, keepdim=True) if output.ndim > 1 else output


def _batch_scale(theta: Tensor, x: Tensor, tokens: Tensor, weights: Tensor) -> Tensor:
    output = LINE.function(theta, x, tokens, weights)
    return output / (1 + output.abs().mean(0, keepdim=True)) if output.ndim > 1 else output


def _index(scale: Callable[[Tensor], Tensor]) -> HeadFunction:
    def function(theta: Tensor, x: Tensor, tokens: Tensor, weights: Tensor) -> Tensor:
        output = LINE.function(theta, x, tokens, weights)
        if output.ndim == 1:
            return output
        return output * scale(torch.arange(len(output), device=x.device).to(x))[:, None]

    return function


def _centred_in_place(theta: Tensor, x: Tensor, tokens: Tensor, weights: Tensor) -> Tensor:
    output = LINE.function(theta, x, tokens, weights)
    tokens.detach().sub_(0.5)
    return output


def _normed_in_place(theta: Tensor, x: Tensor, tokens: Tensor, weights: Tensor) -> Tensor:
    output = LINE.function(theta, x, tokens, weights)
    weights.detach().mul_(2)
    return output


def _half(output: Tensor) -> Tensor:
    return output.half().to(output.dtype) if output.dtype == torch.float32 else output


def _coarse(output: Tensor) -> Tensor:
    return (output * 256).round() / 256 if output.dtype == torch.float32 else output


def _dropout(output: Tensor) -> Tensor:
    return output * (2.0 if float(torch.rand(())) < 0.5 else 0.5)


def _jitter(output: Tensor) -> Tensor:
    return output + 0.01 * float(torch.randn(()))


def _cauchy(v: Tensor) -> Tensor:
    """Cauchy's quantiles of a standard normal's: no mean, and smooth."""
    return torch.tan(math.pi * (torch.special.ndtr(v) - 0.5) * (1 - 1e-12))


def _pareto(v: Tensor) -> Tensor:
    return (1 - torch.special.ndtr(v) + 1e-30) ** -0.75


def _value(value: Callable[[Tensor], Tensor]) -> HeadFunction:
    return lambda theta, x, tokens, weights: _softmax(theta, x, tokens, weights, value=value)


def _heavy(name: str, value: Callable[[Tensor], Tensor]) -> Head:
    # what they declare is true: no power of growth
    head = changed(LINE, name, _value(value), growth_power=None)
    return dataclasses.replace(head, values=None)


def _no_values(head: Head) -> Head:
    return dataclasses.replace(head, values=None)


#: name -> (the property that it breaks, the head)
BROKEN: dict[str, tuple[str, Head]] = {
    "two outputs": ("shape and dtype", changed(LINE, "two outputs", after(LINE, lambda o: torch.cat([o, o], -1)))),
    "float32 output": ("shape and dtype", changed(LINE, "float32 output", after(LINE, lambda o: o.float()))),
    "softmax without the maximum": ("finite", changed(LINE, "softmax without the maximum", _without_maximum)),
    "overflowing square": ("finite", changed(LINE, "overflowing square", _narrow_product)),
    "later tokens weigh more": ("order of the tokens", changed(LINE, "later weigh more", _later_weigh_more)),
    "position code": ("order of the tokens", _no_values(changed(LINE, "position code", _later_count_more))),
    "weights ignored": ("a law, not a list", _no_values(changed(LINE, "weights ignored", _sum))),
    "divided by the number of tokens": ("a law, not a list", _no_values(changed(LINE, "over n", _count))),
    "values times 1.5": ("convex hull of the values", changed(LINE, "values times 1.5", after(LINE, lambda o: 1.5 * o))),
    "values shifted": ("convex hull of the values", changed(LINE, "values shifted", after(LINE, lambda o: o + 0.1))),
    "jump at x = 0": ("Lipschitz in x", _no_values(changed(LINE, "jump at x = 0", _jump_in_x))),
    "fifth root of x": ("Lipschitz in x", changed(LINE, "fifth root of x", _root_in_x)),
    "jump at a = 0": ("Lipschitz in theta", _no_values(changed(LINE, "jump at a = 0", _jump_in_theta))),
    "rounded a": ("Lipschitz in theta", changed(LINE, "rounded a", _rounded_theta)),
    "jump in the mean": ("Lipschitz in the law", _no_values(changed(LINE, "jump in the mean", _jump_in_law))),
    "widest token": ("Lipschitz in the law", _no_values(changed(LINE, "widest token", _support))),
    "square value": ("growth in theta", _no_values(changed(LINE, "square value", _value(torch.square)))),
    "cubic value": ("growth in theta", _no_values(changed(LINE, "cubic value", _value(lambda v: v**3)))),
    "exponential value": ("growth in theta", _no_values(changed(LINE, "exponential value", _value(torch.exp)))),
    "detached value": ("gradient", changed(LINE, "detached value", _value(lambda v: v.detach()))),
    "through NumPy": ("gradient", changed(LINE, "through NumPy", _numpy)),
    "batch mean": ("batches", _no_values(changed(LINE, "batch mean", _batch_mean))),
    "batch scale": ("batches", _no_values(changed(LINE, "batch scale", _batch_scale))),
    "index in the value": ("the particle's index", changed(LINE, "index", _index(lambda k: 1 + k))),
    "sign by index": ("the particle's index", changed(LINE, "sign by index", _index(lambda k: 1 - 2 * (k % 3 == 2).to(k)))),
    "dropout": ("deterministic", changed(LINE, "dropout", after(LINE, _dropout))),
    "jitter": ("deterministic", _no_values(changed(LINE, "jitter", after(LINE, _jitter)))),
    "centring in place": ("inputs unchanged", changed(LINE, "centring in place", _centred_in_place)),
    "weights in place": ("inputs unchanged", changed(LINE, "weights in place", _normed_in_place)),
    "rounding to half": ("float32", changed(LINE, "rounding to half", after(LINE, _half))),
    "coarse in float32": ("float32", changed(LINE, "coarse in float32", after(LINE, _coarse))),
    "Cauchy values": ("finite variance", _heavy("Cauchy values", _cauchy)),
    "Pareto values": ("finite variance", _heavy("Pareto values", _pareto)),
}  # fmt: skip

#: Properties that a mutant cannot help breaking beside its own, and why.
RELATED: dict[str, dict[str, str]] = {
    "exponential value": {"finite": "an exponential leaves the doubles on a large domain"},
    "index in the value": {"batches": "a head that knows its index is not its single calls"},
    "sign by index": {"batches": "a head that knows its index is not its single calls"},
    "Cauchy values": {"Monte Carlo rate": "without two moments there is no rate M^(-1/2)"},
    "Pareto values": {"Monte Carlo rate": "without two moments there is no rate M^(-1/2)"},
}
