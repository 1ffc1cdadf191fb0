"""The median, with an interval that holds for samples of any law."""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import ArrayLike
from scipy import stats

from mfcheck.errors import InputError
from mfcheck.statistics.estimate import Estimate
from mfcheck.statistics.interval import tail


def median(samples: ArrayLike, level: float) -> Estimate:
    """Median of n independent samples [n], between two of their order statistics: exact for every continuous law.

    Below the k-th smallest lies the median with probability P(Bin(n, 1/2) < k). For what holds in the typical system
    while a few leave the hypotheses by any factor: a mean then has no usable interval. Too few samples for the level,
    or any that are not finite, are a problem (INCONCLUSIVE). Raises InputError on anything but [n].
    """
    x = np.sort(np.asarray(samples, dtype=np.float64))
    if x.ndim != 1 or not len(x):
        raise InputError(f"a median needs samples [n]; they came as {x.shape}")
    n = len(x)
    k = int(stats.binom.ppf(tail(level), n, 0.5))
    bad = int(np.count_nonzero(~np.isfinite(x)))
    problem = f"{bad} of {n} measured values are not finite" if bad else None
    if k < 1:
        problem = f"{n} samples are too few for a median at level {level:.8g}"
    if problem is not None:
        return Estimate(math.nan, -math.inf, math.inf, level, n, problem=problem)
    return Estimate(float(np.median(x)), float(x[k - 1]), float(x[n - k]), level, n)
