"""A cell of the table: one arm with one seed, trained from its checkpoint on, measured, and written down once."""

from __future__ import annotations

import contextlib
import json
import os
import platform
import threading
import time
from collections.abc import Iterator, Mapping
from dataclasses import asdict, dataclass
from importlib.metadata import version
from pathlib import Path
from typing import Any

import torch

from mfcheck.device import resolve_device
from mfcheck.errors import InputError
from mfcheck.experiments.wikitext.checkpoint import load_checkpoint, save_checkpoint, write_whole
from mfcheck.experiments.wikitext.matching import Matched, match
from mfcheck.experiments.wikitext.measure import measure
from mfcheck.experiments.wikitext.model import as_applied
from mfcheck.experiments.wikitext.prepared import Windows, read_prepared
from mfcheck.experiments.wikitext.preset import Preset
from mfcheck.experiments.wikitext.train import Run, begin, train
from mfcheck.statistics.seeds import digest, stream

#: Seconds between two checkpoints, and between two notes of where a run stands.
CHECKPOINT_EVERY, NOTE_EVERY = 20.0, 1.0
OUTCOME, CHECKPOINT, NOTE, WEIGHTS = "outcome.json", "checkpoint.pt", "progress.json", "weights.pt"
#: torch's random state and thread count belong to the process: cells of one process run one after another.
_ONE_AT_A_TIME = threading.Lock()


@dataclass(frozen=True)
class Cell:
    """One arm and one seed of a preset, in a run's folder (which every worker sees).

    threads: of torch in the cell. keep_weights: whether the trained weights stay beside the outcome.
    checkpoint_every, note_every: seconds. matched: the
    arm's model, counted once for all seeds; None to count it here.
    """

    preset: Preset
    arm: str
    seed: int
    folder: Path
    threads: int = 1
    keep_weights: bool = False
    checkpoint_every: float = CHECKPOINT_EVERY
    note_every: float = NOTE_EVERY
    matched: Matched | None = None

    @property
    def name(self) -> str:
        """'particles-8-seed-3': its folder, and its name in tables."""
        return f"{self.arm}-seed-{self.seed}"

    @property
    def place(self) -> Path:
        return self.folder / "cells" / self.name

    def identity(self, vocabulary: str) -> dict[str, str]:
        """What a checkpoint or an outcome must be of to be this cell's, each in a word."""
        settings = self.preset.cell_settings(self.preset.arm(self.arm))
        return {"configuration": digest(json.dumps(settings, sort_keys=True)), "vocabulary": vocabulary,
                "seed": str(self.seed)}  # fmt: skip


@dataclass(frozen=True)
class Failure:
    """A cell that did not come to its end, and why in a sentence."""

    cell: str
    reason: str


def run_cell(cell: Cell) -> dict[str, Any] | Failure:
    """The cell's outcome: read where it is written already, else trained (from its checkpoint on), measured, written.

    Whatever goes wrong comes back as a Failure, so that one cell does not stop the others; the checkpoint stays.
    """
    try:
        with _ONE_AT_A_TIME, _own_randomness(cell.threads):
            return _run(cell)
    except InputError as error:
        return Failure(cell.name, str(error))
    except OSError as error:
        return Failure(cell.name, f"{error.strerror or error} ({error.filename or cell.place}); its checkpoint stands")
    except Exception as error:
        return Failure(cell.name, f"{type(error).__name__}: {error}")


def read_outcome(cell: Cell, vocabulary: str) -> dict[str, Any] | None:
    """The outcome that a cell has written, None where it has not. Raises InputError where it is of something else."""
    path = cell.place / OUTCOME
    try:
        found = json.loads(path.read_text(encoding="utf-8"))
    except FileNotFoundError:
        return None
    except ValueError as error:
        raise InputError(f"{path} is no outcome ({error}); remove it, and its cell is run again") from error
    expected = cell.identity(vocabulary)
    for name, value in expected.items():
        if found.get("identity", {}).get(name) != value:
            raise InputError(
                f"{path} is of another {name}; take another folder for this table, or remove that one's cells"
            )
    return dict(found)


