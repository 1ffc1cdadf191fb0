"""Every estimator against an independent computation, its edge cases, and the sentences it refuses bad input with."""

from __future__ import annotations

import itertools
import math

import numpy as np
import pytest
from scipy import stats

from mfcheck.errors import InputError
from mfcheck.statistics.estimate import (
    Estimate,
    deterministic_order,
    exact,
    function_of_means,
    kolmogorov_distance,
    largest_deviation,
    mean,
    order,
    paired_difference,
    variance_ratio,
)
from mfcheck.statistics.interval import interval
from mfcheck.statistics.seeds import stream
from mfcheck.statistics.verdict import Region, Verdict, judge

LEVELS = (0.9, 0.99, 1 - 1e-6)


def normals(*shape: int, name: str = "x") -> np.ndarray:
    return stream(0, "test_estimate", name, str(shape)).numpy().standard_normal(shape)


# --- mean and paired difference ---


@pytest.mark.parametrize("level", LEVELS)
def test_mean_of_symmetric_samples_has_students_interval(level: float) -> None:
    half = normals(20)
    x = 3.0 + np.concatenate([half, -half])  # skewness 0: nothing to correct
    estimate = mean(x, level)
    expected = stats.ttest_1samp(x, 0.0).confidence_interval(level)
    assert estimate.point == pytest.approx(x.mean(), rel=1e-14)
    assert (estimate.lower, estimate.upper) == pytest.approx((expected.low, expected.high), rel=1e-9)
    assert (estimate.n, estimate.level) == (40, level)


@pytest.mark.parametrize("level", LEVELS)
def test_each_end_of_a_skewed_mean_is_the_further_of_students_and_halls(level: float) -> None:
    x = normals(200) ** 2
    estimate, student = mean(x, level), stats.ttest_1samp(x, 0.0).confidence_interval(level)
    # Hall's cubic map of Student's ratio t, whose inverse the code has in closed form: invert it numerically
    n, skewness, error = len(x), float(stats.skew(x)), float(stats.sem(x))
    quantile = stats.t.isf((1 - level) / 2, n - 1)

    def ratio(q: float) -> float:
        a = skewness / math.sqrt(n)
        roots = np.roots([a**2 / 27, a / 3, 1.0, a / 6 - q])
        return float(roots[np.abs(roots.imag) < 1e-6].real[0])

    # stats.skew divides by the biased variance, the interval by the unbiased one: apart by 3 / (2 n) of skewness
    assert estimate.lower == pytest.approx(min(student.low, x.mean() - ratio(quantile) * error), abs=0.02 * error)
    assert estimate.upper == pytest.approx(max(student.high, x.mean() - ratio(-quantile) * error), abs=0.1 * error)
    assert estimate.upper > student.high
    assert estimate.lower == student.low or abs(estimate.lower - student.low) < 1e-12


def test_an_interval_turns_with_its_samples() -> None:
    x = normals(50) ** 2
    there, back = mean(x, 0.999), mean(-x, 0.999)
    assert (back.lower, back.upper) == pytest.approx((-there.upper, -there.lower), rel=1e-12)
    scaled = mean(5.0 + 2.0 * x, 0.999)
    assert (scaled.lower, scaled.upper) == pytest.approx((5 + 2 * there.lower, 5 + 2 * there.upper), rel=1e-12)


def test_a_higher_level_gives_a_wider_interval() -> None:
    x = normals(30) ** 2
    ladder = [mean(x, 1 - 10.0**-k) for k in range(1, 10)]
    for narrow, wide in itertools.pairwise(ladder):
        assert wide.lower < narrow.lower < narrow.point < narrow.upper < wide.upper


def test_equal_samples_have_an_interval_of_no_width() -> None:
    estimate = mean([2.0, 2.0, 2.0], 0.99)
    assert (estimate.lower, estimate.point, estimate.upper) == (2.0, 2.0, 2.0)


