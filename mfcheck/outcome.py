"""Outcome: what a run of a claim or a control found, and the JSON lines that keep it."""

from __future__ import annotations

import dataclasses
import json
import os
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from mfcheck.errors import InputError
from mfcheck.statistics.estimate import Estimate
from mfcheck.statistics.seeds import digest as digest
from mfcheck.statistics.verdict import Region, Verdict, judge


@dataclass(frozen=True)
class CriterionOutcome:
    """One criterion's estimate, the region it was judged against, the verdict, and why in a sentence."""

    name: str
    estimate: Estimate
    region: Region
    verdict: Verdict
    reason: str


@dataclass(frozen=True)
class Outcome:
    """The result of `run`: verdict, intervals, sample size, and all that is needed to see it again.

    control is None for the claim itself. expected: SUPPORTED (or the verdict on record) for a claim, REFUTED for
    a control. n: replicates; looks: how many times samples were bought; alpha: this claim's share of the suite's
    error rate. identity: a digest of what was run, by which a resumed run knows its own. data: for figures.
    """

    claim: str
    control: str | None
    statement: str
    prediction: str
    verdict: Verdict
    expected: Verdict
    criteria: tuple[CriterionOutcome, ...]
    n: int
    looks: int
    alpha: float
    seed: int
    profile: str
    device: str
    versions: Mapping[str, str]
    seconds: float
    started: str
    identity: str
    data: Mapping[str, Any] = field(default_factory=dict)

    @property
    def passed(self) -> bool:
        """Whether the verdict is the expected one."""
        return self.verdict is self.expected

    @property
    def name(self) -> str:
        """'D1', or 'D1: amplitude sqrt(beta eta)' for a control."""
        return self.claim if self.control is None else f"{self.claim}: {self.control}"

    def criterion(self, name: str) -> CriterionOutcome:
        """The criterion of that name. Raises InputError where there is none."""
        for criterion in self.criteria:
            if criterion.name == name:
                return criterion
        raise InputError(f"{self.name} has no criterion {name!r}; it has {[c.name for c in self.criteria]}")

    def to_json(self) -> str:
        """One line of JSON; from_json reads it back. NaN and Infinity stand as Python's json writes them."""
        return json.dumps(_plain(dataclasses.asdict(self)), allow_nan=True)

    @classmethod
    def from_json(cls, line: str) -> Outcome:
        """The outcome that to_json wrote. Raises InputError where the line is something else."""
        try:
            fields = json.loads(line)
            criteria = tuple(
                CriterionOutcome(
                    c["name"], Estimate(**c["estimate"]), Region(**c["region"]), Verdict(c["verdict"]), c["reason"]
                )
                for c in fields.pop("criteria")
            )
            verdict, expected = Verdict(fields.pop("verdict")), Verdict(fields.pop("expected"))
            return cls(criteria=criteria, verdict=verdict, expected=expected, **fields)
        except (ValueError, KeyError, TypeError, AttributeError) as error:
            raise InputError(f"not an outcome of this version of mfcheck: {line[:80]!r} ({error})") from error


def append_outcome(path: Path, outcome: Outcome) -> None:
    """Add one outcome to a file of JSON lines, whole or not at all: one write, flushed to the disk."""
    path.parent.mkdir(parents=True, exist_ok=True)
    descriptor = os.open(path, os.O_RDWR | os.O_APPEND | os.O_CREAT, 0o644)
    try:
        line = outcome.to_json() + "\n"
        # a run killed in the middle of a line leaves it unfinished: begin on a line of one's own
        size = os.fstat(descriptor).st_size
        if size and os.pread(descriptor, 1, size - 1) != b"\n":
            line = "\n" + line
        written = os.write(descriptor, line.encode())
        os.fsync(descriptor)
        if written < len(line.encode()):
            raise OSError(f"only {written} bytes of the outcome of {outcome.name} fitted into {path}")
    finally:
        os.close(descriptor)


def equivalence(name: str, difference: Estimate, margin: float, **details: Any) -> CriterionOutcome:
    """A paired difference against its equivalence margin; details: what figures show beside it."""
    region = Region.around(0.0, absolute=margin)
    return CriterionOutcome(name, dataclasses.replace(difference, details=details), region, *judge(difference, region))


def outcome_of_hypothesis(
    id_: str, statement: str, rule: str, verdict: Verdict, criteria: Sequence[CriterionOutcome], **about: Any
) -> Outcome:
    """The outcome of a hypothesis that an experiment judges by a rule of its own; it is expected to be what it is.

    rule: in words. about: the fields of `Outcome` that say how it was made: n, alpha, seed, profile, device, versions,
    identity, data.
    """
    return Outcome(
        claim=id_,
        control=None,
        statement=statement,
        prediction=rule,
        verdict=verdict,
        expected=verdict,
        criteria=tuple(criteria),
        looks=1,
        seconds=0.0,
        started="",
        **about,
    )


def read_outcomes(path: str | Path) -> list[Outcome]:
    """The outcomes in a file of JSON lines, the last one of each (claim, control) that stands there.

    An unfinished line (a run that was killed while it wrote) is passed over: that claim counts as not yet run.
    Raises InputError where the file is missing.
    """
    path = Path(path)
    if not path.exists():
        raise InputError(f"no outcomes at {path}: make them with `pytest paper_checks --mfcheck-out {path.parent}`")
    latest: dict[tuple[str, str | None], Outcome] = {}
    for outcome in _lines(path):
        # a later line replaces an earlier one and takes its place in the order of running
        latest.pop((outcome.claim, outcome.control), None)
        latest[outcome.claim, outcome.control] = outcome
    return list(latest.values())


def _lines(path: Path) -> Iterator[Outcome]:
    # a file cut off within a character is still read
    with path.open(encoding="utf-8", errors="replace") as file:
        for line in file:
            try:
                yield Outcome.from_json(line)
            except InputError:
                continue


def _plain(value: Any) -> Any:
    """Dataclasses, enums and arrays as what JSON knows."""
    if isinstance(value, Mapping):
        return {str(key): _plain(item) for key, item in value.items()}
    if isinstance(value, (list, tuple)):
        return [_plain(item) for item in value]
    if isinstance(value, Verdict):
        return value.value
    if hasattr(value, "tolist"):  # arrays, NumPy numbers, tensors
        return _plain(value.tolist())
    return value
