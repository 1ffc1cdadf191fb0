"""A test a property of a head: `pytest paper_checks/test_heads.py --mfcheck-head pkg.module:name`."""

from collections.abc import Callable


def test_head(mfcheck_property: Callable[[], object]) -> None:
    """The property holds of the head named by --mfcheck-head; skipped where none is named, or it does not apply."""
    mfcheck_property()