def test_a_pair_is_subtracted_before_it_is_averaged() -> None:
    noise = normals(100)
    treated, baseline = 100 * noise + 1.0, 100 * noise
    estimate = paired_difference(treated, baseline, 0.99)
    assert estimate.point == pytest.approx(1.0)
    assert estimate.upper - estimate.lower < 1e-10
    assert paired_difference(treated, baseline, 0.99, reference_error=0.1).reference_error == 0.1
    with pytest.raises(InputError, match=r"\(100,\) and \(99,\)"):
        paired_difference(treated, baseline[1:], 0.99)


@pytest.mark.parametrize("value", [math.nan, math.inf])
def test_samples_that_are_not_finite_decide_nothing(value: float) -> None:
    x, table = normals(20), normals(20, 3) ** 2
    x[3] = table[3, 1] = value
    ladder = [1.0, 2.0, 4.0]
    for estimate in (
        mean(x, 0.99),
        paired_difference(x, np.zeros(20), 0.99),
        kolmogorov_distance(x, "norm", 0.99),
        largest_deviation(x, np.ones(20), 0.99, 100),
        largest_deviation(np.ones(20), x, 0.99, 100),
        function_of_means(lambda m: m[..., 0], table, 0.99),
        order(ladder, table, 0.99),
        deterministic_order(ladder, [1.0, value, 0.25]),
        variance_ratio(x**2, np.ones(20), 1.0, 0.99),
    ):
        assert judge(estimate, Region(-10.0, 10.0, 0.0))[0] is Verdict.INCONCLUSIVE
    assert "1 of 20 measured values are not finite" in str(mean(x, 0.99).problem)


# --- variance ratio ---


@pytest.mark.parametrize("level", LEVELS)
@pytest.mark.parametrize("degrees", [1, 7, 1000, 10**6, 4 * 10**7])
def test_each_end_of_a_variance_ratio_is_where_its_tail_is_spent(degrees: int, level: float) -> None:
    estimate = variance_ratio([0.7 * degrees], [degrees], 0.5, level)
    assert estimate.point == pytest.approx(1.4)
    # were the true ratio `lower`, a sum this large would have probability (1 - level) / 2; likewise above. SciPy's
    # quantile q is good to about 1e-8 q (it iterates to a tolerance), which moves a tail at z standard deviations
    # by the relative amount z dq / sqrt(2 degrees) = z sqrt(degrees / 2) 1e-8
    tail = (1 - level) / 2
    tolerance = 1e-9 + stats.norm.isf(tail) * math.sqrt(degrees / 2) * 1e-8
    assert stats.chi2.sf(1.4 * degrees / estimate.lower, degrees) == pytest.approx(tail, rel=tolerance)
    assert stats.chi2.cdf(1.4 * degrees / estimate.upper, degrees) == pytest.approx(tail, rel=tolerance)


def test_a_variance_ratio_pools_its_replicates() -> None:
    x = normals(50, 8)
    pooled = variance_ratio((x**2).sum(1), np.full(50, 8), 1.0, 0.99)
    whole = variance_ratio([(x**2).sum()], [400], 1.0, 0.99)
    assert (pooled.n, whole.n) == (400, 400)
    assert (pooled.lower, pooled.point, pooled.upper) == pytest.approx((whole.lower, whole.point, whole.upper))


@pytest.mark.parametrize(("degrees", "expected"), [([0], 1.0), ([5], 0.0), ([5], -1.0), ([5], math.nan)])
def test_a_variance_ratio_needs_samples_and_an_expectation(degrees: list[int], expected: float) -> None:
    with pytest.raises(InputError, match="needs samples and a positive expectation"):
        variance_ratio([1.0], degrees, expected, 0.99)


# --- distances and deviations ---


