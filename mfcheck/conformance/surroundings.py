"""Room for somebody else's code: its own global generators, its prints and warnings kept to itself."""

from __future__ import annotations

import contextlib
import io
import random
import warnings
from collections.abc import Iterator

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
