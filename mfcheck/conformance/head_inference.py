"""The dimensions and the dtype of a head that does not say them: what an ordinary call accepts."""

from __future__ import annotations

import itertools
import time
from collections.abc import Callable, Iterable, Iterator
from typing import Any

import torch
from torch import Tensor

from mfcheck.conformance.head_subject import first_line, ordinary_call
from mfcheck.errors import InputError

#: Token dimensions that are tried, in this order, and the largest number of parameters tried with each.
DIMENSIONS, PARAMETERS = (2, 1, 3, 4, 5, 6, 8), 80
#: Wide modules say no dimension either: these are tried for them, whose number of parameters is known.
WIDE = (2, 1, 3, 4, 5, 6, 7, 8, 10, 12, 16, 20, 24, 32, 48, 64)
#: Seconds after which a slow head is asked for its dimensions rather than tried on.
PATIENCE = 5.0


def infer(
    function: Callable[..., Any], name: str, p: int | None, d: int | None, dtype: torch.dtype | None, device: str
) -> tuple[int, int, torch.dtype, tuple[str, ...]]:
    """(p, d, dtype, notes) of a head: those given, and where one is None that with which an ordinary call works.

    Raises InputError, with a sentence that asks for what cannot be inferred or says what an ordinary call gave.
    """
    dtypes = (torch.float64, torch.float32) if dtype is None else (dtype,)
    failure = ""
    began = time.perf_counter()
    for chosen in dtypes:
        found: dict[int, list[int]] = {}
        for dimension, parameters in _candidates(p, d):
            if found and dimension not in found:
                break
            answer = attempt(function, parameters, dimension, chosen, device)
            if answer is None:
                found.setdefault(dimension, []).append(parameters)
            elif chosen is dtypes[0] and (not failure or _says_more(answer, failure)):
                failure = answer
            if time.perf_counter() - began > PATIENCE and (p is None or d is None):
                raise InputError(
                    f"{name} is slow, so that its dimensions are not tried out: say parameter_dimension and "
                    "token_dimension (--parameters, --tokens)"
                )
        if not found:
            continue
        ((dimension, accepted),) = found.items()
        if len(accepted) > 1:
            some = ", ".join(map(str, accepted[:4])) + (", ..." if len(accepted) > 4 else "")
            raise InputError(
                f"{name} takes theta of {some} numbers alike for tokens in R^{dimension}: say which with "
                "parameter_dimension (--parameters)"
            )
        return accepted[0], dimension, chosen, _notes(p, d, accepted[0], dimension, chosen, dtype)
    if p is not None and d is not None:
        raise InputError(_refusal(name, p, d, failure))
    tried = f"tokens in R^{d}" if d is not None else f"tokens in R^d, d = {', '.join(map(str, DIMENSIONS))}"
    counted = f"theta in R^{p}" if p is not None else f"theta of up to {PARAMETERS} numbers"
    raise InputError(
        f"{name}: no call with {tried} and {counted} gave a token [d]; one of them: {failure}. If its "
        "dimensions are others, say parameter_dimension and token_dimension (--parameters, --tokens)"
    )


def attempt(function: Callable[..., Any], p: int, d: int, dtype: torch.dtype, device: str) -> str | None:
    """None where an ordinary call gives a token [d]; otherwise what it gave, in words."""
    # one token more than coordinates, and more: a transposed axis shows
    call = ordinary_call(p, d, d + 3)
    arguments = [part.to(device, dtype, copy=True) for part in call.arguments]
    try:
        output = function(*arguments)
    except Exception as error:
        return f"it raised {type(error).__name__}: {first_line(error)}"
    if not isinstance(output, Tensor):
        hint = ""
        if type(output).__module__ == "numpy":
            hint = ", which has no gradient in theta: compute in torch"
        return f"it returned a {type(output).__module__}.{type(output).__name__}{hint}, and a head returns a tensor"
    if tuple(output.shape) != (d,):
        return f"it returned shape {tuple(output.shape)}, and a head returns one token, [d] = {(d,)}"
    if not output.is_floating_point():
        return f"it returned {output.dtype}, and a head returns the dtype that it is given, {dtype}"
    if not bool(torch.isfinite(output).all()):
        return f"it returned {output.tolist()}, and its arguments are finite and below 1"
    return None


def _candidates(p: int | None, d: int | None) -> Iterator[tuple[int, int]]:
    dimensions: Iterable[int] = (d,) if d is not None else DIMENSIONS if p is None else WIDE
    yield from itertools.product(dimensions, (p,) if p is not None else range(1, PARAMETERS + 1))


def _says_more(answer: str, failure: str) -> bool:
    """A call that came back tells what is wrong with the head; one that raised may have had the wrong dimensions."""
    return answer.startswith("it returned") and not failure.startswith("it returned")


def _refusal(name: str, p: int, d: int, failure: str) -> str:
    return (
        f"{name} does not answer an ordinary call, theta [{p}], x [{d}], tokens [{d + 3}, {d}], "
        f"weights [{d + 3}]: {failure}"
    )


def _notes(
    p: int | None, d: int | None, parameters: int, dimension: int, chosen: torch.dtype, dtype: torch.dtype | None
) -> tuple[str, ...]:
    notes = []
    if p is None or d is None:
        notes.append(
            f"dimensions inferred from what it accepts: theta in R^{parameters}, tokens in R^{dimension} (others: "
            "parameter_dimension, token_dimension, or --parameters, --tokens)"
        )
    if dtype is None and chosen is torch.float32:
        notes.append("it works in float32 only, so the suite does, and rounding hides what is smaller")
    return tuple(notes)
