"""`mfcheck head pkg.module:name`: the properties of a head that a user brings."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from mfcheck.cli.refuse import refuse
from mfcheck.errors import InputError


def head(
    target: Annotated[str, typer.Argument(help="pkg.module:name of a callable, HeadSpec, Head or nn.Module.")],
    parameter_dimension: Annotated[int | None, typer.Option(help="p, where it cannot be inferred.")] = None,
    token_dimension: Annotated[int | None, typer.Option(help="d, where it cannot be inferred.")] = None,
    only: Annotated[str, typer.Option(help="Properties, separated by commas; all if empty.")] = "",
    examples: Annotated[int, typer.Option(help="Inputs tried for each property.")] = 100,
    seed: Annotated[int, typer.Option(help="Root seed of the sampled properties.")] = 0,
    budget: Annotated[float, typer.Option(help="Seconds, by which a slow head gets fewer examples.")] = 20.0,
    device: Annotated[str, typer.Option(help="cpu or cuda.")] = "cpu",
    json_file: Annotated[Path | None, typer.Option("--json", help="Write the report as JSON to this file.")] = None,
) -> None:
    """Test a head against the hypotheses of the theorems: a line a property, then which claims apply to it.

    Exit code 0 where all hold, 1 where one is violated or undecided, 2 on what cannot be called as a head.
    """
    from mfcheck.conformance.check_head import check_head
    from mfcheck.conformance.target import load_target

    try:
        report = check_head(
            load_target(target),
            target=target,
            p=parameter_dimension,
            d=token_dimension,
            only=[each.strip() for each in only.split(",") if each.strip()],
            examples=examples,
            seed=seed,
            budget=budget,
            device=device,
        )
    except InputError as error:
        refuse("head", error)
    typer.echo(str(report))
    if json_file is not None:
        json_file.write_text(report.to_json(), encoding="utf-8")
    raise typer.Exit(report.exit_code)
