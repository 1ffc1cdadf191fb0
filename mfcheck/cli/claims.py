"""`mfcheck claims`: the catalogue, as a list or one claim whole."""

from __future__ import annotations

import json
from typing import Annotated, Any

import typer

from mfcheck.cli.refuse import refuse
from mfcheck.errors import InputError

claims = typer.Typer(help="The catalogue of claims.", no_args_is_help=True)
AsJson = Annotated[bool, typer.Option("--json", help="Print JSON.")]


@claims.command("list")
def list_claims(as_json: AsJson = False) -> None:
    """Every registered claim, its prediction and its controls."""
    from rich import box
    from rich.console import Console
    from rich.table import Table

    from mfcheck import catalogue

    try:
        registered = catalogue.claims()
    except InputError as error:
        refuse("claims", error)
    if as_json:
        typer.echo(json.dumps([_facts(name) for name in registered], indent=1))
        return
    table = Table("id", "claim", "prediction", "controls", box=box.SIMPLE_HEAD)
    for claim in registered.values():
        table.add_row(claim.id, claim.statement, claim.prediction, str(len(claim.controls)))
    Console().print(table)


@claims.command()
def show(name: Annotated[str, typer.Argument(metavar="ID")], as_json: AsJson = False) -> None:
    """One claim: statement, source, hypotheses, prediction, criteria with their regions, controls, where it stands."""
    try:
        facts = _facts(name)
    except InputError as error:
        refuse("claims", error)
    if as_json:
        typer.echo(json.dumps(facts, indent=1))
        return
    for key in ("id", "statement", "source", "hypotheses", "prediction", "formula", "expected", "stated", "run"):
        if facts[key]:
            typer.echo(f"{key + ':':12} {facts[key]}")
    typer.echo("criteria:")
    for criterion in facts["criteria"]:
        typer.echo(f"  {criterion['name']}: in {criterion['region']}")
    typer.echo("controls:")
    for control in facts["controls"]:
        changes = ", ".join(f"{key} = {value}" for key, value in control["changes"].items())
        must = [f"must {verb[:-1]} {'; '.join(control[verb])}" for verb in ("refutes", "supports") if control[verb]]
        typer.echo(f"  {control['name']} ({changes}): {', '.join(must)}")
    typer.echo(f"verify it:   mfcheck verify {facts['id']}")


def _facts(name: str) -> dict[str, Any]:
    from mfcheck import catalogue

    claim = catalogue.chosen([name])[name]
    return {
        "id": claim.id,
        "statement": claim.statement,
        "source": claim.source,
        "hypotheses": claim.hypotheses,
        "prediction": claim.prediction,
        "formula": claim.formula,
        "expected": claim.on_record.value,
        "replicates": claim.replicates,
        **catalogue.places(claim),
        "criteria": [{"name": c.name, "region": str(c.region)} for c in claim.criteria],
        "controls": [
            {"name": c.name, "changes": dict(c.changes), "refutes": list(c.refutes), "supports": list(c.supports)}
            for c in claim.controls
        ],
    }
