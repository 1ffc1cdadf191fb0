"""Bad input to a head is a sentence that says what came and what was expected."""

from __future__ import annotations

import pytest
import torch
from torch import Tensor

from mfcheck.errors import InputError
from mfcheck.heads import Head, matrix_softmax, scalar_softmax

HEAD = matrix_softmax(2)
THETA, X, TOKENS = torch.ones(8), torch.ones(2), torch.tensor([[1.0, 0.0], [0.0, 1.0], [1.0, 1.0]])


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        ((torch.ones(7), X, TOKENS), r"theta is \[\.\.\., 8\]; it came as \(7,\)"),
        ((THETA, torch.ones(3), TOKENS), r"x is \[\.\.\., 2\]; it came as \(3,\)"),
        ((THETA, X, torch.ones(4, 3)), r"takes tokens in R\^2, \[\.\.\., n, 2\]; they came as \(4, 3\)"),
        ((THETA, X, torch.ones(2)), r"takes tokens in R\^2.*came as \(2,\)"),
        ((THETA, X, TOKENS[:0]), "the token set is empty"),
        ((THETA, X, TOKENS.long()), "tokens are a floating tensor .*; they came as torch.int64"),
        ((THETA, X, TOKENS.numpy()), "tokens are a floating tensor .*; they came as ndarray"),
        ((THETA * torch.nan, X, TOKENS), "theta must be finite; it holds nan at index \\[0\\]"),
        ((THETA, X * torch.inf, TOKENS), "x must be finite; it holds inf"),
        ((THETA, X, TOKENS / 0), "tokens must be finite"),
        ((THETA.double(), X, TOKENS), "theta and tokens share a dtype and a device; theta came as torch.float64"),
        ((THETA, X, TOKENS, torch.ones(3)), "weights sum to 1 within 1e-06; they sum to 3"),
        ((THETA, X, TOKENS, torch.tensor([1.5, -0.5, 0.0])), "weights are at least 0; the smallest came as -0.5"),
        ((THETA, X, TOKENS, torch.tensor([0.5, 0.5])), r"for 3 tokens they came as \(2,\)"),
        (
            (THETA, X, TOKENS, torch.tensor([0.5, torch.nan, 0.5])),
            "weights must be finite; it holds nan at index \\[1\\]",
        ),
        ((THETA, X, TOKENS, torch.tensor([0.5, 0.25, 0.25]).double()), "weights and tokens share a dtype"),
        ((torch.ones(3, 8), torch.ones(2, 2), TOKENS), r"broadcast against each other; they came as \(3,\), \(2,\)"),
    ],
)
def test_bad_input_is_a_sentence(arguments: tuple[Tensor, ...], sentence: str) -> None:
    with pytest.raises(InputError, match=f"head 'matrix softmax .*'.*{sentence}"):
        HEAD(*arguments)


@pytest.mark.parametrize(
    ("function", "sentence"),
    [
        (lambda theta, x, tokens, weights: theta, r"returns one token a call, .* = \(2,\); it returned \(8,\)"),
        (lambda theta, x, tokens, weights: tokens, r"it returned \(3, 2\)"),
        (lambda theta, x, tokens, weights: x / 0, "returned inf at index \\[0\\], and its inputs were finite"),
        (lambda theta, x, tokens, weights: x * torch.nan, "returned nan"),
        (
            lambda theta, x, tokens, weights: x.double(),
            "returns its inputs' dtype torch.float32; it returned torch.float64",
        ),
        (lambda theta, x, tokens, weights: 1.0, "returns a torch tensor; it returned float"),
    ],
)
def test_a_head_that_returns_something_else_is_told(function: object, sentence: str) -> None:
    with pytest.raises(InputError, match=sentence):
        Head("brought", 8, 2, function)(THETA, X, TOKENS)  # type: ignore[arg-type]


def test_dimensions_are_positive() -> None:
    with pytest.raises(InputError, match=r"at least one coordinate; .* 0 and 2"):
        Head("empty", 0, 2, HEAD.function)


def test_weights_are_uniform_where_none_are_given() -> None:
    assert torch.equal(HEAD(THETA, X, TOKENS), HEAD(THETA, X, TOKENS, torch.full((3,), 1 / 3)))


def test_weights_that_a_sum_of_many_rounds_are_a_law() -> None:
    tokens = torch.linspace(-1, 1, 10_001)[:, None]
    assert scalar_softmax()(torch.ones(2), torch.ones(1), tokens).isfinite()
