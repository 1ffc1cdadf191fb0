"""Paired comparisons: against scipy and by enumeration, and what their words cost in false alarms."""

from __future__ import annotations

import itertools

import numpy as np
import pytest
from scipy import stats

from mfcheck.errors import InputError
from mfcheck.statistics.paired import (
    Comparison,
    Effect,
    compare,
    equivalence,
    holm,
    pairs_needed,
    sign_flip,
    smallest_effect,
    wilcoxon,
)
from mfcheck.statistics.seeds import stream

SOURCE = stream(0, "paired")


def test_sign_flips_of_few_pairs_are_all_of_them() -> None:
    d = np.array([0.3, -0.1, 0.5, 0.2, 0.4, -0.05])
    signs = np.array(list(itertools.product((-1, 1), repeat=len(d))))
    means = (signs * d).mean(1)
    # half a rounding of room: the observed mean is among the flips
    expected = (np.abs(means) >= abs(d.mean()) - 1e-12).mean()
    assert sign_flip(d, SOURCE) == pytest.approx(expected, abs=1e-12)


def test_sign_flips_of_many_pairs_are_drawn_from_the_source_and_agree_with_t() -> None:
    d = SOURCE.numpy().normal(0.3, 1.0, 60)
    p = sign_flip(d, SOURCE.child("flips"))
    assert p == sign_flip(d, SOURCE.child("flips"))
    assert p == pytest.approx(stats.ttest_1samp(d, 0).pvalue, abs=0.01)


def test_wilcoxon_and_equivalence_are_scipys() -> None:
    d = SOURCE.child("w").numpy().normal(0.1, 1.0, 30)
    assert wilcoxon(d) == stats.wilcoxon(d).pvalue
    # equivalent at alpha exactly where the interval at level 1 - 2 alpha lies inside the margins
    p = equivalence(d, 0.6)
    low, high = stats.t.interval(1 - 2 * p, 29, d.mean(), stats.sem(d))
    assert min(0.6 - high, 0.6 + low) == pytest.approx(0.0, abs=1e-9)


def test_no_difference_at_all_is_equivalent() -> None:
    zero = np.zeros(5)
    assert (sign_flip(zero, SOURCE), wilcoxon(zero), equivalence(zero, 0.1)) == (1.0, 1.0, 0.0)
    (result,) = compare([Comparison("same", zero, 0.1)], SOURCE)
    assert result.effect is Effect.EQUIVALENT and result.needed() is None
    assert equivalence(np.full(5, 0.2), 0.1) == 1.0


def test_holm_is_the_textbook_example_and_keeps_the_order_given() -> None:
    # Holm 1979: smallest times m, next times m - 1, ..., never less than one before
    assert holm([0.01, 0.04, 0.03, 0.005]) == pytest.approx([0.03, 0.06, 0.06, 0.02])
    assert holm([0.9, 0.8]) == [1.0, 1.0]


def test_words() -> None:
    noise = SOURCE.child("words").numpy().normal(0.0, 0.1, (4, 40))
    noise -= noise.mean(1, keepdims=True)
    family = [
        Comparison("lower loss", noise[0] - 0.5, 0.05, better=-1),
        Comparison("lower accuracy", noise[1] - 0.5, 0.05, better=1),
        Comparison("real and too small to matter", noise[2] / 100 + 0.01, 0.05),
        Comparison("neither", noise[3] * 3 + 0.03, 0.05),
    ]
    results = compare(family, SOURCE)
    assert [r.effect for r in results] == [Effect.BETTER, Effect.WORSE, Effect.EQUIVALENT, Effect.UNDECIDED]
    assert results[2].p_difference < 0.05
    assert all(r.p_difference >= r.sign_flip for r in results)


def test_the_smallest_effect_is_the_one_that_as_many_pairs_are_needed_for() -> None:
    visible = smallest_effect(50, 2.0, 0.99, 0.9)
    assert pairs_needed(visible * 1.0001, 2.0, 5, alpha=0.05, power=0.9) == 50
    # and by simulation
    d = SOURCE.child("power").numpy().normal(visible, 2.0, (4000, 50))
    seen = (np.abs(stats.ttest_1samp(d, 0, axis=1).statistic) > stats.t.isf(0.005, 49)).mean()
    assert seen == pytest.approx(0.9, abs=4.5 * np.sqrt(0.09 / 4000))


@pytest.mark.parametrize("law", ["normal", "laplace"])
def test_false_alarms_of_a_family_stay_below_alpha(law: str) -> None:
    """Families without any difference, and families at their margin: any wrong word in at most alpha of them."""
    runs, rows, n, alpha = 100, 3, 8, 0.05
    generator = SOURCE.child("calibration", law).numpy()
    noise = getattr(generator, law)(size=(2, runs, rows, n))
    called_different = called_equivalent = 0
    for run in range(runs):
        source = SOURCE.child("run", run)
        null = compare([Comparison(str(k), noise[0, run, k], 1e-3) for k in range(rows)], source, alpha)
        called_different += any(r.effect in (Effect.BETTER, Effect.WORSE) for r in null)
        at_margin = compare([Comparison(str(k), noise[1, run, k] + 1.0, 1.0) for k in range(rows)], source, alpha)
        called_equivalent += any(r.effect is Effect.EQUIVALENT for r in at_margin)
    # exact 1e-4 limits of a true rate alpha
    limit = stats.binom.isf(1e-4, runs, alpha)
    assert called_different <= limit and called_equivalent <= limit
    # not vacuous: three independent comparisons at alpha / 3 and less spend most of alpha
    assert called_different >= stats.binom.ppf(1e-4, runs, alpha / 2)


def test_bad_input_is_a_sentence() -> None:
    with pytest.raises(InputError, match="at least two finite differences"):
        Comparison("one", [1.0], 0.1)
    with pytest.raises(InputError, match="at least two finite differences"):
        Comparison("nan", [1.0, float("nan")], 0.1)
    with pytest.raises(InputError, match="margin is positive"):
        Comparison("margin", [1.0, 2.0], 0.0)
    with pytest.raises(InputError, match="better is"):
        Comparison("better", [1.0, 2.0], 0.1, better=0)
    with pytest.raises(InputError, match="at least one"):
        compare([], SOURCE)
    with pytest.raises(InputError, match="alpha lies"):
        compare([Comparison("a", [1.0, 2.0], 0.1)], SOURCE, alpha=2.0)
    with pytest.raises(InputError, match="two pairs"):
        smallest_effect(1, 1.0, 0.95, 0.9)
