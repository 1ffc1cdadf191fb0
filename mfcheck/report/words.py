"""Outcomes in words: intervals, counts, and why a verdict is not the expected one. Reads outcomes; never simulates."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence

from mfcheck.outcome import CriterionOutcome, Outcome


def explain(outcome: Outcome, reproduce: str) -> str:
    """Why an outcome is not the expected one: claim, prediction, intervals, and the line that shows it again."""
    kind = f"control {outcome.control!r} of claim {outcome.claim}" if outcome.control else f"claim {outcome.claim}"
    lines = [
        f"{kind} is {outcome.verdict.value}; expected {outcome.expected.value}",
        f"  claim:      {outcome.statement}",
        f"  prediction: {outcome.prediction}",
    ]
    lines += [f"  {c.name}: {interval(c)} at level {c.estimate.level:.6g}; {c.reason}" for c in outcome.criteria]
    lines.append(f"  {outcome.n} replicates in {outcome.looks} looks, seed {outcome.seed}, profile {outcome.profile}")
    lines.append(f"  reproduce:  {reproduce}")
    return "\n".join(lines)


def interval(criterion: CriterionOutcome) -> str:
    """'1.0018 [0.9971, 1.0064]', with digits enough to see the interval; the number alone where it is exact."""
    estimate = criterion.estimate
    if not math.isfinite(estimate.point):
        return "none"
    width = estimate.upper - estimate.lower
    if width == 0:
        return f"{estimate.point:.3g}"
    if width > 0 and math.isfinite(width) and abs(estimate.point) < 1e4 and width > 1e-4:
        digits = min(6, max(0, 1 - math.floor(math.log10(width))))
        return f"{estimate.point:.{digits}f} [{estimate.lower:.{digits}f}, {estimate.upper:.{digits}f}]"
    return f"{estimate.point:.3g} [{estimate.lower:.3g}, {estimate.upper:.3g}]"


def controls_by_claim(outcomes: Iterable[Outcome]) -> dict[str, tuple[int, int]]:
    """(refuted as expected, run) for each claim whose controls are among the outcomes; see Control for the others."""
    counts: dict[str, tuple[int, int]] = {}
    for outcome in outcomes:
        if outcome.control is not None:
            refuted, tried = counts.get(outcome.claim, (0, 0))
            counts[outcome.claim] = (refuted + outcome.passed, tried + 1)
    return counts


def counts(outcomes: Sequence[Outcome], registered: int, registered_controls: int) -> str:
    """'claims run / registered, controls refuted / registered', and how many claims stand as expected."""
    claims = [outcome for outcome in outcomes if outcome.control is None]
    expected = sum(outcome.passed for outcome in claims)
    refuted = sum(refuted for refuted, _ in controls_by_claim(outcomes).values())
    return (
        f"claims run {len(claims)} / {registered} registered ({expected} as expected), "
        f"controls refuted {refuted} / {registered_controls} registered"
    )
