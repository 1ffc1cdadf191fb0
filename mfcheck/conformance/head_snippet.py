"""A counterexample as text: lines that show it alone when pasted in a fresh interpreter."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from torch import Tensor

from mfcheck.conformance.head_subject import Call, Subject

#: How every snippet asks for the value at its arguments.
ASK = "print(v(theta, x, tokens, weights))"


def snippet(subject: Subject, call: Call, lines: Sequence[str]) -> str:
    """Lines that import torch and the head (as v), set up theta, x, tokens and weights, and then `lines`."""
    origin = subject.origin
    head = [*origin.lines, *([f"v = {origin.function}"] if origin.function else [])]
    return "\n".join(["import torch", *head, *arguments(subject, call), *lines]) + "\n"


def arguments(subject: Subject, call: Call) -> list[str]:
    """The lines that set up theta, x, tokens and weights; `like` holds their dtype, and their device if it matters."""
    device = f", device={subject.device!r}" if subject.device != "cpu" else ""
    total = float(call.shares.sum())
    return [
        f"like = dict(dtype={subject.dtype}{device})",
        f"theta = {tensor(call.theta)}",
        f"x = {tensor(call.x)}",
        f"tokens = {tensor(call.tokens)}",
        f"weights = {tensor(call.shares)}" + (f" / {total!r}" if total != 1 else ""),
    ]


def tensor(value: Tensor) -> str:
    """An expression that makes the tensor in the snippet's dtype."""
    return f"torch.tensor({written(value)}, **like)"


def written(value: Tensor) -> str:
    """A tensor as nested lists of numbers."""
    if value.ndim == 0:
        number = float(value)
        return str(int(number)) if number == int(number) and abs(number) < 1e15 else repr(number)
    return "[" + ", ".join(written(part) for part in value) + "]"


def whole(values: Iterable[int]) -> str:
    """A list of whole numbers."""
    return str([int(value) for value in values])


def shown(value: Tensor) -> str:
    """A value in a sentence, with digits enough to see it."""
    return "[" + ", ".join(f"{number:.6g}" for number in value.flatten().tolist()) + "]"
