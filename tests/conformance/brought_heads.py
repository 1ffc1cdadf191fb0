"""Heads as people bring them: plain functions, partials, modules, and everything that can be wrong with one."""

from __future__ import annotations

import functools
import time

import numpy as np
import torch
from torch import Tensor, nn

from mfcheck.conformance.head_spec import HeadSpec
from mfcheck.heads import matrix_softmax


def plain(theta: Tensor, x: Tensor, tokens: Tensor, weights: Tensor) -> Tensor:
    """Softmax attention with four parameters of its logits, written for one call at a time."""
    logits = tokens @ theta.reshape(2, 2).T @ x + weights.log()
    return torch.softmax(logits, 0) @ tokens


def single_precision(theta: Tensor, x: Tensor, tokens: Tensor, weights: Tensor) -> Tensor:
    """Has a float32 matrix in it, so that double precision raises."""
    return plain(theta, torch.eye(2) @ x, tokens, weights)


def slow(theta: Tensor, x: Tensor, tokens: Tensor, weights: Tensor) -> Tensor:
    """Takes its time."""
    time.sleep(0.2)
    return plain(theta, x, tokens, weights)


def chatty(theta: Tensor, x: Tensor, tokens: Tensor, weights: Tensor) -> Tensor:
    """Prints."""
    print("attending")
    return plain(theta, x, tokens, weights)


def to_numpy(theta: Tensor, x: Tensor, tokens: Tensor, weights: Tensor) -> np.ndarray:
    """Leaves torch."""
    return plain(theta, x, tokens, weights).numpy()


def wrong_arity(query: Tensor, keys: Tensor) -> Tensor:
    """Another protocol."""
    return keys.mean(0) + query


def wrong_shape(theta: Tensor, x: Tensor, tokens: Tensor, weights: Tensor) -> Tensor:
    """Returns a row, not a token."""
    return plain(theta, x, tokens, weights)[None]


def raises(theta: Tensor, x: Tensor, tokens: Tensor, weights: Tensor) -> Tensor:
    """Never answers."""
    raise RuntimeError("no attention today")


def any_number(theta: Tensor, x: Tensor, tokens: Tensor, weights: Tensor) -> Tensor:
    """Takes theta of any length."""
    return theta.sum() * (weights @ tokens)


def branches(theta: Tensor, x: Tensor, tokens: Tensor, weights: Tensor) -> Tensor:
    """Looks at its numbers, so that vmap does not go through."""
    return plain(theta, x, tokens, weights) if float(x.sum()) < 1e9 else x


def scaled(scale: float, theta: Tensor, x: Tensor, tokens: Tensor, weights: Tensor) -> Tensor:
    """For a partial."""
    return scale * plain(theta, x, tokens, weights)


class Own(nn.Module):
    """A module of the adapter's call."""

    def __init__(self) -> None:
        super().__init__()
        self.logits = nn.Parameter(torch.eye(2))

    def forward(self, x: Tensor, tokens: Tensor, weights: Tensor) -> Tensor:
        """One query."""
        return torch.softmax(tokens @ self.logits @ x + weights.log(), 0) @ tokens


_fixed = nn.Linear(2, 2, bias=False).double()


def own_parameters(theta: Tensor, x: Tensor, tokens: Tensor, weights: Tensor) -> Tensor:
    """A layer of its own around what theta does."""
    return _fixed(plain(theta, x, tokens, weights))


partial = functools.partial(scaled, 2.0)
spec = HeadSpec(plain, 4, 2, growth_power=0.0)
a_lambda = lambda theta, x, tokens, weights: plain(theta, x, tokens, weights)  # noqa: E731
good = matrix_softmax(2, "tanh")
multihead = nn.MultiheadAttention(2, 1)
not_callable = 3
