"""Paired comparisons of a family: sign-flip and equivalence tests, Holm's adjustment, and one word for each."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from enum import Enum

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy import optimize, stats

from mfcheck.errors import InputError
from mfcheck.statistics.estimate import Estimate, mean
from mfcheck.statistics.power import LARGEST, replicates_for, replicates_to_refute
from mfcheck.statistics.seeds import Stream

#: Random sign flips where n is too large for all 2^n of them: the smallest p-value is 1 / (FLIPS + 1).
FLIPS = 19_999


class Effect(Enum):
    """What a paired comparison says of the treated side; UNDECIDED where n does not suffice to say."""

    BETTER = "better"
    WORSE = "worse"
    EQUIVALENT = "equivalent"
    UNDECIDED = "undecided"


@dataclass(frozen=True)
class Comparison:
    """Differences treated - baseline [n] over pairs that share their seed, and what would matter.

    margin: differences smaller than it in size make no difference that matters. better: +1 where more is better, -1
    where less is. Raises InputError on fewer than two pairs, on values that are not finite, on a margin <= 0.
    """

    name: str
    differences: ArrayLike
    margin: float
    better: int = 1

    def __post_init__(self) -> None:
        d = np.asarray(self.differences, dtype=np.float64)
        if d.ndim != 1 or len(d) < 2 or not np.isfinite(d).all():
            raise InputError(f"{self.name}: a comparison needs at least two finite differences [n]; it came as {d}")
        if not 0 < self.margin < math.inf:
            raise InputError(f"{self.name}: an equivalence margin is positive; it came as {self.margin}")
        if self.better not in (-1, 1):
            raise InputError(f"{self.name}: better is +1 (more is better) or -1 (less is); it came as {self.better}")


@dataclass(frozen=True)
class Result:
    """A comparison with its tests, and the word that they come to.

    estimate: the mean difference, its interval at level 1 - alpha by itself. sign_flip, wilcoxon, equivalence:
    p-values as they are; p_difference, p_equivalence: sign_flip and equivalence adjusted by Holm over the family.
    The sign-flip test decides; Wilcoxon's stands beside it. strictest: 1 - alpha / family, Holm's first level.
    """

    name: str
    estimate: Estimate
    margin: float
    sign_flip: float
    wilcoxon: float
    equivalence: float
    p_difference: float
    p_equivalence: float
    sd: float
    strictest: float
    effect: Effect

    def visible(self, power: float = 0.9) -> float:
        """The smallest mean difference that as many pairs of this spread show with a power, at the strictest level."""
        return smallest_effect(self.estimate.n, self.sd, self.strictest, power)

    def needed(self, power: float = 0.9) -> int | None:
        """Pairs that show a true difference as large as the mean seen here; None: no spread, or more than 2^40."""
        return _needed(replicates_to_refute, abs(self.estimate.point), self.sd, self.strictest, power)

    def needed_equivalent(self, power: float = 0.9) -> int | None:
        """Pairs that let a true difference of 0 be called equivalent; None as above."""
        # both one-sided tests at alpha are the interval at level 1 - 2 alpha inside the margins
        return _needed(replicates_for, self.margin, self.sd, 2 * self.strictest - 1, power)


def compare(family: Sequence[Comparison], source: Stream, alpha: float = 0.05) -> list[Result]:
    """Every comparison of a family with its word.

    BETTER or WORSE: the two-sided sign-flip test of the mean, adjusted by Holm over the family, is below alpha.
    EQUIVALENT: both one-sided t-tests against +- margin (TOST) are, adjusted by Holm over the family; it goes before
    the other two, as a difference that is real and too small to matter. So any comparison without a difference is
    called BETTER or WORSE with probability at most alpha, and so is any beyond its margin called EQUIVALENT.
    Sign flips are all 2^n for n <= 14, else FLIPS random ones from the source. Raises InputError on an empty family.
    """
    if not family:
        raise InputError("a family of comparisons holds at least one; it came empty")
    if not 0 < alpha < 0.5:
        raise InputError(f"alpha lies between 0 and 1/2; it came as {alpha}")
    differences = [np.asarray(one.differences, dtype=np.float64) for one in family]
    flips = [sign_flip(d, source.child(one.name)) for d, one in zip(differences, family, strict=True)]
    equal = [equivalence(d, one.margin) for d, one in zip(differences, family, strict=True)]
    results = []
    for one, d, flip, same, p, q in zip(family, differences, flips, equal, holm(flips), holm(equal), strict=True):
        estimate = mean(d, 1 - alpha)
        effect = Effect.UNDECIDED
        if q < alpha:
            effect = Effect.EQUIVALENT
        elif p < alpha:
            effect = Effect.BETTER if estimate.point * one.better > 0 else Effect.WORSE
        results.append(
            Result(
                name=one.name,
                estimate=estimate,
                margin=one.margin,
                sign_flip=flip,
                wilcoxon=wilcoxon(d),
                equivalence=same,
                p_difference=p,
                p_equivalence=q,
                sd=float(d.std(ddof=1)),
                strictest=1 - alpha / len(family),
                effect=effect,
            )
        )
    return results


def sign_flip(differences: ArrayLike, source: Stream) -> float:
    """Two-sided p-value of the mean of paired differences [n], whose signs are exchangeable where there is no effect.

    Exact for n <= 14, where all sign flips are looked at; 1 where all differences are 0.
    """
    d = np.asarray(differences, dtype=np.float64)
    if not d.any():
        return 1.0
    result = stats.permutation_test(
        (d,), _mean, permutation_type="samples", n_resamples=FLIPS, vectorized=True, rng=source.numpy()
    )
    return float(result.pvalue)


def _mean(x: NDArray[np.float64], axis: int) -> NDArray[np.float64]:
    return np.asarray(x.mean(axis=axis))


def wilcoxon(differences: ArrayLike) -> float:
    """Two-sided p-value of Wilcoxon's signed-rank test; 1 where all differences are 0."""
    d = np.asarray(differences, dtype=np.float64)
    return float(stats.wilcoxon(d).pvalue) if d.any() else 1.0


