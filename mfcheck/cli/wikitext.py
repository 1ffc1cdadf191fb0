"""`mfcheck wikitext`: the language-modelling experiment, its sweep and its verdict."""

from __future__ import annotations

import datetime
import os
import platform
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from mfcheck.cli.refuse import refuse
from mfcheck.errors import InputError

if TYPE_CHECKING:
    from mfcheck.experiments.wikitext.cell import Cell
    from mfcheck.experiments.wikitext.preset import Preset
    from mfcheck.experiments.wikitext.sweep import Swept

#: The first seed of a pilot: none that a run uses.
PILOT = 1000


def wikitext(
    preset: Annotated[str, typer.Option(help="tiny, small or paper, or a TOML file of one's own.")] = "tiny",
    data: Annotated[
        Path | None, typer.Option(help="Folder with WikiText-2; downloaded if none.", envvar="MFCHECK_WIKITEXT")
    ] = None,
    out: Annotated[Path | None, typer.Option(help="Folder of the run; outcomes/wikitext/PRESET if none.")] = None,
    seeds: Annotated[int, typer.Option(help="Paired seeds; the preset's if 0.", min=0)] = 0,
    workers: Annotated[int, typer.Option(help="Processes here; one a core if 0.", min=0)] = 0,
    scheduler: Annotated[str | None, typer.Option(help="Address of a Dask scheduler, tcp://host:8786.")] = None,
    device: Annotated[str | None, typer.Option(help="auto, cpu or cuda, instead of the preset's.")] = None,
    pilot: Annotated[int, typer.Option(help="Run this many pilot seeds, and say how many pairs it takes.")] = 0,
    recorded: Annotated[bool, typer.Option("--recorded", help="Judge the run on record; train nothing.")] = False,
    record: Annotated[Path | None, typer.Option(help="Write the record OUT/record.jsonl to this file too.")] = None,
    docs: Annotated[Path | None, typer.Option(help="Also renew the tables in this Markdown file.")] = None,
    json: Annotated[bool, typer.Option("--json", help="Print the verdict as JSON.")] = False,
) -> None:
    """Train the arms of a preset with paired seeds, on this machine or a Dask cluster, and say what came of it.

    The same command goes on where an interrupted one stopped, and does nothing where all is done. Exit code 0 where
    every cell ran, 1 where one failed, 2 on bad input, 130 when interrupted.
    """
    try:
        from mfcheck.device import resolve_device
        from mfcheck.experiments.wikitext import preset as presets
        from mfcheck.experiments.wikitext.record import read_record
        from mfcheck.experiments.wikitext.sweep import table

        chosen = presets.read_preset(preset)
        if recorded:
            _judge(read_record(chosen.name).outcomes, chosen, docs, out, json)
            raise typer.Exit(0)
        resolved = resolve_device(device or chosen.training.device)
        chosen = replace(chosen, seeds=seeds or chosen.seeds, training=replace(chosen.training, device=resolved))
        folder = out or Path("outcomes") / "wikitext" / chosen.name
        if pilot:
            swept = _run(table(chosen, folder / "pilot", range(PILOT, PILOT + pilot)), data, workers, scheduler)
            _plan(swept, chosen)
            raise typer.Exit(1 if swept.failures else 0)
        swept = _run(table(chosen, folder), data, workers, scheduler)
        for path in (folder / "record.jsonl", *([record] if record else [])):
            _keep(path, swept, preset if preset in presets.preset_names() else str(Path(preset).resolve()))
        _judge(swept.outcomes, chosen, docs, folder, json)
    except InputError as error:
        refuse("wikitext", error)
    except OSError as error:
        refuse("wikitext", InputError(f"{error.strerror or error} ({error.filename}); what is done stays done"))
    raise typer.Exit(1 if swept.failures else 0)


def _run(cells: Sequence[Cell], data: Path | None, workers: int, scheduler: str | None) -> Swept:
    """The sweep under a progress bar; on Ctrl-C says what stands, and exits with code 130."""
    from mfcheck.cli.wikitext_progress import shown
    from mfcheck.experiments.wikitext.sweep import sweep

    processes = workers or os.cpu_count() or 1
    with shown(cells) as finished:
        try:
            swept = sweep(cells, data=data, workers=processes, scheduler=scheduler, finished=finished)
        except KeyboardInterrupt:
            done = sum((cell.place / "outcome.json").exists() for cell in cells)
            typer.echo(
                f"mfcheck wikitext: stopped with {done} of {len(cells)} cells done; the same command goes on, cells "
                "under way from their last checkpoint",
                err=True,
            )
            raise typer.Exit(130) from None
    for failure in swept.failures:
        typer.echo(f"mfcheck wikitext: {failure.cell} failed: {failure.reason}", err=True)
    return swept


def _judge(outcomes: Sequence[Any], preset: Preset, docs: Path | None, folder: Path | None, json: bool) -> None:
    """Prints arms, differences and words, or all of it as JSON; leaves outcomes for figures in the folder."""
    from json import dumps

    from rich.console import Console

    from mfcheck.experiments.wikitext.verdict import judge_wikitext, whole_seeds
    from mfcheck.outcome import append_outcome
    from mfcheck.report import wikitext as shown
    from mfcheck.wikitext import outcomes_of

    seeds = whole_seeds(outcomes, preset)
    if not seeds:
        raise InputError("no seed has an outcome of every arm, so that there is nothing to compare")
    console = Console()
    if not json:
        console.print(shown.arms_table(seeds, preset))
    if len(seeds) < 2:
        typer.echo("a verdict takes at least two seeds", err=json)
        return
    verdict, said = judge_wikitext(seeds, preset), outcomes[0]["said"]
    if json:
        typer.echo(dumps(shown.as_json(verdict, preset, said)))
    else:
        console.print(shown.verdict_table(verdict))
        typer.echo(shown.plain_words(verdict, preset, said))
    if docs is not None:
        shown.update_docs(docs, shown.markdown(verdict, seeds, preset))
        typer.echo(f"{docs}: tables renewed", err=json)
    if folder is not None:
        for outcome in outcomes_of(verdict, seeds, preset):
            append_outcome(folder / "outcomes.jsonl", outcome)
        made = f"outcomes in {folder}; figures of them: mfcheck figures wikitext_beta --outcomes {folder}"
        typer.echo(made, err=json)


def _plan(swept: Swept, preset: Preset) -> None:
    from rich.console import Console

    from mfcheck.experiments.wikitext.verdict import plan_seeds, whole_seeds
    from mfcheck.report.wikitext import plan_table

    Console().print(plan_table(plan_seeds(whole_seeds(swept.outcomes, preset), preset)))


def _keep(path: Path, swept: Swept, preset: str) -> None:
    from mfcheck.experiments.wikitext.record import write_record

    about = {
        "preset": preset,
        "date": datetime.datetime.now(datetime.timezone.utc).date().isoformat(),
        "machine": f"{platform.machine()}, {os.cpu_count()} cores",
        "processor_hours": sum(outcome["processor_seconds"] for outcome in swept.outcomes) / 3600,
        "command": f"mfcheck wikitext --preset {Path(preset).name}",
    }
    write_record(path, about, swept.outcomes)
