"""From the outcomes of paired seeds to a word a difference, a verdict a hypothesis, and the card's success rule."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from mfcheck.errors import InputError
from mfcheck.experiments.wikitext.hypotheses import (
    FALSIFIER,
    MARGINS,
    NOISED_AFTER,
    NORM_MATCHED,
    SUCCESS,
    Row,
    hypotheses,
    zero_of,
)
from mfcheck.experiments.wikitext.preset import Preset
from mfcheck.statistics.hypothesis import Judged
from mfcheck.statistics.paired import Comparison, Result, compare, pairs_needed
from mfcheck.statistics.power import replicates_for
from mfcheck.statistics.seeds import stream
from mfcheck.statistics.verdict import Verdict

ALPHA, POWER = 0.05, 0.9
#: One seed's outcomes by arm.
Seed = Mapping[str, Mapping[str, Any]]


@dataclass(frozen=True)
class WikitextVerdict:
    """All hypotheses on n paired seeds; succeeded_by: those of the card's that are supported; falsified: W5 is."""

    n: int
    judged: tuple[Judged[Row], ...]

    @property
    def succeeded_by(self) -> tuple[str, ...]:
        return tuple(
            one.hypothesis.id
            for one in self.judged
            if one.hypothesis.id in SUCCESS and one.verdict is Verdict.SUPPORTED
        )

    @property
    def falsified(self) -> bool:
        return any(one.hypothesis.id == FALSIFIER and one.verdict is Verdict.SUPPORTED for one in self.judged)


def whole_seeds(outcomes: Iterable[Mapping[str, Any]], preset: Preset) -> list[Seed]:
    """The outcomes by seed and arm, of the seeds for which every arm is there, in order of the seed."""
    by_seed: dict[int, dict[str, Mapping[str, Any]]] = {}
    for outcome in outcomes:
        by_seed.setdefault(outcome["seed"], {})[outcome["arm"]["name"]] = outcome
    names = {arm.name for arm in preset.arms}
    return [arms for _, arms in sorted(by_seed.items()) if names <= set(arms)]


def metric(outcome: Mapping[str, Any], name: str) -> float:
    """A number of one outcome by its name in `MARGINS`: of the test split, per word."""
    if name == "log_perplexity":
        return float(outcome["test"]["log_perplexity"])
    if name == "half_rise":
        half = outcome["kept"][0]["kept"] // 2
        return float(next(row["rise"] for row in outcome["kept"] if row["kept"] == half))
    return float(outcome[name])


def differences(row: Row, seeds: Sequence[Seed], preset: Preset) -> NDArray[np.float64]:
    """The paired differences [n] of a row, one a seed."""
    treated = np.array([metric(arms[row.treated], row.metric) for arms in seeds])
    if not isinstance(row.baseline, str):
        return treated - row.baseline
    if row.baseline in (NORM_MATCHED, NOISED_AFTER):
        zero = zero_of(preset.arm(row.treated), preset)
        return treated - np.array([_control(row, arms[row.treated], arms[zero]) for arms in seeds])
    return treated - np.array([metric(arms[row.baseline], row.metric) for arms in seeds])


def _control(row: Row, treated: Mapping[str, Any], zero: Mapping[str, Any]) -> float:
    """The similarity of the beta = 0 net with Q and K at the treated norm, or with the treated noise added after."""
    if row.baseline == NOISED_AFTER:
        return float(zero["noised_after"][row.treated])
    curve = zero["norm_matched"]
    wanted = math.log(treated["query_key_norm"])
    return float(np.interp(wanted, np.log(curve["norm"]), curve["similarity"]))


def judge_wikitext(seeds: Sequence[Seed], preset: Preset, alpha: float = ALPHA) -> WikitextVerdict:
    """The verdicts on n >= 2 paired seeds.

    The judged rows of all hypotheses are one family, adjusted by Holm at alpha; rows that stand beside are judged one
    by one. Raises InputError on fewer than two whole seeds, or as `hypotheses`.
    """
    if len(seeds) < 2:
        raise InputError(
            f"a verdict takes at least two seeds with every arm of preset {preset.name}; there are {len(seeds)}"
        )
    asked = hypotheses(preset)
    judged = {row.name: row for one in asked for row in one.rows if row.judged}
    beside = {row.name: row for one in asked for row in one.rows if row.name not in judged}
    found: dict[str, Result] = {}
    for family in ([*judged.values()], *([row] for row in beside.values())):
        comparisons = [Comparison(r.name, differences(r, seeds, preset), MARGINS[r.metric], better=-1) for r in family]
        found |= {result.name: result for result in compare(comparisons, stream(0, "wikitext", "sign flips"), alpha)}
    return WikitextVerdict(len(seeds), tuple(one.judge(found) for one in asked))


@dataclass(frozen=True)
class Planned:
    """How many pairs a judged row takes, by its spread in a pilot: to see the margin, and to call it equivalent."""

    row: Row
    sd: float
    to_see: int
    to_call_equivalent: int


def plan_seeds(pilot: Sequence[Seed], preset: Preset, alpha: float = ALPHA, power: float = POWER) -> list[Planned]:
    """Pairs that each judged row takes, from the spread of a pilot's seeds at Holm's strictest level.

    Only the spread of the differences is looked at, not their means: no verdict is seen before n is fixed. to_see: a
    true difference of the margin is told from 0; to_call_equivalent: a true difference of 0 is called equivalent.
    Rows whose arms the pilot lacks are left out. Raises InputError on fewer than two pilot seeds.
    """
    if len(pilot) < 2:
        raise InputError(f"a spread takes at least two pilot seeds; it came with {len(pilot)}")
    rows = {row.name: row for one in hypotheses(preset) for row in one.rows if row.judged}
    planned = []
    for row in rows.values():
        arms = {row.treated} | ({row.baseline} if isinstance(row.baseline, str) else set())
        if not all(arms <= set(seed) for seed in pilot):
            continue
        sd, margin = float(differences(row, pilot, preset).std(ddof=1)), MARGINS[row.metric]
        if sd > 0:
            equivalent = replicates_for(margin, sd, 1 - 2 * alpha / len(rows), power)
            planned.append(Planned(row, sd, pairs_needed(margin, sd, len(rows), alpha, power), equivalent))
    return planned
