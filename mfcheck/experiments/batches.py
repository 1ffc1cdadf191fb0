"""Experiments run a bounded number of replicates at a time, so that a run of many looks needs no more memory."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import wraps
from itertools import pairwise
from typing import Any

from mfcheck.replicates import Experiment, Measurements, Replicates, concatenate


def in_batches(together: int) -> Callable[[Experiment], Experiment]:
    """The experiment with at most `together` replicates in memory: noise belongs to replicates, so nothing changes."""

    def decorate(experiment: Experiment) -> Experiment:
        @wraps(experiment)
        def batched(settings: Mapping[str, Any], replicates: Replicates) -> Measurements:
            ends = [*range(replicates.start, replicates.stop, together), replicates.stop]
            parts = (Replicates(replicates.stream, start, stop, replicates.device) for start, stop in pairwise(ends))
            return concatenate(experiment(settings, part) for part in parts)

        return batched

    return decorate
