"""Region, Verdict, judge: an interval against the region that a prediction allows."""

from __future__ import annotations

import math
from dataclasses import dataclass
from enum import Enum

from mfcheck.errors import InputError
from mfcheck.statistics.estimate import Estimate

#: A reference's own error may take at most this share of a region's half-width.
REFERENCE_SHARE = 0.1


class Verdict(Enum):
    """What an interval says of a region: inside, disjoint, or neither."""

    SUPPORTED = "SUPPORTED"
    REFUTED = "REFUTED"
    INCONCLUSIVE = "INCONCLUSIVE"


@dataclass(frozen=True)
class Region:
    """The values [lower, upper] that a prediction allows: its equivalence region.

    Either end may be infinite, not both; `prediction` is the value predicted, finite and inside the region. Raises
    InputError on an empty region, since an interval could then never be inside it.
    """

    lower: float
    upper: float
    prediction: float

    def __post_init__(self) -> None:
        if not self.lower < self.upper or (math.isinf(self.lower) and math.isinf(self.upper)):
            raise InputError(
                f"a region needs lower < upper, one of them finite; it came as [{self.lower}, {self.upper}]"
            )
        if not (self.lower <= self.prediction <= self.upper and math.isfinite(self.prediction)):
            raise InputError(
                f"a prediction is a finite number in its region [{self.lower}, {self.upper}]; "
                f"it came as {self.prediction}"
            )

    @classmethod
    def around(cls, prediction: float, *, relative: float | None = None, absolute: float | None = None) -> Region:
        """prediction +- relative * |prediction|, or +- absolute: give exactly one."""
        if (relative is None) == (absolute is None):
            raise InputError("give a region's half-width either relative or absolute, not both or neither")
        half = absolute if absolute is not None else (relative or 0.0) * abs(prediction)
        return cls(prediction - half, prediction + half, prediction)

    @classmethod
    def at_most(cls, bound: float, prediction: float = 0.0) -> Region:
        """(-inf, bound], with the value that is predicted below it (it sets the scale for reference errors)."""
        return cls(-math.inf, bound, prediction)

    @classmethod
    def at_least(cls, bound: float, prediction: float) -> Region:
        """[bound, inf), with the value that is predicted above it."""
        return cls(bound, math.inf, prediction)

    @property
    def half_width(self) -> float:
        """Distance from the prediction to the nearer finite end that is not the prediction itself."""
        ends = [abs(end - self.prediction) for end in (self.lower, self.upper) if math.isfinite(end)]
        return min((end for end in ends if end > 0), default=0.0)

    def __str__(self) -> str:
        left = "(-inf" if math.isinf(self.lower) else f"[{self.lower:.6g}"
        right = "inf)" if math.isinf(self.upper) else f"{self.upper:.6g}]"
        return f"{left}, {right}"


def judge(estimate: Estimate, region: Region) -> tuple[Verdict, str]:
    """The verdict on an estimate and why: inside the region SUPPORTED, disjoint from it REFUTED, else INCONCLUSIVE.

    The interval is first widened by the reference's error bar, and a bar above a tenth of the region's half-width
    is INCONCLUSIVE by itself: such a reference cannot carry the claim. 'Not rejected' is never support. An end may
    be infinite (nothing bounds the value there); NaN and an overflowed point decide nothing.

    >>> from mfcheck.statistics.estimate import Estimate
    >>> verdict, why = judge(Estimate(1.001, 0.996, 1.006, level=0.999, n=100), Region.around(1.0, relative=0.01))
    >>> verdict.value, why
    ('SUPPORTED', '[0.996, 1.006] lies inside [0.99, 1.01]')
    """
    if estimate.problem is not None:
        return Verdict.INCONCLUSIVE, estimate.problem
    if not math.isfinite(estimate.point) or math.isnan(estimate.lower) or math.isnan(estimate.upper):
        return Verdict.INCONCLUSIVE, f"{estimate.point} in [{estimate.lower}, {estimate.upper}] is not a finite number"
    allowance = REFERENCE_SHARE * region.half_width
    # written so that a bar of NaN fails too
    if not estimate.reference_error <= allowance:
        return (
            Verdict.INCONCLUSIVE,
            f"the reference's error bar {estimate.reference_error:.3g} is above {allowance:.3g}, "
            "a tenth of the region's half-width",
        )
    lower = estimate.lower - estimate.reference_error
    upper = estimate.upper + estimate.reference_error
    shown = f"[{lower:.6g}, {upper:.6g}]"
    if region.lower <= lower and upper <= region.upper:
        return Verdict.SUPPORTED, f"{shown} lies inside {region}"
    if upper < region.lower or lower > region.upper:
        return Verdict.REFUTED, f"{shown} is disjoint from {region}"
    return Verdict.INCONCLUSIVE, f"{shown} overlaps {region} and its outside"
