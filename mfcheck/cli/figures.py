"""`mfcheck figures`: the convergence figures, from the outcomes of an earlier run."""

from __future__ import annotations

import sys
from collections.abc import Mapping
from importlib import import_module
from pathlib import Path
from pkgutil import iter_modules
from typing import Annotated

import typer

from mfcheck.cli.refuse import refuse
from mfcheck.errors import InputError
from mfcheck.outcome import Outcome, read_outcomes


def figures(
    names: Annotated[list[str] | None, typer.Argument(help="Figures to draw; all of them if none is named.")] = None,
    outcomes: Annotated[Path, typer.Option(help="Folder that holds outcomes.jsonl.")] = Path("outcomes"),
    out: Annotated[Path, typer.Option(help="Folder for the pictures (PNG and PDF).")] = Path("figures/out"),
) -> None:
    """Draw the convergence figures from the outcomes of an earlier run. Exit code 2 where outcomes are missing."""
    try:
        modules = _figure_modules()
        unknown = sorted(set(names or []) - set(modules))
        if unknown:
            raise InputError(f"no figure is called {', '.join(unknown)}; there are {', '.join(modules)}")
        read = {outcome.name: outcome for outcome in read_outcomes(outcomes / "outcomes.jsonl")}
        missing = [_draw(name, modules[name], read, outcomes, out) for name in names or modules]
    except InputError as error:
        refuse("figures", error)
    if any(missing):
        raise typer.Exit(2)


def _figure_modules() -> dict[str, str]:
    """Figures by name. They lie beside the package, in the repository, which is where they are drawn from."""
    sys.path.insert(0, str(Path.cwd()))
    try:
        package = import_module("figures")
    except ModuleNotFoundError as error:
        raise InputError(
            "there is no folder figures/ here: run this from the root of the mfcheck repository"
        ) from error
    found = sorted(module.name for module in iter_modules(package.__path__) if not module.name.startswith("_"))
    return {name: f"figures.{name}" for name in found}


def _draw(name: str, module_name: str, read: Mapping[str, Outcome], outcomes: Path, out: Path) -> bool:
    """Draws one figure; says which command makes the outcomes that it lacks, and returns whether any were."""
    from matplotlib import pyplot

    module = import_module(module_name)
    lacking = [claim for claim in module.NEEDS if claim not in read]
    if lacking:
        chosen = " or ".join(sorted({claim.split(":")[0] for claim in lacking}))
        typer.echo(
            f"{name}: no outcome of {', '.join(lacking)} in {outcomes}; make it with "
            f"`pytest paper_checks -k '{chosen}' --mfcheck-out {outcomes}`",
            err=True,
        )
        return True
    figure = module.draw(read)
    out.mkdir(parents=True, exist_ok=True)
    for ending in ("png", "pdf"):
        # drawn beside its place and moved there, so that an interrupted run leaves whole files
        partial = out / f".{name}.{ending}"
        figure.savefig(partial, format=ending)
        partial.replace(out / f"{name}.{ending}")
    pyplot.close(figure)
    typer.echo(f"{out / name}.png, .pdf: {str(module.__doc__).splitlines()[0]}")
    return False
