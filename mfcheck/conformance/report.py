"""What a conformance suite found: a result a property, and the report that holds them."""

from __future__ import annotations

import json
import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from typing import Any

from mfcheck.errors import InputError

HOLDS, VIOLATED, NOT_APPLICABLE, UNDECIDED = STATUSES = ("holds", "violated", "not applicable", "undecided")


@dataclass(frozen=True)
class PropertyResult:
    """A property's status, what was measured in words, and where it is violated a snippet that shows it alone.

    examples: how many inputs were tried, where the property was searched for a counterexample.
    """

    name: str
    status: str
    detail: str
    counterexample: str | None = None
    examples: int | None = None

    def __post_init__(self) -> None:
        if self.status not in STATUSES:
            raise InputError(f"a status is one of {', '.join(STATUSES)}; it came as {self.status!r}")

    @property
    def told(self) -> str:
        """The detail, with the number of examples tried where it counts."""
        if self.examples is None or self.status == NOT_APPLICABLE:
            return self.detail
        tried = f"{self.examples} example{'' if self.examples == 1 else 's'}"
        return f"{self.detail} ({tried})" if self.detail else tried


def check_names(names: Iterable[str], known: Sequence[str]) -> None:
    """Raises InputError where a name is none of the properties known."""
    unknown = sorted(set(names) - set(known))
    if unknown:
        raise InputError(f"no property is called {', '.join(unknown)}; there are {', '.join(known)}")


@dataclass(frozen=True)
class Report:
    """All results about one subject. notes, causes: sentences; facts: numbers for the JSON file.

    sections: further lines under a heading each, printed behind the results.
    """

    subject: str
    results: tuple[PropertyResult, ...]
    causes: tuple[str, ...] = ()
    notes: tuple[str, ...] = ()
    facts: Mapping[str, Any] = field(default_factory=dict)
    sections: Mapping[str, tuple[str, ...]] = field(default_factory=dict)

    @property
    def passed(self) -> bool:
        """Whether every property that applies holds: an undecided one is no support."""
        return all(result.status in (HOLDS, NOT_APPLICABLE) for result in self.results)

    @property
    def exit_code(self) -> int:
        """0 where all hold, 1 else (2 is for bad input, which gives no report)."""
        return 0 if self.passed else 1

    def __getitem__(self, name: str) -> PropertyResult:
        for result in self.results:
            if result.name == name:
                return result
        raise InputError(f"the report has no property {name!r}; it has {', '.join(r.name for r in self.results)}")

    def __str__(self) -> str:
        width = max((len(result.name) for result in self.results), default=0)
        lines = [self.subject]
        for result in self.results:
            lines.append(f"  {result.name:<{width}}  {result.status:<14}  {result.told}".rstrip())
        counted = [f"{sum(r.status == status for r in self.results)} {status}" for status in STATUSES]
        lines.append(f"  {', '.join(counted)}")
        lines += [f"  likely cause: {cause}" for cause in self.causes]
        lines += [f"  note: {note}" for note in self.notes]
        for heading, told in self.sections.items():
            lines += ["", f"{heading}:", *(f"  {line}" for line in told)]
        for result in self.results:
            if result.counterexample:
                lines += ["", f"{result.name}, to see it alone:", ""]
                lines += [f"    {line}" for line in result.counterexample.rstrip().splitlines()]
        return "\n".join(lines)

    def to_json(self) -> str:
        """The report as one JSON object; numbers that are not finite become null."""
        whole = {
            "subject": self.subject,
            "passed": self.passed,
            "results": [asdict(result) for result in self.results],
            "causes": list(self.causes),
            "notes": list(self.notes),
            "sections": {heading: list(told) for heading, told in self.sections.items()},
            "facts": dict(self.facts),
        }
        return json.dumps(_finite(whole), indent=2, ensure_ascii=False, allow_nan=False)


def _finite(value: Any) -> Any:
    """The same value with None for numbers that JSON does not have."""
    if isinstance(value, float):
        return value if math.isfinite(value) else None
    if isinstance(value, Mapping):
        return {key: _finite(item) for key, item in value.items()}
    if isinstance(value, Sequence) and not isinstance(value, str):
        return [_finite(item) for item in value]
    return value
