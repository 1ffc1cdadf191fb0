"""The one exception that mfcheck raises for what a person handed it."""

from __future__ import annotations


class InputError(ValueError):
    """Bad input: a sentence that says what came and what was expected (exit code 2 on the command line)."""
