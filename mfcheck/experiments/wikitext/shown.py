"""What figures show of a run: every arm's settings, counts and metrics, seed by seed. Nothing is trained."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from mfcheck.experiments.wikitext.hypotheses import NOISED_AFTER, NORM_MATCHED, Row
from mfcheck.experiments.wikitext.preset import Preset
from mfcheck.experiments.wikitext.verdict import Seed, differences, metric


def shown_arms(seeds: Sequence[Seed], preset: Preset) -> dict[str, list[Any]]:
    """[arms] settings and counts, [arms, seeds] metrics, [arms, kept] rises, [arms, steps] losses, of every arm.

    Rises and losses are means over seeds; NaN where an arm has none.
    """
    arms = preset.arms
    first = [seeds[0][arm.name] for arm in arms]

    def each(number: Callable[[Mapping[str, Any]], float]) -> NDArray[np.float64]:
        return np.array([[number(seed[arm.name]) for seed in seeds] for arm in arms])

    kept, rises, spread = _kept(seeds, preset)
    losses = [_mean(seeds, arm.name, lambda o: o["training_curve"]["loss"]) for arm in arms]
    found: dict[str, Any] = {
        "name": [arm.name for arm in arms],
        "attention": [arm.attention for arm in arms],
        "heads": [arm.heads for arm in arms],
        "beta": [arm.beta for arm in arms],
        "schedule": [arm.schedule for arm in arms],
        "scaling": [arm.scaling for arm in arms],
        "plain_width": [arm.head_width is None for arm in arms],
        **{key: [outcome[key] for outcome in first] for key in ("flop_ratio", "parameter_ratio", "exposure")},
        "log_perplexity": each(lambda o: metric(o, "log_perplexity")),
        "half_rise": each(lambda o: metric(o, "half_rise")),
        "similarity": each(lambda o: metric(o, "similarity")),
        **{name: _controls(name, seeds, preset) for name in (NORM_MATCHED, NOISED_AFTER)},
        "kept": kept,
        "rise": rises,
        "rise_sd": spread,
        "step": first[0]["training_curve"]["step"],
        "loss": np.array(losses),
    }
    return {name: np.asarray(value).tolist() for name, value in found.items()}


def _mean(seeds: Sequence[Seed], arm: str, numbers: Callable[[Mapping[str, Any]], list[float]]) -> NDArray[np.float64]:
    return np.array([numbers(seed[arm]) for seed in seeds]).mean(0)


def _kept(seeds: Sequence[Seed], preset: Preset) -> tuple[NDArray[Any], NDArray[Any], NDArray[Any]]:
    """Particles kept, the rise's mean over seeds and its standard error, each [arms, kept]."""
    most = max(len(seeds[0][arm.name]["kept"]) for arm in preset.arms)
    shape = (len(preset.arms), most)
    kept, mean, error = (np.full(shape, np.nan) for _ in range(3))
    for index, arm in enumerate(preset.arms):
        rows = [[row["rise"] for row in seed[arm.name]["kept"]] for seed in seeds]
        count = len(rows[0])
        kept[index, :count] = [row["kept"] for row in seeds[0][arm.name]["kept"]]
        mean[index, :count] = np.mean(rows, axis=0)
        error[index, :count] = np.std(rows, axis=0, ddof=1) / np.sqrt(len(seeds))
    return kept, mean, error


def _controls(name: str, seeds: Sequence[Seed], preset: Preset) -> NDArray[np.float64]:
    """The similarity [arms, seeds] of a control at each arm with noise, NaN at the others."""
    rows = []
    for arm in preset.arms:
        if not arm.beta:
            rows.append(np.full(len(seeds), np.nan))
            continue
        treated = np.array([metric(seed[arm.name], "similarity") for seed in seeds])
        rows.append(treated - differences(Row("similarity", arm.name, name), seeds, preset))
    return np.array(rows)
