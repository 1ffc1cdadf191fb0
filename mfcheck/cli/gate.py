"""`mfcheck gate`: the toy gate on paired seeds, and its verdicts."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Annotated, Any

import typer

from mfcheck.cli.refuse import refuse
from mfcheck.errors import InputError


def gate(
    seeds: Annotated[int, typer.Option(help="Paired seeds.")] = 8,
    arms: Annotated[str, typer.Option(help="main, or all: with the side questions' arms, S5 to S7.")] = "main",
    out: Annotated[Path, typer.Option(help="Folder for what is found: a file a group of seeds, gate.jsonl.")] = Path(
        "outcomes/gate"
    ),
    resume: Annotated[bool, typer.Option("--resume", help="Take over the groups of seeds that OUT holds.")] = False,
    pilot: Annotated[bool, typer.Option("--pilot", help="Other seeds, whose spread says how many to run.")] = False,
    read: Annotated[Path | None, typer.Option(help="Judge the numbers of this gate.jsonl; train nothing.")] = None,
    write: Annotated[Path | None, typer.Option(help="Write the tables between the marks of this document.")] = None,
    seed: Annotated[int, typer.Option(help="Root seed.")] = 0,
    device: Annotated[str, typer.Option(help="auto, cpu or cuda.")] = "cpu",
    jobs: Annotated[int, typer.Option(help="Processes; -1 for all cores.")] = -1,
    as_json: Annotated[bool, typer.Option("--json", help="Print the verdict as JSON.")] = False,
) -> None:
    """Does diffusion help a small attention layer? Paired seeds, and a verdict on each hypothesis by stated rules.

    Exit code 0 where the gate passed (or a pilot ended), 1 where it failed, 2 on bad input.
    """
    from rich.console import Console

    from mfcheck.device import resolve_device
    from mfcheck.experiments.toy_gate.arms import ARMS, MAIN
    from mfcheck.experiments.toy_gate.verdict import judge_gate, plan_seeds
    from mfcheck.gate import GatePlan, outcomes_of, read_gate
    from mfcheck.outcome import append_outcome
    from mfcheck.report import gate as tables

    console = Console()
    try:
        if arms not in ("main", "all"):
            raise InputError(f"--arms is main or all; it came as {arms!r}")
        if read is not None:
            header, numbers = read_gate(read)
        else:
            plan = GatePlan(seeds, MAIN if arms == "main" else tuple(ARMS), seed, resolve_device(device), pilot)
            header, numbers = plan.header(), _run(plan, out, resume, jobs)
        if pilot:
            planned = plan_seeds(numbers)
            console.print(tables.plan_table(planned))
            console.print(tables.plan_line(planned, len(numbers)))
            return
        verdict = judge_gate(numbers)
        if write is not None:
            tables.update_document(write, tables.markdown(verdict, numbers))
        (out / "outcomes.jsonl").unlink(missing_ok=True)
        for outcome in outcomes_of(verdict, header, numbers):
            append_outcome(out / "outcomes.jsonl", outcome)
    except (InputError, OSError) as error:
        refuse("gate", error)
    if as_json:
        typer.echo(json.dumps(tables.as_json(verdict, numbers)))
    else:
        wide = Console(width=max(tables.WIDTH, console.width))
        wide.print(tables.means_table(numbers))
        wide.print(tables.means_table(numbers, tables.SIDE_COLUMNS))
        wide.print(tables.verdict_table(verdict))
        for sentence in tables.conclusion(verdict, numbers):
            wide.print(sentence)
        wide.print(f"numbers and outcomes in {out}")
    raise typer.Exit(0 if verdict.passed else 1)


def _run(plan: Any, out: Path, resume: bool, jobs: int) -> list[dict[str, Any]]:
    from rich.console import Console
    from rich.progress import (
        BarColumn,
        MofNCompleteColumn,
        Progress,
        TextColumn,
        TimeElapsedColumn,
        TimeRemainingColumn,
    )

    from mfcheck.gate import run_gate

    columns = (
        TextColumn("paired seeds"),
        BarColumn(),
        MofNCompleteColumn(),
        TimeElapsedColumn(),
        TimeRemainingColumn(),
    )
    with Progress(*columns, console=Console(stderr=True), transient=True) as progress:
        task = progress.add_task("seeds", total=plan.seeds)
        return run_gate(plan, out, resume=resume, jobs=jobs, on_group=lambda n: progress.advance(task, n))
