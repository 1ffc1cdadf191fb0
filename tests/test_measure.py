"""A Measure is a law, not a list: what splitting, permuting, adding and mixing leave alone."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor

from mfcheck.errors import InputError
from mfcheck.measure import Measure
from tests.subjects import EPS, measures, places

quick = settings(deadline=None, max_examples=50)


def monomials(points: Tensor) -> Tensor:
    """1, theta_1, theta_2, theta_1 theta_2: four functions to integrate, [..., n, 2] -> [..., n, 4]."""
    x, y = points[..., 0], points[..., 1]
    return torch.stack([torch.ones_like(x), x, y, x * y], -1)


def summation(measure: Measure, extra: int = 1) -> Tensor:
    """2 n eps sum |w v|: two sums of n products, each wrong by at most n eps / 2 a term and eps / 2 a product."""
    values = monomials(measure.points).abs()
    return 2 * (measure.weights.shape[-1] + extra) * EPS * (measure.weights.abs()[..., None] * values).sum(-2)


def same_law(first: Measure, second: Measure, bound: Tensor) -> None:
    difference = (first.integrate(monomials) - second.integrate(monomials)).abs()
    # the smallest subnormal: a split weight below it rounds to zero
    assert bool((difference <= bound + 1e-322).all()), f"integrals differ by {difference}, allowed {bound}"


@quick
@given(measures(2), st.data(), st.floats(0.0, 1.0))
def test_splitting_an_atom_changes_nothing(measure: Measure, data: st.DataObject, share: float) -> None:
    index = data.draw(st.integers(-len(measure.weights), len(measure.weights) - 1))
    twin = measure.split(index, share)
    assert len(twin.weights) == len(measure.weights) + 1
    same_law(measure, twin, summation(measure))


@quick
@given(measures(2, most=8), st.data())
def test_permuting_atoms_changes_nothing(measure: Measure, data: st.DataObject) -> None:
    order = torch.tensor(data.draw(st.permutations(range(len(measure.weights)))))
    same_law(measure, Measure(measure.points[order], measure.weights[order]), summation(measure))


@quick
@given(measures(2), places(2))
def test_adding_atoms_of_weight_zero_changes_nothing(measure: Measure, at: Tensor) -> None:
    same_law(measure, measure.append(at), summation(measure, extra=len(at)))


@quick
@given(measures(2), measures(2), st.floats(0.0, 1.0))
def test_integrals_are_affine_along_mixtures(first: Measure, second: Measure, share: float) -> None:
    mixture = first.mix(second, share).integrate(monomials)
    expected = (1 - share) * first.integrate(monomials) + share * second.integrate(monomials)
    bound = summation(first, extra=len(second.weights)) + summation(second, extra=len(first.weights))
    assert bool(((mixture - expected).abs() <= bound + 1e-322).all())


@quick
@given(measures(2))
def test_pushing_forward_is_composing_the_integrand(measure: Measure) -> None:
    def transport(points: Tensor) -> Tensor:
        return torch.stack([points[..., 1], points[..., 0] ** 2], -1)

    pushed = measure.push(transport).integrate(monomials)
    assert torch.equal(pushed, measure.integrate(lambda points: monomials(transport(points))))


@quick
@given(measures(2), st.floats(0.25, 4.0))
def test_covariance_is_numpys_and_ignores_the_mass(measure: Measure, factor: float) -> None:
    weights = measure.weights + 0.125  # away from zero mass, which has no covariance
    ours = Measure(measure.points, factor * weights).covariance()
    theirs = np.cov(measure.points.numpy().T, aweights=weights.numpy(), ddof=0)
    # sums of n products of numbers below 4 in the square, twice (mean, then spread), on each side
    assert np.abs(ours.numpy() - theirs).max() <= 8 * (len(weights) + 4) * EPS * 16


def test_uniform_gives_equal_weights_that_sum_to_one() -> None:
    measure = Measure.uniform(torch.zeros(3, 8, 2))
    assert torch.equal(measure.weights, torch.full((3, 8), 0.125)) and torch.equal(measure.mass, torch.ones(3))


def test_a_batch_of_measures_is_its_members() -> None:
    generator = torch.Generator().manual_seed(0)
    points = torch.randn(3, 5, 2, generator=generator, dtype=torch.float64)
    weights = torch.rand(3, 5, generator=generator, dtype=torch.float64)
    batch, members = Measure(points, weights), [Measure(x, w) for x, w in zip(points, weights, strict=True)]
    at = torch.randn(2, 2, generator=generator, dtype=torch.float64)
    for operation in (
        lambda m: m.integrate(monomials),
        lambda m: m.mean(),
        lambda m: m.mass,
        lambda m: m.covariance(),
        lambda m: m.split(2, 0.25).weights,
        lambda m: m.append(at).points,
        lambda m: m.mix(m, 0.5).weights,
    ):
        together, alone = operation(batch), torch.stack([operation(m) for m in members])
        # one reduction may be ordered differently: n eps of sums below 16
        assert together.shape == alone.shape and float((together - alone).abs().max()) <= 5 * EPS * 16


def test_values_a_point_and_k_values_a_point_are_told_apart_by_their_axes() -> None:
    measure = Measure.uniform(torch.eye(3, dtype=torch.float64))  # n = p = 3: sizes alone would not tell
    assert measure.integrate(lambda points: points[..., 0]).shape == ()
    assert measure.integrate(lambda points: points).shape == (3,)


X, W = torch.zeros(4, 2), torch.zeros(4)


@pytest.mark.parametrize(
    ("call", "sentence"),
    [
        (lambda: Measure(X.numpy(), W), "torch tensors; points came as ndarray"),  # type: ignore[arg-type]
        (lambda: Measure(X, torch.zeros(3)), r"\(4, 2\), weights as \(3,\)"),
        (lambda: Measure(W, W), r"\[..., n, p\]"),
        (lambda: Measure(X.long(), W.long()), "floating point"),
        (lambda: Measure(X.double(), W), "share a dtype"),
        (lambda: Measure.uniform(X.numpy()), "came as ndarray"),  # type: ignore[arg-type]
        (lambda: Measure.uniform(W), r"came as \(4,\)"),
        (lambda: Measure.uniform(torch.zeros(0, 2)), "n >= 1"),
        (lambda: Measure(X, W).mix(Measure(X, W), 1.5), "came as 1.5"),
        (lambda: Measure(X, W).append(torch.zeros(2, 3)), r"\[m, 2\]"),
        (lambda: Measure(X, W).append(torch.zeros(2)), r"came as \(2,\)"),
        (lambda: Measure(X[None], W[None]).append(torch.zeros(3, 2, 2)), r"\[1, 'm', 2\]"),
        (lambda: Measure(X, W).integrate(lambda points: points.sum()), r"gave shape \(\)"),
        (lambda: Measure(X, W).integrate(torch.zeros(5)), r"gave shape \(5,\)"),
    ],
)
def test_bad_input_is_a_sentence(call: Callable[[], object], sentence: str) -> None:
    with pytest.raises(InputError, match=sentence):
        call()
