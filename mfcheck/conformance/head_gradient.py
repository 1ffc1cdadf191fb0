"""Whether automatic differentiation gives the slopes that the values have."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import torch
from hypothesis import strategies as st
from torch import Tensor

from mfcheck.conformance.head_checking import drawn, failed, searched
from mfcheck.conformance.head_snippet import tensor
from mfcheck.conformance.head_subject import Call, HeadFailure, Subject
from mfcheck.conformance.report import HOLDS, NOT_APPLICABLE, UNDECIDED, PropertyResult
from mfcheck.conformance.rounding import rounding
from mfcheck.conformance.search import SKIP, Violation
from mfcheck.conformance.strategies import entries

#: Steps of the difference quotients: the second is half the first.
STEP = 2.0**-10
ARGUMENTS = ("theta", "x", "tokens", "weights")


@dataclass(frozen=True, eq=False)
class Direction:
    """A call, one of its arguments with a direction to move it in, and a functional [d] of the output."""

    call: Call
    argument: int
    direction: Tensor
    functional: Tensor

    @property
    def key(self) -> Any:
        """Equal for equal directions."""
        return (
            self.call.key,
            self.argument,
            *(tuple(part.flatten().tolist()) for part in (self.direction, self.functional)),
        )


def gradient(subject: Subject) -> PropertyResult:
    """Gradients in theta, x, the tokens and the weights are those of difference quotients, in double precision."""
    name = "gradient"
    if subject.eps > torch.finfo(torch.float64).eps:
        return PropertyResult(name, NOT_APPLICABLE, "it needs double precision, and the head gives single")
    checked: set[int] = set()

    def test(example: Direction) -> Violation | object | None:
        try:
            compared = _compared(subject, example)
            if compared is not None and not compared.agree:
                # autograd picks a slope where there is none, at a tie of maxima say: a fault is there beside it, too
                beside = _compared(subject, replace(example, call=_beside(example.call)))
                compared = None if beside is None or beside.agree else compared
        except HeadFailure as error:
            return failed(subject, error)
        if compared is None:
            return SKIP
        checked.add(example.argument)
        if compared.agree:
            return None
        argument = ARGUMENTS[example.argument]
        words = f"in {argument}: autograd gives {compared.found:.6g}, the values have slope {compared.slope:.6g}"
        return Violation(f"{words} (+- {compared.allowed:.1g})", _lines(example))

    found = searched(subject, name, _directions(subject), test, "", examples=80)
    if found.status != HOLDS:
        return found
    if not checked:
        return PropertyResult(name, UNDECIDED, "no difference quotient converged", None, 0)
    names = ", ".join(ARGUMENTS[index] for index in sorted(checked))
    return PropertyResult(name, HOLDS, f"in {names}, where difference quotients converge", None, found.examples)


def _directions(subject: Subject) -> st.SearchStrategy[Direction]:
    @st.composite
    def directions(draw: st.DrawFn) -> Direction:
        call = draw(drawn(subject, least=1, most=4))
        which = draw(st.integers(0, 3)) if len(call.shares) > 1 else draw(st.integers(0, 2))
        argument = call.arguments[which]
        direction = draw(entries(argument.numel(), 2.0)).reshape(argument.shape)
        if which == 3:
            # mass goes round among the tokens that have some
            kept = call.shares > 0
            direction = torch.where(kept, direction - direction[kept].mean(), 0.0) * call.weights[kept].min() / 2
        functional = draw(entries(subject.token_dimension, 2.0))
        return Direction(call, which, direction, functional)

    return directions()


@dataclass(frozen=True)
class _Comparison:
    """The slope by automatic differentiation, that of the values, and the error of the latter."""

    found: float
    slope: float
    allowed: float

    @property
    def agree(self) -> bool:
        """Whether the two are equal within the error."""
        return abs(self.found - self.slope) <= self.allowed


def _compared(subject: Subject, example: Direction) -> _Comparison | None:
    """Both slopes, or None where the difference quotients do not converge. Raises HeadFailure."""
    found = _by_automatic_differentiation(subject, example)
    values = {t: _value(subject, example, t) for t in (0.0, STEP, -STEP, STEP / 2, -STEP / 2)}
    # rounding at this call is looked at where a few roundings of the values do not explain what is seen
    size = max(abs(value) for value in values.values())
    measured = _quotient(values, 64 * subject.eps * size)
    if measured is None or abs(found - measured[0]) > measured[1]:
        measured = _quotient(values, _rounded(subject, example))
    return None if measured is None else _Comparison(found, *measured)


def _beside(call: Call) -> Call:
    """A call near by, off every lattice: its coordinates are in no relation that a kink could lie on."""

    def off(part: Tensor, start: int) -> Tensor:
        places = torch.arange(start, start + part.numel(), dtype=torch.float64).reshape(part.shape)
        return part + 2.0**-5 * torch.sin(places)

    return Call(off(call.theta, 1), off(call.x, 101), off(call.tokens, 201), call.shares)


def _quotient(values: dict[float, float], rounded: float) -> tuple[float, float] | None:
    """(slope, error) from values at 0, +-h and +-h/2, each off by `rounded`; None where quotients do not converge.

    Of steps h and h/2, (4 D(h/2) - D(h)) / 3 is off by about h^4, which |D(h/2) - D(h)|, of order h^2, bounds amply;
    rounding adds what it explains of a value over h/2. One-sided quotients that are apart by more than a first-order
    term explains are those of a kink, where there is no gradient to check.
    """
    central = [(values[h] - values[-h]) / (2 * h) for h in (STEP, STEP / 2)]
    sided = [abs(values[h] - 2 * values[0.0] + values[-h]) / h for h in (STEP, STEP / 2)]
    noise = 4 * rounded / STEP
    # half the step halves the gap between the two sides of a smooth path; a kink's gap stays
    if sided[1] > 0.75 * sided[0] + noise:
        return None
    gap = abs(central[1] - central[0])
    slope = (4 * central[1] - central[0]) / 3
    if gap > 0.05 * abs(slope) + 0.05 + noise:
        return None
    return slope, gap + noise


def _rounded(subject: Subject, example: Direction) -> float:
    value = subject.value(example.call)
    return float(example.functional.abs().sum()) * rounding(subject, example.call, value)


def _moved(example: Direction, t: float) -> tuple[Tensor, ...]:
    arguments = list(example.call.arguments)
    arguments[example.argument] = arguments[example.argument] + t * example.direction
    return tuple(arguments)


def _value(subject: Subject, example: Direction, t: float) -> float:
    return float(example.functional @ subject.value(Call(*_moved(example, t))))


def _by_automatic_differentiation(subject: Subject, example: Direction) -> float:
    """The directional derivative by reverse mode. Raises HeadFailure where no gradient can be taken."""
    arguments = list(subject.place(example.call))
    leaf = arguments[example.argument].requires_grad_(True)
    with torch.enable_grad():
        # what the head gets is no leaf, so that it may write into it, which is another property's business
        arguments[example.argument] = leaf.clone()
        output = subject.ask(*arguments).reshape(-1)
        total = (output * example.functional.to(output)).sum()
        if not total.requires_grad:
            return 0.0
        try:
            (found,) = torch.autograd.grad(total, leaf, allow_unused=True)
        except RuntimeError as error:
            raise HeadFailure(f"taking the gradient raised {type(error).__name__}: {error}") from error
    if found is None:
        return 0.0
    # a gradient in a weight of 0 may be infinite, as log w is there; the direction does not ask for it
    asked = example.direction != 0
    return float((found.to("cpu", torch.float64)[asked] * example.direction[asked]).sum())


def _lines(example: Direction) -> tuple[str, ...]:
    name = ARGUMENTS[example.argument]
    given = ", ".join("moved" if other == name else other for other in ARGUMENTS)
    return (
        f"direction, functional = {tensor(example.direction)}, {tensor(example.functional)}",
        f"def f(moved): return (functional * v({given})).sum()",
        f"leaf = {name}.clone().requires_grad_(True)",
        "(f(leaf.clone()) + 0 * leaf.sum()).backward()",
        "h = 1e-6",
        "print(float((leaf.grad * direction)[direction != 0].sum()))",
        f"print(float(f({name} + h * direction) - f({name} - h * direction)) / (2 * h))  # the same is expected",
    )