def test_kolmogorov_distance_against_the_definition() -> None:
    x = np.sort(normals(500))
    estimate = kolmogorov_distance(x.reshape(10, 50), "norm", 0.99)
    f, steps = stats.norm.cdf(x), np.arange(501) / 500
    assert estimate.point == pytest.approx(max((steps[1:] - f).max(), (f - steps[:-1]).max()))
    band = estimate.upper - estimate.point
    assert 2 * math.exp(-2 * 500 * band**2) == pytest.approx(0.01)  # Massart's bound, spent
    assert estimate.lower == max(0.0, estimate.point - band)
    assert kolmogorov_distance(x, stats.norm.cdf, 0.99).point == pytest.approx(estimate.point)
    with pytest.raises(InputError, match="needs samples"):
        kolmogorov_distance([], "norm", 0.99)


def test_the_largest_deviation_is_bounded_by_the_entries_that_bound_it() -> None:
    estimate = largest_deviation([[-3.0, 0.1], [1.0, 0.2]], [[0.1, 0.1], [1.0, 0.1]], 0.99, 1000)
    half = stats.t.isf(0.005 / 4, 999)  # Bonferroni over four entries
    assert estimate.point == 3.0
    assert estimate.lower == pytest.approx(3.0 - 0.1 * half)  # entry 0: |delta_0| is at least this
    assert estimate.upper == pytest.approx(max(3.0 + 0.1 * half, 1.0 + half))  # entry 2 may be larger
    assert largest_deviation([0.1, -0.1], [1.0, 1.0], 0.99, 1000).lower == 0.0


@pytest.mark.parametrize(("deviations", "errors", "n"), [([1.0, 2.0], [1.0], 9), ([], [], 9), ([1.0], [1.0], 1)])
def test_every_deviation_needs_its_standard_error(deviations: list[float], errors: list[float], n: int) -> None:
    with pytest.raises(InputError, match="every deviation needs its standard error"):
        largest_deviation(deviations, errors, 0.99, n)


# --- functions of means ---


def test_a_linear_function_of_means_is_a_mean() -> None:
    x = normals(40, 3) ** 2
    estimate = function_of_means(lambda m: m @ np.array([1.0, -2.0, 0.5]), x, 0.999)
    direct = mean(x @ np.array([1.0, -2.0, 0.5]), 0.999)
    expected = pytest.approx((direct.lower, direct.point, direct.upper), rel=1e-9)
    assert (estimate.lower, estimate.point, estimate.upper) == expected


def test_the_jackknife_is_the_bootstraps_standard_error() -> None:
    x = 1.0 + 0.3 * normals(400, 2)
    estimate = function_of_means(lambda m: m[..., 0] / m[..., 1], x, 0.95)
    generator = stream(0, "test_estimate", "bootstrap").numpy()
    resampled = x[generator.integers(0, 400, (4000, 400))].mean(1)
    by_bootstrap = (resampled[:, 0] / resampled[:, 1]).std(ddof=1)
    error = (estimate.upper - estimate.lower) / 2 / stats.t.isf(0.025, 399)
    # 4,000 resamples know their standard error to 1 / sqrt(8000) = 1.1 %; skewness moves the ends by less than 2 %
    assert error == pytest.approx(by_bootstrap, rel=0.06)


def test_the_curvature_of_a_logarithm_by_hand() -> None:
    # log of a mean m: influence (x - m) / m, second derivative along it -(s^2 / m^2)^2
    x = normals(300)[:, None] ** 2
    estimate = function_of_means(lambda m: np.log(m[..., 0]), x, 0.9999)
    influence = x[:, 0] / x.mean() - 1
    lower, upper = interval(math.log(x.mean()), influence, 0.9999, -(influence.var() ** 2))
    # leaving one out is a finite difference of 1 / n: relative terms of order 1 / n, standard error / sqrt(n) here
    tolerance = 5 / 300 * (upper - lower)
    assert (estimate.lower, estimate.upper) == pytest.approx((lower, upper), abs=tolerance)


def test_a_function_without_a_value_within_its_noise_decides_nothing() -> None:
    noise = normals(50, 1)
    x = 0.001 + noise - noise.mean()  # a mean of 0.001 that errs by 0.14
    estimate = function_of_means(lambda m: np.log(m[..., 0]), x, 0.99)
    assert estimate.problem is not None
    assert "no finite value" in estimate.problem