def _run(cell: Cell) -> dict[str, Any]:
    began = time.process_time()
    preset, arm = cell.preset, cell.preset.arm(cell.arm)
    text = read_prepared(cell.folder / "text", preset.text)
    done = read_outcome(cell, text.fingerprint)
    if done is not None:
        return done
    resolve_device(preset.training.device)
    identity = cell.identity(text.fingerprint)
    matched = cell.matched or match(arm, text.vocabulary, preset.model)
    # arms of one seed share data order and initial numbers: the arm is no part of the stream's name
    source = stream(cell.seed, "wikitext")
    windows = Windows(text.splits["train"].tokens, preset.model.context, preset.training.batch, source.child("order"))
    run = begin(matched.shape, arm, preset.training, windows, source)
    # after the model is made, which draws from torch's generator in its own way in every arm
    torch.manual_seed(source.child("dropout").integer(63))
    cell.place.mkdir(parents=True, exist_ok=True)
    checkpoint = cell.place / CHECKPOINT
    if checkpoint.exists():
        load_checkpoint(checkpoint, run, identity)
    with _peak_memory(preset.training.device) as memory:
        train(run, _Watch(cell, identity))
        save_checkpoint(checkpoint, run, identity)
    as_applied(run.model)
    outcome = {
        "identity": identity,
        "preset": preset.name,
        "arm": asdict(arm),
        "seed": cell.seed,
        "said": text.said,
        "parameters": matched.parameters,
        "parameter_ratio": matched.parameter_ratio,
        "flops_per_token": matched.flops,
        "flop_ratio": matched.flop_ratio,
        "hidden": matched.shape.hidden,
        "exposure": preset.training.exposure(arm),
        **measure(run, text, preset, arm, source.child("measure")),
        "seconds": run.seconds,
        "processor_seconds": time.process_time() - began,
        "tokens_per_second": run.step * preset.training.batch * preset.model.context / max(run.seconds, 1e-9),
        "peak_memory_bytes": memory["peak"],
        "machine": f"{platform.machine()}, {cell.threads} thread(s) of torch, {preset.training.device}",
        "versions": {"python": platform.python_version(), "torch": version("torch"), "mfcheck": version("mfcheck")},
    }
    if cell.keep_weights:
        write_whole(cell.place / WEIGHTS, lambda partial: torch.save(run.model.state_dict(), partial))
    _write_once(cell.place / OUTCOME, outcome)
    for name in (CHECKPOINT, NOTE):
        (cell.place / name).unlink(missing_ok=True)
    return outcome


class _Watch:
    """After each step: a checkpoint and a note of where the run stands, each when it is due."""

    def __init__(self, cell: Cell, identity: Mapping[str, str]) -> None:
        self._cell, self._identity = cell, identity
        self._saved = self._noted = time.monotonic()

    def __call__(self, run: Run) -> None:
        now = time.monotonic()
        if now - self._noted >= self._cell.note_every:
            self._noted = now
            loss = float(run.losses[run.step - 1])
            note = {"step": run.step, "loss": loss, "seconds": run.seconds, "process": os.getpid()}
            with contextlib.suppress(OSError):  # a note is for the eye; a full disk stops at the checkpoint
                write_whole(self._cell.place / NOTE, lambda partial: partial.write_text(json.dumps(note)))
        if now - self._saved >= self._cell.checkpoint_every:
            save_checkpoint(self._cell.place / CHECKPOINT, run, self._identity)
            self._saved = time.monotonic()


def _write_once(path: Path, outcome: Mapping[str, Any]) -> None:
    """Whole, and only if it is not there yet: of two workers at the same cell the first one's stays."""
    partial = path.with_name(f".{path.name}.{os.getpid()}.partial")

    def write(place: Path) -> None:
        place.write_text(json.dumps(outcome, allow_nan=False), encoding="utf-8")

    try:
        write_whole(partial, write)
        with contextlib.suppress(FileExistsError):
            os.link(partial, path)
    finally:
        partial.unlink(missing_ok=True)


@contextlib.contextmanager
def _own_randomness(threads: int) -> Iterator[None]:
    """The cell's thread count and random state, and the caller's again afterwards."""
    before = torch.get_num_threads()
    torch.set_num_threads(threads)
    try:
        with torch.random.fork_rng():
            yield
    finally:
        torch.set_num_threads(before)


@contextlib.contextmanager
def _peak_memory(device: str) -> Iterator[dict[str, int]]:
    """The largest memory in use within the block, in bytes: the GPU's, or this process's resident set (0: unknown)."""
    measured = {"peak": 0}
    status, reset = Path("/proc/self/status"), Path("/proc/self/clear_refs")
    if device == "cuda":
        torch.cuda.reset_peak_memory_stats()
    else:
        with contextlib.suppress(OSError):
            reset.write_text("5")  # Linux: the peak begins anew
    yield measured
    if device == "cuda":
        measured["peak"] = torch.cuda.max_memory_allocated()
    elif status.exists():
        line = next(line for line in status.read_text().splitlines() if line.startswith("VmHWM"))
        measured["peak"] = int(line.split()[1]) * 1024
