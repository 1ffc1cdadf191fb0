"""The hypotheses W1 to W7 as data, made from a preset's arms: the paired differences, and the rules from words."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from mfcheck.errors import InputError
from mfcheck.experiments.wikitext.arms import Arm
from mfcheck.experiments.wikitext.preset import Preset
from mfcheck.statistics.hypothesis import Hypothesis, Rule
from mfcheck.statistics.paired import Effect
from mfcheck.statistics.verdict import Verdict

#: Differences smaller than these make no difference that matters: 1 % of perplexity, 0.02 of a cosine.
MARGINS = {"log_perplexity": math.log(1.01), "half_rise": math.log(1.01), "similarity": 0.02}
#: "Comparable perplexity with half the particles": a rise of at most 5 %.
COMPARABLE = math.log(1.05)
#: The largest beta of the catalogue's grid; above it is what excess looks like.
LARGEST_BETA = 1e-3
#: Baselines that are no arms: the beta = 0 net with Q and K at the treated arm's norm, and with its noise added after.
NORM_MATCHED, NOISED_AFTER = "norm-matched beta 0", "noise after training"


@dataclass(frozen=True)
class Row:
    """One paired difference: a metric of the treated arm less that of the baseline (an arm, a control, or a number).

    judged: whether the hypothesis's rule and Holm's adjustment count it; else it stands beside them.
    """

    metric: str
    treated: str
    baseline: str | float
    judged: bool = True

    @property
    def name(self) -> str:
        """'log_perplexity: particles-8-beta-1e-3 - particles-8'."""
        baseline = self.baseline if isinstance(self.baseline, str) else f"{self.baseline:.4f}"
        return f"{self.metric}: {self.treated} - {baseline}"


def any_is(word: Effect) -> Rule:
    """SUPPORTED where a row has the word; REFUTED where none has it and all are decided."""

    def rule(words: Sequence[Effect]) -> Verdict:
        if word in words:
            return Verdict.SUPPORTED
        return Verdict.INCONCLUSIVE if Effect.UNDECIDED in words else Verdict.REFUTED

    return rule


def all_equivalent(words: Sequence[Effect]) -> Verdict:
    """SUPPORTED where every row is equivalent, REFUTED where one is better or worse."""
    if Effect.BETTER in words or Effect.WORSE in words:
        return Verdict.REFUTED
    return Verdict.SUPPORTED if set(words) == {Effect.EQUIVALENT} else Verdict.INCONCLUSIVE


#: Success, by the card, is any of these; W5 is what would falsify.
SUCCESS, FALSIFIER = ("W1", "W2", "W3", "W4"), "W5"


def hypotheses(preset: Preset) -> tuple[Hypothesis[Row], ...]:
    """Those of W1 to W7 for which the preset has arms.

    Raises InputError where an arm with noise has no arm of as many particles without, or there is no ordinary one.
    """
    plain = next((arm.name for arm in preset.arms if arm.attention == "multihead"), None)
    if plain is None:
        raise InputError(f"preset {preset.name} has no arm of ordinary attention to compare with")
    noisy = [arm for arm in preset.arms if arm.beta]
    grid = [arm for arm in noisy if arm.beta <= LARGEST_BETA]
    quiet = [arm for arm in preset.arms if arm.attention == "particles" and not arm.beta]
    scaled = [arm for arm in preset.arms if arm.attention == "multihead_mean"]
    same_step = [(one, arm) for one in quiet for arm in scaled if one.heads == arm.heads and one.head_width is None]
    without = {arm.name: zero_of(arm, preset) for arm in noisy}
    annealed = [(arm, twin) for arm in grid if (twin := _twin(arm, preset, schedule="annealed")) is not None]
    raw = [(arm, twin) for arm in grid if (twin := _twin(arm, preset, scaling="raw")) is not None]
    made = (
        Hypothesis(
            "W1",
            "particles with diffusion have a lower perplexity than ordinary attention at equal compute",
            tuple(Row("log_perplexity", arm.name, plain) for arm in grid)
            # whether it is the noise's doing: heads without it against ordinary ones, and with it against without
            + tuple(Row("log_perplexity", arm.name, plain, judged=False) for arm in quiet)
            + tuple(Row("log_perplexity", arm.name, without[arm.name], judged=False) for arm in grid)
            # and whether it is the particles': ordinary heads whose W_O has the step that a mean's has
            + tuple(Row("log_perplexity", arm.name, plain, judged=False) for arm in scaled)
            + tuple(Row("log_perplexity", one.name, arm.name, judged=False) for one, arm in same_step),
            any_is(Effect.BETTER),
            "supported: an arm with noise is better; refuted: all are decided and none is",
        ),
        Hypothesis(
            "W2",
            "diffusion makes the perplexity more robust to dropping half the particles",
            tuple(Row("half_rise", arm.name, without[arm.name]) for arm in grid)
            + tuple(Row("half_rise", arm.name, plain, judged=False) for arm in grid),
            any_is(Effect.BETTER),
            "supported: a beta is better; refuted: all are decided and none is",
        ),
        Hypothesis(
            "W3",
            "diffusion lowers the redundancy of heads",
            tuple(Row("similarity", arm.name, without[arm.name]) for arm in grid)
            + tuple(
                Row("similarity", arm.name, control, judged=False)
                for arm in grid
                for control in (NORM_MATCHED, NOISED_AFTER)
            ),
            any_is(Effect.BETTER),
            "supported: a beta is better; refuted: all are decided and none is",
        ),
        Hypothesis(
            "W4",
            "with half the particles the perplexity stays within 5 %",
            tuple(Row("half_rise", arm.name, COMPARABLE) for arm in grid)
            + tuple(Row("half_rise", arm.name, COMPARABLE, judged=False) for arm in quiet)
            + (Row("half_rise", plain, COMPARABLE, judged=False),),
            any_is(Effect.BETTER),
            "supported: an arm with noise rises by less; refuted: all are decided and none does",
        ),
        Hypothesis(
            "W5",
            "excess diffusion raises the loss",
            tuple(Row("log_perplexity", arm.name, without[arm.name]) for arm in noisy if arm.scaling == "mean_field"),
            any_is(Effect.WORSE),
            "supported: a beta is worse than beta = 0; refuted: all are decided and none is",
        ),
        Hypothesis(
            "W6",
            "annealing does better than constant diffusion of the same beta",
            tuple(Row("log_perplexity", twin.name, arm.name) for arm, twin in annealed)
            + tuple(Row("half_rise", twin.name, arm.name, judged=False) for arm, twin in annealed),
            any_is(Effect.BETTER),
            "supported: a beta is better; refuted: all are decided and none is",
        ),
        Hypothesis(
            "W7",
            "raw and mean-field scaling come to the same under Adam",
            tuple(Row(metric, twin.name, arm.name) for arm, twin in raw for metric in ("log_perplexity", "half_rise")),
            all_equivalent,
            "supported: all rows are equivalent; refuted: one is not",
        ),
    )
    return tuple(one for one in made if any(row.judged for row in one.rows))


def zero_of(arm: Arm, preset: Preset) -> str:
    """The arm of the same heads without noise. Raises InputError where the preset has none."""
    for other in preset.arms:
        same = (other.attention, other.heads, other.head_width) == (arm.attention, arm.heads, arm.head_width)
        if same and not other.beta:
            return other.name
    raise InputError(f"arm {arm.name} has noise, and preset {preset.name} has no arm of the same heads without")


def _twin(arm: Arm, preset: Preset, **changed: str) -> Arm | None:
    """The arm that differs from a constant, mean-field one in what is changed and in its name alone."""
    if (arm.schedule, arm.scaling) != ("constant", "mean_field"):
        return None
    wanted: dict[str, Any] = {"heads": arm.heads, "head_width": arm.head_width, "beta": arm.beta}
    wanted |= {"schedule": "constant", "scaling": "mean_field"} | changed
    found = (o for o in preset.arms if all(getattr(o, key) == value for key, value in wanted.items()))
    return next(found, None)
