"""Regions and judge: three verdicts, and what keeps a verdict from being given."""

from __future__ import annotations

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mfcheck.errors import InputError
from mfcheck.statistics.estimate import Estimate
from mfcheck.statistics.verdict import Region, Verdict, judge

REGION = Region(0.9, 1.1, 1.0)
FINITE = st.floats(-1e6, 1e6)


def interval(lower: float, upper: float, **fields: object) -> Estimate:
    point = fields.pop("point", (lower + upper) / 2)
    return Estimate(point, lower, upper, 0.99, 10, **fields)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("lower", "upper", "verdict"),
    [
        (0.95, 1.05, Verdict.SUPPORTED),
        (0.9, 1.1, Verdict.SUPPORTED),  # a region holds its ends
        (0.89, 1.05, Verdict.INCONCLUSIVE),
        (0.95, 1.11, Verdict.INCONCLUSIVE),
        (0.0, 2.0, Verdict.INCONCLUSIVE),
        (1.1, 1.2, Verdict.INCONCLUSIVE),  # touching is not disjoint
        (1.11, 1.2, Verdict.REFUTED),
        (0.5, 0.89, Verdict.REFUTED),
    ],
)
def test_inside_supported_disjoint_refuted_else_inconclusive(lower: float, upper: float, verdict: Verdict) -> None:
    assert judge(interval(lower, upper), REGION)[0] is verdict


@given(st.tuples(FINITE, FINITE), st.tuples(FINITE, FINITE))
def test_a_supported_or_refuted_interval_says_it_of_every_value_in_it(
    ends: tuple[float, float], region: tuple[float, float]
) -> None:
    if region[0] == region[1]:
        return
    low, high = sorted(region)
    allowed = Region(low, high, low)
    estimate = interval(*sorted(ends))
    verdict, _ = judge(estimate, allowed)
    inside = [low <= value <= high for value in (estimate.lower, estimate.point, estimate.upper)]
    assert all(inside) or verdict is not Verdict.SUPPORTED
    assert not any(inside) or verdict is not Verdict.REFUTED


def test_the_reference_error_widens_the_interval() -> None:
    assert judge(interval(0.905, 1.0), REGION)[0] is Verdict.SUPPORTED
    assert judge(interval(0.905, 1.0, reference_error=0.009), REGION)[0] is Verdict.INCONCLUSIVE
    assert judge(interval(1.105, 1.2, reference_error=0.009), REGION)[0] is Verdict.INCONCLUSIVE
    assert judge(interval(1.11, 1.2, reference_error=0.009), REGION)[0] is Verdict.REFUTED


def test_a_reference_error_above_a_tenth_of_the_half_width_decides_nothing() -> None:
    for lower in (0.99, 5.0):
        verdict, reason = judge(interval(lower, lower + 0.01, reference_error=0.0101), REGION)
        assert verdict is Verdict.INCONCLUSIVE
        assert "a tenth of the region's half-width" in reason
    assert judge(interval(0.99, 1.0, reference_error=0.0099), REGION)[0] is Verdict.SUPPORTED
    assert judge(interval(0.99, 1.0, reference_error=math.nan), REGION)[0] is Verdict.INCONCLUSIVE


def test_half_width_is_the_distance_to_the_nearer_end() -> None:
    assert Region(0.0, 3.0, 1.0).half_width == 1.0
    assert Region.at_most(0.1).half_width == 0.1
    assert Region.at_least(1.0, prediction=3.0).half_width == 2.0
    assert Region(0.0, 3.0, 0.0).half_width == 3.0
    # a bound that is itself the prediction leaves no room for a reference's error
    tight = Region.at_most(1.0, prediction=1.0)
    assert tight.half_width == 0.0
    assert judge(interval(0.0, 0.1), tight)[0] is Verdict.SUPPORTED
    assert judge(interval(0.0, 0.1, reference_error=1e-9), tight)[0] is Verdict.INCONCLUSIVE


def test_an_infinite_end_leaves_that_side_open() -> None:
    assert judge(interval(2.0, math.inf, point=3.0), Region.at_least(1.0, prediction=2.0))[0] is Verdict.SUPPORTED
    assert judge(interval(2.0, math.inf, point=3.0), REGION)[0] is Verdict.REFUTED
    assert judge(interval(-math.inf, math.inf, point=1.0), REGION)[0] is Verdict.INCONCLUSIVE
    assert judge(interval(-math.inf, 1.0, point=1.0), REGION)[0] is Verdict.INCONCLUSIVE


@pytest.mark.parametrize(
    "estimate",
    [
        interval(math.nan, 1.0, point=1.0),
        interval(1.0, math.nan, point=1.0),
        interval(1.0, 1.0, point=math.nan),
        interval(math.inf, math.inf, point=math.inf),  # an overflow is no measurement
    ],
)
@pytest.mark.parametrize("region", [REGION, Region.at_least(1.0, prediction=2.0)])
def test_nan_and_overflow_decide_nothing(estimate: Estimate, region: Region) -> None:
    assert judge(estimate, region)[0] is Verdict.INCONCLUSIVE


def test_a_problem_decides_nothing_and_is_the_reason() -> None:
    assert judge(interval(0.99, 1.0, problem="2 rungs"), REGION) == (Verdict.INCONCLUSIVE, "2 rungs")


def test_the_reason_shows_the_interval_and_the_region() -> None:
    assert judge(interval(0.95, 1.05), REGION)[1] == "[0.95, 1.05] lies inside [0.9, 1.1]"
    assert "is disjoint from (-inf, 0.5]" in judge(interval(0.95, 1.05), Region.at_most(0.5))[1]


def test_around_takes_a_relative_or_an_absolute_half_width() -> None:
    assert Region.around(-2.0, relative=0.1) == Region(-2.2, -1.8, -2.0)
    assert Region.around(-0.5, absolute=0.05) == Region(-0.55, -0.45, -0.5)
    for widths in ({}, {"relative": 0.1, "absolute": 0.1}):
        with pytest.raises(InputError, match="relative or absolute, not both"):
            Region.around(1.0, **widths)


@pytest.mark.parametrize(
    ("lower", "upper"),
    [(1.0, 1.0), (2.0, 1.0), (-math.inf, math.inf), (math.nan, 1.0), (0.0, math.nan)],
)
def test_an_empty_or_boundless_region_is_refused(lower: float, upper: float) -> None:
    with pytest.raises(InputError, match="lower < upper, one of them finite"):
        Region(lower, upper, 1.0)


def test_a_half_width_of_zero_is_refused() -> None:
    with pytest.raises(InputError, match="lower < upper"):
        Region.around(0.0, relative=0.01)


@pytest.mark.parametrize("prediction", [1.2, math.nan, math.inf])
def test_a_prediction_outside_its_region_is_refused(prediction: float) -> None:
    with pytest.raises(InputError, match="a finite number in its region"):
        Region(0.9, 1.1 if math.isfinite(prediction) else math.inf, prediction)
