"""The table of cells, run on one machine or on a Dask cluster: joblib either way, nothing run twice, nothing lost."""

from __future__ import annotations

import contextlib
import json
from collections.abc import Callable, Generator, Iterable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import joblib
from joblib.externals.loky import get_reusable_executor
from joblib.externals.loky.process_executor import TerminatedWorkerError

from mfcheck.errors import InputError
from mfcheck.experiments.wikitext.cell import NOTE, Cell, Failure, read_outcome, run_cell
from mfcheck.experiments.wikitext.checkpoint import write_whole
from mfcheck.experiments.wikitext.matching import match
from mfcheck.experiments.wikitext.prepared import prepare
from mfcheck.experiments.wikitext.preset import Preset

#: How often the workers may be lost before the cells that were under way count as failed: one that kills its worker
#: (memory) would otherwise be run for ever.
LARGEST_LOSSES = 3
COLLECTED = "cells.jsonl"

Result = dict[str, Any] | Failure
Results = Generator[Result, None, None]
Finished = Callable[[Result], Any]


@dataclass(frozen=True)
class Swept:
    """Outcomes in the table's order, and the cells that failed."""

    outcomes: tuple[dict[str, Any], ...]
    failures: tuple[Failure, ...]


def table(preset: Preset, folder: Path, seeds: Iterable[int] | None = None, **options: Any) -> list[Cell]:
    """The cells of a preset, seed by seed, so that an unfinished run has whole pairs.

    seeds: range(preset.seeds) unless given. options: as Cell's.
    """
    place = folder.resolve()
    chosen = range(preset.seeds) if seeds is None else seeds
    return [Cell(preset, arm.name, seed, place, **options) for seed in chosen for arm in preset.arms]


def sweep(
    cells: Sequence[Cell],
    *,
    data: Path | None = None,
    workers: int = 1,
    scheduler: str | None = None,
    finished: Finished = lambda result: None,
) -> Swept:
    """Runs the cells that have no outcome yet, and collects those of all in the run's folder.

    data: the folder with WikiText-2. workers: processes here, 1 for none but this; scheduler: the address of a Dask
    scheduler instead, whose workers see the run's folder. finished(outcome or failure) is called here as each cell
    ends. A cell whose worker was lost is run again, from its checkpoint. Raises InputError where the text cannot be
    prepared, the folder holds cells of another table, or the scheduler is not reached or has no workers.
    """
    if not cells:
        raise InputError("a sweep has at least one cell; the table came empty")
    if workers < 1:
        raise InputError(f"a sweep runs in at least one process; workers came as {workers}")
    folder = cells[0].folder
    preset = cells[0].preset
    text = prepare(preset.text, folder / "text", data)
    left = [cell for cell in cells if read_outcome(cell, text.fingerprint) is None]
    matched = {name: match(preset.arm(name), text.vocabulary, preset.model) for name in {cell.arm for cell in left}}
    left = [replace(cell, matched=matched[cell.arm]) for cell in left]
    failures: dict[str, Failure] = {}
    for lost in range(LARGEST_LOSSES + 1):
        # a lost worker ends the run of this round; what it had not finished is left for the next one
        with _Lost() as loss, contextlib.closing(_results(left, workers, scheduler)) as results:
            for result in results:
                if isinstance(result, Failure):
                    failures[result.cell] = result
                finished(result)
        left = [cell for cell in left if cell.name not in failures and read_outcome(cell, text.fingerprint) is None]
        if loss.happened and lost == LARGEST_LOSSES:
            for cell in left:
                failures[cell.name] = Failure(
                    cell.name, f"its worker was lost {lost + 1} times (out of memory, or killed)"
                )
                finished(failures[cell.name])
            left = []
        if not left:
            break
    found = [read_outcome(cell, text.fingerprint) for cell in cells]
    outcomes = tuple(outcome for outcome in found if outcome is not None)
    lines = "".join(json.dumps(outcome) + "\n" for outcome in outcomes)
    write_whole(folder / COLLECTED, lambda partial: partial.write_text(lines, encoding="utf-8"))
    return Swept(outcomes, tuple(failures.values()))


def notes(cells: Sequence[Cell]) -> dict[str, dict[str, float]]:
    """Where the cells under way stand, by name: step, loss, seconds; of those that have left a note."""
    found = {}
    for cell in cells:
        with contextlib.suppress(OSError, ValueError):
            found[cell.name] = json.loads((cell.place / NOTE).read_text(encoding="utf-8"))
    return found


class _Lost:
    """Swallows the loss of a worker and remembers that it happened."""

    happened = False

    def __enter__(self) -> _Lost:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: object) -> bool:
        # distributed may not be there; its KilledWorker is known by name
        self.happened = isinstance(error, TerminatedWorkerError) or (
            kind is not None and kind.__name__ == "KilledWorker"
        )
        return self.happened


def _results(cells: Sequence[Cell], workers: int, scheduler: str | None) -> Results:
    """The cells' results as they come."""
    if not cells:
        return
    if scheduler is not None:
        yield from _on_cluster(cells, scheduler)
    elif workers == 1:
        yield from map(run_cell, cells)
    else:
        try:
            yield from _parallel(cells, n_jobs=min(workers, len(cells)))
        except (KeyboardInterrupt, GeneratorExit):
            get_reusable_executor().shutdown(wait=False, kill_workers=True)
            raise


def _on_cluster(cells: Sequence[Cell], scheduler: str) -> Results:
    try:
        from distributed import Client
    except ModuleNotFoundError as error:
        raise InputError(
            "a Dask scheduler needs the libraries dask and distributed: pip install 'mfcheck[cluster]'"
        ) from error
    try:
        client = Client(scheduler, timeout="5s", set_as_default=False)
    except (OSError, TimeoutError, ValueError) as error:
        raise InputError(
            f"no Dask scheduler is reached at {scheduler} within 5 s; start one with `dask scheduler` and give its "
            "address, such as tcp://host:8786"
        ) from error
    with client:
        if not client.scheduler_info(n_workers=-1)["workers"]:
            raise InputError(
                f"the Dask scheduler at {scheduler} has no workers: start some with `dask worker {scheduler}`"
            )
        with joblib.parallel_config(backend="dask", client=client, wait_for_workers_timeout=60):
            yield from _parallel(cells, n_jobs=-1)


def _parallel(cells: Sequence[Cell], n_jobs: int) -> Results:
    run = joblib.Parallel(n_jobs=n_jobs, return_as="generator_unordered", batch_size=1, pre_dispatch="all")
    yield from run(joblib.delayed(run_cell)(cell) for cell in cells)
