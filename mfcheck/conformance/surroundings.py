"""Room for somebody else's code: its own global generators, its prints and warnings kept to itself; its speed."""

from __future__ import annotations

import contextlib
import io
import random
import time
import warnings
from collections.abc import Callable, Iterator

import numpy as np
import torch


@contextlib.contextmanager
def own_surroundings(seed: int) -> Iterator[io.StringIO]:
    """Global generators seeded, and given back as they were; what is printed and warned of is kept apart."""
    python, legacy = random.getstate(), np.random.get_state()  # noqa: NPY002
    printed = io.StringIO()
    with torch.random.fork_rng(), contextlib.redirect_stdout(printed), warnings.catch_warnings():
        warnings.simplefilter("ignore")
        torch.manual_seed(seed)
        np.random.seed(seed)  # noqa: NPY002
        random.seed(seed)
        try:
            yield printed
        finally:
            random.setstate(python)
            np.random.set_state(legacy)  # noqa: NPY002


def least_seconds(call: Callable[[], object]) -> float:
    """Seconds of a call: the least of three, or of fewer where that takes long."""
    taken: list[float] = []
    while len(taken) < 3 and sum(taken) < 0.2:
        began = time.perf_counter()
        call()
        taken.append(time.perf_counter() - began)
    return min(taken)
