"""The gate's rules on made-up seeds whose truth is known."""

from __future__ import annotations

from typing import Any

import pytest

from mfcheck.errors import InputError
from mfcheck.experiments.toy_gate.arms import ARMS, MAIN
from mfcheck.experiments.toy_gate.hypotheses import (
    HYPOTHESES,
    STRONG,
    WEAK,
    all_better,
    all_equivalent,
    any_better,
    gate_passes,
    same_words,
)
from mfcheck.experiments.toy_gate.verdict import judge_gate, plan_seeds
from mfcheck.statistics.paired import Effect
from mfcheck.statistics.seeds import stream
from mfcheck.statistics.verdict import Verdict

B, W, E, U = Effect.BETTER, Effect.WORSE, Effect.EQUIVALENT, Effect.UNDECIDED
S, R, I = Verdict.SUPPORTED, Verdict.REFUTED, Verdict.INCONCLUSIVE  # noqa: E741
METRICS = ("loss", "accuracy", "half_accuracy", "half_cost", "cosine")


def made_up(n: int, effects: dict[str, dict[str, float]], arms: Any = MAIN, sd: float = 0.002) -> list[dict[str, Any]]:
    """n seeds: every metric 0.5 but for the effects, with independent Gaussian noise a seed and arm."""
    generator = stream(0, "made up", n).numpy()
    return [
        {
            arm: {m: 0.5 + effects.get(arm, {}).get(m, 0.0) + sd * float(generator.normal()) for m in METRICS}
            for arm in arms
        }
        for _ in range(n)
    ]


@pytest.mark.parametrize(
    ("rule", "words", "verdict"),
    [
        (any_better, [U, B], S),
        (any_better, [W, B], I),
        (any_better, [E, W], R),
        (any_better, [U, W], R),
        (any_better, [E, E], R),
        (any_better, [E, U], I),
        (all_better, [B, B], S),
        (all_better, [B, W], R),
        (all_better, [B, E], I),
        (all_equivalent, [E, E], S),
        (all_equivalent, [E, B], R),
        (all_equivalent, [E, U], I),
        (same_words, [W, B, W, B], S),
        (same_words, [W, B, W, E], R),
        (same_words, [W, U, W, E], I),
    ],
)
def test_rules(rule: Any, words: list[Effect], verdict: Verdict) -> None:
    assert rule(words) is verdict


def test_the_cards_effects_are_found_and_the_gate_fails() -> None:
    seeds = made_up(
        16,
        {
            STRONG: {"loss": 0.0857, "half_accuracy": -0.035, "cosine": -0.155, "half_cost": -0.42},
            WEAK: {"half_cost": -0.48, "half_accuracy": -0.0156},
            "beta 0": {"half_cost": -0.48},
            "noise after, 0.005": {"cosine": -0.155},
            "norms of 0.005": {"cosine": -0.155},
        },
    )
    verdict = judge_gate(seeds)
    assert {one.hypothesis.id: one.verdict for one in verdict.judged} == {"S1": R, "S2": R, "S3": S, "S4": R}
    words = {result.name: result.effect for one in verdict.judged for result in one.results}
    assert words["loss: beta 0.005 - beta 0"] is W and words["loss: beta 0.001 - beta 0"] is E
    assert words["cosine: beta 0.005 - noise after, 0.005"] is E
    assert not verdict.passed


def test_a_diffusion_that_helps_passes() -> None:
    assert judge_gate(made_up(16, {WEAK: {"loss": -0.05}})).passed
    assert not judge_gate(made_up(16, {WEAK: {"loss": -0.05, "half_accuracy": -0.05}})).passed
    everything = {(metric, arm): U for metric in ("loss", "half_accuracy") for arm in (WEAK, STRONG)}
    assert not gate_passes(everything) and gate_passes(everything | {("half_accuracy", STRONG): B})


def test_hypotheses_are_judged_where_their_arms_were_run() -> None:
    every = judge_gate(made_up(8, {}, ARMS))
    assert [one.hypothesis.id for one in every.judged] == [one.id for one in HYPOTHESES]
    main = judge_gate(made_up(8, {}))
    assert [one.hypothesis.id for one in main.judged] == ["S1", "S2", "S3", "S4"]


def test_a_gate_without_any_effect_seldom_passes() -> None:
    """Each family keeps its errors at 5 %, so that passing by chance is rarer than that."""
    passed = 0
    for k in range(20):
        generator = stream(1, "null", k).numpy()
        seeds = [{arm: {m: 0.5 + 0.1 * float(generator.normal()) for m in METRICS} for arm in MAIN} for _ in range(8)]
        passed += judge_gate(seeds).passed
    # of 20 at a true rate of 5 %, 6 and more come with probability 3e-4
    assert passed < 6


def test_the_plan_asks_for_more_seeds_where_pairs_spread_more() -> None:
    few, many = (max(one.pairs for one in plan_seeds(made_up(16, {}, sd=sd))) for sd in (0.002, 0.02))
    assert few < many
    shifted = made_up(16, {STRONG: {"loss": 0.3}})
    assert [one.pairs for one in plan_seeds(shifted)] == [one.pairs for one in plan_seeds(made_up(16, {}))]


def test_bad_input_is_a_sentence() -> None:
    with pytest.raises(InputError, match="at least two paired seeds"):
        judge_gate(made_up(1, {}))
    with pytest.raises(InputError, match="are missing"):
        judge_gate(made_up(4, {}, MAIN[:2]))
    with pytest.raises(InputError, match="pilot seeds"):
        plan_seeds(made_up(1, {}))
