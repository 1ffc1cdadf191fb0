"""The examples in docstrings run and print what they say."""

from __future__ import annotations

import doctest
from importlib import import_module
from pkgutil import iter_modules, walk_packages

import mfcheck


def test_the_examples_in_docstrings_run() -> None:
    found = [module.name for module in walk_packages(mfcheck.__path__, "mfcheck.") if ".shipped" not in module.name]
    results = [doctest.testmod(import_module(name)) for name in found]
    assert sum(result.failed for result in results) == 0
    # those of the measure, the first variation, the grid, the solver, the particles and the verdict
    assert sum(result.attempted for result in results) >= 12


def test_no_module_hides_a_public_name() -> None:
    """Once loaded, a module mfcheck.run would be what `mfcheck.run` means."""
    assert not {module.name for module in iter_modules(mfcheck.__path__)} & set(mfcheck.__all__)
