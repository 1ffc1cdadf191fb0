"""A Claim is data: what is said, the experiment that tests it, the region it allows, and a control to refute."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

from mfcheck.errors import InputError
from mfcheck.replicates import Experiment, Measurements
from mfcheck.statistics.estimate import Estimate
from mfcheck.statistics.verdict import Region, Verdict


@dataclass(frozen=True)
class Criterion:
    """One number that the claim predicts: its name, an estimator (measurements, level) -> Estimate, the region."""

    name: str
    estimator: Callable[[Measurements, float], Estimate]
    region: Region


@dataclass(frozen=True)
class Control:
    """The same experiment with something broken (settings changed), which the named criteria must refute.

    supports, in place of refutes: what is said is made true, and the named criteria must support it. A hypothesis on
    record as REFUTED needs such a control, since a check that refutes everything would refute it too.
    """

    name: str
    changes: Mapping[str, Any]
    refutes: tuple[str, ...] = ()
    supports: tuple[str, ...] = ()

    @property
    def expected(self) -> Verdict:
        """The verdict that the control must come out with."""
        return Verdict.SUPPORTED if self.supports else Verdict.REFUTED


@dataclass(frozen=True)
class Claim:
    """A claim, its prediction and its controls.

    id: as in the catalogue ("D1"); statement, prediction, source, hypotheses: words. experiment(settings,
    replicates) -> measurements, a dict of arrays [n, ...]. criteria: all must be SUPPORTED for the claim to be.
    replicates: how many the first look takes at the quick profile (later looks 4 and 16 times as many); 0 for an
    experiment without randomness. on_record: the verdict expected (REFUTED for a hypothesis known to fail).
    record(measurements) -> what a figure needs beyond the estimates' own details. formula: the prediction in LaTeX.
    Raises InputError where the control is missing, changes a setting that does not exist, or names a criterion that
    does not exist.
    """

    id: str
    statement: str
    prediction: str
    source: str
    hypotheses: str
    experiment: Experiment
    criteria: tuple[Criterion, ...]
    controls: tuple[Control, ...]
    settings: Mapping[str, Any] = field(default_factory=dict)
    replicates: int = 0
    on_record: Verdict = Verdict.SUPPORTED
    record: Callable[[Measurements], Mapping[str, Any]] | None = None
    formula: str = ""

    def __post_init__(self) -> None:
        if not self.controls:
            raise InputError(f"claim {self.id}: a claim without a control that must be refuted is not finished")
        if not self.criteria:
            raise InputError(f"claim {self.id}: no criterion was given, so nothing is measured")
        names = _unique(f"claim {self.id}: criterion", (criterion.name for criterion in self.criteria))
        _unique(f"claim {self.id}: control", (control.name for control in self.controls))
        for key, value in [*self.settings.items(), *(item for c in self.controls for item in c.changes.items())]:
            if not _is_plain(value):
                raise InputError(
                    f"claim {self.id}: settings are numbers, words, booleans or tuples of them, so that an outcome can "
                    f"say what was run; {key} is {type(value).__name__}"
                )
        for control in self.controls:
            self._check(control, names)
        if not isinstance(self.replicates, int) or self.replicates < 0 or self.replicates == 1:
            raise InputError(
                f"claim {self.id}: replicates is 0 (no randomness) or a whole number from 2; got {self.replicates}"
            )

    def _check(self, control: Control, criteria: set[str]) -> None:
        if control.refutes and control.supports:
            raise InputError(f"claim {self.id}, control {control.name!r}: it either refutes or supports, not both")
        named = control.supports or control.refutes
        if isinstance(named, str) or not named or not set(named) <= criteria:
            raise InputError(
                f"claim {self.id}, control {control.name!r}: it must name, in a tuple, the criteria that refute it "
                f"among {sorted(criteria)}; it names {named!r}"
            )
        if not control.changes or not set(control.changes) <= set(self.settings):
            raise InputError(
                f"claim {self.id}, control {control.name!r}: it must change some of the settings "
                f"{sorted(self.settings)}; it changes {sorted(control.changes)}"
            )
        if all(self.settings[key] == value for key, value in control.changes.items()):
            raise InputError(f"claim {self.id}, control {control.name!r}: it changes nothing")


def registry(*families: Iterable[Claim]) -> dict[str, Claim]:
    """All claims by id, in catalogue order. Raises InputError where two share an id."""
    claims = [claim for family in families for claim in family]
    _unique("claim id", (claim.id for claim in claims))
    return {claim.id: claim for claim in sorted(claims, key=lambda claim: catalogue_order(claim.id))}


def catalogue_order(claim_id: str) -> tuple[int, int]:
    """The place of "C12" in the catalogue: families in their order, numbers within."""
    return "DPCKVTGSWH".find(claim_id[0]), int(claim_id[1:])


def _is_plain(value: object) -> bool:
    if isinstance(value, tuple):
        return all(_is_plain(item) for item in value)
    return value is None or isinstance(value, (bool, int, float, str))


def _unique(what: str, names: Iterable[str]) -> set[str]:
    seen: set[str] = set()
    for name in names:
        if name in seen:
            raise InputError(f"{what} {name!r} is there twice")
        seen.add(name)
    return seen