def test_estimates_do_not_depend_on_the_order_of_replicates() -> None:
    x = normals(60, 3) ** 2
    one, two = (order([1.0, 2.0, 4.0], rows, 0.99) for rows in (x, x[::-1]))
    assert (one.lower, one.upper) == pytest.approx((two.lower, two.upper), rel=1e-9)


# --- orders of convergence ---


def ladder_errors(slope: float, n: int = 400, rungs: int = 5, spread: float = 0.1) -> tuple[list[float], np.ndarray]:
    x = 2.0 ** np.arange(rungs)
    return list(x), 3.0 * x**slope * (1 + spread * normals(n, rungs))


@pytest.mark.parametrize("slope", [-1.0, -0.5, 0.0, 2.0])
def test_an_order_keeps_its_sign_and_agrees_with_least_squares(slope: float) -> None:
    x, errors = ladder_errors(slope)
    estimate = order(x, errors, 0.99)
    fitted = stats.linregress(np.log(x), np.log(errors.mean(0)))
    assert estimate.point == pytest.approx(fitted.slope)
    assert estimate.details["intercept"] == pytest.approx(fitted.intercept)
    assert estimate.lower < slope < estimate.upper
    # standard error of the slope, rungs independent: sqrt(sum c_j^2 (spread / sqrt n)^2)
    centred = np.log(x) - np.log(x).mean()
    expected = 0.1 / math.sqrt(400 * (centred @ centred))
    assert (estimate.upper - estimate.lower) / 2 / stats.t.isf(0.005, 399) == pytest.approx(expected, rel=0.15)


def test_the_power_turns_a_mean_square_into_a_root_mean_square() -> None:
    x, errors = ladder_errors(-1.0)
    whole, half = order(x, errors, 0.99), order(x, errors, 0.99, power=0.5)
    assert (half.lower, half.point, half.upper) == pytest.approx((whole.lower / 2, whole.point / 2, whole.upper / 2))
    assert half.details["mean"] == pytest.approx(errors.mean(0) ** 0.5)


def test_shared_noise_cancels_from_the_slope() -> None:
    x = [1.0, 2.0, 4.0, 8.0]
    common = (1 + 0.5 * normals(200, 1)) * np.array(x) ** -1.0
    estimate = order(x, common, 0.99)
    assert estimate.upper - estimate.lower < 1e-6


def test_a_rung_at_the_noise_floor_is_set_aside() -> None:
    x, errors = ladder_errors(-1.0)
    errors[:, -1] = normals(400, name="noise")  # mean 0: below any floor
    estimate = order(x, errors, 0.99)
    assert estimate.details["above_floor"] == [True] * 4 + [False]
    assert estimate.point == pytest.approx(order(x[:-1], errors[:, :-1], 0.99).point)


def test_too_few_rungs_above_the_floor_is_a_problem_and_no_slope() -> None:
    x, errors = ladder_errors(-1.0, rungs=3)
    # twice the reference's error is above the last rung, 3/4
    estimate = order(x, errors, 0.99, reference_errors=0.4)
    assert estimate.problem == "2 rungs above the noise floor; a slope needs 3"
    assert judge(estimate, Region.around(-1.0, absolute=0.5))[0] is Verdict.INCONCLUSIVE
    assert order(x, errors, 0.99, reference_errors=0.4, minimum_rungs=2).problem is None
    assert order(x, -errors, 0.99).problem == "0 rungs above the noise floor; a slope needs 3"


def test_the_reference_error_bounds_what_it_does_to_the_slope() -> None:
    x, errors = ladder_errors(-1.0)
    bars = np.array([0.0, 0.01, 0.02, 0.05, 0.06])
    estimate = order(x, errors, 0.99, reference_errors=bars)
    assert estimate.problem is None
    for signs in itertools.product((-1, 1), repeat=5):
        moved = order(x, errors + bars * np.array(signs), 0.99).point
        assert abs(moved - estimate.point) <= estimate.reference_error * (1 + 1e-12)


