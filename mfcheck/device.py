"""Which device a run uses."""

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
        raise InputError("the device asked for is cuda, and torch sees none here; use --mfcheck-device auto or cpu")
    return name
