"""One test a claim, one a control: `pytest paper_checks`, `pytest paper_checks -k D1`."""

from collections.abc import Callable

import pytest

from mfcheck.claim import Claim, Control
from paper_checks import CLAIMS

CONTROLS = [(claim, control) for claim in CLAIMS.values() for control in claim.controls]


@pytest.mark.parametrize("claim", CLAIMS.values(), ids=CLAIMS.keys())
def test_claim(claim: Claim, mfcheck_verify: Callable[..., None]) -> None:
    """The claim comes out as on record."""
    mfcheck_verify(CLAIMS, claim)


@pytest.mark.parametrize(
    ("claim", "control"), CONTROLS, ids=[f"{claim.id}: {control.name}" for claim, control in CONTROLS]
)
def test_control(claim: Claim, control: Control, mfcheck_verify: Callable[..., None]) -> None:
    """The same check refutes the claim where it is false."""
    mfcheck_verify(CLAIMS, claim, control)
