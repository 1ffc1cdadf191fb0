"""The median's interval covers as often as it says, and outliers do not move it."""

from __future__ import annotations

import numpy as np
import pytest
from scipy import stats

from mfcheck.errors import InputError
from mfcheck.statistics.median import median


def test_the_interval_covers_at_least_as_often_as_it_says() -> None:
    generator = np.random.default_rng(0)
    samples = generator.standard_cauchy((4000, 20))
    covered = 0
    for row in samples:
        estimate = median(row, 0.95)
        covered += estimate.lower <= 0 <= estimate.upper
    assert stats.binom.cdf(covered, 4000, 0.95) > 1e-6
    # and no more than the next order statistics would: P(5 < Bin(20, 1/2) <= 14) = 0.9586
    assert stats.binom.sf(covered, 4000, 0.9586) > 1e-6


def test_order_statistics_are_those_of_the_binomial() -> None:
    # P(Bin(20, 1/2) <= 5) = 0.0207 is within 2.5 %, <= 6 is 0.0577: from the 6th smallest to the 6th largest
    estimate = median(np.arange(1.0, 21.0), 0.95)
    assert (estimate.point, estimate.lower, estimate.upper) == (10.5, 6.0, 15.0)


def test_a_few_outliers_of_any_size_change_nothing() -> None:
    samples = np.linspace(0.99, 1.01, 32)
    moved = samples.copy()
    moved[-2:] = 1e9
    assert median(moved, 0.9999).upper == median(samples, 0.9999).upper


def test_too_few_samples_or_values_that_are_not_finite_decide_nothing() -> None:
    assert median(np.arange(8.0), 0.9999).problem is not None
    assert median(np.array([*np.arange(31.0), np.nan]), 0.99).problem is not None
    with pytest.raises(InputError, match="samples"):
        median(np.ones((3, 3)), 0.95)
