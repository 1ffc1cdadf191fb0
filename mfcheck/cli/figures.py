"""`mfcheck figures`: the convergence figures, from the outcomes of an earlier run."""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
from importlib import import_module
from pathlib import Path
from typing import Annotated, Any

import typer

from mfcheck.cli.refuse import refuse
from mfcheck.errors import InputError


def figures(
    names: Annotated[list[str] | None, typer.Argument(help="Figures to draw; all of them if none is named.")] = None,
    outcomes: Annotated[Path, typer.Option(help="Folder that holds outcomes.jsonl.")] = Path("outcomes"),
    out: Annotated[Path | None, typer.Option(help="Folder for the pictures [default: figures/ in OUTCOMES].")] = None,
    formats: Annotated[str, typer.Option("--format", help="png, pdf, svg, gif, separated by commas.")] = "png,pdf",
    dpi: Annotated[int, typer.Option(help="Dots an inch of PNG files.", min=30)] = 300,
    page: Annotated[Path | None, typer.Option(help="Write a Markdown page of the PNG files with captions.")] = None,
    show: Annotated[bool, typer.Option("--list", help="List the figures and what each shows; draw nothing.")] = False,
    as_json: Annotated[bool, typer.Option("--json", help="Print names, claims, captions and files as JSON.")] = False,
) -> None:
    """Draw the convergence figures from the outcomes of an earlier run. Exit code 2 where outcomes are missing."""
    from mfcheck import catalogue
    from mfcheck.outcome import read_outcomes
    from mfcheck.report import gallery

    try:
        modules = catalogue.figures()
        if show:
            _list(modules, as_json)
            return
        wanted = [ending.strip() for ending in formats.split(",")]
        strange = [ending for ending in wanted if ending not in gallery.FORMATS]
        if strange:
            raise InputError(f"a format is one of {', '.join(gallery.FORMATS)}; it came as {', '.join(strange)}")
        unknown = sorted(set(names or []) - set(modules))
        if unknown:
            raise InputError(f"no figure is called {', '.join(unknown)}; there are {', '.join(modules)}")
        read = {outcome.name: outcome for outcome in read_outcomes(outcomes / "outcomes.jsonl")}
    except InputError as error:
        refuse("figures", error)
    folder = out if out is not None else outcomes / "figures"
    missing, drawn, files = False, dict[str, str](), dict[str, list[Path]]()
    for name in names or modules:
        module = import_module(modules[name])
        absent = gallery.lacking(module, read)
        if absent:
            missing = True
            ids = " ".join(dict.fromkeys(outcome.split(":")[0] for outcome in absent))
            command = "wikitext --preset small --recorded" if ids.startswith("W") else f"verify {ids}"
            typer.echo(
                f"{name}: no outcome of {', '.join(absent)} in {outcomes}; make it with `mfcheck {command} --out "
                f"{outcomes}`",
                err=True,
            )
            continue
        saved = gallery.save(name, module, read, folder, wanted, dpi)
        if not saved:
            if names:
                typer.echo(f"{name}: this figure has no animation", err=True)
                missing = True
            continue
        drawn[name], files[name] = gallery.caption(module), saved
        if as_json:
            continue
        endings = ",".join(path.suffix[1:] for path in saved)
        typer.echo(f"{folder / name}.{{{endings}}}: {str(module.__doc__).splitlines()[0]}")
    if page is not None:
        page.write_text(gallery.markdown(drawn, os.path.relpath(folder, page.parent)), encoding="utf-8")
        typer.echo(f"{page}: {len(drawn)} figures", err=as_json)
    if as_json:
        facts = [_facts(name, modules[name]) | {"files": [str(path) for path in files[name]]} for name in drawn]
        typer.echo(json.dumps(facts, indent=1))
    if missing:
        raise typer.Exit(2)


def _list(modules: Mapping[str, str], as_json: bool) -> None:
    from rich.console import Console
    from rich.table import Table

    facts = [_facts(name, module_name) for name, module_name in modules.items()]
    if as_json:
        typer.echo(json.dumps(facts, indent=1))
        return
    table = Table("figure", "claims", "what it shows", box=None)
    for one in facts:
        table.add_row(one["name"], " ".join(one["claims"]), one["shows"])
    Console().print(table)


def _facts(name: str, module_name: str) -> dict[str, Any]:
    from mfcheck.report import gallery

    module = import_module(module_name)
    shows = str(module.__doc__).splitlines()[0]
    return {"name": name, "claims": gallery.claims_of(module), "shows": shows, "caption": gallery.caption(module)}
