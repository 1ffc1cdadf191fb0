"""run: the only loop that buys samples, and spends the error rate on them."""

from __future__ import annotations

import datetime
import platform
import time
from dataclasses import dataclass
from functools import lru_cache
from importlib.metadata import version
from pathlib import Path

from mfcheck.claim import Claim, Control, Criterion, Measurements, Replicates, concatenate
from mfcheck.errors import InputError
from mfcheck.outcome import CriterionOutcome, Outcome, digest
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
    one criterion is, SUPPORTED where all are. A control is REFUTED where all criteria that it names are.
    """
    began, clock = datetime.datetime.now(datetime.timezone.utc), time.perf_counter()
    settings = dict(claim.settings) | dict(control.changes if control else {})
    named = stream(plan.seed, claim.id) if control is None else stream(plan.seed, claim.id, control.name)
    first = claim.replicates * PROFILES[plan.profile]
    parts: list[Measurements] = []
    done, look = 0, 0
    while True:
        look += 1
        wanted = max(1, first * 4 ** (look - 1))
        parts.append(claim.experiment(settings, Replicates(named, done, wanted, plan.device)))
        done = wanted
        measured = concatenate(parts)
        parts = [measured]
        level = 1 - plan.share / (len(claim.criteria) * 2**look)
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
        expected=Verdict.REFUTED if control else claim.on_record,
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


def identity(claim: Claim, plan: Plan, control: Control | None = None) -> str:
    """A digest of everything that a verdict depends on, by which a resumed run recognises an outcome as its own."""
    changes = sorted(control.changes.items()) if control else None
    regions = [(criterion.name, criterion.region) for criterion in claim.criteria]
    facts = (claim.id, sorted(claim.settings.items()), claim.replicates, regions, changes)
    return digest(facts, plan, _code(_declared_in(claim)), versions())


def _declared_in(claim: Claim) -> str:
    """The file that declares the claim: where its first criterion's estimator was written."""
    return getattr(getattr(claim.criteria[0].estimator, "__code__", None), "co_filename", "")


@lru_cache
def _code(claims_file: str) -> str:
    """A digest of mfcheck's source and of the file that declares a claim: edited code has not been run yet."""
    files = [*sorted(Path(__file__).parent.rglob("*.py")), Path(claims_file)]
    return digest([file.read_bytes() for file in files if file.is_file()])


def versions() -> dict[str, str]:
    """Versions of Python and of the packages that produce numbers."""
    packages = ("mfcheck", "numpy", "scipy", "torch")
    return {"python": platform.python_version()} | {name: version(name) for name in packages}


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
    named = {criterion.verdict for criterion in criteria if criterion.name in control.refutes}
    if named == {Verdict.REFUTED}:
        return Verdict.REFUTED
    # a single named criterion inside its region is a control missed: more samples cannot refute it
    return Verdict.SUPPORTED if Verdict.SUPPORTED in named else Verdict.INCONCLUSIVE
