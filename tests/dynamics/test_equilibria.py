"""Gibbs laws on the line and the Desai-Zwanzig model against sums on a fine grid and Gamma functions.

The trapezoid sum of a smooth function that vanishes at both ends converges faster than any power of the step, so that
it is an independent reference to rounding.
"""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np
import pytest
import torch
from scipy.special import gamma

from mfcheck.dynamics.equilibria import (
    bakry_emery,
    desai_zwanzig_critical_beta,
    desai_zwanzig_equilibria,
    desai_zwanzig_gibbs,
    desai_zwanzig_map,
    gibbs_on_line,
)
from mfcheck.errors import InputError
from mfcheck.risks import desai_zwanzig, double_well, quadratic

# 40,001 positive terms in NumPy's pairwise summation, log2(4e4) eps = 3e-15, and quad's own 1e-12
SUMMED = 2e-12


def trapezoid(potential: Callable[[np.ndarray], np.ndarray], beta: float, moment: int) -> float:
    x = np.linspace(-6, 6, 40_001)
    u = potential(x)
    weight = np.exp(-(u - u.min()) / beta)
    return float((x**moment * weight).sum() / weight.sum())


@pytest.mark.parametrize("beta", [0.005, 0.1, 0.5, 2.0])
@pytest.mark.parametrize("moment", [2, 4])
def test_moments_of_the_double_well_agree_with_the_trapezoid_sum(beta: float, moment: int) -> None:
    potential = double_well().potential
    assert potential is not None
    law = gibbs_on_line(potential, beta=beta)
    expected = trapezoid(lambda x: x**4 / 4 - x**2 / 2, beta, moment)
    assert law.expectation(lambda x: x**moment) == pytest.approx(expected, rel=SUMMED)
    assert law.expectation(lambda x: x) == pytest.approx(0.0, abs=SUMMED)
    assert law.expectation(lambda x: 1.0) == pytest.approx(1.0, rel=SUMMED)


def test_gibbs_of_a_quadratic_is_the_gaussian() -> None:
    potential = quadratic(2.0, centre=30.0).potential
    assert potential is not None
    law = gibbs_on_line(potential, beta=0.5)
    points = torch.linspace(28, 32, 9, dtype=torch.float64)[:, None]
    expected = torch.exp(-2 * (points[:, 0] - 30) ** 2) * math.sqrt(2 / math.pi)
    # the exponent is at most 8 and log Z carries quad's 1e-12
    assert torch.allclose(law.density(points), expected, rtol=SUMMED, atol=0.0)
    assert law.expectation(lambda x: x) == pytest.approx(30.0, rel=SUMMED)


def test_gibbs_on_an_interval_is_normalised_there() -> None:
    flat = gibbs_on_line(lambda points: 0.0 * points[..., 0], beta=1.0, bounds=(0.0, 4.0))
    assert float(flat.density(torch.ones(1, 1, dtype=torch.float64))) == pytest.approx(0.25, rel=SUMMED)


def test_a_narrow_well_far_from_the_origin_is_not_missed() -> None:
    law = gibbs_on_line(lambda points: 0.5 * (points[..., 0] - 700.0) ** 2, beta=0.01)
    assert law.expectation(lambda x: (x - 700.0) ** 2) == pytest.approx(0.01, rel=1e-9)


def test_critical_beta_is_the_ratio_of_gamma_functions() -> None:
    # brentq to 1e-13 relative, quad 1e-12 in a function whose slope d log / d log beta is -1/2
    exact = (2 * gamma(0.75) / gamma(0.25)) ** 2
    assert desai_zwanzig_critical_beta() == pytest.approx(exact, rel=4e-12)
    # claims P8's control, kappa halved, has its own
    assert desai_zwanzig_critical_beta(kappa=0.5) == pytest.approx(0.2645, abs=5e-5)


@pytest.mark.parametrize(("kappa", "quartic", "quadratic_"), [(1.0, 2.0, -1.0), (2.0, 3.0, -2.0), (0.3, 1.0, -0.3)])
def test_critical_beta_scales_with_the_potential(kappa: float, quartic: float, quadratic_: float) -> None:
    # theta = sqrt(b/g) y turns U into b^2/g (y^4/4 - y^2/2) with kappa / b: here kappa / b = 1, or exactly so
    unit = desai_zwanzig_critical_beta(kappa=kappa / -quadratic_)
    assert desai_zwanzig_critical_beta(kappa=kappa, quartic=quartic, quadratic=quadratic_) == pytest.approx(
        quadratic_**2 / quartic * unit, rel=4e-12
    )