def equivalence(differences: ArrayLike, margin: float) -> float:
    """p-value of two one-sided t-tests: small where the mean difference lies between - margin and margin."""
    d = np.asarray(differences, dtype=np.float64)
    if d.std() == 0:
        return 0.0 if abs(d[0]) < margin else 1.0
    above = stats.ttest_1samp(d, -margin, alternative="greater").pvalue
    below = stats.ttest_1samp(d, margin, alternative="less").pvalue
    return float(max(above, below))


def holm(p: Sequence[float]) -> list[float]:
    """p-values adjusted by Holm's step-down method: rejecting those below alpha keeps the family's error at alpha."""
    order = np.argsort(p, kind="stable")
    adjusted = np.empty(len(p))
    adjusted[order] = np.minimum(np.maximum.accumulate(np.asarray(p)[order] * np.arange(len(p), 0, -1)), 1.0)
    return [float(value) for value in adjusted]


def smallest_effect(n: int, sd: float, level: float, power: float) -> float:
    """The mean difference that n pairs of standard deviation sd tell from 0 with a power: two-sided t at a level.

    Inverse of `replicates_to_refute`. Raises InputError on fewer than two pairs.
    """
    if n < 2:
        raise InputError(f"an effect shows from two pairs on; n came as {n}")
    quantile = stats.t.isf((1 - level) / 2, n - 1)

    def lacking(noncentrality: float) -> float:
        return float(stats.nct.sf(quantile, n - 1, noncentrality)) - power

    high = 2 * quantile + 10.0
    return float(optimize.brentq(lacking, 0.0, high, xtol=1e-10)) * sd / math.sqrt(n)


def pairs_needed(effect: float, sd: float, comparisons: int, alpha: float = 0.05, power: float = 0.9) -> int:
    """Pairs that show a mean difference `effect` with a power, at Holm's strictest level over so many comparisons."""
    return replicates_to_refute(effect, sd, 1 - alpha / comparisons, power)


def _needed(rule: object, distance: float, sd: float, level: float, power: float) -> int | None:
    if not (distance > 0 and sd > 0 and math.isfinite(distance / sd)) or distance / sd < LARGEST**-0.5:
        return None
    assert callable(rule)
    return int(rule(distance, sd, level, power))
