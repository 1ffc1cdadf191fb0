"""Softmax attention against SciPy and torch's own layer, and where exponentials leave the range of numbers."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from scipy.special import softmax
from torch import nn

from mfcheck.errors import InputError
from mfcheck.heads import matrix_softmax, scalar_softmax, softmax_attention
from mfcheck.heads.softmax import softmax_average, unnormalised_shares
from tests.heads.subjects import Subject, random_call

EPS = float(np.finfo(np.float64).eps)


def test_the_matrix_head_is_the_formula() -> None:
    subject = Subject(matrix_softmax(3), 3 * 3 * 8, 12)
    theta, x, tokens, weights = (argument.numpy() for argument in random_call(subject, 1).arguments)
    a, v = theta[:9].reshape(3, 3), theta[9:].reshape(3, 3)
    shares = softmax(np.log(weights) + x @ a @ tokens.T)
    expected = v @ (shares @ tokens)
    got = subject.head(*random_call(subject, 1).arguments).numpy()
    assert np.abs(got - expected).max() <= subject.rounding(4)


@pytest.mark.parametrize("value", ["identity", "tanh"])
def test_the_scalar_head_is_the_matrix_head_in_one_dimension(value: str) -> None:
    subject = Subject(scalar_softmax(value), 8, 4)
    call = random_call(subject, 2, 30)
    difference = subject.head(*call.arguments) - matrix_softmax(1, value)(*call.arguments)
    assert difference.abs().max() <= subject.rounding(4)


def test_the_full_head_is_torchs_own_layer() -> None:
    d = 4
    layer = nn.MultiheadAttention(d, 1, bias=False, dtype=torch.float64)
    generator = torch.Generator().manual_seed(3)
    query, tokens = (torch.randn(n, d, generator=generator, dtype=torch.float64) for n in (1, 5))
    theta = torch.cat([layer.in_proj_weight.reshape(-1), layer.out_proj.weight.reshape(-1)])
    expected, _ = layer(query, tokens, tokens)
    # d^2 products of numbers of order 1, twice
    assert (softmax_attention(d)(theta, query[0], tokens) - expected[0]).abs().max() <= 64 * EPS


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_huge_logits_neither_overflow_nor_lose_the_average(dtype: torch.dtype) -> None:
    tokens = torch.tensor([[1.0], [-1.0], [1.0]], dtype=dtype)
    head, x = scalar_softmax(), torch.ones(1, dtype=dtype)
    for a in (1e4, 1e30):
        assert head(torch.tensor([a, 1.0], dtype=dtype), x, tokens).item() == 1.0
        assert head(torch.tensor([-a, 1.0], dtype=dtype), x, tokens).item() == -1.0


def test_a_tiny_weight_with_the_largest_logit_counts() -> None:
    # w e^logit is 1e-300 e^700 = 1e4 against 1: by weights times exponentials it would overflow or vanish
    logits, tokens = torch.tensor([700.0, 0.0]).double(), torch.tensor([[1.0], [0.0]]).double()
    weights = torch.tensor([1e-300, 1.0], dtype=torch.float64)
    odds = np.exp(700.0 - 300 * np.log(10))
    # the difference of two numbers near 700 is right to 700 eps, and so is its exponential relatively
    assert abs(softmax_average(logits, tokens, weights).item() - odds / (1 + odds)) <= 4 * 700 * EPS


def test_all_weight_zero_but_one_gives_that_token() -> None:
    tokens, weights = torch.tensor([[3.0], [5.0], [7.0]]), torch.tensor([0.0, 1.0, 0.0])
    assert softmax_average(torch.tensor([1e30, -1e30, 0.0]), tokens, weights).item() == 5.0


def test_the_derivative_in_a_weight_of_zero_is_the_first_variation() -> None:
    logits, tokens = torch.tensor([0.3, -0.2, 0.9]).double(), torch.tensor([[1.0], [2.0], [-1.5]]).double()
    weights = torch.tensor([0.4, 0.6, 0.0]).double().requires_grad_(True)
    average = softmax_average(logits, tokens, weights)
    (gradient,) = torch.autograd.grad(average.sum(), weights)
    with torch.no_grad():
        total = (weights * logits.exp()).sum()
        expected = logits.exp() * (tokens[:, 0] - average) / total
        same = softmax_average(logits, tokens, weights.detach())
    assert (gradient - expected).abs().max() <= 64 * EPS
    assert (average - same).abs().max() <= 8 * EPS


def test_gradients_stay_finite_where_a_token_of_weight_zero_has_a_huge_logit() -> None:
    logits = torch.tensor([0.0, 1e3]).double().requires_grad_(True)
    weights = torch.tensor([1.0, 0.0]).double().requires_grad_(True)
    shares = unnormalised_shares(logits, weights)
    gradients = torch.autograd.grad((shares / shares.sum()).sum(), [logits, weights])
    assert all(bool(torch.isfinite(gradient).all()) for gradient in gradients)


def test_an_unknown_value_is_a_sentence() -> None:
    with pytest.raises(InputError, match="value is one of identity, tanh; it came as 'relu'"):
        scalar_softmax("relu")
