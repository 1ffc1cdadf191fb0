"""Objects by name: pkg.module:name, as the command line takes them."""

from __future__ import annotations

import importlib
import sys
from pathlib import Path
from typing import Any

from mfcheck.errors import InputError


def load_target(target: str) -> Any:
    """The object that pkg.module:name names; the working directory is searched first. name may be dotted.

    Raises InputError with a sentence: no such form, a module that is not there or that fails, a name it has not.
    """
    module_name, colon, name = target.partition(":")
    if not colon or not module_name or not name:
        raise InputError(f"a target is written pkg.module:name; it came as {target!r}")
    here = str(Path.cwd())
    if here not in sys.path:
        sys.path.insert(0, here)
    try:
        found: Any = importlib.import_module(module_name)
    except ModuleNotFoundError as error:
        if error.name and (module_name == error.name or module_name.startswith(f"{error.name}.")):
            raise InputError(
                f"there is no module {error.name} (looked in {here} and the installed packages)"
            ) from error
        raise InputError(f"importing {module_name} failed: it needs {error.name}, which is not there") from error
    except (Exception, SystemExit) as error:
        raise InputError(f"importing {module_name} raised {type(error).__name__}: {error}") from error
    for part in name.split("."):
        if not hasattr(found, part):
            public = [each for each in vars(found) if not each.startswith("_")] if hasattr(found, "__dict__") else []
            raise InputError(
                f"{module_name} has no {name}; it has {', '.join(sorted(public)[:20]) or 'nothing public'}"
            )
        found = getattr(found, part)
    return found


def name_of(function: object) -> str:
    """What to call a function in a report: its own name, that inside a partial, its class's."""
    inner = function
    while hasattr(inner, "func") and not hasattr(inner, "__name__"):
        inner = inner.func
    name = getattr(inner, "__name__", type(inner).__name__)
    return "the lambda" if name == "<lambda>" else str(name)
