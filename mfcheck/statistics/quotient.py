"""Quotients of two independent variances: the exact F interval, and the power of a setting that follows from it."""

from __future__ import annotations

import math

from scipy import stats

from mfcheck.errors import InputError
from mfcheck.statistics.estimate import Estimate
from mfcheck.statistics.interval import tail


def variance_quotient(above: tuple[float, int], below: tuple[float, int], expected: float, level: float) -> Estimate:
    """Variance of one Gaussian sample over that of another, over the expected quotient, with the exact F interval.

    above, below: sum of squares and degrees of freedom of each, independent of one another. A sample below without
    spread is a problem (INCONCLUSIVE): there is nothing to compare with. Raises InputError on no degrees of freedom.
    """
    (sum_above, n_above), (sum_below, n_below) = above, below
    if n_above < 1 or n_below < 1 or not expected > 0:
        raise InputError(
            f"a quotient of variances needs samples on both sides and a positive expectation; got {n_above}, "
            f"{n_below} and {expected}"
        )
    n = min(n_above, n_below)
    if not (sum_below > 0 and math.isfinite(sum_below) and math.isfinite(sum_above)):
        return Estimate(math.nan, -math.inf, math.inf, level, n, problem="there is no finite spread to compare with")
    quotient = sum_above / n_above / (sum_below / n_below) / expected
    # the quotient over the true one is F(n_above, n_below)
    lower = quotient / float(stats.f.isf(tail(level), n_above, n_below))
    upper = quotient * float(stats.f.isf(tail(level), n_below, n_above))
    return Estimate(quotient, lower, upper, level, n)


def power_between(above: tuple[float, int], below: tuple[float, int], ratio: float, level: float) -> Estimate:
    """The power p in variance ~ setting^p, from the variances at two values of the setting `ratio` apart.

    above, below: as variance_quotient's, `above` at the value that is `ratio` times the other. No noise above is a
    power of -inf, which is a problem. Raises InputError on a ratio that is not above 1.
    """
    if not ratio > 1:
        raise InputError(f"a power needs the larger setting above the smaller; their ratio came as {ratio}")
    quotient = variance_quotient(above, below, 1.0, level)
    if quotient.problem is not None or quotient.lower <= 0:
        problem = quotient.problem or "there is no spread at the larger setting"
        return Estimate(math.nan, -math.inf, math.inf, level, quotient.n, problem=problem)
    point, lower, upper = (math.log(x) / math.log(ratio) for x in (quotient.point, quotient.lower, quotient.upper))
    return Estimate(point, lower, upper, level, quotient.n)
