"""What an experiment is asked for and what it returns: replicates in, measurements out."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from mfcheck.errors import InputError
from mfcheck.statistics.seeds import Stream

#: What an experiment returns: arrays with a leading axis of independent replicates.
Measurements = Mapping[str, NDArray[Any]]


@dataclass(frozen=True)
class Replicates:
    """Which independent replicates an experiment is to run: indices [start, stop) of a stream, on a device."""

    stream: Stream
    start: int
    stop: int
    device: str = "cpu"

    def __len__(self) -> int:
        return self.stop - self.start

    def __iter__(self) -> Iterator[int]:
        return iter(range(self.start, self.stop))


#: settings and replicates in, measurements out
Experiment = Callable[[Mapping[str, Any], Replicates], Measurements]


def concatenate(parts: Iterable[Measurements]) -> dict[str, NDArray[Any]]:
    """Measurements of several looks joined along the replicate axis. Raises InputError where their names differ."""
    parts = list(parts)
    names = set(parts[0])
    for part in parts:
        if set(part) != names:
            raise InputError(
                f"an experiment returns the same measurements at every look; first {sorted(names)}, now {sorted(part)}"
            )
    if len(parts) == 1:
        return {name: np.asarray(value) for name, value in parts[0].items()}
    return {name: np.concatenate([part[name] for part in parts]) for name in parts[0]}
