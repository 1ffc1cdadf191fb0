"""A test a property of an update rule: `pytest paper_checks/test_samplers.py --mfcheck-sampler pkg.module:name`."""

import functools

import pytest

from mfcheck import check_sampler
from mfcheck.conformance.parametrize import answer
from mfcheck.conformance.report import Report
from mfcheck.conformance.sampler_properties import NAMES
from mfcheck.conformance.target import load_target
from mfcheck.errors import InputError


@functools.lru_cache
def _report(target: str, seed: int) -> Report:
    # of all properties at once: what is likely wrong shows in several of them
    return check_sampler(load_target(target), target=target, seed=seed)


@pytest.mark.parametrize("name", NAMES)
def test_property(name: str, request: pytest.FixtureRequest) -> None:
    """The property holds of the rule named by --mfcheck-sampler; skipped where none is named, or it does not apply."""
    target = request.config.getoption("--mfcheck-sampler")
    if target is None:
        pytest.skip("no update rule was named: --mfcheck-sampler pkg.module:name")
    try:
        report = _report(target, request.config.getoption("--mfcheck-seed"))
    except InputError as error:
        raise pytest.UsageError(str(error)) from error
    answer(report[name], report.causes)
