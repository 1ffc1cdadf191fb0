"""The hypotheses S1 to S7 as data: the paired differences that each is about, and the rule from words to a verdict."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from mfcheck.experiments.toy_gate.arms import ARMS, RECIPE
from mfcheck.statistics.hypothesis import Hypothesis
from mfcheck.statistics.paired import Effect
from mfcheck.statistics.verdict import Verdict

BETTER, WORSE, EQUIVALENT, UNDECIDED = Effect.BETTER, Effect.WORSE, Effect.EQUIVALENT, Effect.UNDECIDED

#: Differences smaller than these make no difference that matters, by metric.
MARGINS = {"loss": 0.005, "half_accuracy": 0.01, "half_cost": 0.0025, "cosine": 0.02, "accuracy": 0.01}
#: S4's bound: five points of accuracy.
HALF_COST = 0.05
#: The card's single run: {beta: {metric: value}}; its cosine at 0.001 is not known.
CARD: Mapping[str, Mapping[str, float]] = {
    "beta 0": {"loss": 0.3346, "accuracy": 0.9531, "half_accuracy": 0.9414, "half_cost": 0.0117, "cosine": 0.4793},
    "beta 0.001": {"loss": 0.3644, "accuracy": 0.9414, "half_accuracy": 0.9258, "half_cost": 0.0156},
    "beta 0.005": {"loss": 0.4203, "accuracy": 0.9453, "half_accuracy": 0.9063, "half_cost": 0.0390, "cosine": 0.3243},
}


@dataclass(frozen=True)
class Row:
    """One paired difference: a metric of the treated arm less that of the baseline arm (or less a number).

    judged: whether the hypothesis's rule and the family's Holm adjustment count it; else it stands beside them.
    """

    metric: str
    treated: str
    baseline: str | float = "beta 0"
    judged: bool = True

    @property
    def name(self) -> str:
        """'loss: beta 0.005 - beta 0'."""
        return f"{self.metric}: {self.treated} - {self.baseline}"

    @property
    def arms(self) -> tuple[str, ...]:
        """The arms that it compares."""
        return (self.treated, self.baseline) if isinstance(self.baseline, str) else (self.treated,)

    @property
    def card(self) -> float | None:
        """The difference in the card's single run, None where the card has none."""
        treated = CARD.get(self.treated, {}).get(self.metric)
        if isinstance(self.baseline, str):
            baseline = CARD.get(self.baseline, {}).get(self.metric)
        else:
            baseline = self.baseline
        return None if treated is None or baseline is None else treated - baseline


def any_better(words: Sequence[Effect]) -> Verdict:
    """SUPPORTED where a row is better and none worse; REFUTED where none can be better and all are decided."""
    if BETTER in words and WORSE not in words:
        return Verdict.SUPPORTED
    if BETTER not in words and (WORSE in words or UNDECIDED not in words):
        return Verdict.REFUTED
    return Verdict.INCONCLUSIVE


def all_better(words: Sequence[Effect]) -> Verdict:
    """SUPPORTED where every row is better, REFUTED where one is worse."""
    if WORSE in words:
        return Verdict.REFUTED
    return Verdict.SUPPORTED if set(words) == {BETTER} else Verdict.INCONCLUSIVE


def all_equivalent(words: Sequence[Effect]) -> Verdict:
    """SUPPORTED where every row is equivalent, REFUTED where one is better or worse."""
    if BETTER in words or WORSE in words:
        return Verdict.REFUTED
    return Verdict.SUPPORTED if set(words) == {EQUIVALENT} else Verdict.INCONCLUSIVE


def same_words(words: Sequence[Effect]) -> Verdict:
    """First half (Adam) against second half (SGD): REFUTED where one says better and the other worse, or equivalent.

    SUPPORTED where all words are decided and the same; a word that is undecided on either side agrees with nothing.
    """
    half = len(words) // 2
    pairs = list(zip(words[:half], words[half:], strict=True))
    if any(UNDECIDED not in pair and pair[0] is not pair[1] for pair in pairs):
        return Verdict.REFUTED
    return Verdict.INCONCLUSIVE if any(UNDECIDED in pair for pair in pairs) else Verdict.SUPPORTED


