"""Properties as tests: the decorator for somebody's own test file, and what the pytest plugin runs."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any, TypeVar

from mfcheck.conformance.check_head import HeadCheck
from mfcheck.conformance.head_properties import NAMES
from mfcheck.conformance.report import HOLDS, NOT_APPLICABLE, PropertyResult, check_names

T = TypeVar("T", bound=Callable[..., Any])


class PropertyCheck:
    """A property of a head, to be called in a test: passes, fails with the counterexample, or is skipped.

    Raises AssertionError where the property is violated or undecided; skips the test where it does not apply.
    """

    def __init__(self, lazily: Callable[[], HeadCheck], name: str) -> None:
        self.name, self._lazily = name, lazily

    def __call__(self) -> PropertyResult:
        __tracebackhide__ = True
        result = self._lazily().result(self.name)
        answer(result)
        return result

    def __repr__(self) -> str:
        return f"PropertyCheck({self.name})"


def parametrize_with_properties(head: Any, *, only: Iterable[str] = (), **options: Any) -> Callable[[T], T]:
    """A test for every property of a head: decorates a test that takes `check` and calls it.

        @mfcheck.parametrize_with_properties(my_head, token_dimension=3)
        def test_my_head(check):
            check()

    head and options as of `check_head`; only: names of properties. The head is looked at when the first test runs.
    Raises InputError on a name that is none.
    """
    import pytest

    wanted = tuple(only) or NAMES
    checks = property_checks(lambda: HeadCheck(head, **options), wanted)
    decorated: Callable[[T], T] = pytest.mark.parametrize("check", checks, ids=[check.name for check in checks])
    return decorated


def property_checks(make: Callable[[], HeadCheck], names: Iterable[str] = NAMES) -> list[PropertyCheck]:
    """A check for each name, on one HeadCheck that is made when the first of them is called."""
    made: list[HeadCheck] = []

    def lazily() -> HeadCheck:
        if not made:
            made.append(make())
        return made[0]

    names = tuple(names)
    check_names(names, NAMES)
    return [PropertyCheck(lazily, name) for name in names]


def answer(result: PropertyResult, causes: Iterable[str] = ()) -> None:
    """Passes, skips, or raises AssertionError with the words of a result, its likely causes and its snippet."""
    import pytest

    __tracebackhide__ = True  # the words say it; pytest would print this function
    if result.status == HOLDS:
        return
    if result.status == NOT_APPLICABLE:
        pytest.skip(result.detail)
    told = "\n".join(
        [f"{result.name} is {result.status}: {result.told}", *(f"likely cause: {cause}" for cause in causes)]
    )
    if result.counterexample:
        told += f"\n\nto see it alone:\n\n{result.counterexample}"
    raise AssertionError(told)
