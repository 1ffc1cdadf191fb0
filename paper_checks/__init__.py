"""The claims that mfcheck verifies, family by family, as data."""

from importlib import import_module
from pathlib import Path

from mfcheck.claim import Claim, registry

_FAMILIES = sorted(path.stem for path in Path(__file__).parent.glob("claims_*.py"))

#: Every registered claim by id. Their number shares out the suite's error rate, whichever of them are selected.
CLAIMS: dict[str, Claim] = registry(*(import_module(f"{__name__}.{name}").CLAIMS for name in _FAMILIES))
