"""Two runs side by side: which verdicts changed and which intervals moved."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from mfcheck.outcome import CriterionOutcome, Outcome
from mfcheck.report.words import interval


@dataclass(frozen=True)
class Move:
    """A criterion before and now. apart: the two intervals have no point in common, though they measure the same."""

    outcome: str
    criterion: str
    before: str
    now: str
    verdict_before: str
    verdict_now: str
    apart: bool

    @property
    def changed(self) -> bool:
        """Whether the verdict is another one."""
        return self.verdict_before != self.verdict_now


@dataclass(frozen=True)
class Comparison:
    """What moved between two runs, and the outcomes that only one of them has."""

    moves: tuple[Move, ...]
    gone: tuple[str, ...]
    new: tuple[str, ...]

    @property
    def changed(self) -> tuple[Move, ...]:
        """The criteria whose verdict is another one."""
        return tuple(move for move in self.moves if move.changed)


def compare(before: Sequence[Outcome], now: Sequence[Outcome]) -> Comparison:
    """Criteria of the outcomes that both runs have and whose interval or verdict is not the same."""
    old, new = ({outcome.name: outcome for outcome in outcomes} for outcomes in (before, now))
    moves = []
    for name in new.keys() & old.keys():
        known = {criterion.name: criterion for criterion in old[name].criteria}
        moves += [
            _move(name, known[criterion.name], criterion)
            for criterion in new[name].criteria
            if criterion.name in known and _facts(known[criterion.name]) != _facts(criterion)
        ]
    return Comparison(
        tuple(sorted(moves, key=lambda move: (not move.changed, not move.apart, move.outcome, move.criterion))),
        tuple(sorted(old.keys() - new.keys())),
        tuple(sorted(new.keys() - old.keys())),
    )


def _facts(criterion: CriterionOutcome) -> tuple[float, float, float, str]:
    estimate = criterion.estimate
    return estimate.point, estimate.lower, estimate.upper, criterion.verdict.value


def _move(name: str, before: CriterionOutcome, now: CriterionOutcome) -> Move:
    a, b = before.estimate, now.estimate
    return Move(
        name,
        now.name,
        interval(before),
        interval(now),
        before.verdict.value,
        now.verdict.value,
        bool(a.upper < b.lower or b.upper < a.lower),
    )
