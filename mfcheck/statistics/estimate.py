"""Estimate, and the estimators: pure functions of measurements that return the point AND the interval.

Measurements are arrays with a leading axis of independent replicates, [n, ...]. Every interval is two-sided, with
half of 1 - level in each tail. The chi-square and Dvoretzky-Kiefer-Wolfowitz intervals hold exactly, Student's for
Gaussian samples; for others `interval` corrects skewness, and tests/test_calibration.py states what was measured.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy import stats

from mfcheck.errors import InputError
from mfcheck.statistics.interval import interval, student, tail

Array = NDArray[np.float64]


@dataclass(frozen=True)
class Estimate:
    """A point, its two-sided interval [lower, upper] at a confidence level, from n independent replicates.

    reference_error: the error bar of the reference that the point was measured against, in the point's units.
    problem: a sentence where no verdict can rest on it (too few rungs, say). details: what a figure needs.
    """

    point: float
    lower: float
    upper: float
    level: float
    n: int
    reference_error: float = 0.0
    problem: str | None = None
    details: Mapping[str, Any] = field(default_factory=dict)

    def __post_init__(self) -> None:
        if self.lower > self.upper:
            raise InputError(f"an interval runs from lower to upper; it came as [{self.lower}, {self.upper}]")
        if not 0 < self.level <= 1:
            raise InputError(f"a confidence level lies in (0, 1]; it came as {self.level}")
        if self.reference_error < 0:
            raise InputError(f"a reference's error bar is not negative; it came as {self.reference_error}")


def exact(value: float, error: float = 0.0, **details: Any) -> Estimate:
    """A number computed without sampling, known within +- error (rounding, truncation): level 1, n = 1."""
    return Estimate(float(value), float(value - error), float(value + error), 1.0, 1, details=details)


def mean(samples: ArrayLike, level: float, reference_error: float = 0.0, **details: Any) -> Estimate:
    """Mean of n independent samples [n] with Student's interval, corrected for skewness.

    Raises InputError on fewer than two samples. Samples that are not finite are a problem (INCONCLUSIVE).
    """
    x = _samples(samples, 1)
    if (problem := _not_finite(x)) is not None:
        return _undecided(level, len(x), problem, details)
    point = float(x.mean())
    lower, upper = interval(point, x - point, level)
    return Estimate(point, lower, upper, level, len(x), reference_error, details=details)


def paired_difference(
    treated: ArrayLike, baseline: ArrayLike, level: float, reference_error: float = 0.0, **details: Any
) -> Estimate:
    """Mean of treated - baseline over pairs [n] that share their seed, with the interval of `mean`."""
    a, b = _samples(treated, 1), _samples(baseline, 1)
    if a.shape != b.shape:
        raise InputError(f"pairs need equally many samples on both sides; they came as {a.shape} and {b.shape}")
    return mean(a - b, level, reference_error, **details)


def variance_ratio(
    sums_of_squares: ArrayLike,
    degrees: ArrayLike,
    expected: float,
    level: float,
    reference_error: float = 0.0,
    **details: Any,
) -> Estimate:
    """Variance of centred Gaussian samples over the expected one, with the exact chi-square interval.

    sums_of_squares [n] and degrees [n] (how many independent samples each sum holds) are pooled over replicates.
    """
    total, count = float(np.sum(np.asarray(sums_of_squares))), int(np.sum(np.asarray(degrees)))
    if count < 1 or not expected > 0:
        raise InputError(f"a variance ratio needs samples and a positive expectation; got {count} and {expected}")
    ratio = total / count / expected
    low, high = (float(quantile(tail(level), count)) for quantile in (stats.chi2.isf, stats.chi2.ppf))
    return Estimate(ratio, ratio * count / low, ratio * count / high, level, count, reference_error, details=details)


def kolmogorov_distance(
    samples: ArrayLike,
    cdf: Callable[[Array], Array] | str,
    level: float,
    reference_error: float = 0.0,
    **details: Any,
) -> Estimate:
    """sup |F_n - F| of all samples against a continuous law, with the Dvoretzky-Kiefer-Wolfowitz band.

    The distance of the true law lies within sqrt(log(2 / (1 - level)) / (2 n)) (Massart 1990). Samples are
    independent; any shape is flattened.
    """
    x = np.asarray(samples, dtype=np.float64).ravel()
    if not len(x):
        raise InputError("a distance between laws needs samples; none came")
    if (problem := _not_finite(x)) is not None:
        return _undecided(level, len(x), problem, details)
    point = float(stats.kstest(x, cdf, method="asymp").statistic)
    band = math.sqrt(-math.log(tail(level)) / (2 * len(x)))
    return Estimate(point, max(0.0, point - band), point + band, level, len(x), reference_error, details=details)


def largest_deviation(
    deviations: ArrayLike,
    standard_errors: ArrayLike,
    level: float,
    n: int,
    reference_error: float = 0.0,
    **details: Any,
) -> Estimate:
    """max_j |deviation_j| of many approximately Gaussian entries, with a simultaneous (Bonferroni) interval.

    deviations and their standard_errors (estimated from n replicates: Student's quantile) have equal shapes. With
    | |d_j| - |delta_j| | <= half_j for all j at once, max |delta| is at least max (|d_j| - half_j) and at most
    max (|d_j| + half_j). The point, a maximum of noisy entries, lies above max |delta| on average.
    """
    size = np.abs(np.asarray(deviations, dtype=np.float64)).ravel()
    error = np.asarray(standard_errors, dtype=np.float64).ravel()
    if size.shape != error.shape or not len(size) or n < 2:
        raise InputError(
            f"every deviation needs its standard error, from n >= 2 replicates; they came as {size.shape} and "
            f"{error.shape}, n as {n}"
        )
    if (problem := _not_finite(np.stack([size, error]))) is not None:
        return _undecided(level, n, problem, details)
    half = student(tail(level) / len(size), n) * error
    lower, upper = max(0.0, float((size - half).max())), float((size + half).max())
    return Estimate(float(size.max()), lower, upper, level, n, reference_error, details=details)


def function_of_means(
    function: Callable[[Array], Array], samples: ArrayLike, level: float, reference_error: float = 0.0, **details: Any
) -> Estimate:
    """A smooth function of the replicate means, such as a ratio or a slope, with a jackknife interval.

    samples [n, k] -> means [k]; function maps [..., k] -> [...]. Whole replicates are left out in turn, so that
    columns may share their noise. The jackknife, and not the bootstrap that it is the linear limit of: at the levels
    that a suite's claims share out, 1 - 1e-5 say, a bootstrap's percentiles would take millions of resamples, and its
    standard error is this one plus noise. A curved function skews its estimate as skewed samples do: the curvature
    along the direction in which the means err is part of `interval`. Source: Efron 1982; DiCiccio, Efron 1992.
    """
    x = _samples(samples, 2)
    n = len(x)
    if (problem := _not_finite(x)) is not None:
        return _undecided(level, n, problem, details)

    def value(average: Array) -> Array:
        # where noise carries the means out of its domain the function has no value, which is said below
        with np.errstate(invalid="ignore", divide="ignore"):
            return np.asarray(function(average), dtype=np.float64)

    means = x.mean(0)
    point = float(value(means))
    left_out = value(means + (means - x) / (n - 1))
    influence = (n - 1) * (left_out.mean() - left_out)
    spread = float(influence.std())
    curvature = 0.0
    if spread > 0:
        # the means err along E[influence x]; one standard error of the estimate to either side
        step = influence @ (x - means) / (n * spread * math.sqrt(n))
        around = value(np.stack([means + step, means - step]))
        curvature = float(around.sum() - 2 * point) * n * spread**2
    if not (math.isfinite(point) and math.isfinite(spread) and math.isfinite(curvature)):
        return _undecided(level, n, "the function has no finite value within the noise of its means", details)
    lower, upper = interval(point, influence, level, curvature)
    return Estimate(point, lower, upper, level, n, reference_error, details=details)


def order(
    x: Sequence[float],
    errors: ArrayLike,
    level: float,
    *,
    reference_errors: ArrayLike = 0.0,
    power: float = 1.0,
    minimum_rungs: int = 3,
) -> Estimate:
    """Signed order of convergence: the slope of log(mean error) against log x by ordinary least squares.

    x [r]: step sizes, cell sizes or particle numbers; errors [n, r]: one value a replicate and rung, their means
    positive. power: the slope is fitted to mean(error)^power (1/2 turns a mean square into a root mean square).
    Replicates are left out whole (jackknife), so that rungs may share their noise. A rung whose interval reaches
    down to its noise floor, twice the reference's error there [r], says nothing about the slope and is set aside;
    fewer than `minimum_rungs` left is a problem (INCONCLUSIVE), never a slope. Precision weights are not used: they
    hide an error that stops falling. The reference's error moves the slope by at most sum_j |c_j| log-error_j.
    Setting rungs aside looks at the data, yet costs no coverage: a rung at the floor is kept when its mean errs
    upwards and set aside when it errs downwards, and each half of the time spends its own tail (tests hold it to it).
    """
    scale = np.asarray(x, dtype=np.float64)
    values = _samples(errors, 2)
    if values.shape[1] != len(scale) or np.any(scale <= 0):
        raise InputError(f"errors are [n, {len(scale)}] over positive x; they came as {values.shape}, x as {x}")
    n = len(values)
    if (problem := _not_finite(values)) is not None:
        # never drop such a rung as if it were below its floor
        return _undecided(level, n, problem, {"x": scale.tolist()})
    bars = np.broadcast_to(np.asarray(reference_errors, dtype=np.float64), scale.shape)
    means, spread = values.mean(0), values.std(0, ddof=1) / math.sqrt(n)
    quantile = student(tail(level), n)
    above = means - quantile * spread > 2 * bars
    details: dict[str, Any] = {
        "x": scale.tolist(),
        "mean": (np.abs(means) ** power).tolist(),
        "low": (np.maximum(means - quantile * spread, 0.0) ** power).tolist(),
        "high": (np.maximum(means + quantile * spread, 0.0) ** power).tolist(),
        "above_floor": above.tolist(),
    }
    if int(above.sum()) < minimum_rungs:
        problem = f"{int(above.sum())} rungs above the noise floor; a slope needs {minimum_rungs}"
        return _undecided(level, n, problem, details)
    coefficients = _slope_coefficients(scale[above])
    # log(1 - r) bounds what a relative error r < 1/2 does to a logarithm, on its worse side
    moved = float(power * np.abs(coefficients) @ -np.log1p(-bars[above] / means[above]))

    def slope(average: Array) -> Array:
        return power * np.log(average[..., above]) @ coefficients

    estimate = function_of_means(slope, values, level, reference_error=moved)
    centre = float((power * np.log(means[above])).mean() - estimate.point * np.log(scale[above]).mean())
    details |= {"slope": estimate.point, "intercept": centre}
    return Estimate(
        estimate.point, estimate.lower, estimate.upper, level, n, estimate.reference_error, estimate.problem, details
    )


def deterministic_order(
    x: Sequence[float], errors: Sequence[float], reference_errors: ArrayLike = 0.0, minimum_rungs: int = 3
) -> Estimate:
    """Order of convergence of a computation without sampling: least-squares slope, interval = all local slopes.

    x [r], errors [r]; the interval is the hull of the slopes between neighbouring rungs, each widened by what the
    reference's error [r] can do to it, so that a ladder that bends is not called straight. Rungs below twice the
    reference's error are set aside; fewer than `minimum_rungs` left is a problem (INCONCLUSIVE).
    """
    scale, size = np.asarray(x, dtype=np.float64), np.asarray(errors, dtype=np.float64)
    bars = np.broadcast_to(np.asarray(reference_errors, dtype=np.float64), scale.shape)
    if (problem := _not_finite(size)) is not None:
        return _undecided(1.0, 1, problem, {"x": scale.tolist()})
    above = size > 2 * bars
    details: dict[str, Any] = {"x": scale.tolist(), "mean": size.tolist(), "above_floor": above.tolist()}
    if int(above.sum()) < minimum_rungs:
        problem = f"{int(above.sum())} rungs above the noise floor; a slope needs {minimum_rungs}"
        return _undecided(1.0, 1, problem, details)
    log_x, log_e, relative = np.log(scale[above]), np.log(size[above]), bars[above] / size[above]
    local = np.diff(log_e) / np.diff(log_x)
    # log(1 - r) bounds what a relative error r < 1/2 does to a logarithm, on its worse side
    wobble = (-np.log1p(-relative[1:]) - np.log1p(-relative[:-1])) / np.abs(np.diff(log_x))
    slope = float(log_e @ _slope_coefficients(scale[above]))
    details |= {"slope": slope, "intercept": float(log_e.mean() - slope * log_x.mean()), "local": local.tolist()}
    return Estimate(slope, float((local - wobble).min()), float((local + wobble).max()), 1.0, 1, details=details)


def _slope_coefficients(x: Array) -> Array:
    """c with c . y = the least-squares slope of y on log x."""
    centred = np.log(x) - np.log(x).mean()
    return centred / (centred @ centred)


def _undecided(level: float, n: int, problem: str, details: Mapping[str, Any]) -> Estimate:
    return Estimate(math.nan, -math.inf, math.inf, level, n, problem=problem, details=details)


def _not_finite(x: Array) -> str | None:
    bad = int(np.count_nonzero(~np.isfinite(x)))
    return f"{bad} of {x.size} measured values are not finite" if bad else None


def _samples(samples: ArrayLike, ndim: int) -> Array:
    x = np.asarray(samples, dtype=np.float64)
    if x.ndim != ndim or len(x) < 2:
        shape = "[n]" if ndim == 1 else "[n, k]"
        raise InputError(f"an interval needs samples {shape} with n >= 2 replicates; they came as {x.shape}")
    return x
