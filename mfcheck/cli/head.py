"""`mfcheck head`: the hypotheses of the theorems, on a head that somebody brings."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from mfcheck.cli.refuse import refuse
from mfcheck.errors import InputError


def head(
    target: Annotated[str, typer.Argument(help="The head, as pkg.module:name.")],
    parameters: Annotated[int | None, typer.Option(help="p: how many parameters theta has.")] = None,
    tokens: Annotated[int | None, typer.Option(help="d: the dimension of the tokens.")] = None,
    only: Annotated[list[str] | None, typer.Option(help="A property to check; may be given again.")] = None,
    seed: Annotated[int, typer.Option(help="Seed of every draw.")] = 0,
    budget: Annotated[float, typer.Option(help="Seconds for the whole suite.")] = 25.0,
    device: Annotated[str | None, typer.Option(help="auto, cpu or cuda; by default where its parameters are.")] = None,
    json: Annotated[Path | None, typer.Option(help="File for the report as JSON.")] = None,
) -> None:
    """Check a head function v_theta(x; mu), a line a property. Exit code 1 where one is violated or undecided."""
    # a face that loads torch only when it is asked for something
    from torch import set_num_threads

    from mfcheck.conformance.check_head import check_head
    from mfcheck.conformance.target import load_target

    set_num_threads(1)
    try:
        report = check_head(
            load_target(target),
            target=target,
            parameter_dimension=parameters,
            token_dimension=tokens,
            only=only or (),
            seed=seed,
            budget=budget,
            device=device,
        )
    except InputError as error:
        refuse("head", error)
    typer.echo(str(report))
    if json is not None:
        json.parent.mkdir(parents=True, exist_ok=True)
        json.write_text(report.to_json() + "\n", encoding="utf-8")
    raise typer.Exit(report.exit_code)
