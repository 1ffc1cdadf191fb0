"""Checkpoints of a run: whole or not at all on the disk, and refused where they are of something else."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import torch

from mfcheck.errors import InputError
from mfcheck.experiments.wikitext.train import Run


def save_checkpoint(path: Path, run: Run, identity: Mapping[str, str]) -> None:
    """Model, optimiser with its noise's generator, losses, step (where the run stands in the data), dropout's state.

    identity: what the run is, which `load_checkpoint` compares. The last checkpoint stays until the new one is whole.
    Raises OSError where the disk is full.
    """
    state = {
        "identity": dict(identity),
        "step": run.step,
        "seconds": run.seconds,
        "losses": run.losses,
        "model": run.model.state_dict(),
        "optimiser": run.optimiser.state_dict(),
        "random": torch.get_rng_state(),
        "cuda_random": torch.cuda.get_rng_state() if run.training.device == "cuda" else None,
    }
    write_whole(path, lambda partial: torch.save(state, partial))


def load_checkpoint(path: Path, run: Run, identity: Mapping[str, str]) -> None:
    """Puts a run at its beginning where the checkpoint stands; the run then goes on to the same bits.

    Raises InputError where the checkpoint is damaged, or of another configuration, seed or vocabulary.
    """
    try:
        state = torch.load(path, map_location=run.training.device, weights_only=True)
        found = state["identity"]
    except Exception as error:  # a damaged file fails in many ways
        raise InputError(
            f"the checkpoint {path} cannot be read ({error}); remove it, and its cell begins again"
        ) from error
    for name, expected in identity.items():
        if found.get(name) != expected:
            raise InputError(
                f"the checkpoint {path} is of another {name}: it says {found.get(name)!r} and this run is {expected!r}"
            )
    run.model.load_state_dict(state["model"])
    run.optimiser.load_state_dict(state["optimiser"])
    run.losses.copy_(state["losses"])
    run.step, run.seconds = int(state["step"]), float(state["seconds"])
    torch.set_rng_state(state["random"].cpu())
    if state["cuda_random"] is not None:
        torch.cuda.set_rng_state(state["cuda_random"].cpu())


def write_whole(path: Path, write: Callable[[Path], Any]) -> None:
    """Writes a file beside its place, flushes it to the disk and moves it there; on failure nothing is left behind."""
    partial = path.with_name(f".{path.name}.{os.getpid()}.partial")
    try:
        write(partial)
        descriptor = os.open(partial, os.O_RDWR)
        try:
            os.fsync(descriptor)
        finally:
            os.close(descriptor)
        partial.replace(path)
    except BaseException:
        partial.unlink(missing_ok=True)
        raise
