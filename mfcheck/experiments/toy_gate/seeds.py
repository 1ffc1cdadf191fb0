"""The gate's unit of work: all arms of some seeds, trained, measured, and turned into plain numbers."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import torch

from mfcheck.attention.diversity import roughness
from mfcheck.errors import InputError
from mfcheck.experiments.toy_gate.arms import RECIPE, Arm, Recipe
from mfcheck.experiments.toy_gate.layer import Models
from mfcheck.experiments.toy_gate.metrics import gradient_variances, look, measure
from mfcheck.experiments.toy_gate.task import Task
from mfcheck.experiments.toy_gate.training import Seed, Trained, seed, shape_of, train
from mfcheck.statistics.seeds import Stream

TASK = Task()
#: Models trained in one batch: their working memory stays in the outer cache, and four share the calls' overhead.
AT_ONCE = 4
#: Significant digits kept of a number: as many as float32 has.
DIGITS = 7

Numbers = dict[str, Any]


def run_seeds(
    arms: Mapping[str, Arm],
    sources: Sequence[Stream],
    *,
    task: Task = TASK,
    recipe: Recipe = RECIPE,
    dtype: torch.dtype = torch.float32,
    device: str = "cpu",
    maps: bool = False,
) -> list[dict[str, Numbers]]:
    """[{arm: {metric: number}} for each seed]: samples, initial values, batches and noise are those of the seed.

    An arm made after training needs the arms that it is made of. maps: with the attention maps of each arm on the
    first validation sequence, [M, queries, keys]. Raises InputError where such an arm's parents are missing.
    """
    seeds = [seed(task, source, dtype, device) for source in sources]
    found: list[dict[str, Numbers]] = [{} for _ in seeds]
    trained: dict[tuple[int, str], Models] = {}
    for pairs in _together(arms, recipe, len(seeds)):
        made = train(task, recipe, seeds, [(index, arms[name]) for index, name in pairs])
        for place, ((index, name), numbers) in enumerate(zip(pairs, _numbers(made, seeds, pairs, maps), strict=True)):
            numbers["exposure"] = _rounded(arms[name].exposure(recipe))
            found[index][name] = numbers
            trained[index, name] = Models(made.models.theta[:, place, None], made.models.rest[place, None])
    for name, arm in arms.items():
        if arm.after:
            plain, noisy = _parents(arms, arm)
            for index, one in enumerate(seeds):
                models = _made_after(arm, recipe, trained[index, plain], trained[index, noisy], one)
                shape = shape_of(task, recipe, arm.heads)
                made = Trained(shape, models, torch.empty(0), None)
                (found[index][name],) = _numbers(made, seeds, [(index, name)], maps)
                found[index][name]["exposure"] = _rounded(arm.exposure(recipe) if arm.after == "noise" else 0.0)
    return [{name: numbers[name] for name in arms} for numbers in found]


def _together(arms: Mapping[str, Arm], recipe: Recipe, seeds: int) -> Iterator[list[tuple[int, str]]]:
    """Pairs of (index of the seed, arm's name) that are trained in one batch."""
    kinds: dict[tuple[str, str, int], list[tuple[int, str]]] = {}
    for index in range(seeds):
        for name, arm in arms.items():
            if not arm.after:
                kinds.setdefault((arm.optimizer, arm.heads, arm.steps(recipe)), []).append((index, name))
    for pairs in kinds.values():
        for start in range(0, len(pairs), AT_ONCE):
            yield pairs[start : start + AT_ONCE]


def _parents(arms: Mapping[str, Arm], arm: Arm) -> tuple[str, str]:
    """The names of the arm at beta = 0 and of the trained one that an arm made after training refers to."""
    wanted = (dataclasses.replace(arm, after="", beta=0.0), dataclasses.replace(arm, after=""))
    names = [next((name for name, other in arms.items() if other == one), None) for one in wanted]
    if None in names:
        raise InputError(
            f"an arm made after training (beta {arm.beta}) needs the arms at beta 0 and {arm.beta} beside it; "
            f"there are {', '.join(arms)}"
        )
    return str(names[0]), str(names[1])


def _made_after(arm: Arm, recipe: Recipe, plain: Models, noisy: Models, one: Seed) -> Models:
    theta = plain.theta.clone()
    if arm.after == "noise":
        xi = torch.randn(theta.shape, generator=one.source.child("noise after").torch(), dtype=theta.dtype)
        theta += math.sqrt(2 * arm.exposure(recipe)) * xi.to(theta.device)
    else:
        size, wanted = (x.theta[:2].square().sum((1, 2, 3, 4), keepdim=True).sqrt() for x in (plain, noisy))
        theta[:2] *= wanted / size
    return Models(theta, plain.rest)


def _numbers(made: Trained, seeds: Sequence[Seed], pairs: Sequence[tuple[int, str]], maps: bool) -> list[Numbers]:
    owners = [seeds[index] for index, _ in pairs]
    validation, training = [one.validation for one in owners], [one.training for one in owners]
    values = measure(made.models, made.shape, validation, [one.source for one in owners])
    variances = gradient_variances(made.models, made.shape, training, min(64, len(training[0].labels) // 2))
    values["gradient_variance"], values["particle_variance"] = variances
    if len(made.losses):
        # once the loss has stopped falling fast
        late = made.losses[len(made.losses) // 2 :]
        values["roughness"] = torch.tensor([roughness(losses) for losses in late.T])
    if made.effective is not None:
        values["effective"] = made.effective.transpose(0, 1)
    if maps:
        first = torch.stack([sample.tokens[:1] for sample in validation])
        seen = look(made.models, made.shape, first).maps[:, 0].permute(0, 3, 2, 1)
        values["maps"] = (seen * 1000).round() / 1000
    return [{name: _plain(value[place]) for name, value in values.items()} for place in range(len(pairs))]


def _plain(value: torch.Tensor) -> Any:
    listed = value.tolist()
    return _rounded(listed)


def _rounded(value: Any) -> Any:
    if isinstance(value, list):
        return [_rounded(one) for one in value]
    return float(f"{value:.{DIGITS}g}")
