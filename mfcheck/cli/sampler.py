"""`mfcheck sampler`: every property of an update rule that a person brings."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from mfcheck.cli.refuse import refuse
from mfcheck.errors import InputError


def sampler(
    target: Annotated[
        str,
        typer.Argument(
            help="pkg.module:name of make_optimizer(params, lr, beta, generator), or of a function "
            "(theta, grad, step, beta, generator) -> theta."
        ),
    ],
    kind: Annotated[str | None, typer.Option(help="optimizer or update, where the signature does not tell.")] = None,
    scaling: Annotated[
        str | None, typer.Option(help="raw or mean_field: the drift that it should have; either will do by default.")
    ] = None,
    n_train: Annotated[
        int | None, typer.Option(help="Number of data points, to recognise it as a stray factor.")
    ] = None,
    only: Annotated[str, typer.Option(help="Properties by name, separated by commas; all if empty.")] = "",
    seed: Annotated[int, typer.Option(help="Root seed of all randomness.")] = 0,
    alpha: Annotated[float, typer.Option(help="Probability that any property that holds is called violated.")] = 0.01,
    budget: Annotated[float, typer.Option(help="Seconds for all steps of the rule; 0 for no limit.")] = 30.0,
    device: Annotated[str, typer.Option(help="auto, cpu or cuda.")] = "cpu",
    json_file: Annotated[Path | None, typer.Option("--json", metavar="FILE", help="Write the report there.")] = None,
) -> None:
    """Measure an update rule: how much noise, of what law, at which temperature it samples, and what is likely wrong.

    Exit code 0 where all properties hold, 1 where one is violated or undecided, 2 on bad input.
    """
    import torch

    from mfcheck.conformance.check_sampler import check_sampler
    from mfcheck.conformance.target import load_target
    from mfcheck.device import resolve_device

    # chains are batched in one tensor; more threads would only make a run depend on the machine
    torch.set_num_threads(1)
    try:
        if json_file is not None and not json_file.absolute().parent.is_dir():
            raise InputError(f"there is no folder {json_file.absolute().parent} to write {json_file.name} in")
        report = check_sampler(
            load_target(target),
            kind=kind,
            target=target,
            scaling=scaling,
            n_train=n_train,
            only=[name.strip() for name in only.split(",") if name.strip()],
            seed=seed,
            alpha=alpha,
            budget=budget or None,
            device=resolve_device(device),
        )
    except InputError as error:
        refuse("sampler", error)
    typer.echo(str(report))
    if json_file is not None:
        json_file.write_text(report.to_json() + "\n", encoding="utf-8")
    raise typer.Exit(report.exit_code)
