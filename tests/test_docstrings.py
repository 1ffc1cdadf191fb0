"""The examples in docstrings run and print what they say."""

from __future__ import annotations

import doctest
from importlib import import_module
from pkgutil import walk_packages

import mfcheck


def test_the_examples_in_docstrings_run() -> None:
    found = [module.name for module in walk_packages(mfcheck.__path__, "mfcheck.") if ".shipped" not in module.name]
    results = [doctest.testmod(import_module(name)) for name in found]
    assert sum(result.failed for result in results) == 0
    # those of the measure, the first variation, the grid, the solver, the particles and the verdict
    assert sum(result.attempted for result in results) >= 12