WEAK, STRONG, HALVED, ANNEALED = "beta 0.001", "beta 0.005", "beta 0.0025", "annealed 0.005"
MEAN_FIELD, MEAN_FIELD_M = "mean-field 0.005", f"mean-field {RECIPE.particles} x 0.005"
ADAM, ADAM_WEAK, ADAM_STRONG = "Adam, beta 0", "Adam, exposure of 0.001", "Adam, exposure of 0.005"
NOISE_AFTER, NORMS = "noise after, 0.005", "norms of 0.005"
_ADAM_ROWS = tuple(
    (metric, arm, plain)
    for arm, plain in ((ADAM_WEAK, WEAK), (ADAM_STRONG, STRONG))
    for metric in ("loss", "half_accuracy", "cosine")
)

HYPOTHESES: tuple[Hypothesis, ...] = (
    Hypothesis(
        "S1",
        "diffusion lowers the validation loss",
        (
            Row("loss", WEAK),
            Row("loss", STRONG),
            Row("accuracy", WEAK, judged=False),
            Row("accuracy", STRONG, judged=False),
        ),
        any_better,
        "a beta is better and none worse",
        "card: refuted",
    ),
    Hypothesis(
        "S2",
        "diffusion improves the accuracy after dropping half the particles",
        (Row("half_accuracy", WEAK), Row("half_accuracy", STRONG)),
        any_better,
        "a beta is better and none worse",
        "card: refuted",
    ),
    Hypothesis(
        "S3",
        "diffusion lowers the redundancy of heads",
        (
            Row("cosine", WEAK),
            Row("cosine", STRONG),
            Row("cosine", STRONG, NOISE_AFTER, judged=False),
            Row("cosine", STRONG, NORMS, judged=False),
        ),
        any_better,
        "a beta is better and none worse",
        "card: supported",
    ),
    Hypothesis(
        "S4",
        "dropping half the particles costs no more than 5 points",
        (Row("half_cost", "beta 0", HALF_COST), Row("half_cost", WEAK, HALF_COST), Row("half_cost", STRONG, HALF_COST)),
        all_better,
        "every beta costs less than 5 points",
        "card: supported in its single run",
    ),
    Hypothesis(
        "S5",
        "annealed diffusion does what constant diffusion does not",
        (
            Row("loss", ANNEALED),
            Row("half_accuracy", ANNEALED),
            Row("loss", ANNEALED, HALVED),
            Row("half_accuracy", ANNEALED, HALVED),
            Row("cosine", ANNEALED, HALVED),
        ),
        any_better,
        "a row is better and none worse, against beta = 0 and against constant beta/2",
        "card: untested",
    ),
    Hypothesis(
        "S6",
        "the outcome is the same under raw and mean_field scaling at equal beta",
        (
            Row("loss", MEAN_FIELD, STRONG),
            Row("half_accuracy", MEAN_FIELD, STRONG),
            Row("cosine", MEAN_FIELD, STRONG),
            Row("cosine", MEAN_FIELD_M, STRONG, judged=False),
            Row("loss", MEAN_FIELD_M, STRONG, judged=False),
        ),
        all_equivalent,
        "all rows are equivalent",
        "no at equal beta, exact at M beta",
    ),
    Hypothesis(
        "S7",
        "Adam for the drift changes none of S1 to S3 at equal exposure",
        tuple(Row(metric, arm, ADAM) for metric, arm, _ in _ADAM_ROWS)
        + tuple(Row(metric, plain) for metric, _, plain in _ADAM_ROWS)
        + (
            Row("half_accuracy", "Adam, beta 0.005", ADAM, judged=False),
            Row("cosine", "Adam, beta 0.005", ADAM, judged=False),
        ),
        same_words,
        "under Adam each row has the word that it has under SGD",
        "card: untested",
    ),
)
#: The hypotheses that the gate is about: one family of comparisons. The others are a family of side questions.
GATE = ("S1", "S2", "S3")


def gate_passes(words: Mapping[tuple[str, str], Effect]) -> bool:
    """The gate's rule, on words by (metric, beta): at one beta > 0, better in loss or half accuracy, worse in neither.

    Less redundancy alone does not pass: the controls of S3 have it without any training under noise.
    """
    for arm in (WEAK, STRONG):
        found = {words["loss", arm], words["half_accuracy", arm]}
        if BETTER in found and WORSE not in found:
            return True
    return False


def arms_needed(hypotheses: Sequence[Hypothesis[Row]]) -> tuple[str, ...]:
    """The arms that the rows compare, in the order of ARMS."""
    wanted = {arm for hypothesis in hypotheses for row in hypothesis.rows for arm in row.arms}
    return tuple(name for name in ARMS if name in wanted)
