"""How far apart two evaluations of equal numbers may come out: by the call's conditioning and the dtype."""

from __future__ import annotations

import torch
from torch import Tensor

from mfcheck.conformance.head_subject import Call, HeadFailure, Subject

#: Roundings beside those of sums over n tokens and d coordinates: a few matrices and elementary functions.
OPERATIONS = 8


def rounding(subject: Subject, call: Call, value: Tensor, eps: float | None = None) -> float:
    """The largest difference that rounding explains between two evaluations at this call.

    Backward error: an evaluation of k operations is the exact value at arguments off by k eps relatively, entry by
    entry. So theta, x, the tokens and the weights are moved by delta = 4 (n + d + 8) eps in a pattern of signs and in
    the opposite one; the bound is twice the sum over the four of the larger change, plus delta times the value. Moved
    by as much as rounding moves them, and not linearised: at a jump it is the jump. The value counts for no less than
    `rounding_of_tokens` says.
    """
    delta = _delta(subject, call, eps)
    generator = torch.Generator().manual_seed(7)
    total = 0.0
    for which in range(4):
        largest = 0.0
        arguments = list(call.arguments)
        signs = torch.randint(0, 2, arguments[which].shape, generator=generator, dtype=torch.float64) * 2 - 1
        for direction in (signs, -signs):
            moved = arguments[which] * (1 + delta * direction)
            changed = [*arguments[:which], moved, *arguments[which + 1 :]]
            try:
                other = subject.value(Call(*changed))
            except HeadFailure:
                continue
            largest = max(largest, float((other - value).abs().max()))
        total += largest
    return 2 * total + max(delta * _largest(value), rounding_of_tokens(subject, call, eps))


def rounding_of_tokens(subject: Subject, call: Call, eps: float | None = None) -> float:
    """What rounding leaves of an average of tokens that cancels whatever the arguments, as that of centred ones does.

    Moving the arguments does not show it. It is that of the largest token times theta's largest entry, 1 at most.
    """
    return _delta(subject, call, eps) * min(1.0, _largest(call.theta)) * _largest(call.tokens)


def _delta(subject: Subject, call: Call, eps: float | None) -> float:
    n, d = call.tokens.shape
    return 4 * (n + d + OPERATIONS) * (subject.eps if eps is None else eps)


def _largest(numbers: Tensor) -> float:
    return float(numbers.abs().max()) if numbers.numel() else 0.0


def differ(subject: Subject, first: Call, a: Tensor, b: Tensor, eps: float | None = None) -> tuple[float, float] | None:
    """(difference, allowed) where a and b, both the value of call `first`, differ by more than rounding; else None."""
    difference = float((a - b).abs().max())
    unit = subject.eps if eps is None else eps
    # a few roundings of the value itself need no further look
    if difference <= 4 * unit * float(a.abs().max()):
        return None
    allowed = rounding(subject, first, a, eps)
    return (difference, allowed) if difference > allowed else None
