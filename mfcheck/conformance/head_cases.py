"""Inputs for heads: Hypothesis strategies for parameters, queries and laws of tokens, small numbers first."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from hypothesis import strategies as st
from torch import Tensor

from mfcheck.conformance.head_subject import Subject

#: Beyond this many parameters theta is drawn by a seed: a list of its numbers would be no minimal example.
LISTED = 24


@dataclass(frozen=True)
class Case:
    """One input of the protocol, as plain numbers that can be pasted. theta: numbers, or the seed of a normal draw."""

    theta: tuple[float, ...] | int
    x: tuple[float, ...]
    tokens: tuple[tuple[float, ...], ...]
    shares: tuple[int, ...]

    def tensors(self, subject: Subject, ball: bool = False) -> tuple[Tensor, Tensor, Tensor, Tensor]:
        """theta [p], x [d], tokens [n, d], weights [n]; ball: theta of norm at most 2, x and tokens at most 1."""
        theta = self._theta(subject.p)
        x, tokens = torch.tensor(self.x, dtype=torch.float64), torch.tensor(self.tokens, dtype=torch.float64)
        shares = torch.tensor(self.shares, dtype=torch.float64)
        if ball:
            theta = theta / (theta.norm() / 2).clamp(min=1)
            x, tokens = x / x.norm().clamp(min=1), tokens / tokens.norm(dim=-1, keepdim=True).clamp(min=1)
        values = (theta, x, tokens, shares / shares.sum())
        a, b, c, w = (value.to(subject.device, subject.dtype) for value in values)
        return a, b, c, w

    def _theta(self, p: int) -> Tensor:
        if isinstance(self.theta, int):
            return torch.randn(p, generator=torch.Generator().manual_seed(self.theta), dtype=torch.float64) / 2
        return torch.tensor(self.theta, dtype=torch.float64)


#: Halves: exact in every dtype, and small whole numbers where that is enough.
NUMBERS = st.integers(-6, 6).map(lambda k: k / 2)


@st.composite
def cases(draw: st.DrawFn, subject: Subject, *, fewest: int = 1, most: int = 4) -> Case:
    """Laws with atoms, unequal weights and weight 0, repeated, nearly repeated and collinear tokens, or one token."""
    d = subject.d
    vector = st.tuples(*[NUMBERS] * d)
    theta: tuple[float, ...] | int = (
        draw(st.tuples(*[NUMBERS] * subject.p)) if subject.p <= LISTED else draw(st.integers(0, 999))
    )
    x = draw(vector)
    count = draw(st.integers(fewest, most))
    tokens = [draw(vector) for _ in range(count)]
    kind = draw(st.sampled_from(("free", "repeated", "nearly repeated", "collinear")))
    if kind == "repeated":
        tokens[-1] = tokens[0]
    elif kind == "nearly repeated":
        tokens[-1] = (tokens[0][0] + 2.0**-20, *tokens[0][1:])
    elif kind == "collinear":
        tokens = [tuple(k * v for v in tokens[0]) for k in range(1, count + 1)]
    shares = [draw(st.integers(0, 3)) for _ in range(count)]
    if not any(shares):
        shares[0] = 1
    return Case(theta, x, tuple(tokens), tuple(shares))
