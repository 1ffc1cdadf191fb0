"""One test a property of the update rule that --mfcheck-sampler names."""

import pytest

from mfcheck import check_sampler
from mfcheck.conformance.report import HOLDS, NOT_APPLICABLE
from mfcheck.conformance.sampler_properties import NAMES
from mfcheck.conformance.target import load_target
from mfcheck.errors import InputError


@pytest.mark.parametrize("name", NAMES)
def test_property(name: str, request: pytest.FixtureRequest) -> None:
    """The property holds, or says nothing about this rule."""
    target = request.config.getoption("--mfcheck-sampler")
    if target is None:
        pytest.skip("no update rule was named: --mfcheck-sampler pkg.module:name")
    try:
        report = check_sampler(
            load_target(target), target=target, only=[name], seed=request.config.getoption("--mfcheck-seed")
        )
    except InputError as error:
        raise pytest.UsageError(str(error)) from error
    result = report[name]
    if result.status == NOT_APPLICABLE:
        pytest.skip(result.detail)
    if result.status != HOLDS:
        pytest.fail(str(report), pytrace=False)
