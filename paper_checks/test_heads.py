"""A test a property of a head: `pytest paper_checks/test_heads.py --mfcheck-head pkg.module:name`."""

import functools

import pytest

from mfcheck.conformance.check_head import HeadCheck
from mfcheck.conformance.head_properties import NAMES
from mfcheck.conformance.parametrize import answer
from mfcheck.conformance.target import load_target
from mfcheck.errors import InputError


@functools.lru_cache
def _check(target: str, seed: int) -> HeadCheck:
    return HeadCheck(load_target(target), target=target, seed=seed)


@pytest.mark.parametrize("name", NAMES)
def test_property(name: str, request: pytest.FixtureRequest) -> None:
    """The property holds of the head named by --mfcheck-head; skipped where none is named, or it does not apply."""
    target = request.config.getoption("--mfcheck-head")
    if target is None:
        pytest.skip("no head was named: --mfcheck-head pkg.module:name")
    try:
        result = _check(target, request.config.getoption("--mfcheck-seed")).result(name)
    except InputError as error:
        raise pytest.UsageError(str(error)) from error
    answer(result)
