"""Estimate, and the estimators: pure functions of measurements that return the point AND the interval.

Measurements are arrays with a leading axis of independent replicates, [n, ...]. Every interval has exactly the
level asked for under its stated hypotheses, two-sided.
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
from mfcheck.statistics.seeds import stream

Array = NDArray[np.float64]

#: Resamples for a bootstrap standard error: its own relative error is 1 / sqrt(2 * 2000) = 1.6 %.
RESAMPLES = 2000


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


def exact(value: float, error: float = 0.0, **details: Any) -> Estimate:
    """A number computed without sampling, known within +- error (rounding, truncation): level 1, n = 1."""
    return Estimate(float(value), float(value - error), float(value + error), 1.0, 1, details=details)


def mean(samples: ArrayLike, level: float, reference_error: float = 0.0, **details: Any) -> Estimate:
    """Mean of n independent samples [n] with Student's interval. Raises InputError on fewer than two."""
    x = _samples(samples, 1)
    point, error = float(x.mean()), float(stats.sem(x))
    lower, upper = _student(point, error, len(x), level)
    return Estimate(point, lower, upper, level, len(x), reference_error, details=details)


def paired_difference(treated: ArrayLike, baseline: ArrayLike, level: float) -> Estimate:
    """Mean of treated - baseline over pairs [n] that share their seed, with Student's interval."""
    a, b = _samples(treated, 1), _samples(baseline, 1)
    if a.shape != b.shape:
        raise InputError(f"pairs need equally many samples on both sides; they came as {a.shape} and {b.shape}")
    return mean(a - b, level)


def variance_ratio(
    sums_of_squares: ArrayLike, degrees: ArrayLike, expected: float, level: float, **details: Any
) -> Estimate:
    """Variance of centred Gaussian samples over the expected one, with the exact chi-square interval.

    sums_of_squares [n] and degrees [n] (how many independent samples each sum holds) are pooled over replicates.
    """
    total, count = float(np.sum(np.asarray(sums_of_squares))), int(np.sum(np.asarray(degrees)))
    if count < 1 or expected <= 0:
        raise InputError(f"a variance ratio needs samples and a positive expectation; got {count} and {expected}")
    ratio = total / count / expected
    low, high = stats.chi2.ppf([(1 + level) / 2, (1 - level) / 2], count)
    return Estimate(ratio, ratio * count / low, ratio * count / high, level, count, details=details)


def kolmogorov_distance(
    samples: ArrayLike, cdf: Callable[[Array], Array] | str, level: float, **details: Any
) -> Estimate:
    """sup |F_n - F| of all samples against a continuous law, with the Dvoretzky-Kiefer-Wolfowitz band.

    The distance of the true law lies within sqrt(log(2 / (1 - level)) / (2 n)) (Massart 1990). Samples are
    independent; any shape is flattened.
    """
    x = np.asarray(samples, dtype=np.float64).ravel()
    point = float(stats.kstest(x, cdf, method="asymp").statistic)
    band = math.sqrt(math.log(2 / (1 - level)) / (2 * len(x)))
    return Estimate(point, max(0.0, point - band), point + band, level, len(x), details=details)


def largest_deviation(
    deviations: ArrayLike, standard_errors: ArrayLike, level: float, n: int, **details: Any
) -> Estimate:
    """max_j |deviation_j| of many approximately Gaussian entries, with a simultaneous (Bonferroni) interval."""
    size = np.abs(np.asarray(deviations, dtype=np.float64)).ravel()
    error = np.asarray(standard_errors, dtype=np.float64).ravel()
    half = stats.norm.ppf(1 - (1 - level) / (2 * len(size))) * error
    return Estimate(
        float(size.max()), float(max(0.0, (size - half).max())), float((size + half).max()), level, n, details=details
    )


def function_of_means(
    function: Callable[[Array], Array], samples: ArrayLike, level: float, reference_error: float = 0.0, **details: Any
) -> Estimate:
    """A smooth function of the replicate means, such as a ratio or a slope, with a bootstrap interval.

    samples [n, k] -> means [k]; function maps [..., k] -> [...] (resamples come stacked in front). The standard
    error is a bootstrap over whole replicates, its interval Student's with n - 1 degrees: at the levels that a
    suite's claims share out, 1 - 1e-5 say, percentiles would take millions of resamples. Source: Efron 1979.
    """
    x = _samples(samples, 2)
    n = len(x)
    point = float(function(x.mean(0)))

    def statistic(index: NDArray[np.intp], axis: int = -1) -> Array:
        return np.asarray(function(x[index].mean(axis if axis >= 0 else axis + index.ndim)))

    result = stats.bootstrap(
        (np.arange(n),),
        statistic,
        n_resamples=RESAMPLES,
        method="percentile",
        vectorized=True,
        rng=stream(0, "bootstrap", n).numpy(),
        batch=max(1, 4_000_000 // x.size),
    )
    # the plug-in variance of a mean is short by (n - 1) / n
    error = float(result.standard_error) * math.sqrt(n / (n - 1))
    if not math.isfinite(error):
        return Estimate(point, -math.inf, math.inf, level, n, problem="a resample has no finite value: noise dominates")
    lower, upper = _student(point, error, n, level)
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
    Replicates are bootstrapped whole, so that rungs may share their noise. A rung whose interval reaches down to
    its noise floor, twice the reference's error there [r], says nothing about the slope and is set aside; fewer
    than `minimum_rungs` left is a problem (INCONCLUSIVE), never a slope. Precision weights are not used: they hide
    an error that stops falling. The reference's error moves the slope by at most sum_j |c_j| log-error_j.
    """
    scale = np.asarray(x, dtype=np.float64)
    values = _samples(errors, 2)
    if values.shape[1] != len(scale) or np.any(scale <= 0):
        raise InputError(f"errors are [n, {len(scale)}] over positive x; they came as {values.shape}, x as {x}")
    n = len(values)
    bars = np.broadcast_to(np.asarray(reference_errors, dtype=np.float64), scale.shape)
    means, spread = values.mean(0), stats.sem(values, axis=0)
    quantile = stats.t.ppf((1 + level) / 2, n - 1)
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
        return Estimate(math.nan, -math.inf, math.inf, level, n, problem=problem, details=details)
    coefficients = _slope_coefficients(scale[above])
    moved = float(power * np.abs(coefficients) @ (bars[above] / means[above]))

    def slope(average: Array) -> Array:
        with np.errstate(invalid="ignore", divide="ignore"):
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
    above = size > 2 * bars
    details: dict[str, Any] = {"x": scale.tolist(), "mean": size.tolist(), "above_floor": above.tolist()}
    if int(above.sum()) < minimum_rungs:
        problem = f"{int(above.sum())} rungs above the noise floor; a slope needs {minimum_rungs}"
        return Estimate(math.nan, -math.inf, math.inf, 1.0, 1, problem=problem, details=details)
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


def _student(point: float, standard_error: float, n: int, level: float) -> tuple[float, float]:
    half = float(stats.t.ppf((1 + level) / 2, n - 1)) * standard_error
    return point - half, point + half


def _samples(samples: ArrayLike, ndim: int) -> Array:
    x = np.asarray(samples, dtype=np.float64)
    if x.ndim != ndim or len(x) < 2:
        shape = "[n]" if ndim == 1 else "[n, k]"
        raise InputError(f"an interval needs samples {shape} with n >= 2 replicates; they came as {x.shape}")
    return x
