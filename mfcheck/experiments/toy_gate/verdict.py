"""From the numbers of paired seeds to the verdicts on hypotheses and gate: by stated rules, in code alone."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from mfcheck.errors import InputError
from mfcheck.experiments.toy_gate.arms import MAIN
from mfcheck.experiments.toy_gate.hypotheses import (
    CARD,
    GATE,
    HYPOTHESES,
    MARGINS,
    Row,
    arms_needed,
    gate_passes,
)
from mfcheck.experiments.toy_gate.metrics import METRICS
from mfcheck.statistics.hypothesis import Judged
from mfcheck.statistics.paired import Comparison, Effect, Result, compare, pairs_needed
from mfcheck.statistics.seeds import stream

#: {arm: {metric: number}} of one seed
Arms = Mapping[str, Mapping[str, Any]]
ALPHA, POWER = 0.05, 0.9
#: The effects that the pilot plans for, as a share of what the card's single run saw.
SHARE_OF_CARD = 0.5


@dataclass(frozen=True)
class GateVerdict:
    """All hypotheses whose arms were run, and whether the gate passed."""

    n: int
    judged: tuple[Judged[Row], ...]
    passed: bool


def differences(row: Row, seeds: Sequence[Arms]) -> NDArray[np.float64]:
    """The paired differences [n] of a row, one a seed."""
    treated = np.array([arms[row.treated][row.metric] for arms in seeds])
    if isinstance(row.baseline, str):
        return treated - np.array([arms[row.baseline][row.metric] for arms in seeds])
    return treated - row.baseline


def judge_gate(seeds: Sequence[Arms], alpha: float = ALPHA) -> GateVerdict:
    """The verdicts of the gate on n >= 2 paired seeds.

    Two families of comparisons are adjusted by Holm, each at alpha: the gate's own (judged rows of S1 to S3), and the
    side questions' (judged rows of S4 to S7 that are not among those). Rows that stand beside are judged one by one.
    Raises InputError on fewer than two seeds, or where an arm of the gate is missing.
    """
    if len(seeds) < 2:
        raise InputError(f"a verdict takes at least two paired seeds; it came with {len(seeds)}")
    there = set(seeds[0]).intersection(*seeds)
    missing = [name for name in MAIN if name not in there]
    if missing:
        raise InputError(f"the gate's verdict needs the arms {', '.join(MAIN)}; {', '.join(missing)} are missing")
    asked = [one for one in HYPOTHESES if there.issuperset(arms_needed([one]))]
    gate = {row.name: row for one in asked if one.id in GATE for row in one.rows if row.judged}
    side = {row.name: row for one in asked if one.id not in GATE for row in one.rows if row.judged}
    side = {name: row for name, row in side.items() if name not in gate}
    beside = {row.name: row for one in asked for row in one.rows if not row.judged}
    families = [family for family in (gate, side) if family]
    families += [{name: row} for name, row in beside.items() if name not in gate | side]
    found: dict[str, Result] = {}
    for family in families:
        comparisons = [
            Comparison(name, differences(row, seeds), MARGINS[row.metric], METRICS[row.metric].better)
            for name, row in family.items()
        ]
        found |= {result.name: result for result in compare(comparisons, stream(0, "toy gate", "sign flips"), alpha)}
    judged = tuple(one.judge(found) for one in asked)
    words_by_arm = {(row.metric, row.treated): found[row.name].effect for row in gate.values()}
    return GateVerdict(len(seeds), judged, gate_passes(words_by_arm))


@dataclass(frozen=True)
class Planned:
    """How many pairs one row of the gate takes: the effect planned for, the pilot's spread, the pairs."""

    row: Row
    effect: float
    sd: float
    pairs: int


def plan_seeds(pilot: Sequence[Arms], alpha: float = ALPHA, power: float = POWER) -> list[Planned]:
    """Pairs that each row of the gate takes to show half the card's difference, from the spread of a pilot's seeds.

    Only the spread of the differences is looked at, not their means: no verdict is seen before n is fixed. The level is
    Holm's strictest over the gate's rows. The card has no cosine at 0.001; a share of the one at 0.005 as beta's is
    planned for. Raises InputError on fewer than two pilot seeds.
    """
    if len(pilot) < 2:
        raise InputError(f"a spread takes at least two pilot seeds; it came with {len(pilot)}")
    rows = [row for one in HYPOTHESES if one.id in GATE for row in one.rows if row.judged]
    planned = []
    for row in rows:
        card = row.card
        if card is None:
            strong = CARD["beta 0.005"][row.metric] - CARD["beta 0"][row.metric]
            card = strong * 0.001 / 0.005
        effect, sd = SHARE_OF_CARD * abs(card), float(differences(row, pilot).std(ddof=1))
        planned.append(Planned(row, effect, sd, pairs_needed(effect, sd, len(rows), alpha, power)))
    return planned


def means(seeds: Sequence[Arms]) -> dict[str, dict[str, tuple[float, float]]]:
    """{arm: {metric: (mean, standard error)}} of all metrics that are single numbers."""
    found: dict[str, dict[str, tuple[float, float]]] = {}
    for arm in seeds[0]:
        found[arm] = {}
        for metric, value in seeds[0][arm].items():
            if isinstance(value, list):
                continue
            values = np.array([arms[arm][metric] for arms in seeds])
            error = float(values.std(ddof=1)) / math.sqrt(len(values)) if len(values) > 1 else math.nan
            found[arm][metric] = (float(values.mean()), error)
    return found


def words(verdict: GateVerdict) -> dict[str, Effect]:
    """The word of every row, by its name."""
    return {result.name: result.effect for one in verdict.judged for result in one.results}
