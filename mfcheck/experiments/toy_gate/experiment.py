"""The gate's arms as an experiment for claims: paired seeds, a treated and a baseline arm, one value a seed."""

from __future__ import annotations

from collections.abc import Mapping
from functools import lru_cache
from typing import Any

import numpy as np
from numpy.typing import NDArray

from mfcheck.errors import InputError
from mfcheck.experiments.toy_gate.arms import ARMS, MAIN, Arm
from mfcheck.experiments.toy_gate.metrics import METRICS
from mfcheck.experiments.toy_gate.seeds import run_seeds
from mfcheck.replicates import Measurements, Replicates
from mfcheck.statistics.seeds import stream

#: Seeds that are trained together; a replicate's group does not depend on how many replicates are asked for.
GROUP = 4
#: Longer than the recipe at beta = 0: an arm whose loss is truly lower, which a check of 'lowers the loss' must see.
LONGER = "beta 0, half as long again"
MIRROR = ", mirrored"
KNOWN: Mapping[str, Arm] = (
    ARMS
    | {LONGER: Arm(longer=1.5)}
    | {
        f"{name}{MIRROR}": Arm(arm.beta, arm.annealed, arm.scaling, arm.optimizer, arm.heads, arm.longer, True)
        for name, arm in ARMS.items()
        if arm.beta > 0 and not arm.after
    }
)
#: Arms that are trained in one go: what is made of trained nets is made while they are at hand.
_TOGETHER = tuple(name for name in MAIN if name != "beta 0.001")
SCALARS = (*METRICS, "exposure")


def paired(settings: Mapping[str, Any], replicates: Replicates) -> Measurements:
    """{"treated loss": [n], "baseline loss": [n], ...} for each role among the settings, and each metric of METRICS.

    settings: `treated` and `baseline` (and `beside`, a third, where it is there) name arms of KNOWN. mirrored: an arm
    with noise is run with xi and with -xi, which have the same law, and its value is the mean of both.
    "<role> arm" [n] names it, "<role> kept_accuracy" is [n, M], "<role> maps" [n, M, queries, keys] of one sequence,
    "<role> effective" [n, looks, 1 + quantiles] under Adam.

    Replicate k is seed k of the root seed, whatever the claim: the claims of this family share their trained nets,
    which saves most of the time and costs nothing, for the suite's error rate is shared out without assuming them
    independent. Raises InputError on an arm that does not exist.
    """
    measured: dict[str, NDArray[Any]] = {}
    for role in ("treated", "baseline", "beside"):
        if role not in settings:
            continue
        names = [settings[role]]
        if settings["mirrored"] and names[0] + MIRROR in KNOWN:
            names.append(names[0] + MIRROR)
        # so that a record, of a control too, knows whose numbers it has
        measured[f"{role} arm"] = np.full(len(replicates), settings[role])
        runs = [[_numbers(name, replicates, index) for index in replicates] for name in names]
        for metric in (*SCALARS, "kept_accuracy", "maps", "effective"):
            if metric in runs[0][0]:
                values = np.array([[one[metric] for one in run] for run in runs], dtype=np.float64)
                # a map of one run is a picture; the mean of two would be none
                measured[f"{role} {metric}"] = values[0] if metric in ("maps", "effective") else values.mean(0)
    return measured


def _numbers(name: str, replicates: Replicates, index: int) -> Mapping[str, Any]:
    if name not in KNOWN:
        raise InputError(f"no arm of the toy gate is called {name!r}; there are {', '.join(KNOWN)}")
    together = _TOGETHER if name in _TOGETHER else (name,)
    start = index - index % GROUP
    group = _group(replicates.stream.root, together, start, replicates.device)
    return group[index - start][name]


@lru_cache(maxsize=4096)
def _group(root: int, names: tuple[str, ...], start: int, device: str) -> list[dict[str, dict[str, Any]]]:
    source = stream(root, "toy gate", "claims")
    arms = {name: KNOWN[name] for name in names}
    return run_seeds(arms, [source.child(index) for index in range(start, start + GROUP)], device=device, maps=True)
