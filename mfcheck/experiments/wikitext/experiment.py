"""The claims' experiment: paired differences from a run on record, and what figures show of it. Nothing is trained."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from mfcheck.errors import InputError
from mfcheck.experiments.wikitext.hypotheses import NOISED_AFTER, NORM_MATCHED, Row
from mfcheck.experiments.wikitext.preset import Preset, read_preset
from mfcheck.experiments.wikitext.record import read_record
from mfcheck.experiments.wikitext.verdict import Seed, differences, metric, whole_seeds
from mfcheck.replicates import Measurements, Replicates

#: Numbers of an arm that are the same for every seed.
COUNTS = ("flop_ratio", "parameter_ratio", "exposure")


def recorded_pairs(settings: Mapping[str, Any], replicates: Replicates) -> Measurements:
    """Differences [1, seeds] of a metric, treated arm less baseline, and the treated arm's counts over the reference's.

    settings: record (a preset's name, or the path of a record), metric, treated, baseline (an arm, a control of
    `hypotheses`, or a number). There is one run on record and replicates buy no more of it: the leading axis has one
    entry, and the seeds are the sample. Raises InputError where the record lacks an arm, or holds fewer than two seeds.
    """
    preset, seeds = seeds_on_record(str(settings["record"]))
    treated, baseline = str(settings["treated"]), settings["baseline"]
    controls = (NORM_MATCHED, NOISED_AFTER)
    for name in (treated, *([baseline] if isinstance(baseline, str) and baseline not in controls else [])):
        preset.arm(name)
    row = Row(str(settings["metric"]), treated, baseline)
    first = seeds[0][treated]
    return {
        "difference": differences(row, seeds, preset)[None],
        **{key: np.array([first[key]]) for key in COUNTS},
    }


def recorded_arms(settings: Mapping[str, Any], replicates: Replicates) -> Measurements:
    """As `recorded_pairs`, with every arm beside it under names that begin with "arms": what the figures show.

    [1, arms] settings and counts, [1, arms, seeds] metrics, [1, arms, kept] rises and [1, arms, steps] losses, each a
    mean over seeds; NaN where an arm has none.
    """
    preset, seeds = seeds_on_record(str(settings["record"]))
    arms = preset.arms

    def each(number: Callable[[Mapping[str, Any]], float]) -> NDArray[np.float64]:
        return np.array([[[number(seed[arm.name]) for seed in seeds] for arm in arms]])

    first = [seeds[0][arm.name] for arm in arms]
    kept, rises, spread = _kept(seeds, preset)
    losses = np.array([[_mean(seeds, arm.name, lambda o: o["training_curve"]["loss"]) for arm in arms]])
    found = {
        "name": np.array([[arm.name for arm in arms]]),
        "attention": np.array([[arm.attention for arm in arms]]),
        "heads": np.array([[arm.heads for arm in arms]]),
        "beta": np.array([[arm.beta for arm in arms]]),
        "schedule": np.array([[arm.schedule for arm in arms]]),
        "scaling": np.array([[arm.scaling for arm in arms]]),
        "plain_width": np.array([[arm.head_width is None for arm in arms]]),
        **{
            key: np.array([[outcome[key] for outcome in first]])
            for key in ("flop_ratio", "parameter_ratio", "exposure")
        },
        "log_perplexity": each(lambda o: metric(o, "log_perplexity")),
        "half_rise": each(lambda o: metric(o, "half_rise")),
        "similarity": each(lambda o: metric(o, "similarity")),
        **{name: _controls(name, seeds, preset) for name in (NORM_MATCHED, NOISED_AFTER)},
        "kept": kept,
        "rise": rises,
        "rise_sd": spread,
        "step": np.array([first[0]["training_curve"]["step"]]),
        "loss": losses,
    }
    return dict(recorded_pairs(settings, replicates)) | {f"arms {name}": value for name, value in found.items()}


def seeds_on_record(name: str) -> tuple[Preset, list[Seed]]:
    """The preset of a record, and its whole seeds. Raises InputError where they are fewer than two."""
    record = read_record(name)
    preset = read_preset(str(record.about["preset"]))
    seeds = whole_seeds(record.outcomes, preset)
    if len(seeds) < 2:
        raise InputError(f"the record {name} holds {len(seeds)} seeds with every arm of {preset.name}; it takes two")
    return preset, seeds


def _mean(seeds: Sequence[Seed], arm: str, numbers: Callable[[Mapping[str, Any]], list[float]]) -> NDArray[np.float64]:
    return np.array([numbers(seed[arm]) for seed in seeds]).mean(0)


def _kept(seeds: Sequence[Seed], preset: Preset) -> tuple[NDArray[Any], NDArray[Any], NDArray[Any]]:
    """Particles kept, the rise's mean over seeds and its standard error, each [1, arms, kept]."""
    most = max(len(seeds[0][arm.name]["kept"]) for arm in preset.arms)
    shape = (1, len(preset.arms), most)
    kept, mean, error = (np.full(shape, np.nan) for _ in range(3))
    for index, arm in enumerate(preset.arms):
        rows = [[row["rise"] for row in seed[arm.name]["kept"]] for seed in seeds]
        count = len(rows[0])
        kept[0, index, :count] = [row["kept"] for row in seeds[0][arm.name]["kept"]]
        mean[0, index, :count] = np.mean(rows, axis=0)
        error[0, index, :count] = np.std(rows, axis=0, ddof=1) / np.sqrt(len(seeds))
    return kept, mean, error


def _controls(name: str, seeds: Sequence[Seed], preset: Preset) -> NDArray[np.float64]:
    """The similarity [1, arms, seeds] of a control at each arm with noise, NaN at the others."""
    rows = []
    for arm in preset.arms:
        if not arm.beta:
            rows.append(np.full(len(seeds), np.nan))
            continue
        treated = np.array([metric(seed[arm.name], "similarity") for seed in seeds])
        rows.append(treated - differences(Row("similarity", arm.name, name), seeds, preset))
    return np.array([rows])
