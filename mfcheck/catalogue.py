"""Where the claims and the figures are: in the repository that one stands in, or shipped with the package."""

from __future__ import annotations

import inspect
import sys
from collections.abc import Mapping
from importlib import import_module
from pathlib import Path
from pkgutil import iter_modules
from types import ModuleType

from mfcheck.claim import Claim
from mfcheck.errors import InputError

#: A wheel carries paper_checks/ and figures/ here; in a checkout they lie beside the package.
SHIPPED = Path(__file__).parent / "shipped"


def home(name: str = "paper_checks") -> Path:
    """The folder that holds paper_checks/ (or figures/): the working directory, the checkout, or the package's own.

    Raises InputError where none of them does.
    """
    for folder in (Path.cwd(), Path(__file__).parents[1], SHIPPED):
        if (folder / name / "__init__.py").is_file():
            return folder
    raise InputError(
        f"there is no folder {name}/ here: neither the working directory nor the installed package has one; run this "
        "from the root of the mfcheck repository, or install mfcheck from a wheel"
    )


def claims() -> Mapping[str, Claim]:
    """Every registered claim by id. Raises InputError as `home`."""
    registered: Mapping[str, Claim] = _package("paper_checks").CLAIMS
    return registered


def figures() -> Mapping[str, str]:
    """The module of each figure by its name. Raises InputError as `home`."""
    package = _package("figures")
    return {m.name: f"figures.{m.name}" for m in iter_modules(package.__path__) if not m.name.startswith("_")}


def chosen(ids: list[str]) -> Mapping[str, Claim]:
    """The claims with these ids, all of them if none is given. Raises InputError on an id that is not registered."""
    registered = claims()
    unknown = [name for name in ids if name not in registered]
    if unknown:
        raise InputError(f"no claim is called {', '.join(unknown)}; there are {', '.join(registered)}")
    return {name: registered[name] for name in ids} if ids else registered


def places(claim: Claim) -> dict[str, str]:
    """'paper_checks/claims_grid.py' that states a claim, and 'mfcheck/experiments/grid.py:40' that runs it."""
    package = _package("paper_checks")
    stated = next(
        (
            module.name
            for module in iter_modules(package.__path__)
            if any(claim is other for other in getattr(import_module(f"paper_checks.{module.name}"), "CLAIMS", ()))
        ),
        "?",
    )
    code = inspect.unwrap(claim.experiment)
    line = inspect.getsourcelines(code)[1]
    return {
        "stated": f"paper_checks/{stated}.py",
        "run": f"{code.__module__.replace('.', '/')}.py:{line} ({code.__name__})",
    }


def _package(name: str) -> ModuleType:
    folder = str(home(name))
    if folder not in sys.path:
        sys.path.insert(0, folder)
    return import_module(name)
