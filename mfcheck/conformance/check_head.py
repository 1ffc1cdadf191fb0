"""check_head: every property of a head that somebody brings, and which claims of the catalogue speak of it."""

from __future__ import annotations

import math
import time
from collections.abc import Sequence
from typing import Any

from mfcheck.conformance.applicable import applicable_claims, applying
from mfcheck.conformance.head_properties import NAMES, PROPERTIES, HeadProperty
from mfcheck.conformance.head_subject import Subject
from mfcheck.conformance.head_understand import understand
from mfcheck.conformance.report import UNDECIDED, VIOLATED, PropertyResult, Report, check_names
from mfcheck.conformance.surroundings import own_surroundings
from mfcheck.errors import InputError
from mfcheck.statistics.seeds import stream

#: Seconds that the head's calls may take in all, and a call that is worth a note.
BUDGET, SLOW = 25.0, 0.005
#: A property of a fast head takes no longer than this share of the budget.
SHARE = 0.2


def check_head(
    head: Any,
    *,
    name: str | None = None,
    target: str | None = None,
    parameter_dimension: int | None = None,
    token_dimension: int | None = None,
    only: Sequence[str] = (),
    seed: int = 0,
    budget: float | None = BUDGET,
    device: str | None = None,
) -> Report:
    """Tests a head against the hypotheses of the theorems: a result a property, and the claims that apply to it.

    head: a function (theta [p], x [d], tokens [n, d], weights [n]) -> [d], a Head, a HeadSpec, a torch module, or a
    function without arguments that makes one of these. parameter_dimension p and token_dimension d, where they cannot
    be inferred. only: names of properties; those that they rest on are run, too. seed: of every draw. budget: seconds
    for the whole suite, None for no limit: a slow head is tried on fewer examples, and the report says so. target:
    pkg.module:name, for the counterexamples' snippets. The report has .passed, .results, .to_json(), a readable str().
    Raises InputError with a sentence on what cannot be called as a head.
    """
    return HeadCheck(
        head,
        name=name,
        target=target,
        parameter_dimension=parameter_dimension,
        token_dimension=token_dimension,
        seed=seed,
        budget=budget,
        device=device,
    ).report(only)


class HeadCheck:
    """The suite on one head, a property at a time: each is measured once, after those that it rests on."""

    def __init__(self, head: Any, *, seed: int = 0, budget: float | None = BUDGET, **options: Any) -> None:
        if budget is not None and not budget > 0:
            raise InputError(f"a budget is a positive number of seconds, or None; it came as {budget}")
        self._started = time.perf_counter()
        self._budget = math.inf if budget is None else budget
        self._seed = seed
        self._printed = 0
        root = stream(seed, "head")
        with own_surroundings(root.integer(31)) as printed:
            self.subject: Subject = understand(head, root, **options)
        self._count(printed.getvalue())
        self._began = self.subject.clock.now
        self.results: dict[str, PropertyResult] = {}

    def result(self, name: str) -> PropertyResult:
        """The result of a property. Raises InputError where there is none of that name."""
        check_names([name], NAMES)
        if name not in self.results:
            prop = PROPERTIES[NAMES.index(name)]
            for need in prop.needs:
                self.result(need)
            with own_surroundings(self.subject.stream.child(name, "global").integer(31)) as printed:
                self.results[name] = self._measured(prop)
            self._count(printed.getvalue())
            if self.results[name].status == VIOLATED:
                self.subject.violated.add(name)
        return self.results[name]

    def report(self, only: Sequence[str] = ()) -> Report:
        """The report on the properties named, or on all."""
        check_names(only, NAMES)
        wanted = [name for name in NAMES if not only or name in only]
        for name in wanted:
            self.result(name)
        subject = self.subject
        facts = {
            "parameter_dimension": subject.parameter_dimension,
            "token_dimension": subject.token_dimension,
            "dtype": str(subject.dtype).removeprefix("torch."),
            "device": subject.device,
            "seed": self._seed,
            "calls": subject.clock.calls,
            "seconds": round(time.perf_counter() - self._started, 2),
            "call_seconds": subject.seconds,
            "ball": subject.ball,
            **subject.facts,
        }
        sections = {}
        if not only:
            facts["claims"] = applying(subject, self.results)
            sections["claims of the catalogue"] = applicable_claims(subject, self.results)
        told = f"{subject.name}: theta in R^{subject.parameter_dimension}, tokens in R^{subject.token_dimension}"
        return Report(told, tuple(self.results[n] for n in wanted), (), self._notes(), facts, sections)

    def _measured(self, prop: HeadProperty) -> PropertyResult:
        broken = [need for need in prop.needs if need in self.subject.violated]
        if broken:
            words = f"it rests on what is violated: {', '.join(broken)}"
            return PropertyResult(prop.name, UNDECIDED, words)
        now = self.subject.clock.now
        left = self._began + self._budget - now
        share = max(left / (len(PROPERTIES) - len(self.results)), min(left, SHARE * self._budget))
        if self.subject.seconds > SLOW:
            share = left / (len(PROPERTIES) - len(self.results))
        if prop.calls * self.subject.seconds > min(left, 4 * share):
            words = (
                f"a call takes {self.subject.seconds:.2g} s and an example {prop.calls} calls: beyond the budget of "
                f"{self._budget:g} s (a larger --budget decides it)"
            )
            return PropertyResult(prop.name, UNDECIDED, words)
        self.subject.clock.until = now + share
        return prop.measure(self.subject)

    def _notes(self) -> tuple[str, ...]:
        notes = list(self.subject.notes)
        if self.subject.seconds > SLOW:
            notes.append(
                f"a call takes {self.subject.seconds:.2g} s: fewer examples were tried, {self.subject.clock.calls} "
                "calls in all"
            )
        if self._printed:
            notes.append(f"it printed {self._printed} lines, which are left out here")
        return tuple(notes)

    def _count(self, printed: str) -> None:
        self._printed += printed.count("\n")
