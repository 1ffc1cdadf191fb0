"""check_head: every property of a head, constants on a ball, and the claims that then apply to it."""

from __future__ import annotations

import contextlib
import io
import warnings
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from mfcheck.conformance.head_cases import Case
from mfcheck.conformance.head_properties import (
    PROPERTIES,
    Inputs,
    Property,
    quotient_in_law,
    quotient_in_theta,
    quotient_in_x,
)
from mfcheck.conformance.head_sampling import moments
from mfcheck.conformance.head_search import search, snippet
from mfcheck.conformance.head_subject import Subject, understand
from mfcheck.conformance.report import HOLDS, NOT_APPLICABLE, UNDECIDED, VIOLATED, PropertyResult, Report
from mfcheck.errors import InputError

SAMPLED = ("finite variance", "Monte Carlo rate")
NAMES = (*(prop.name for prop in PROPERTIES), *SAMPLED)
#: The probability that a sampled property that holds is called violated.
ALPHA = 0.01
#: A call that takes longer is worth a note, and fewer examples.
SLOW = 0.01
#: Calls of the head in an average look at a case.
CALLS = 6

#: Which properties a claim of the catalogue rests on, where it is asked of another head than its own.
NEEDS = {
    "K1": ("gradient", "the particle's index"),
    "V1": ("deterministic", "finite variance"),
    "V2": ("deterministic", "finite variance"),
    "V3": ("deterministic",),
    "V4": ("Lipschitz in theta", "finite variance"),
    "T1": ("Lipschitz in x", "finite"),
    "T2": ("order of the tokens", "a law, not a list", "Lipschitz in the law"),
    "T4": ("Lipschitz in x", "Lipschitz in the law", "a law, not a list"),
    "T5": ("Lipschitz in x", "Lipschitz in theta", "Lipschitz in the law"),
    "C6": ("gradient", "Lipschitz in theta", "the particle's index"),
    "G3": ("gradient", "Lipschitz in theta"),
}


