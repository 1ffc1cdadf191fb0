"""What a call gives: a token of the right dtype, finite, the same each time, and its arguments as they were."""

from __future__ import annotations

import torch
from hypothesis import strategies as st

from mfcheck.conformance.head_checking import drawn, failed, searched
from mfcheck.conformance.head_snippet import ASK, shown
from mfcheck.conformance.head_subject import Call, HeadFailure, Subject
from mfcheck.conformance.report import PropertyResult
from mfcheck.conformance.search import SKIP, Violation
from mfcheck.conformance.strategies import calls

#: Entries of theta, x and the tokens for `finite`, where the head declares no bound: products of three reach 2^15.
BALLS = (2.0, 8.0, 32.0)


def shape_and_dtype(subject: Subject) -> PropertyResult:
    """It returns one token [d] of its arguments' dtype and device, for one token and for many."""
    expected = (subject.token_dimension,)

    def test(call: Call) -> Violation | object | None:
        try:
            output = subject.raw(call)
        except HeadFailure:
            return SKIP
        lines = ("value = v(theta, x, tokens, weights)", "print(value.shape, value.dtype, value.device)")
        if tuple(output.shape) != expected:
            return Violation(
                f"it returned shape {list(output.shape)} for {len(call.shares)} tokens; a head returns "
                f"[d] = {list(expected)}",
                lines,
            )
        if output.dtype != subject.dtype:
            return Violation(f"it returned {output.dtype} for arguments of {subject.dtype}", lines)
        if output.device.type != subject.device:
            return Violation(f"it returned a tensor on {output.device} for arguments on {subject.device}", lines)
        return None

    words = f"[{subject.token_dimension}], {str(subject.dtype).removeprefix('torch.')}, for 1 to 8 tokens"
    return searched(subject, "shape_and_dtype", drawn(subject, most=8), test, words)


def finite(subject: Subject) -> PropertyResult:
    """It gives finite numbers on a ball: large parameters, far tokens, equal tokens, one token alone."""
    p, d = subject.parameter_dimension, subject.token_dimension
    balls = tuple(
        (
            ball if subject.parameter_bound is None else subject.parameter_bound,
            ball if subject.token_bound is None else subject.token_bound,
        )
        for ball in BALLS
    )
    strategy = st.sampled_from(balls).flatmap(lambda ball: calls(p, d, ball[0], ball[1]))

    def test(call: Call) -> Violation | object | None:
        try:
            subject.value(call)
        except HeadFailure as error:
            return Violation(str(error), (ASK,))
        return None

    words = f"|theta_i| <= {balls[-1][0]:g}, |x_i|, |y_i| <= {balls[-1][1]:g}"
    return searched(subject, "finite", strategy, test, words, examples=100)


def deterministic(subject: Subject) -> PropertyResult:
    """It gives the same value each time, bit by bit, whatever it was asked in between."""

    def test(call: Call) -> Violation | object | None:
        try:
            first = subject.raw(call)
            second = subject.raw(call)
            subject.raw(Call(-call.theta, -call.x, -call.tokens, call.shares))
            third = subject.raw(call)
        except HeadFailure as error:
            return failed(subject, error)
        for other in (second, third):
            if not _equal(first, other):
                words = f"the same call gave {shown(first)}, then {shown(other)}"
                if "dropout" in subject.name.lower() or getattr(subject.function, "training", False):
                    words += "; eval() switches dropout off"
                return Violation(words, ("for _ in range(3):", f"    {ASK}"))
        return None

    return searched(subject, "deterministic", drawn(subject), test, "bit by bit", examples=20)


def inputs_not_modified(subject: Subject) -> PropertyResult:
    """It leaves theta, x, the tokens and the weights as they were."""

    def test(call: Call) -> Violation | object | None:
        before, given = subject.place(call), subject.place(call)
        try:
            with torch.no_grad():
                subject.ask(*given)
        except HeadFailure as error:
            return failed(subject, error)
        for name, was, now in zip(("theta", "x", "tokens", "weights"), before, given, strict=True):
            if was.shape != now.shape or not _equal(was, now):
                lines = (f"before = {name}.clone()", "v(theta, x, tokens, weights)", f"print(before, {name})")
                return Violation(f"it changed {name} from {shown(was)} to {shown(now)}", lines)
        return None

    return searched(subject, "inputs_not_modified", drawn(subject), test, "all four stay as they were", examples=20)


def _equal(first: torch.Tensor, second: torch.Tensor) -> bool:
    """Equal bit by bit, NaN to NaN."""
    return first.shape == second.shape and bool(((first == second) | (first.isnan() & second.isnan())).all())
