"""run: the only loop that buys samples, and spends the error rate on them."""

from __future__ import annotations

import datetime
import functools
import inspect
import platform
import time
from collections.abc import Mapping
from dataclasses import dataclass
from importlib.metadata import version
from pathlib import Path
from typing import Any

import numpy as np

from mfcheck.claim import Claim, Control, Criterion
from mfcheck.errors import InputError
from mfcheck.outcome import CriterionOutcome, Outcome, digest
from mfcheck.replicates import Measurements, Replicates, concatenate
from mfcheck.statistics.seeds import stream
from mfcheck.statistics.verdict import Verdict, judge

#: Replicates of the first look, as a multiple of what the claim asks for.
PROFILES = {"quick": 1, "standard": 4, "full": 16}
#: Looks at the data: n, 4n and 16n replicates in all, at alpha/2, alpha/4 and alpha/8.
LOOKS = 3


@dataclass(frozen=True)
class Plan:
    """How a suite is run: root seed, profile, device, and the error rate that its registered claims share.

    alpha: the probability that ANY of the registered claims, true as stated, is called REFUTED (and, a claim
    being false, that it is called SUPPORTED is at most its share). Selecting some claims changes no share.
    """

    seed: int = 0
    profile: str = "quick"
    device: str = "cpu"
    alpha: float = 0.01
    registered: int = 1

    def __post_init__(self) -> None:
        if self.profile not in PROFILES:
            raise InputError(f"a profile is one of {', '.join(PROFILES)}; it came as {self.profile!r}")
        if not 0 < self.alpha < 1:
            raise InputError(f"an error rate lies between 0 and 1; alpha came as {self.alpha}")
        if self.registered < 1:
            raise InputError(f"at least one claim is registered; the plan says {self.registered}")

    @property
    def share(self) -> float:
        """The error rate of one claim: alpha over the registered claims (Bonferroni)."""
        return self.alpha / self.registered


def run(claim: Claim, plan: Plan, control: Control | None = None) -> Outcome:
    """The outcome of a claim, or of one of its controls, under a plan.

    Replicates are bought in looks of n, 4n and 16n until every criterion that matters is decided: for a claim
    until one is REFUTED or all are SUPPORTED, for a control until the criteria it names are. Look k is judged at
    level 1 - share / (criteria * 2^k): the looks spend at most 7/8 of the claim's share. A claim is REFUTED where
    one criterion is, SUPPORTED where all are. A control is REFUTED (or SUPPORTED, where it is to be) where all criteria
    that it names are.
    """
    began, clock = datetime.datetime.now(datetime.timezone.utc), time.perf_counter()
    settings = dict(claim.settings) | dict(control.changes if control else {})
    named = stream(plan.seed, claim.id) if control is None else stream(plan.seed, claim.id, control.name)
    first = claim.replicates * PROFILES[plan.profile]
    parts: list[Measurements] = []
    done, look = 0, 0
    while True:
        look += 1
        # an experiment without randomness runs once
        wanted = max(1, first * 4 ** (look - 1))
        bought = Replicates(named, done, wanted, plan.device)
        parts.append(_measure(claim, settings, bought))
        done = wanted
        measured = concatenate(parts)
        parts = [measured]
        level = look_level(plan.share, len(claim.criteria), look)
        criteria = tuple(_judged(criterion, measured, level) for criterion in claim.criteria)
        verdict = _verdict(criteria) if control is None else _control_verdict(criteria, control)
        if verdict is not Verdict.INCONCLUSIVE or look == LOOKS or claim.replicates == 0:
            break
    return Outcome(
        claim=claim.id,
        control=control.name if control else None,
        statement=claim.statement,
        prediction=claim.prediction,
        verdict=verdict,
        expected=control.expected if control else claim.on_record,
        criteria=criteria,
        n=done,
        looks=look,
        alpha=plan.share,
        seed=plan.seed,
        profile=plan.profile,
        device=plan.device,
        versions=versions(),
        seconds=time.perf_counter() - clock,
        started=began.isoformat(timespec="seconds"),
        identity=identity(claim, plan, control),
        data=claim.record(measured) if claim.record is not None else {},
    )


