"""What the properties of a head share: drawing calls, telling failures apart, and from a finding to a result."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, TypeVar

from hypothesis.strategies import SearchStrategy
from torch import Tensor

from mfcheck.conformance.head_snippet import snippet
from mfcheck.conformance.head_subject import Call, HeadFailure, Subject
from mfcheck.conformance.report import HOLDS, UNDECIDED, VIOLATED, PropertyResult
from mfcheck.conformance.rounding import differ
from mfcheck.conformance.search import SKIP, Example, Finding, Violation, search
from mfcheck.conformance.strategies import calls

E = TypeVar("E", bound=Example)
#: Examples a property is tried on where the head is fast.
EXAMPLES = 60
#: What allows for rounding, in the words of a report.
ROUNDING = "to rounding"


@dataclass(frozen=True, eq=False)
class Rewritten:
    """A call and another that must give the same value; lines of a snippet make the second one out of the first."""

    call: Call
    other: Call
    words: str
    lines: tuple[str, ...]

    @property
    def key(self) -> Any:
        """Equal for equal pairs."""
        return self.call.key, self.other.key


def drawn(subject: Subject, **options: Any) -> SearchStrategy[Call]:
    """Calls of this head within its bounds."""
    return calls(subject.parameter_dimension, subject.token_dimension, subject.theta_bound, subject.x_bound, **options)


def failed(subject: Subject, error: HeadFailure) -> Violation | object:
    """What an example says on which the head fails: nothing where `finite` has found it, else that it does."""
    return SKIP if {"finite", "shape_and_dtype"} & subject.violated else Violation(str(error), ("# raises here",))


def same_value(subject: Subject, pair: Rewritten) -> Violation | object | None:
    """Whether both calls give the same value to rounding."""
    try:
        first, second = subject.value(pair.call), subject.value(pair.other)
    except HeadFailure as error:
        return failed(subject, error)
    return unless_equal(subject, pair.call, first, second, pair.words, pair.lines)


def unless_equal(
    subject: Subject, call: Call, first: Tensor, second: Tensor, words: str, lines: Sequence[str]
) -> Violation | None:
    """A violation where the two values, equal in exact arithmetic, differ by more than rounding."""
    found = differ(subject, call, first, second)
    if found is None:
        return None
    return Violation(f"{words}: {apart(found)}", tuple(lines))


def apart(found: tuple[float, float]) -> str:
    """What `differ` found, in words."""
    return f"{found[0]:.3g} apart, rounding allows {found[1]:.2g}"


def searched(
    subject: Subject,
    name: str,
    strategy: SearchStrategy[E],
    test: Callable[[E], Violation | object | None],
    holds: str,
    *,
    examples: int = EXAMPLES,
    call_of: Callable[[Any], Call] = lambda example: getattr(example, "call", example),
    score: Callable[[], float] | None = None,
) -> PropertyResult:
    """The result of searching for a counterexample; `holds`: what to say where there is none."""
    root = subject.stream.child(name).integer(31)
    finding = search(strategy, test, examples=examples, clock=subject.clock, root=root, score=score)
    return told(subject, name, finding, holds, call_of)


def told(
    subject: Subject, name: str, finding: Finding[E], holds: str, call_of: Callable[[Any], Call]
) -> PropertyResult:
    """A finding as a result, with the snippet of its counterexample."""
    if finding.violation is not None and finding.example is not None:
        code = snippet(subject, call_of(finding.example), finding.violation.lines)
        return PropertyResult(name, VIOLATED, finding.violation.words, code, finding.tried)
    if not finding.tried:
        return PropertyResult(name, UNDECIDED, "on every example the head failed for another reason", None, 0)
    return PropertyResult(name, HOLDS, holds, None, finding.tried)