@pytest.mark.parametrize("mean", [1e-8, 0.1, 0.7, 2.0, -0.7])
@pytest.mark.parametrize("beta", [0.02, 0.3, 1.0])
def test_self_consistency_map_agrees_with_the_trapezoid_sum(mean: float, beta: float) -> None:
    expected = trapezoid(lambda x: x**4 / 4 - mean * x, beta, 1)
    # the sum cancels for small m: its rounding is eps sqrt(E x^2) / |E x|; only the map keeps relative digits there
    tolerance = SUMMED * abs(expected) + 1e-14
    assert desai_zwanzig_map(mean, beta=beta) == pytest.approx(expected, abs=tolerance)
    assert desai_zwanzig_gibbs(mean, beta=beta).expectation(lambda x: x) == pytest.approx(expected, abs=tolerance)


def test_slope_of_the_map_at_zero_is_kappa_variance_over_beta() -> None:
    variance = trapezoid(lambda x: x**4 / 4, 0.3, 2)
    # odd map: map(m) / m = slope + O(m^2)
    assert desai_zwanzig_map(1e-7, beta=0.3) / 1e-7 == pytest.approx(variance / 0.3, rel=SUMMED)


@pytest.mark.parametrize("beta", [0.001, 0.05, 0.3, 0.45])
def test_below_critical_beta_there_are_three_equilibria(beta: float) -> None:
    low, middle, high = desai_zwanzig_equilibria(beta=beta)
    assert (low, middle) == (-high, 0.0) and high > 0
    # the map's slope at the root is below 1 by (1 - slope) >= 1e-2, so 1e-12 in the map is 1e-10 in the root
    assert desai_zwanzig_map(high, beta=beta) == pytest.approx(high, rel=1e-12)
    density = desai_zwanzig_gibbs(high, beta=beta)
    assert density.expectation(lambda x: x) == pytest.approx(high, rel=4e-12)


def test_no_root_of_the_map_is_left_out() -> None:
    # sign changes of map(m) - m on a fine grid of m > 0: one below beta_c, none above
    grid = np.linspace(1e-4, 3.0, 200)
    for beta, expected in ((0.1, 1), (0.3, 1), (0.46, 0), (1.0, 0)):
        signs = np.sign([desai_zwanzig_map(float(m), beta=beta) - m for m in grid])
        assert int((np.diff(signs) != 0).sum()) == expected
        assert len(desai_zwanzig_equilibria(beta=beta)) == 1 + 2 * expected


def test_magnetisation_ends_at_critical_beta() -> None:
    critical = desai_zwanzig_critical_beta()
    below, above = critical * (1 - 1e-6), critical * (1 + 1e-6)
    assert len(desai_zwanzig_equilibria(beta=below)) == 3 and len(desai_zwanzig_equilibria(beta=above)) == 1
    # a pitchfork: m^2 is linear in beta_c - beta, so that 4 times as far gives 2 times m, up to O(1e-6)
    near, far = (desai_zwanzig_equilibria(beta=critical * (1 - d))[-1] for d in (1e-6, 4e-6))
    assert far / near == pytest.approx(2.0, abs=1e-4)


def test_an_equilibrium_makes_the_first_variation_of_the_risk_its_own_potential() -> None:
    # rho = exp(-dL/drho[rho] / beta) / Z: the shipped risk's first variation against the law's potential
    beta, kappa = 0.3, 1.0
    m = desai_zwanzig_equilibria(beta=beta, kappa=kappa)[-1]
    law, risk = desai_zwanzig_gibbs(m, beta=beta, kappa=kappa), desai_zwanzig(kappa)
    points = torch.linspace(-2, 2, 9, dtype=torch.float64)[:, None]
    field = risk.field_at(torch.tensor([m], dtype=torch.float64))
    difference = risk.first_variation(points, field) - law.potential(points)
    assert float(difference.max() - difference.min()) < 1e-14


def test_a_convex_potential_has_one_equilibrium_and_no_transition() -> None:
    assert desai_zwanzig_equilibria(beta=0.01, quadratic=1.0) == (0.0,)
    with pytest.raises(InputError, match="no transition"):
        desai_zwanzig_critical_beta(quadratic=1.0)


def test_bakry_emery_is_the_least_curvature_over_beta() -> None:
    assert bakry_emery(1.0, beta=0.5) == 2.0


@pytest.mark.parametrize(
    ("call", "sentence"),
    [
        (lambda: gibbs_on_line(lambda points: points[..., 0], beta=1.0), "confines"),
        (lambda: gibbs_on_line(lambda points: points[..., 0] ** 2, beta=0.0), "beta > 0"),
        (lambda: gibbs_on_line(lambda points: points[..., 0] / 0, beta=1.0, bounds=(-1, 1)), "NaN or infinite"),
        (lambda: bakry_emery(0.0, beta=1.0), "curvature"),
        (lambda: desai_zwanzig_equilibria(beta=0.0), "beta > 0"),
        (lambda: desai_zwanzig_critical_beta(kappa=0.0), "attraction"),
    ],
)
def test_bad_input_is_a_sentence(call: Callable[[], object], sentence: str) -> None:
    with pytest.raises(InputError, match=sentence):
        call()
