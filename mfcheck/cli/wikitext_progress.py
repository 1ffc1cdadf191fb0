"""The progress of a sweep on a terminal: cells done, loss, rate, time left."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn, TimeRemainingColumn

from mfcheck.experiments.wikitext.cell import OUTCOME, Cell, Failure
from mfcheck.experiments.wikitext.sweep import notes

#: Seconds between two looks at the notes that cells leave.
EVERY = 1.0


@contextmanager
def shown(cells: Sequence[Cell]) -> Iterator[Callable[[Any], None]]:
    """Shows the sweep's progress on the error stream within the block; gives what to call as each cell ends.

    The bar counts steps, those of cells under way too, so that the time left does not jump from cell to cell.
    """
    columns = (
        TextColumn("{task.description}"),
        MofNCompleteColumn(),
        BarColumn(),
        TextColumn("{task.fields[told]}"),
        TimeElapsedColumn(),
        TimeRemainingColumn(),
    )
    steps = cells[0].preset.training.steps
    before = sum((cell.place / OUTCOME).exists() for cell in cells)
    state = {"done": before, "failed": 0}
    over = threading.Event()
    with Progress(*columns, console=Console(stderr=True)) as progress:
        task = progress.add_task("steps", total=steps * len(cells), completed=steps * before, told="")

        def look() -> None:
            while not over.wait(EVERY):
                progress.update(task, **_told(cells, state))

        def finished(result: Any) -> None:
            state["failed" if isinstance(result, Failure) else "done"] += 1
            progress.update(task, **_told(cells, state))

        watcher = threading.Thread(target=look, daemon=True)
        watcher.start()
        try:
            yield finished
        finally:
            over.set()
            watcher.join()


def _told(cells: Sequence[Cell], state: dict[str, int]) -> dict[str, Any]:
    """Steps completed, and a sentence: cells done and failed, loss and rate of those under way."""
    training = cells[0].preset.training
    tokens = training.batch * cells[0].preset.model.context
    under_way = list(notes(cells).values())
    told = f"{state['done']}/{len(cells)} cells"
    if state["failed"]:
        told += f", {state['failed']} failed"
    if under_way:
        loss = sum(note["loss"] for note in under_way) / len(under_way)
        rate = sum(note["step"] * tokens / max(note["seconds"], 1e-9) for note in under_way)
        told += f", loss {loss:.2f}, {rate:,.0f} tokens/s"
    finished = (state["done"] + state["failed"]) * training.steps
    return {"completed": finished + sum(note["step"] for note in under_way), "told": told}
