"""The interval of an estimate that errs as a mean does, at levels as high as a suite's claims share out."""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import NDArray
from scipy import special

from mfcheck.errors import InputError


def interval(point: float, influence: NDArray[np.float64], level: float, curvature: float = 0.0) -> tuple[float, float]:
    """[lower, upper] for an estimate that errs as the mean of its influence values [n] (which sum to 0).

    Each end is the further one of Student's and of Hall's, which undoes the skewness of Student's ratio by a cubic
    map. At the levels of a suite Student's alone is not usable for skewed samples: for squares of Gaussians at n = 150
    its upper end misses 39 times as often as a tail of 1e-5 says, Hall's 1.2 times; for Gaussians Hall's alone
    misses twice as often at n = 32, since it has to estimate the skewness. Of so skewed samples take n >= 100: at
    n = 32 both together still miss six times as often at 1e-5. curvature: the second derivative of the
    estimate along its influence, which enters the third cumulant of the ratio as 3/2 of it. Source: Hall 1992.
    """
    n = len(influence)
    variance = float(influence.var(ddof=1))
    error = math.sqrt(variance / n)
    quantile = student(tail(level), n)
    below = above = quantile
    if error > 0:
        lean = (float((influence**3).mean()) + 1.5 * curvature) / variance**1.5 / math.sqrt(n)
        if abs(lean) > 1e-6:
            below = max(below, _hall(quantile, lean))
            above = max(above, -_hall(-quantile, lean))
    return point - below * error, point + above * error


def _hall(quantile: float, lean: float) -> float:
    """Where Student's ratio has the quantile, for samples of skewness lean * sqrt(n): the inverse of Hall's map."""
    return float(np.cbrt(1 + lean * quantile - lean**2 / 6) - 1) * 3 / lean


def student(probability: float, n: int) -> float:
    """The value that Student's ratio of n samples exceeds with this probability (scipy.stats.t.isf's own core)."""
    return -float(special.stdtrit(n - 1, probability))


def tail(level: float) -> float:
    """The probability in each tail. Raises InputError where the level is none."""
    if not 0 < level < 1:
        raise InputError(f"a confidence level lies between 0 and 1; it came as {level}")
    return (1 - level) / 2
