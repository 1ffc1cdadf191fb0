"""From outcomes to words: which differences are taken, what the rules make of them, and what a pilot asks for."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

import numpy as np
import pytest

from mfcheck.errors import InputError
from mfcheck.experiments.wikitext.hypotheses import (
    COMPARABLE,
    MARGINS,
    NOISED_AFTER,
    NORM_MATCHED,
    Row,
    all_equivalent,
    any_is,
    hypotheses,
    zero_of,
)
from mfcheck.experiments.wikitext.preset import read_preset
from mfcheck.experiments.wikitext.verdict import differences, judge_wikitext, plan_seeds, whole_seeds
from mfcheck.report.wikitext import markdown, plain_words
from mfcheck.statistics.paired import Effect
from mfcheck.statistics.verdict import Verdict

SMALL = read_preset("small")
BETTER, WORSE, EQUIVALENT, UNDECIDED = Effect.BETTER, Effect.WORSE, Effect.EQUIVALENT, Effect.UNDECIDED


def outcome(arm: str, seed: int, log_perplexity: float, half_rise: float, similarity: float) -> dict[str, Any]:
    """An outcome of the small preset with made-up numbers."""
    settings = SMALL.arm(arm)
    made: dict[str, Any] = {
        "arm": {"name": arm},
        "seed": seed,
        "said": "made up",
        "test": {"log_perplexity": log_perplexity, "perplexity": math.exp(log_perplexity)},
        "valid": {"log_perplexity": log_perplexity, "perplexity": math.exp(log_perplexity)},
        "final_training_loss": 4.0,
        "roughness": 0.1,
        "kept": [
            {"kept": settings.heads, "rise": 0.0, "sd": 0.0},
            {"kept": settings.heads // 2, "rise": half_rise, "sd": 0.0},
        ],
        "similarity": similarity,
        "effective_rank": 3.0,
        "query_key_norm": 0.2,
        "gradient": dict.fromkeys(("across_batches", "squared_mean", "across_particles", "squared_mean_particle"), 1.0),
        "exposure": 0.0,
        "tokens_per_second": 1e4,
        "peak_memory_bytes": 10**8,
    }
    if settings.attention == "particles" and not settings.beta:
        made["norm_matched"] = {"norm": [0.1, 0.4], "similarity": [0.9, 0.5]}
        made["noised_after"] = {other.name: 0.65 for other in SMALL.arms if other.beta}
    return made


def seeds(n: int, shift: Mapping[str, tuple[float, float, float]] | None = None, noise: float = 1e-3) -> list[Any]:
    """n seeds in which every arm is alike up to noise, except where it is shifted."""
    rng = np.random.default_rng(0)
    found = []
    for seed in range(n):
        level = rng.normal()
        for arm in SMALL.arms:
            moved = (shift or {}).get(arm.name, (0.0, 0.0, 0.0))
            numbers = np.array([6 + 0.1 * level, 0.02, 0.7]) + moved + noise * rng.standard_normal(3)
            found.append(outcome(arm.name, seed, *numbers))
    return whole_seeds(found, SMALL)


def verdicts(found: list[Any]) -> dict[str, Verdict]:
    return {one.hypothesis.id: one.verdict for one in judge_wikitext(found, SMALL).judged}


def test_rules_turn_words_into_a_verdict() -> None:
    better = any_is(BETTER)
    assert better([EQUIVALENT, BETTER, WORSE]) is Verdict.SUPPORTED
    assert better([EQUIVALENT, WORSE]) is Verdict.REFUTED
    assert better([EQUIVALENT, UNDECIDED]) is Verdict.INCONCLUSIVE
    assert all_equivalent([EQUIVALENT, EQUIVALENT]) is Verdict.SUPPORTED
    assert all_equivalent([EQUIVALENT, WORSE]) is Verdict.REFUTED
    assert all_equivalent([EQUIVALENT, UNDECIDED]) is Verdict.INCONCLUSIVE


def test_arms_that_are_alike_refute_what_says_that_they_differ() -> None:
    found = verdicts(seeds(12))
    # the rise of 2 % with half kept lies below 5 %; raw and mean field are alike
    supported = {"W4", "W7"}
    assert found == {id_: Verdict.SUPPORTED if id_ in supported else Verdict.REFUTED for id_ in found}
    assert list(found) == ["W1", "W2", "W3", "W4", "W5", "W6", "W7"]


def test_what_is_put_in_comes_out() -> None:
    shift = {"particles-8-beta-1e-3": (0.05, -0.03, -0.2), "particles-8-beta-1e-4": (-0.04, 0.0, 0.0)}
    verdict = judge_wikitext(seeds(12, shift), SMALL)
    found = {one.hypothesis.id: one.verdict for one in verdict.judged}
    assert all(found[id_] is Verdict.SUPPORTED for id_ in ("W1", "W2", "W3", "W5", "W6"))
    assert found["W7"] is Verdict.REFUTED and verdict.succeeded_by == ("W1", "W2", "W3", "W4") and verdict.falsified
    results = {result.name: result for one in verdict.judged for result in one.results}
    name = "log_perplexity: particles-8-beta-1e-3 - particles-8"
    assert results[name].effect is WORSE and results[name].estimate.point == pytest.approx(0.05, abs=2e-3)


def test_two_noisy_seeds_decide_nothing() -> None:
    assert set(verdicts(seeds(2, noise=0.5)).values()) == {Verdict.INCONCLUSIVE}


def test_pairs_take_away_what_a_seeds_arms_share() -> None:
    # between seeds the level varies by 0.1, a hundred times the noise within one
    row = Row("log_perplexity", "particles-8-beta-1e-3", "particles-8")
    assert differences(row, seeds(12), SMALL).std() < 0.003


def test_the_controls_of_redundancy_are_read_at_the_treated_norm_and_noise() -> None:
    found = seeds(3, noise=0.0)
    treated = "particles-8-beta-1e-3"
    # norm 0.2 is half way between 0.1 and 0.4 in the logarithm: similarity 0.7
    assert differences(Row("similarity", treated, NORM_MATCHED), found, SMALL) == pytest.approx(0.0)
    assert differences(Row("similarity", treated, NOISED_AFTER), found, SMALL) == pytest.approx(0.05)
    assert differences(Row("half_rise", treated, COMPARABLE), found, SMALL) == pytest.approx(0.02 - math.log(1.05))


def test_a_seed_that_lacks_an_arm_is_left_out_and_one_seed_is_too_few() -> None:
    found = [arms[name] for arms in seeds(3) for name in arms]
    assert len(whole_seeds(found[:-1], SMALL)) == 2
    with pytest.raises(InputError, match="at least two seeds with every arm of preset small; there are 1"):
        judge_wikitext(whole_seeds(found[:-1], SMALL)[:1], SMALL)


def test_every_arm_with_noise_has_its_own_beta_0() -> None:
    paper = read_preset("paper")
    for arm in paper.arms:
        if arm.beta:
            zero = paper.arm(zero_of(arm, paper))
            assert (zero.beta, zero.heads, zero.head_width) == (0.0, arm.heads, arm.head_width)
    ids = [one.id for one in hypotheses(paper)]
    assert ids == ["W1", "W2", "W3", "W4", "W5", "W6", "W7"]
    # the control beyond the catalogue's grid counts for the falsifier alone
    excess = "particles-8-beta-1e-2"
    holding = {one.id for one in hypotheses(paper) if any(row.treated == excess for row in one.rows)}
    assert holding == {"W5"}


def test_a_pilot_says_how_many_pairs_its_spread_asks_for() -> None:
    planned = {one.row.name: one for one in plan_seeds(seeds(6, noise=0.004), SMALL)}
    assert len(planned) == len({row.name for one in hypotheses(SMALL) for row in one.rows if row.judged})
    loud = plan_seeds(seeds(6, noise=0.02), SMALL)
    assert all(one.to_see > planned[one.row.name].to_see for one in loud)
    # means are not looked at: a shifted arm asks for as many
    moved = plan_seeds(seeds(6, {"particles-8": (1.0, 0.0, 0.0)}, noise=0.004), SMALL)
    assert [one.to_see for one in moved] == [one.to_see for one in planned.values()]
    with pytest.raises(InputError, match="at least two pilot seeds"):
        plan_seeds(seeds(1), SMALL)


def test_tables_and_words_say_what_was_found() -> None:
    found = seeds(12, {"particles-8-beta-1e-2": (0.2, 0.0, 0.0)})
    verdict = judge_wikitext(found, SMALL)
    text = markdown(verdict, found, SMALL)
    assert f"| W5 | excess diffusion raises the loss | {Verdict.SUPPORTED.value} |" in text
    assert "| multihead-8 |" in text and "*log_perplexity: particles-8 - multihead-8*" in text
    words = plain_words(verdict, SMALL, "made up")
    assert "a success, by W4" in words and "raises the loss, is seen" in words
    assert MARGINS["similarity"] == 0.02


def test_what_all_particles_share_is_no_merit_of_the_noise_nor_of_particles() -> None:
    below = {arm.name: (-0.09, 0.0, 0.0) for arm in SMALL.arms if arm.attention == "particles"}
    ordinary = {"multihead-8-mean": (-0.09, 0.0, 0.0)}
    told = [plain_words(judge_wikitext(seeds(12, shift), SMALL), SMALL, "text") for shift in (below, below | ordinary)]
    assert all("success, by W1" in text and "W1 is no merit of the noise" in text for text in told)
    assert ["Nor is it one of the particles" in text for text in told] == [False, True]
    noisy = {"particles-8-beta-1e-4": (-0.04, 0.0, 0.0)}
    assert "no merit" not in plain_words(judge_wikitext(seeds(12, noisy), SMALL), SMALL, "text")
