"""Whether the same number comes out in a batch, beside other particles, in single precision and on the GPU."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import torch
from hypothesis import strategies as st
from torch import Tensor

from mfcheck.conformance.head_checking import ROUNDING, apart, drawn, failed, searched
from mfcheck.conformance.head_evaluation import NATIVE, way_of_batching
from mfcheck.conformance.head_snippet import ASK, tensor
from mfcheck.conformance.head_subject import Call, HeadFailure, Subject
from mfcheck.conformance.report import NOT_APPLICABLE, PropertyResult
from mfcheck.conformance.rounding import differ
from mfcheck.conformance.search import SKIP, Violation
from mfcheck.conformance.strategies import entries, shares_of, tokens_of


@dataclass(frozen=True, eq=False)
class Several:
    """Calls of equally many tokens that go together."""

    calls: tuple[Call, ...]

    @property
    def call(self) -> Call:
        """The first of them, which a snippet sets up."""
        return self.calls[0]

    @property
    def key(self) -> Any:
        """Equal for equal calls."""
        return tuple(call.key for call in self.calls)


def batches(subject: Subject) -> PropertyResult:
    """Inputs along leading axes, [K, d] and [K, n, d], give what single calls give."""
    name = "batches"
    way = way_of_batching(subject)
    if way != NATIVE:
        return PropertyResult(name, NOT_APPLICABLE, f"it takes one call at a time; {way} makes batches of it")

    @st.composite
    def several(draw: st.DrawFn) -> Several:
        first = draw(drawn(subject))
        count, d, bound = len(first.shares), subject.token_dimension, subject.x_bound
        others = [
            Call(
                first.theta,
                draw(entries(d, bound)),
                draw(tokens_of("free", count, d, bound, 1.0)),
                draw(shares_of(draw(st.sampled_from(("equal", "small integers", "some zero"))), count)),
            )
            for _ in range(draw(st.integers(1, 2)))
        ]
        return Several((first, *others))

    def test(example: Several) -> Violation | object | None:
        theta = example.call.theta
        xs, tokens, weights = (
            torch.stack(part) for part in zip(*(call.arguments[1:] for call in example.calls), strict=True)
        )
        count = len(example.calls)
        try:
            alone = [subject.value(call) for call in example.calls]
            together = subject.together((theta, xs, tokens, weights), (count,))
            spread = subject.together((theta[None, None], xs, tokens, weights), (1, count))[0]
        except HeadFailure as error:
            return SKIP if failed(subject, error) is SKIP else Violation(str(error), _batch(example))
        for k, call in enumerate(example.calls):
            for given in (together[k], spread[k]):
                found = differ(subject, call, alone[k], given)
                if found:
                    words = f"input {k} of {count} gives another value in the batch: {apart(found)}"
                    return Violation(words, _batch(example))
        return None

    return searched(subject, name, several(), test, ROUNDING)


def _batch(example: Several) -> tuple[str, ...]:
    xs, tokens, shares = (
        torch.stack(part) for part in zip(*((c.x, c.tokens, c.weights) for c in example.calls), strict=True)
    )
    return (
        f"xs = {tensor(xs)}",
        f"laws = {tensor(tokens)}",
        f"their_weights = {tensor(shares)}",
        "print(v(theta, xs, laws, their_weights))",
        "for k in range(len(xs)):",
        "    print(v(theta, xs[k], laws[k], their_weights[k]))  # row k of the above is expected",
    )


def index_independent(subject: Subject) -> PropertyResult:
    """A particle gives what it gives alone, wherever it stands among others (K1): V_M is then an average of v_theta."""
    native = way_of_batching(subject) == NATIVE

    @st.composite
    def several(draw: st.DrawFn) -> Several:
        first = draw(drawn(subject))
        others = [
            Call(draw(entries(subject.parameter_dimension, subject.theta_bound)), *first.arguments[1:3], first.shares)
            for _ in range(draw(st.integers(1, 2)))
        ]
        return Several((first, *others))

    def test(example: Several) -> Violation | object | None:
        heads = torch.stack([call.theta for call in example.calls])
        try:
            alone = torch.stack([subject.value(call) for call in example.calls])
            if native:
                together = _beside_each_other(subject, heads, example.call)
                turned = _beside_each_other(subject, heads.flip(0), example.call).flip(0)
            else:
                together = torch.stack([subject.value(call) for call in reversed(example.calls)]).flip(0)
                turned = together
        except HeadFailure as error:
            return failed(subject, error)
        for m, call in enumerate(example.calls):
            found = differ(subject, call, alone[m], together[m])
            if found:
                moved = bool(differ(subject, call, together[m], turned[m]))
                cause = "its place in the list" if moved else "the other particles"
                words = f"particle {m} of {len(heads)} gives a value that depends on {cause}: {apart(found)}"
                return Violation(words, _particles(heads))
        return None

    return searched(subject, "index_independent", several(), test, ROUNDING)


def _beside_each_other(subject: Subject, heads: Tensor, call: Call) -> Tensor:
    return subject.together((heads, *call.arguments[1:]), (len(heads),))


def _particles(heads: Tensor) -> tuple[str, ...]:
    return (
        f"thetas = {tensor(heads)}",
        "print(v(thetas, x, tokens, weights))",
        "for theta in thetas:",
        f"    {ASK}  # a row of the above is expected",
    )


def float32_agrees(subject: Subject) -> PropertyResult:
    """Single precision gives the same number to its own rounding."""
    name = "float32_agrees"
    if subject.dtype != torch.float64:
        return PropertyResult(name, NOT_APPLICABLE, "the head works in single precision only")
    eps = torch.finfo(torch.float32).eps
    single = "print(v(*(part.float() for part in (theta, x, tokens, weights))))"

    def test(call: Call) -> Violation | object | None:
        lines = (ASK, f"{single}  # the same to single precision is expected")
        try:
            double = subject.value(call)
        except HeadFailure as error:
            return failed(subject, error)
        try:
            output = subject.raw(call, torch.float32)
            value = subject.value(call, torch.float32)
        except HeadFailure as error:
            return SKIP if failed(subject, error) is SKIP else Violation(f"with float32 arguments {error}", lines)
        if output.dtype != torch.float32 and "shape_and_dtype" not in subject.violated:
            return Violation(f"with float32 arguments it returned {output.dtype}", (single,))
        found = differ(subject, call, double, value, eps)
        return Violation(f"float32 and float64 are apart: {apart(found)}", lines) if found else None

    return searched(subject, name, drawn(subject), test, "to the rounding of float32")


def gpu_agrees(subject: Subject) -> PropertyResult:
    """The GPU gives the same number as the CPU."""
    name = "gpu_agrees"
    if not torch.cuda.is_available():
        return PropertyResult(name, NOT_APPLICABLE, "torch sees no CUDA device here")

    def test(call: Call) -> Violation | object | None:
        moved = "print(v(*(part.cuda() for part in (theta, x, tokens, weights))))"
        lines = (ASK, f"{moved}  # the same is expected")
        try:
            here = subject.value(call, device="cpu")
            there = subject.value(call, device="cuda")
        except HeadFailure as error:
            return SKIP if failed(subject, error) is SKIP else Violation(str(error), lines)
        found = differ(subject, call, here, there)
        return Violation(f"CPU and GPU are apart: {apart(found)}", lines) if found else None

    return searched(subject, name, drawn(subject), test, ROUNDING)
