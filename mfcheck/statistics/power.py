"""Derived sample sizes: how many replicates a claim's first look takes to be decided with a stated probability."""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np
from scipy import stats

from mfcheck.errors import InputError

#: Nodes for the average over the sample's standard deviation: its error in power is below 1e-4.
_NODES = (np.arange(2000) + 0.5) / 2000
#: Beyond this no first look is worth planning.
LARGEST = 2**40


def replicates_for(half_width: float, sd: float, level: float, power: float) -> int:
    """Replicates that make a mean's interval lie inside prediction +- half_width with probability `power`.

    The prediction is taken to be true, samples Gaussian of standard deviation sd (in the units of half_width). The
    interval is Student's at `level`: that of the first look, run.look_level(share, criteria, 1). The probability
    is exact: P(|mean| + t s / sqrt(n) <= half_width), averaged over s^2 ~ sd^2 chi^2_(n-1) / (n-1).
    Hall's ends, further than Student's, cost some of it: of 0.90 there is 0.897 at n = 84 and 0.86 at n = 24.
    Raises InputError on sizes, levels or powers that are out of range.
    """
    _check(half_width, sd, level, power)

    def reached(n: int) -> float:
        quantile = stats.t.isf((1 - level) / 2, n - 1)
        s = np.sqrt(stats.chi2.ppf(_NODES, n - 1) / (n - 1))
        room = half_width * math.sqrt(n) / sd - quantile * s
        return float(np.where(room > 0, 1 - 2 * stats.norm.sf(np.maximum(room, 0.0)), 0.0).mean())

    return _smallest(reached, power)


def replicates_to_refute(distance: float, sd: float, level: float, power: float) -> int:
    """Replicates that make a mean's interval disjoint from a region with probability `power`.

    distance: how far beyond the region's end the truth lies, as a control's does; sd in the same units. Student's
    ratio of the mean to that end is non-central t. Raises InputError as replicates_for.
    """
    _check(distance, sd, level, power)

    def reached(n: int) -> float:
        return float(stats.nct.sf(stats.t.isf((1 - level) / 2, n - 1), n - 1, distance * math.sqrt(n) / sd))

    return _smallest(reached, power)


def _smallest(reached: Callable[[int], float], power: float) -> int:
    """The smallest n >= 2 with reached(n) >= power, reached being non-decreasing: doubling, then bisection."""
    high = 2
    while reached(high) < power:
        high *= 2
        if high > LARGEST:
            raise InputError(f"more than {LARGEST} replicates would be needed: the noise dwarfs the distance")
    low = high // 2
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (low, middle) if reached(middle) >= power else (middle, high)
    return high


def _check(distance: float, sd: float, level: float, power: float) -> None:
    if not (0 < distance < math.inf and 0 < sd < math.inf):
        raise InputError(f"a distance and a standard deviation are positive; they came as {distance} and {sd}")
    if not (0 < level < 1 and 0 < power < 1):
        raise InputError(f"a level and a power lie between 0 and 1; they came as {level} and {power}")