def look_level(share: float, criteria: int, look: int) -> float:
    """The level of each interval at look 1, 2 or 3: half of what is left of the claim's share, over its criteria."""
    return 1 - share / (criteria * 2**look)


def identity(claim: Claim, plan: Plan, control: Control | None = None) -> str:
    """A digest of everything that a verdict depends on, by which a resumed run recognises an outcome as its own."""
    changes = sorted(control.changes.items()) if control else None
    regions = [(criterion.name, criterion.region) for criterion in claim.criteria]
    facts = (claim.id, sorted(claim.settings.items()), claim.replicates, regions, changes)
    return digest(facts, plan, _code(_declared_in(claim)), versions())


def _declared_in(claim: Claim) -> tuple[str, ...]:
    """The files that declare the claim: where its experiment, its estimators and its record were written."""
    functions: list[Any] = [claim.experiment, claim.record, *(criterion.estimator for criterion in claim.criteria)]
    files = set()
    for function in functions:
        while isinstance(function, functools.partial):
            function = function.func
        code = getattr(inspect.unwrap(function), "__code__", None) if callable(function) else None
        if code is not None:
            files.add(code.co_filename)
    return tuple(sorted(files))


@functools.lru_cache
def _code(declared_in: tuple[str, ...]) -> str:
    """A digest of mfcheck's source and of the files that declare a claim: edited code has not been run yet."""
    files = [*sorted(Path(__file__).parent.rglob("*.py")), *(Path(name) for name in declared_in)]
    return digest([file.read_bytes() for file in files if file.is_file()])


def versions() -> dict[str, str]:
    """Versions of Python and of the packages that produce numbers."""
    return dict(_versions())


@functools.lru_cache
def _versions() -> tuple[tuple[str, str], ...]:
    # reading a package's metadata takes longer than a small claim
    packages = ("mfcheck", "numpy", "scipy", "torch")
    return ("python", platform.python_version()), *((name, version(name)) for name in packages)


def _measure(claim: Claim, settings: Mapping[str, Any], bought: Replicates) -> Measurements:
    measured = claim.experiment(settings, bought)
    if not isinstance(measured, Mapping) or not measured:
        raise InputError(f"claim {claim.id}: an experiment returns a dict of arrays; it returned {measured!r:.80}")
    for name, values in measured.items():
        shape = np.shape(values)
        # rows that are not replicates would be counted as such, and every interval with them
        if claim.replicates and shape[:1] != (len(bought),):
            raise InputError(
                f"claim {claim.id}: every measurement has one row a replicate, [{len(bought)}, ...]; "
                f"{name!r} came as {list(shape)}"
            )
    return measured


def _judged(criterion: Criterion, measured: Measurements, level: float) -> CriterionOutcome:
    estimate = criterion.estimator(measured, level)
    verdict, reason = judge(estimate, criterion.region)
    return CriterionOutcome(criterion.name, estimate, criterion.region, verdict, reason)


def _verdict(criteria: tuple[CriterionOutcome, ...]) -> Verdict:
    verdicts = {criterion.verdict for criterion in criteria}
    if Verdict.REFUTED in verdicts:
        return Verdict.REFUTED
    return Verdict.INCONCLUSIVE if Verdict.INCONCLUSIVE in verdicts else Verdict.SUPPORTED


def _control_verdict(criteria: tuple[CriterionOutcome, ...], control: Control) -> Verdict:
    asked, other = Verdict.REFUTED, Verdict.SUPPORTED
    if control.supports:
        asked, other = other, asked
    named = {criterion.verdict for criterion in criteria if criterion.name in (*control.refutes, *control.supports)}
    if named == {asked}:
        return asked
    # a single named criterion decided the other way is a control missed: more samples cannot change it
    return other if other in named else Verdict.INCONCLUSIVE
