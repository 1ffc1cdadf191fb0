"""What the head tests draw: every shipped head with the bounds that its tolerances need, and calls of it."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import pytest
import torch
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp
from torch import Tensor

from mfcheck.heads import (
    Head,
    causal,
    gaussian_attention,
    hardmax_attention,
    l2_attention,
    linear_attention,
    matrix_softmax,
    scalar_softmax,
    sigmoid_attention,
    softmax_attention,
)

BOX = 2.0  # every entry of theta, x and the tokens is drawn from [-2, 2]: the bounds below hold there


@dataclass(frozen=True)
class Call:
    """The arguments of one call."""

    theta: Tensor
    x: Tensor
    tokens: Tensor
    weights: Tensor

    @property
    def arguments(self) -> tuple[Tensor, Tensor, Tensor, Tensor]:
        """theta [p], x [d], tokens [n, d], weights [n]."""
        return self.theta, self.x, self.tokens, self.weights

    def with_law(self, tokens: Tensor, weights: Tensor) -> Call:
        """The same query under other tokens."""
        return Call(self.theta, self.x, tokens, weights)


@dataclass(frozen=True)
class Subject:
    """A head, a bound of its logits (or squared distances) and one of its values over the box.

    lattice: draw multiples of 1/4, so that logits and distances are exact and ties are ties.
    """

    head: Head
    logits: float
    values: float
    lattice: bool = False

    def rounding(self, count: int, dtype: torch.dtype = torch.float64) -> float:
        """A bound of the difference between two evaluations that differ in the order or precision of their sums.

        A logit is a chain of at most 16 operations on numbers whose sum is below `logits`, so that it is off by
        8 eps logits and its exponential relatively by as much, twice for numerator and denominator; sums of n tokens
        and two matrix products add (n + 8) eps / 2. Two evaluations: doubled.
        """
        eps = torch.finfo(dtype).eps
        return 2 * eps * (16 * self.logits + count + 8) * self.values * max(1.0, self.largest_share)

    @property
    def largest_share(self) -> float:
        """Shares are at most 1, but for linear attention, where they are the logits themselves."""
        return self.logits if self.head.name.startswith("linear") else 1.0


# with entries up to 2 in R^2: |x' A y| <= 4 . 8 = 32, |V y| <= 8; |W x| <= 8 and |W_O W_V y| <= 32 entry by entry
SOFTMAX = (
    Subject(scalar_softmax(), 8, 4),
    Subject(scalar_softmax("tanh"), 8, 2),
    Subject(matrix_softmax(2), 32, 8),
    Subject(matrix_softmax(2, "tanh"), 32, 4),
    Subject(softmax_attention(2), 128, 32),
    Subject(softmax_attention(2, 1), 64, 16),
    Subject(l2_attention(2), 512, 8),
)
SMOOTH = (
    *SOFTMAX,
    Subject(linear_attention(2), 32, 8),
    Subject(sigmoid_attention(2), 32, 8),
    Subject(gaussian_attention(2), 256, 8),
)
HARDMAX = Subject(hardmax_attention(2), 32, 8, lattice=True)
CAUSAL = Subject(causal(matrix_softmax(2)), 32, 8, lattice=True)
INVARIANT = (*SMOOTH, HARDMAX)
ALL = (*INVARIANT, CAUSAL)


def each(subjects: tuple[Subject, ...]) -> pytest.MarkDecorator:
    """Run a test for each of the subjects, named by their heads."""
    return pytest.mark.parametrize("subject", subjects, ids=lambda subject: subject.head.name)


@st.composite
def calls(draw: st.DrawFn, subject: Subject, least: int = 1, most: int = 5) -> Call:
    """A call with `least` to `most` tokens; weights may be zero or tiny, one is not."""
    step = 0.25
    elements = (
        st.integers(int(-BOX / step), int(BOX / step)).map(lambda i: i * step)
        if subject.lattice
        else st.floats(-BOX, BOX)
    )
    count = draw(st.integers(least, most))
    head = subject.head
    arrays = [
        draw(hnp.arrays(np.float64, shape, elements=elements))
        for shape in (head.parameter_dimension, head.token_dimension, (count, head.token_dimension))
    ]
    weights = draw(hnp.arrays(np.float64, count, elements=st.floats(0.0, 1.0)))
    # half of the least double is 0, and sums of such weights keep no digits: a token that light is none
    weights[weights < 1e-100] = 0.0
    weights[draw(st.integers(0, count - 1))] = 1.0
    return Call(*(torch.from_numpy(array) for array in (*arrays, weights / weights.sum())))


def random_call(subject: Subject, seed: int, *batch: int, count: int = 4, dtype: torch.dtype = torch.float64) -> Call:
    """A call with random arguments in the box and weights away from 0, with leading axes."""
    generator = torch.Generator().manual_seed(seed)
    p, d = subject.head.parameter_dimension, subject.head.token_dimension

    def uniform(*shape: int) -> Tensor:
        return torch.rand(*batch, *shape, generator=generator, dtype=dtype)

    weights = uniform(count) + 0.2
    draws = [(2 * uniform(*shape) - 1) * BOX for shape in ((p,), (d,), (count, d))]
    return Call(*draws, weights / weights.sum(-1, keepdim=True))
