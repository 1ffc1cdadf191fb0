"""A Head: one attention head v_theta(x; mu), what it takes, what it gives, and which hypotheses it says it meets."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

import torch
from jaxtyping import Float
from torch import Tensor

from mfcheck.errors import InputError

#: (theta [..., p], x [..., d], tokens [..., n, d], weights [..., n]) -> [..., d]; leading axes broadcast.
HeadFunction = Callable[[Tensor, Tensor, Tensor, Tensor], Tensor]
#: (theta [..., p], places [..., k, d], tokens [..., n, d], weights [..., n] or None) -> [..., k, d], as above.
HeadField = Callable[[Tensor, Tensor, Tensor, Tensor | None], Tensor]


@dataclass(frozen=True)
class Hypotheses:
    """What a head says of itself: the hypotheses of the theorems that it meets.

    permutation_invariant: the order of the tokens changes nothing. function_of_law: it reads a law and not a list, so
    that splitting a token's weight between neighbours in the list, or a token of weight 0, changes nothing.
    lipschitz_in_law: for W1, on bounded tokens and parameters. growth_power: |v_theta| <= C (1 + |theta|)^power at
    fixed tokens; 0 is bounded, None is no power known. smooth: continuously differentiable in theta and x, with the
    right gradient by automatic differentiation.
    """

    permutation_invariant: bool = True
    function_of_law: bool = True
    lipschitz_in_law: bool = True
    growth_power: float | None = 1.0
    smooth: bool = True


@dataclass(frozen=True, eq=False)
class Head:
    """One attention head v_theta(x; mu): the update that parameters theta give the token x in the law mu of tokens.

    parameter_dimension p, token_dimension d. function(theta [..., p], x [..., d], tokens [..., n, d],
    weights [..., n]) -> [..., d], all leading axes broadcast against each other: theta [M, 1, p] with x [K, d] and
    tokens [K, n, d] gives [M, K, d]. values(theta [..., p], tokens [..., n, d]) -> [..., n, d], where it is given, are
    the points whose convex hull holds the output. everywhere(theta, places [..., k, d], tokens, weights) -> [..., k,
    d], where it is given, is the function at k places of one law by products of matrices, for the tokens' own flow;
    weights None are 1/n, and it is not differentiated in them. hypotheses: what the head says of itself.

    Calling the head checks what goes in and what comes out and raises InputError; inner loops, and torch.func
    transforms, which cannot look at numbers, call `function`.
    """

    name: str
    parameter_dimension: int
    token_dimension: int
    function: HeadFunction
    hypotheses: Hypotheses = field(default_factory=Hypotheses)
    values: Callable[[Tensor, Tensor], Tensor] | None = None
    everywhere: HeadField | None = None

    def __post_init__(self) -> None:
        if self.parameter_dimension < 1 or self.token_dimension < 1:
            raise InputError(
                f"head {self.name!r}: theta and tokens have at least one coordinate; their dimensions came as "
                f"{self.parameter_dimension} and {self.token_dimension}"
            )

    def __call__(
        self,
        theta: Float[Tensor, "*batch p"],
        x: Float[Tensor, "*batch d"],
        tokens: Float[Tensor, "*batch n d"],
        weights: Float[Tensor, "*batch n"] | None = None,
    ) -> Float[Tensor, "*batch d"]:
        """v_theta(x; sum_j w_j delta(y_j)), shape [..., d]; weights default to 1/n. Raises InputError."""
        check_law(tokens, weights, self.token_dimension, self.name)
        if weights is None:
            weights = uniform_weights(tokens)
        for what, value, size in (("theta", theta, self.parameter_dimension), ("x", x, self.token_dimension)):
            if value.ndim < 1 or value.shape[-1] != size:
                raise InputError(f"head {self.name!r}: {what} is [..., {size}]; it came as {tuple(value.shape)}")
            if value.dtype != tokens.dtype or value.device != tokens.device:
                raise InputError(
                    f"head {self.name!r}: {what} and tokens share a dtype and a device; {what} came as "
                    f"{value.dtype} on {value.device}, tokens as {tokens.dtype} on {tokens.device}"
                )
            check_finite(value, what, self.name)
        batch = self.batch_shape(theta.shape[:-1], x.shape[:-1], tokens.shape[:-2], weights.shape[:-1])
        output = self.function(theta, x, tokens, weights)
        self.check_output(output, batch, tokens.dtype)
        return output

    def batch_shape(self, *shapes: Sequence[int]) -> tuple[int, ...]:
        """The common leading axes of the arguments. Raises InputError where they do not broadcast."""
        try:
            return tuple(torch.broadcast_shapes(*(tuple(shape) for shape in shapes)))
        except RuntimeError as error:
            listed = ", ".join(str(tuple(shape)) for shape in shapes)
            raise InputError(
                f"head {self.name!r}: leading axes of theta, x, tokens and weights broadcast against each other; "
                f"they came as {listed}"
            ) from error

    def check_output(self, output: object, batch: tuple[int, ...], dtype: torch.dtype) -> None:
        """Raises InputError where the function's output is no finite tensor [*batch, d] of the inputs' dtype."""
        expected = (*batch, self.token_dimension)
        if not isinstance(output, Tensor):
            raise InputError(f"head {self.name!r} returns a torch tensor; it returned {type(output).__name__}")
        if tuple(output.shape) != expected:
            raise InputError(
                f"head {self.name!r} returns one token a call, [..., d] = {expected}; it returned {tuple(output.shape)}"
            )
        if output.dtype != dtype:
            raise InputError(f"head {self.name!r} returns its inputs' dtype {dtype}; it returned {output.dtype}")
        if not bool(torch.isfinite(output).all()):
            raise InputError(f"head {self.name!r} returned {_first_bad(output)}, and its inputs were finite")


def uniform_weights(tokens: Float[Tensor, "*batch n d"]) -> Float[Tensor, "*batch n"]:
    """Weights 1/n of the empirical law of tokens [..., n, d]."""
    return tokens.new_full(tokens.shape[:-1], 1.0 / tokens.shape[-2])


def check_law(tokens: Tensor, weights: Tensor | None, dimension: int, head: str) -> None:
    """Raises InputError where tokens [..., n, d] with weights [..., n] are no probability law on R^d."""
    if not isinstance(tokens, Tensor) or not tokens.is_floating_point():
        came = tokens.dtype if isinstance(tokens, Tensor) else type(tokens).__name__
        raise InputError(f"head {head!r}: tokens are a floating tensor [..., n, {dimension}]; they came as {came}")
    if tokens.ndim < 2 or tokens.shape[-1] != dimension:
        raise InputError(
            f"head {head!r} takes tokens in R^{dimension}, [..., n, {dimension}]; they came as {tuple(tokens.shape)}"
        )
    if tokens.shape[-2] == 0:
        raise InputError(f"head {head!r}: the token set is empty; a law of tokens has at least one")
    check_finite(tokens, "tokens", head)
    if weights is None:
        return
    if weights.ndim < 1 or weights.shape[-1] != tokens.shape[-2]:
        raise InputError(
            f"head {head!r}: weights are [..., n], one a token; for {tokens.shape[-2]} tokens they came as "
            f"{tuple(weights.shape)}"
        )
    if weights.dtype != tokens.dtype or weights.device != tokens.device:
        raise InputError(
            f"head {head!r}: weights and tokens share a dtype and a device; weights came as {weights.dtype} on "
            f"{weights.device}, tokens as {tokens.dtype} on {tokens.device}"
        )
    check_finite(weights, "weights", head)
    if bool((weights < 0).any()):
        raise InputError(f"head {head!r}: weights are at least 0; the smallest came as {weights.min().item():.6g}")
    total = weights.sum(-1)
    # n roundings of weights near 1/n and n of their partial sums below 1, each at most eps/2, doubled twice
    allowed = 4 * tokens.shape[-2] * torch.finfo(weights.dtype).eps
    off = (total - 1).abs().max()
    if bool(off > allowed):
        worst = total.reshape(-1)[(total - 1).abs().argmax()].item()
        raise InputError(f"head {head!r}: a law's weights sum to 1 within {allowed:.1g}; they sum to {worst:.9g}")


def check_finite(value: Tensor, what: str, head: str) -> None:
    """Raises InputError where `value` holds NaN or infinity, and says where."""
    if not bool(torch.isfinite(value).all()):
        raise InputError(f"head {head!r}: {what} must be finite; it holds {_first_bad(value)}")


def split_parameters(
    theta: Float[Tensor, "*batch p"], shapes: Sequence[tuple[int, int]]
) -> tuple[Float[Tensor, "*batch rows columns"], ...]:
    """Matrices [..., rows, columns] cut from theta [..., p] one after the other, each row by row."""
    parts = torch.split(theta, [rows * columns for rows, columns in shapes], -1)
    return tuple(part.reshape(*part.shape[:-1], *shape) for part, shape in zip(parts, shapes, strict=True))


def inner_products(seen: Float[Tensor, "*batch d"], tokens: Float[Tensor, "*batch n d"]) -> Float[Tensor, "*batch n"]:
    """seen . y_j for every token, shape [..., n], leading axes broadcast; laid out in memory with the tokens first.

    A layer has few tokens and many heads or inputs: with the tokens as the outermost axis, sums over them run along
    the long axes, 3 to 5 times faster than along a last axis of a few numbers.
    """
    places = tokens.movedim(-2, 0)
    if tokens.shape[-1] == 1:
        # batch axes are counted from the right: a sequence without some of the queries' axes gets them behind n
        missing = (1,) * max(0, seen.ndim + 1 - tokens.ndim)
        return (places.reshape(len(places), *missing, *places.shape[1:]) * seen)[..., 0].movedim(0, -1)
    return torch.einsum("n...d,...d->n...", places, seen).movedim(0, -1)


def average_of_tokens(
    shares: Float[Tensor, "*batch n"], tokens: Float[Tensor, "*batch n d"]
) -> Float[Tensor, "*batch d"]:
    """sum_j shares_j y_j, shape [..., d], leading axes broadcast."""
    if tokens.shape[-1] == 1:
        return (shares * tokens[..., 0]).sum(-1)[..., None]
    return torch.einsum("...n,...nd->...d", shares, tokens)


def _first_bad(value: Tensor) -> str:
    index = (~torch.isfinite(value)).nonzero()[0].tolist()
    return f"{value[tuple(index)].item()} at index {index}"
