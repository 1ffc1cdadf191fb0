"""Hypotheses that an experiment judges by rules of its own: from the words of paired differences to a verdict."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Generic, Protocol, TypeVar

from mfcheck.statistics.paired import Effect, Result
from mfcheck.statistics.verdict import Verdict


class PairedDifference(Protocol):
    """A row of a hypothesis. judged: whether its rule and Holm's adjustment count it, or it stands beside."""

    @property
    def name(self) -> str: ...

    @property
    def judged(self) -> bool: ...


R = TypeVar("R", bound=PairedDifference)
#: The words of the judged rows, in their order -> the verdict on the hypothesis.
Rule = Callable[[Sequence[Effect]], Verdict]


@dataclass(frozen=True)
class Hypothesis(Generic[R]):
    """A row of the catalogue: what is said, the rows it is judged by, the rule in code and in words.

    on_record: what an earlier run said of it, empty where none asked.
    """

    id: str
    statement: str
    rows: tuple[R, ...]
    rule: Rule
    rule_in_words: str
    on_record: str = ""

    def judge(self, found: Mapping[str, Result]) -> Judged[R]:
        """The verdict from the results of its rows, by their names."""
        words = [found[row.name].effect for row in self.rows if row.judged]
        return Judged(self, tuple(found[row.name] for row in self.rows), self.rule(words))


@dataclass(frozen=True)
class Judged(Generic[R]):
    """A hypothesis with the results of its rows, in their order, and its verdict."""

    hypothesis: Hypothesis[R]
    results: tuple[Result, ...]
    verdict: Verdict
