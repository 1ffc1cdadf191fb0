"""Searching for a counterexample: Hypothesis draws and shrinks, within a time and from a seed."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Generic, Protocol, TypeVar

from hypothesis import HealthCheck, Phase, Verbosity, given, seed, settings
from hypothesis import target as aim
from hypothesis.errors import Unsatisfiable
from hypothesis.strategies import SearchStrategy

from mfcheck.conformance.head_subject import Clock


class Example(Protocol):
    """What is drawn: it has a key that is equal for equal examples."""

    @property
    def key(self) -> Any:
        """Equal for equal examples."""
        ...


E = TypeVar("E", bound=Example)
#: An example that says nothing about the property, such as one on which the head fails for another reason.
SKIP = object()


@dataclass(frozen=True)
class Violation:
    """What is wrong on an example, in words, and lines of a snippet that show it once its arguments are set up."""

    words: str
    lines: tuple[str, ...] = ()


@dataclass(frozen=True)
class Finding(Generic[E]):
    """The smallest example that violates a property, with what is wrong on it, and how many were tried and skipped."""

    tried: int
    skipped: int
    example: E | None = None
    violation: Violation | None = None
    #: Whether the time ran out before all examples were tried.
    cut: bool = False


class _Violated(Exception):
    pass


def search(
    strategy: SearchStrategy[E],
    test: Callable[[E], Violation | object | None],
    *,
    examples: int,
    clock: Clock,
    root: int,
    score: Callable[[], float] | None = None,
) -> Finding[E]:
    """Tries `examples` draws and shrinks the first that violates.

    test(example) -> None, a Violation, or SKIP. root: the seed. score: after each test, a number that later draws
    should make large. An example is tested once: what a shrink tries again is remembered, so that time running out,
    or a head that answers differently, does not confuse the search. After clock.until nothing new is tried.
    """
    known: dict[Any, Violation | object | None] = {}
    last: list[tuple[E, Violation]] = []
    cut = False

    def body(example: E) -> None:
        nonlocal cut
        key = example.key
        if key not in known:
            # one example at least, however slow the head
            if known and clock.over:
                cut = True
                return
            known[key] = test(example)
            if score is not None:
                aim(score())
        found = known[key]
        if isinstance(found, Violation):
            last.append((example, found))
            raise _Violated

    wanted = settings(
        max_examples=examples,
        database=None,
        deadline=None,
        derandomize=False,
        phases=(Phase.generate, Phase.target, Phase.shrink),
        suppress_health_check=list(HealthCheck),
        report_multiple_bugs=False,
        verbosity=Verbosity.quiet,
        print_blob=False,
    )
    try:
        seed(root)(wanted(given(strategy)(body)))()
    except _Violated:
        pass
    except Unsatisfiable:
        pass
    skipped = sum(found is SKIP for found in known.values())
    counted = len(known) - skipped
    if last:
        return Finding(counted, skipped, last[-1][0], last[-1][1], cut)
    return Finding(counted, skipped, cut=cut)
