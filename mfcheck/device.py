"""Which device a run uses, and how its memory is kept."""

from __future__ import annotations

import torch

from mfcheck.errors import InputError


def resolve_device(name: str) -> str:
    """'auto' is CUDA where torch sees it, else the CPU. Raises InputError where CUDA is asked for and not there."""
    if name == "auto":
        return "cuda" if torch.cuda.is_available() else "cpu"
    if name not in ("cpu", "cuda"):
        raise InputError(f"a device is auto, cpu or cuda; it came as {name!r}")
    if name == "cuda" and not torch.cuda.is_available():
        raise InputError("the device asked for is cuda, and torch sees none here; use auto or cpu")
    return name


def keep_freed_memory() -> None:
    """Have glibc keep freed blocks of up to 31 MiB for the next allocation; elsewhere it changes nothing.

    By default it hands them back to the system, and each page of the next block is fetched and zeroed anew: of loops
    that allocate megabytes a step, half the time and more. Freeing a block raises that threshold to the block's size
    (at most 32 MiB) and keeps up to twice as much. Source: mallopt(3), M_MMAP_THRESHOLD.
    """
    torch.empty(31 << 20, dtype=torch.uint8)