@pytest.mark.parametrize(("x", "shape"), [([1.0, 2.0], (5, 3)), ([0.0, 1.0, 2.0], (5, 3)), ([-1.0, 1.0, 2.0], (5, 3))])
def test_an_order_needs_a_positive_x_for_each_column(x: list[float], shape: tuple[int, int]) -> None:
    with pytest.raises(InputError, match="over positive x"):
        order(x, np.ones(shape), 0.99)


def test_a_straight_ladder_without_sampling_has_its_order_exactly() -> None:
    x = [0.1, 0.05, 0.025, 0.0125]
    estimate = deterministic_order(x, [7 * h**2 for h in x])
    assert (estimate.lower, estimate.point, estimate.upper) == pytest.approx((2.0, 2.0, 2.0))
    assert estimate.level == 1.0


def test_a_ladder_that_bends_has_the_hull_of_its_local_slopes() -> None:
    x = [1.0, 2.0, 4.0]
    estimate = deterministic_order(x, [1.0, 2.0, 8.0])  # local orders 1 and 2
    assert (estimate.lower, estimate.point, estimate.upper) == pytest.approx((1.0, 1.5, 2.0))
    assert estimate.details["local"] == pytest.approx([1.0, 2.0])


def test_a_ladder_without_sampling_is_widened_by_its_reference() -> None:
    x, errors, bar = [1.0, 2.0, 4.0], np.array([1.0, 2.0, 4.0]), 0.1
    estimate = deterministic_order(x, errors, reference_errors=bar)
    for signs in itertools.product((-bar, 0.0, bar), repeat=3):
        moved = deterministic_order(x, errors + np.array(signs))
        assert estimate.lower <= moved.lower <= moved.upper <= estimate.upper
    assert deterministic_order(x, errors, reference_errors=1.0).problem == (
        "1 rungs above the noise floor; a slope needs 3"
    )


# --- what every estimate refuses ---


@pytest.mark.parametrize("samples", [[1.0], [], 3.0, [[1.0, 2.0]]])
def test_an_interval_needs_two_replicates(samples: object) -> None:
    with pytest.raises(InputError, match=r"n >= 2 replicates; they came as"):
        mean(samples, 0.99)  # type: ignore[arg-type]
    with pytest.raises(InputError, match=r"samples \[n, k\]"):
        function_of_means(lambda m: m[..., 0], [1.0, 2.0], 0.99)


@pytest.mark.parametrize("level", [0.0, 1.0, -0.5, 99.0, math.nan])
def test_a_level_lies_between_0_and_1(level: float) -> None:
    x = normals(20)
    for attempt in (
        lambda: mean(x, level),
        lambda: variance_ratio([1.0], [1], 1.0, level),
        lambda: kolmogorov_distance(x, "norm", level),
        lambda: largest_deviation(x, np.ones(20), level, 10),
        lambda: function_of_means(lambda m: m[..., 0], x[:, None], level),
        lambda: order([1.0, 2.0, 4.0], 1 + 0.01 * normals(20, 3), level),
    ):
        with pytest.raises(InputError, match="confidence level"):
            attempt()


def test_an_exact_value_is_known_within_its_error() -> None:
    estimate = exact(2.0, 0.5, cells=100)
    assert (estimate.lower, estimate.point, estimate.upper, estimate.level, estimate.n) == (1.5, 2.0, 2.5, 1.0, 1)
    assert estimate.details == {"cells": 100}


def test_an_estimate_refuses_what_is_no_interval() -> None:
    for fields, sentence in (
        ((0.0, 1.0, -1.0, 0.99, 5), r"runs from lower to upper; it came as \[1.0, -1.0\]"),
        ((0.0, 0.0, 0.0, 99.0, 5), "level lies in"),
        ((0.0, 0.0, 0.0, 0.99, 5, -0.1), "error bar is not negative"),
    ):
        with pytest.raises(InputError, match=sentence):
            Estimate(*fields)
