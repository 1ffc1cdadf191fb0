"""The operator by particles, by quadrature and on a grid: three Measures, one number."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from scipy import integrate, stats
from torch import Tensor

import mfcheck.operator
from mfcheck.errors import InputError
from mfcheck.heads import Head, linear_attention, matrix_softmax, scalar_softmax
from mfcheck.measure import Measure
from mfcheck.operator import (
    Sequences,
    gauss_hermite,
    head_values,
    operator,
    operator_moments,
    product,
    rule_on_the_line,
)

EPS = float(np.finfo(np.float64).eps)


def sequences(d: int, count: int = 3, tokens: int = 4) -> Sequences:
    generator = torch.Generator().manual_seed(d)
    queries, laws = (torch.randn(*s, generator=generator).double() for s in ((count, d), (count, tokens, d)))
    weights = torch.rand(count, tokens, generator=generator).double() + 0.1
    return Sequences(queries, laws, weights / weights.sum(-1, keepdim=True))


def heads(*shape: int) -> Tensor:
    return torch.randn(*shape, generator=torch.Generator().manual_seed(9)).double()


@pytest.mark.parametrize("chunk", [1, 50, 2**17])
def test_the_operator_of_particles_is_the_mean_of_single_calls(chunk: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(mfcheck.operator, "CHUNK", chunk)
    head, inputs, points = matrix_softmax(2), sequences(2), heads(2, 5, 8)
    got = operator(head, Measure.uniform(points), inputs)
    assert got.shape == (2, 3, 2)
    for r in range(2):
        for k in range(3):
            single = [head(theta, inputs.queries[k], inputs.tokens[k], inputs.weights[k]) for theta in points[r]]
            # logits of order 10 and values of order 3
            assert (got[r, k] - torch.stack(single).mean(0)).abs().max() <= 1e3 * EPS


def test_the_operator_is_linear_in_the_law_of_heads() -> None:
    head, inputs = matrix_softmax(2), sequences(2)
    first, second = Measure.uniform(heads(4, 8)), Measure.uniform(heads(6, 8) + 1)
    mixed = operator(head, first.mix(second, 0.3), inputs)
    expected = 0.7 * operator(head, first, inputs) + 0.3 * operator(head, second, inputs)
    assert (mixed - expected).abs().max() <= 1e3 * EPS


def test_gradients_pass_through_chunks(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(mfcheck.operator, "CHUNK", 30)
    inputs, points = sequences(1), heads(5, 2)
    weights = torch.full((5,), 0.2).double()
    assert torch.autograd.gradcheck(
        lambda p, w: operator(scalar_softmax("tanh"), Measure(p, w), inputs),
        (points.requires_grad_(True), weights.requires_grad_(True)),
    )


def test_a_gaussian_rule_has_the_moments_of_its_law() -> None:
    mean, factor = np.array([0.5, -1.0]), np.array([[1.0, 0.0], [0.6, 0.8]])
    rule = gauss_hermite(mean.tolist(), factor, 12)
    assert abs(rule.mass - 1) <= 100 * EPS
    assert np.abs(rule.mean().numpy() - mean).max() <= 100 * EPS
    assert np.abs(rule.covariance().numpy() - factor @ factor.T).max() <= 1000 * EPS
    # E x^4 of N(m, s^2) is m^4 + 6 m^2 s^2 + 3 s^4
    line = gauss_hermite([0.5], [2.0], 6)
    assert line.integrate(lambda x: x[:, 0] ** 4).item() == pytest.approx(0.5**4 + 6 * 0.25 * 4 + 48, rel=1e-13)


def test_a_product_multiplies_weights_and_joins_points() -> None:
    joint = product(rule_on_the_line([0.0, 1.0], [0.25, 0.75]), rule_on_the_line([2.0, 3.0, 4.0], [0.5, 0.3, 0.2]))
    assert joint.points.tolist() == [[a, b] for a in (0.0, 1.0) for b in (2.0, 3.0, 4.0)]
    assert joint.weights.tolist() == pytest.approx([w * v for w in (0.25, 0.75) for v in (0.5, 0.3, 0.2)])


def test_moments_of_linear_attention_are_exact() -> None:
    # v = V A S x in one dimension: E = E[V] E[A] S x, E v^2 = E[V^2] E[A^2] (S x)^2
    inputs = sequences(1)
    mean, sd = (0.7, 0.6), (1.0, 0.8)
    moments = operator_moments(linear_attention(1), lambda order: gauss_hermite(mean, sd, order), inputs, (4, 8))
    seen = (inputs.weights * inputs.tokens[..., 0] ** 2).sum(-1) * inputs.queries[:, 0]
    second = (0.7**2 + 1) * (0.6**2 + 0.8**2)
    expected = (second - (0.7 * 0.6) ** 2) * torch.outer(seen, seen)
    assert (moments.mean[:, 0] - 0.7 * 0.6 * seen).abs().max() <= 1e3 * EPS
    assert (moments.covariance - expected).abs().max() <= 1e4 * EPS
    assert moments.total_variance == pytest.approx(float(expected.trace()), rel=1e-12)


def test_the_error_of_a_quadrature_covers_what_it_is_off_by() -> None:
    inputs = sequences(1)
    moments = operator_moments(
        scalar_softmax(), lambda order: gauss_hermite([0.7, 0.6], [1.0, 0.8], order), inputs, (20, 40)
    )
    for k in range(len(inputs)):
        x, y, w = inputs.queries[k].item(), inputs.tokens[k, :, 0].numpy(), inputs.weights[k].numpy()

        def integrand(a: float, x: float = x, y: np.ndarray = y, w: np.ndarray = w) -> float:
            shares = w * np.exp(a * x * y - (a * x * y).max())
            return float(shares @ y / shares.sum() * stats.norm.pdf(a, 0.7, 1.0))

        value, error = integrate.quad(integrand, -12, 13, epsabs=1e-13, epsrel=1e-12, limit=200)
        assert abs(moments.mean[k, 0].item() - 0.6 * value) <= moments.mean_error + error + 1e-12


def test_a_grid_density_gives_the_operator_of_its_law() -> None:
    inputs = sequences(1)
    centres = np.linspace(-6, 6, 241)
    marginals = [stats.norm.pdf(centres, m, s) for m, s in ((0.7, 1.0), (0.6, 0.8))]
    grid = product(*(rule_on_the_line(centres, density / density.sum()) for density in marginals))
    exact = operator_moments(scalar_softmax(), lambda order: gauss_hermite([0.7, 0.6], [1.0, 0.8], order), inputs)
    # a sum over equidistant nodes converges faster than any power until the box cuts at 5.3 deviations: 2 * 6e-8
    assert (operator(scalar_softmax(), grid, inputs) - exact.mean).abs().max() <= exact.mean_error + 1e-6


def test_sequences_share_tokens_and_follow_a_dtype() -> None:
    shared = Sequences.of(torch.ones(3, 1), torch.tensor([[0.5], [1.0]]))
    assert len(shared) == 3 and shared.tokens.shape == (3, 2, 1) and shared.weights.tolist() == [[0.5, 0.5]] * 3
    assert shared.to(torch.ones(1)) is shared
    third = Sequences.of(torch.ones(1, 1), torch.ones(3, 1)).to(torch.ones(1).double())
    assert third.weights.dtype == torch.float64 and third.weights.sum().item() == pytest.approx(1, abs=4 * EPS)


def test_bad_input_is_a_sentence() -> None:
    inputs = sequences(2)
    with pytest.raises(InputError, match=r"takes theta in R\^8 and tokens in R\^2; points came as \(4, 7\)"):
        head_values(matrix_softmax(2), heads(4, 7), inputs)
    with pytest.raises(InputError, match="theta must be finite; it holds nan"):
        head_values(matrix_softmax(2), heads(4, 8) * torch.nan, inputs)
    with pytest.raises(InputError, match="returns one token a call"):
        head_values(Head("wrong", 8, 2, lambda theta, x, y, w: y), heads(4, 8), inputs)
    with pytest.raises(InputError, match=r"returned nan .*, and its inputs were finite"):
        head_values(Head("nan", 8, 2, lambda theta, x, y, w: 0 * (theta[..., :2] + x) / 0), heads(4, 8), inputs)
    with pytest.raises(InputError, match=r"sequences are queries \[K, d\].*\(3, 2\), \(4, 2\)"):
        Sequences(inputs.queries, inputs.tokens[0], inputs.weights)
    with pytest.raises(InputError, match="weights sum to 1"):
        Sequences(inputs.queries, inputs.tokens, 2 * inputs.weights)
    with pytest.raises(InputError, match=r"two quadrature orders, .* \(60, 40\)"):
        operator_moments(matrix_softmax(2), lambda order: gauss_hermite([0], [1], order), inputs, (60, 40))
    with pytest.raises(InputError, match=r"scale is \[p\] or \[p, p\] with p = 2; it came as \(3,\)"):
        gauss_hermite([0.0, 1.0], [1.0, 1.0, 1.0], 4)
