"""Update rules that break one property each, which the suite must find, and find nothing else wrong with them.

A class is a factory: mfcheck.conformance.broken:FactorTwoMissing for the command line, called as
FactorTwoMissing(params, lr, beta, generator). `BROKEN` has them all, with the property that each breaks, and those that
it cannot help breaking, too, with the reason.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from mfcheck.conformance.broken import drift, influences, law, noise, state
from mfcheck.conformance.broken.base import BROKEN

__all__ = ["BROKEN", "drift", "influences", "law", "noise", "state"]


def __getattr__(name: str) -> Callable[..., Any]:
    for broken in BROKEN:
        if broken.name == name:
            return broken.brought
    raise AttributeError(f"no broken rule is called {name!r}")
