"""The WikiText experiment as outcomes W1, W2, ...: what figures and the report read of it."""

from __future__ import annotations

from collections.abc import Sequence

from mfcheck.experiments.wikitext.preset import Preset
from mfcheck.experiments.wikitext.shown import shown_arms
from mfcheck.experiments.wikitext.verdict import ALPHA, Seed, WikitextVerdict
from mfcheck.outcome import Outcome, digest, equivalence, outcome_of_hypothesis
from mfcheck.runner import versions


def outcomes_of(verdict: WikitextVerdict, seeds: Sequence[Seed], preset: Preset) -> list[Outcome]:
    """A hypothesis each, a criterion a paired difference, its region the equivalence margin.

    They are no claims of the suite: their sample is the seeds of one run, which no look enlarges, and their error rate
    is the experiment's own, shared out by Holm. So each is expected to be what it is. data of W1, or of the first one
    that the preset has: "arms", what figures show.
    """
    made: list[Outcome] = []
    for one in verdict.judged:
        criteria = [
            equivalence(row.name, result.estimate, result.margin, word=result.effect.value, judged=row.judged)
            for row, result in zip(one.hypothesis.rows, one.results, strict=True)
        ]
        h = one.hypothesis
        about = {
            "n": verdict.n,
            "alpha": ALPHA,
            "seed": 0,
            "profile": f"wikitext {preset.name}",
            "device": preset.training.device,
            "versions": versions(),
            "identity": digest(preset.name, verdict.n),
            "data": {} if made else {"arms": shown_arms(seeds, preset)},
        }
        made.append(outcome_of_hypothesis(h.id, h.statement, h.rule_in_words, one.verdict, criteria, **about))
    return made
