"""Outcomes made up for the tests of what reads them."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from mfcheck.outcome import CriterionOutcome, Outcome
from mfcheck.statistics.estimate import Estimate
from mfcheck.statistics.verdict import Region, Verdict, judge


def criterion(estimate: Estimate, region: Region, name: str = "ratio") -> CriterionOutcome:
    """A criterion judged as `run` would."""
    return CriterionOutcome(name, estimate, region, *judge(estimate, region))


SUPPORTED = criterion(Estimate(1.0018, 0.9971, 1.0064, 0.999, 100), Region.around(1.0, relative=0.01))
REFUTED = criterion(Estimate(0.5, 0.499, 0.501, 0.999, 100), Region.around(1.0, relative=0.01))
OUTCOME = Outcome(
    claim="D1",
    control=None,
    statement="the variance is 2 beta eta T",
    prediction="ratio 1 | within 1 %",
    verdict=Verdict.SUPPORTED,
    expected=Verdict.SUPPORTED,
    criteria=(SUPPORTED,),
    n=100,
    looks=1,
    alpha=0.01,
    seed=0,
    profile="quick",
    device="cpu",
    versions={"torch": "2.13.0"},
    seconds=0.5,
    started="2026-12-01T00:00:00+00:00",
    identity="abc",
)


def outcome(**changes: Any) -> Outcome:
    """The made-up outcome with some fields changed."""
    return replace(OUTCOME, **changes)


CONTROL = outcome(control="half", verdict=Verdict.REFUTED, expected=Verdict.REFUTED, criteria=(REFUTED,))
