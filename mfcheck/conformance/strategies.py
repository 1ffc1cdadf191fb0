"""What the properties of a head are tried on: calls of small integers, which shrink to tokens of zeros and ones."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import torch
from hypothesis import strategies as st
from torch import Tensor

from mfcheck.conformance.head_subject import Call

#: Steps of the lattices that entries are drawn from: powers of two, so that sums and products of entries are exact.
STEPS = (1.0, 0.5, 0.125)
#: How far a near-duplicate lies from its token: exact beside small integers, in single precision too.
NEAR = 2.0**-16
#: More entries than these are a pattern drawn as a whole, which does not shrink entry by entry.
MANY = 128
LAWS = ("free", "one token", "tied", "near-duplicates", "collinear", "long")
WEIGHTS = ("equal", "small integers", "some zero", "very unequal")


@st.composite
def calls(
    draw: st.DrawFn,
    parameters: int,
    dimension: int,
    parameter_bound: float,
    token_bound: float,
    *,
    least: int = 1,
    most: int = 5,
    laws: Sequence[str] = LAWS,
    weights: Sequence[str] = WEIGHTS,
    steps: Sequence[float] = STEPS,
) -> Call:
    """Calls with `least` to `most` tokens, entries up to the bounds, from the named kinds of laws and weights.

    Tokens: free; one token; tied (some equal); near-duplicates; collinear; long (one token at the bound). Weights:
    equal; small integers; some zero; very unequal (down to 2^-30).
    """
    step = draw(st.sampled_from(steps))
    theta = draw(entries(parameters, parameter_bound, step))
    x = draw(entries(dimension, token_bound, step))
    kind = draw(st.sampled_from(laws))
    count = 1 if kind == "one token" and least == 1 else draw(st.integers(least, most))
    tokens = draw(tokens_of(kind, count, dimension, token_bound, step))
    return Call(theta, x, tokens, draw(shares_of(draw(st.sampled_from(weights)), count)))


@st.composite
def entries(draw: st.DrawFn, count: int, bound: float, step: float = 1.0) -> Tensor:
    """A vector [count] of multiples of `step` (finer where the bound asks for it) up to the bound."""
    while step > bound:
        step /= 2
    top = int(bound / step)
    if count > MANY:
        generator = np.random.default_rng(draw(st.integers(0, 2**16)))
        whole = generator.integers(-top, top + 1, count)
    else:
        whole = np.asarray(draw(st.lists(st.integers(-top, top), min_size=count, max_size=count)))
    return torch.from_numpy(whole.astype(np.float64) * step)


@st.composite
def tokens_of(draw: st.DrawFn, kind: str, count: int, dimension: int, bound: float, step: float) -> Tensor:
    """Tokens [count, dimension] of one of the kinds `LAWS`."""
    if kind == "collinear":
        line = draw(entries(dimension, min(1.0, bound), step))
        return draw(entries(count, bound, step))[:, None] * line
    tokens = draw(entries(count * dimension, bound, step)).reshape(count, dimension)
    if count > 1 and kind in ("tied", "near-duplicates"):
        first, second = draw(st.permutations(range(count)))[:2]
        tokens[second] = tokens[first]
        if kind == "near-duplicates":
            # inwards, so that no bound is left
            tokens[second, 0] -= NEAR if tokens[second, 0] > 0 else -NEAR
    if kind == "long":
        place = draw(st.integers(0, count - 1))
        tokens[place] = torch.where(tokens[place] < 0, -1.0, 1.0) * bound
    return tokens


@st.composite
def shares_of(draw: st.DrawFn, kind: str, count: int) -> Tensor:
    """Shares [count] of one of the kinds `WEIGHTS`; at least one is positive."""
    if kind == "equal":
        return torch.ones(count, dtype=torch.float64)
    lowest = 0 if kind == "some zero" else 1
    whole = draw(st.lists(st.integers(lowest, 4), min_size=count, max_size=count))
    shares = torch.tensor(whole, dtype=torch.float64)
    if kind == "very unequal":
        powers = draw(st.lists(st.integers(0, 30), min_size=count, max_size=count))
        shares = shares * 2.0 ** -torch.tensor(powers, dtype=torch.float64)
    if not bool((shares > 0).any()):
        shares[draw(st.integers(0, count - 1))] = 1.0
    return shares
