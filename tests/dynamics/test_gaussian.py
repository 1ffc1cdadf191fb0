"""Gaussian laws: density against SciPy, cell masses by two routes, relative entropy by quadrature."""

from __future__ import annotations

import math

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.integrate import quad
from scipy.special import log_ndtr
from scipy.stats import multivariate_normal

from mfcheck.dynamics.gaussian import Gaussian, cell_masses, gaussian, gaussian_density, relative_entropy
from mfcheck.errors import InputError

TILTED = [[0.3, 0.1], [0.1, 0.2]]


def test_density_agrees_with_scipy() -> None:
    points = torch.randn(4, 50, 2, generator=torch.Generator().manual_seed(0), dtype=torch.float64)
    ours = gaussian_density([1.0, 0.5], TILTED)(points)
    theirs = multivariate_normal([1.0, 0.5], TILTED).pdf(points.numpy())
    # the exponent is below 100 here and carries p * condition * eps = 2 * 4 * 2.2e-16 of it
    np.testing.assert_allclose(ours.numpy(), theirs, rtol=2e-13)


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_density_keeps_the_dtype_of_the_points(dtype: torch.dtype) -> None:
    assert gaussian_density(0.0, 1.0)(torch.zeros(3, 1, dtype=dtype)).dtype == dtype


def test_exact_cell_masses_hold_their_relative_digits_in_both_tails() -> None:
    edges = torch.linspace(-20, 20, 81, dtype=torch.float64)
    masses = gaussian(0.0, 1.0).cell_masses([edges])
    # an independent route to the outermost cells: e^{log Phi}, whose exponent 200 carries 200 * eps
    outer = math.exp(log_ndtr(-19.5)) - math.exp(log_ndtr(-20.0))
    assert float(masses[0]) == pytest.approx(outer, rel=1e-12)
    assert torch.equal(masses, masses.flip(0))
    assert float(masses.sum()) == pytest.approx(1.0, abs=80 * 2.2e-16)


def test_quadrature_and_distribution_function_agree_on_cell_masses() -> None:
    edges = [torch.linspace(-4, 5, 61, dtype=torch.float64), torch.linspace(-3, 4, 41, dtype=torch.float64)]
    law = gaussian([1.0, 0.5], [0.3, 0.2])
    # Gauss-Legendre with 8 nodes: (h / 2 sd)^16 / 16! * |H_16| is below 1e-16 at h / sd = 0.4
    assert float((cell_masses(law.density, edges) - law.cell_masses(edges)).abs().max()) < 1e-15


def test_tilted_cell_masses_add_up_to_their_marginals() -> None:
    edges = [torch.linspace(-4, 6, 61, dtype=torch.float64), torch.linspace(-4, 5, 71, dtype=torch.float64)]
    masses = gaussian([1.0, 0.5], TILTED).cell_masses(edges)
    # the box cuts off less than 1e-17; both routes carry 4e3 roundings of masses that sum to 1
    assert float((masses.sum(1) - gaussian(1.0, 0.3).cell_masses(edges[:1])).abs().max()) < 1e-14
    assert float((masses.sum(0) - gaussian(0.5, 0.2).cell_masses(edges[1:])).abs().max()) < 1e-14


@settings(deadline=None, max_examples=25)
@given(st.floats(-1, 1), st.floats(0.3, 2.0), st.floats(-1, 1), st.floats(0.3, 2.0))
def test_relative_entropy_is_the_integral_of_its_definition(m1: float, v1: float, m2: float, v2: float) -> None:
    first, second = gaussian(m1, v1), gaussian(m2, v2)

    def integrand(x: float) -> float:
        point = torch.tensor([[x]], dtype=torch.float64)
        return float(first.density(point) * (first.log_density(point) - second.log_density(point)))

    reach = 10 * math.sqrt(v1)
    value, error = quad(integrand, m1 - reach, m1 + reach, epsabs=1e-11, epsrel=1e-11, limit=200)
    # beyond 10 standard deviations lies less than 1e-20; quad states the rest
    assert relative_entropy(first, second) == pytest.approx(value, abs=error + 1e-10)


def test_relative_entropy_keeps_its_digits_between_close_laws() -> None:
    # variance 1 + d: (d - log(1 + d)) / 2 = d^2/4 - d^3/6; the textbook's form would leave only rounding, 1e-16
    delta = 2.0**-30
    value = relative_entropy(gaussian(0.0, 1.0 + delta), gaussian(0.0, 1.0))
    assert value == pytest.approx(delta**2 / 4, rel=1e-6)


def test_relative_entropy_of_the_same_law_is_zero_and_sees_every_coordinate() -> None:
    law = gaussian([1.0, 0.5], TILTED)
    assert relative_entropy(law, law) == 0.0
    shifted = Gaussian(law.mean + torch.tensor([0.1, 0.0], dtype=torch.float64), law.covariance)
    expected = 0.5 * 0.1**2 * np.linalg.inv(np.array(TILTED))[0, 0]
    assert relative_entropy(law, shifted) == pytest.approx(expected, rel=1e-13)


def test_second_moment_counts_mean_and_spread() -> None:
    assert gaussian([3.0, 4.0], [1.0, 2.0]).second_moment == 28.0


@pytest.mark.parametrize(
    ("call", "sentence"),
    [
        (lambda: gaussian([0.0, 0.0], [1.0, 1.0, 1.0]), "covariance in R\\^2"),
        (lambda: gaussian([0.0, 0.0], [[1.0, 0.5], [0.4, 1.0]]), "symmetric"),
        (lambda: gaussian(0.0, 0.0).density(torch.zeros(1, 1)), "positive definite"),
        (lambda: gaussian(0.0, 1.0).density(torch.zeros(1, 2)), "lives in R\\^1"),
        (lambda: gaussian(0.0, 1.0).cell_masses([torch.tensor([1.0, 0.0])]), "increasing"),
        (lambda: relative_entropy(gaussian(0.0, 1.0), gaussian([0.0, 0.0], 1.0)), "one dimension"),
    ],
)
def test_bad_input_is_a_sentence(call: object, sentence: str) -> None:
    with pytest.raises(InputError, match=sentence):
        call()  # type: ignore[operator]
