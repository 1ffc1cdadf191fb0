"""`mfcheck report`: what a run found, as one HTML file, as Markdown, as JSON, or into the README."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path
from typing import Annotated

import typer

from mfcheck.cli.refuse import refuse
from mfcheck.errors import InputError


def report(
    outcomes: Annotated[Path, typer.Option(help="Folder that holds outcomes.jsonl.")] = Path("outcomes"),
    out: Annotated[Path | None, typer.Option(help="The file [default: report.html (.md, .json) in OUTCOMES].")] = None,
    against: Annotated[Path | None, typer.Option(help="An earlier outcomes.jsonl: shows what moved.")] = None,
    markdown: Annotated[bool, typer.Option("--markdown", help="Markdown in place of HTML.")] = False,
    as_json: Annotated[bool, typer.Option("--json", help="JSON in place of HTML.")] = False,
    readme: Annotated[Path | None, typer.Option(help="Renew the generated parts of this README instead.")] = None,
) -> None:
    """Write the report of a run: verdicts, intervals against their regions, controls, figures, how to run it again.

    Exit code 2 where outcomes are missing.
    """
    from mfcheck import catalogue
    from mfcheck.outcome import read_outcomes
    from mfcheck.report.compare import compare
    from mfcheck.report.page import html, latest, pictures, summary
    from mfcheck.report.tables import markdown_table, update_readme

    try:
        found = list(latest(read_outcomes(outcomes / "outcomes.jsonl")).values())
        if not any(outcome.control is None for outcome in found):
            raise InputError(f"no claim has an outcome in {outcomes}; make some with `mfcheck verify --out {outcomes}`")
        if readme is not None:
            update_readme(readme, found)
            typer.echo(f"{readme}: claims table and printed sample from {len(found)} outcomes")
            return
        moved = compare(read_outcomes(against), found) if against is not None else None
        if markdown:
            ending, text = "md", markdown_table(found) + "\n"
        elif as_json:
            ending, text = "json", summary(found) + "\n"
        else:
            drawn = pictures(catalogue.figures(), latest(found), told=_told())
            ending, text = "html", html(found, catalogue.claims(), catalogue.places, drawn, moved)
    except InputError as error:
        refuse("report", error)
    path = out if out is not None else outcomes / f"report.{ending}"
    path.parent.mkdir(parents=True, exist_ok=True)
    partial = path.with_name(f".{path.name}.{os.getpid()}")
    partial.write_text(text, encoding="utf-8")
    partial.replace(path)
    typer.echo(f"{path}: {len(found)} outcomes, {path.stat().st_size / 1e6:.1f} MB")
    if moved is not None:
        typer.echo(f"{len(moved.changed)} verdicts changed, {len(moved.moves)} intervals moved")
        for move in moved.changed:
            typer.echo(f"  {move.outcome}: {move.criterion}: {move.verdict_before} -> {move.verdict_now}")


def _told() -> Callable[[str], None]:
    """Says on a terminal which figure is being drawn; is silent elsewhere."""
    from rich.console import Console

    console = Console(stderr=True)
    return (lambda name: console.print(f"drawing {name}", style="dim")) if console.is_terminal else (lambda name: None)