def check_head(
    head: Any,
    *,
    name: str | None = None,
    target: str | None = None,
    p: int | None = None,
    d: int | None = None,
    only: Sequence[str] = (),
    examples: int = 100,
    seed: int = 0,
    budget: float = 20.0,
    device: str = "cpu",
) -> Report:
    """Tests a head v(theta [p], x [d], tokens [n, d], weights [n]) -> [d] against the hypotheses of the theorems.

    head: a callable of that form, a HeadSpec, a `mfcheck.heads.Head`, or an nn.Module; p, d: its dimensions where they
    cannot be inferred. only: names of properties; examples: inputs tried for each; budget: seconds, by which a slow
    head gets fewer. target: pkg.module:name, for the counterexamples. The report has a result a property (holds,
    violated with a minimal counterexample, not applicable, undecided), constants, and the claims that apply.
    Raises InputError with a sentence on what cannot be called as a head.
    """
    unknown = sorted(set(only) - set(NAMES))
    if unknown:
        raise InputError(f"no property is called {', '.join(unknown)}; there are {', '.join(NAMES)}")
    if examples < 1 or not budget > 0:
        raise InputError(f"examples are at least 1 and a budget is positive; they came as {examples} and {budget}")
    printed = io.StringIO()
    with contextlib.redirect_stdout(printed), contextlib.redirect_stderr(printed), warnings.catch_warnings():
        warnings.simplefilter("ignore")
        subject = understand(head, name=name or target, p=p, d=d, device=device)
        wanted = [prop for prop in PROPERTIES if not only or prop.name in only]
        tried = _affordable(subject, examples, budget, len(wanted))
        results = _measured(
            subject, wanted, [each for each in SAMPLED if not only or each in only], tried, target, seed, budget
        )
        constants = _constants(subject, results, max(10, tried // 4))
    notes = list(subject.notes)
    if printed.getvalue():
        notes.append(f"it printed {len(printed.getvalue())} characters, which were kept from the screen")
    if tried < examples:
        notes.append(f"a call takes {subject.seconds:.2g} s: {tried} examples a property instead of {examples}")
    notes += [
        f"{what} on the ball (|theta| <= 2, |x|, |y| <= 1): at least {value:.3g}" for what, value in constants.items()
    ]
    notes += _applicable(results) if not only else []
    facts = {
        "p": subject.p,
        "d": subject.d,
        "dtype": str(subject.dtype),
        "seconds a call": subject.seconds,
        **constants,
    }
    return Report(
        f"{subject.name} (theta in R^{subject.p}, tokens in R^{subject.d})", tuple(results), (), tuple(notes), facts
    )


def parametrize_with_properties(head: Any, **options: Any) -> Callable[[Callable[..., None]], Callable[..., None]]:
    """A decorator for a test of one's own file: one test a property, each given its PropertyResult.

    `@parametrize_with_properties(my_head)` over `def test_my_head(result): assert result.status != "violated"`.
    """
    import pytest

    def decorate(test: Callable[..., None]) -> Callable[..., None]:
        return pytest.mark.parametrize(
            "result", [_Lazy(head, each, options) for each in NAMES], ids=NAMES, indirect=True
        )(test)

    return decorate


class _Lazy:
    """A property of a head, measured when its test runs and not when tests are collected."""

    def __init__(self, head: Any, name: str, options: dict[str, Any]) -> None:
        self.head, self.name, self.options = head, name, options

    def result(self) -> PropertyResult:
        return check_head(self.head, only=(self.name,), **self.options)[self.name]


def _affordable(subject: Subject, examples: int, budget: float, properties: int) -> int:
    if subject.seconds < SLOW / 10:
        return examples
    return max(3, min(examples, int(budget / (CALLS * max(properties, 1) * subject.seconds))))


def _measured(
    subject: Subject,
    wanted: Sequence[Property],
    sampled: Sequence[str],
    examples: int,
    target: str | None,
    seed: int,
    budget: float,
) -> list[PropertyResult]:
    """All results. Where the output is no tensor [d] of the right dtype nothing else can be asked of it."""
    form = _searched(subject, PROPERTIES[0], examples, target)
    if form.status == VIOLATED:
        words = f"it rests on {PROPERTIES[0].name}, which is violated"
        others = [*(prop.name for prop in wanted if prop is not PROPERTIES[0]), *sampled]
        return [form, *(PropertyResult(each, UNDECIDED, words) for each in others)]
    results = [form if prop is PROPERTIES[0] else _searched(subject, prop, examples, target) for prop in wanted]
    return results + _sampled(subject, sampled, seed, budget)


def _searched(subject: Subject, prop: Property, examples: int, target: str | None) -> PropertyResult:
    why = prop.inapplicable(subject)
    if why is not None:
        return PropertyResult(prop.name, NOT_APPLICABLE, why)
    found = search(subject, prop, examples)
    if found.wrong is None or found.case is None:
        return PropertyResult(prop.name, HOLDS, f"{prop.asks} ({found.tried} examples)")
    return PropertyResult(prop.name, VIOLATED, found.wrong, snippet(target, subject, prop, found.case))


def _sampled(subject: Subject, wanted: Sequence[str], seed: int, budget: float) -> list[PropertyResult]:
    if not wanted:
        return []
    # 64 replicates of 256 heads, and the control's
    if subject.seconds > SLOW and 64 * 256 * 2 * subject.seconds > budget:
        words = f"a call takes {subject.seconds:.2g} s: 32,768 of them are more than the budget of {budget:g} s"
        return [PropertyResult(each, UNDECIDED, words) for each in wanted]
    found = moments(subject, ALPHA, seed)
    return [PropertyResult(each, *found[each]) for each in wanted]


def _constants(subject: Subject, results: Sequence[PropertyResult], examples: int) -> dict[str, float]:
    """The largest quotients found on random inputs of the ball, for the Lipschitz properties that hold."""
    measured: dict[str, Callable[[Subject, Inputs], float]] = {
        "Lipschitz in x": quotient_in_x, "Lipschitz in theta": quotient_in_theta, "Lipschitz in the law": quotient_in_law,
    }  # fmt: skip
    held = {result.name for result in results if result.status == HOLDS}
    source = np.random.default_rng(0)
    constants = {}
    for name, quotient in measured.items():
        if name in held:
            cases = [_random(subject, source) for _ in range(examples)]
            constants[f"{name} constant"] = max(quotient(subject, case) for case in cases)
    return constants


def _random(subject: Subject, source: np.random.Generator) -> Inputs:
    theta: Any = tuple(source.normal(size=subject.p))
    tokens = tuple(tuple(row) for row in source.normal(size=(3, subject.d)))
    case = Case(theta, tuple(source.normal(size=subject.d)), tokens, (1, 1, 1))
    return case.tensors(subject, ball=True)


def _applicable(results: Sequence[PropertyResult]) -> list[str]:
    status = {result.name: result.status for result in results}
    apply, not_apply = [], []
    for claim, needs in NEEDS.items():
        lacking = [need for need in needs if status[need] not in (HOLDS, NOT_APPLICABLE) or _denied(status, need)]
        if lacking:
            not_apply.append(f"{claim} does not: {', '.join(lacking)}")
        else:
            apply.append(claim)
    return [f"claims of the catalogue that apply: {', '.join(apply) or 'none'}", *not_apply]


def _denied(status: dict[str, str], need: str) -> bool:
    """Whether a head says of itself that it has not got a property that is more than a matter of form."""
    of_form = ("batches", "the particle's index", "GPU", "float32")
    return status[need] == NOT_APPLICABLE and need not in of_form


__all__ = ["NAMES", "check_head", "parametrize_with_properties"]
