"""The head under test: what a user brought, its dimensions, and one way of calling it."""

from __future__ import annotations

import contextlib
import functools
import inspect
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from mfcheck.errors import InputError
from mfcheck.heads.module import module_head, multihead_attention
from mfcheck.heads.protocol import Head, Hypotheses

#: Dimensions that are tried where none were given.
P_TRIED, D_TRIED = range(1, 65), range(1, 9)
ARGUMENTS = "v(theta [p], x [d], tokens [n, d], weights [n]) -> [d]"


@contextlib.contextmanager
def one_state() -> Iterator[None]:
    """Torch's CPU generator at one state, and back. torch.manual_seed does the same for every device, at 1 ms a call."""
    generator = torch.default_generator
    state = generator.get_state()
    generator.manual_seed(0)
    try:
        yield
    finally:
        generator.set_state(state)


class HeadRaised(Exception):
    """The head raised on inputs of the protocol."""


@dataclass(frozen=True)
class HeadSpec:
    """A head with what cannot be read from a callable: dimensions, domain, and what it says of itself.

    function: v(theta [p], x [d], tokens [n, d], weights [n]) -> [d], batched or not; radius: coordinates of theta, x and
    tokens up to this size must give finite output; hypotheses, values: as in `mfcheck.heads.Head`.
    """

    function: Callable[..., Any]
    parameter_dimension: int
    token_dimension: int
    radius: float = 100.0
    hypotheses: Hypotheses = field(default_factory=Hypotheses)
    values: Callable[[Tensor, Tensor], Tensor] | None = None
    name: str | None = None


@dataclass(frozen=True, eq=False)
class Subject:
    """A head that can be called. dtype: what it is tested in; notes: what was found on the way."""

    spec: HeadSpec
    name: str
    dtype: torch.dtype = torch.float64
    device: str = "cpu"
    seconds: float = 0.0
    notes: tuple[str, ...] = ()

    @property
    def p(self) -> int:
        """Parameters of a head."""
        return self.spec.parameter_dimension

    @property
    def d(self) -> int:
        """Coordinates of a token."""
        return self.spec.token_dimension

    def raw(self, theta: Tensor, x: Tensor, tokens: Tensor, weights: Tensor) -> Any:
        """What the head returns for exactly these tensors. Raises HeadRaised where it raises."""
        try:
            return self.spec.function(theta, x, tokens, weights)
        except Exception as error:
            raise HeadRaised(f"{type(error).__name__}: {str(error).splitlines()[0] if str(error) else ''}") from error

    def __call__(self, theta: Tensor, x: Tensor, tokens: Tensor, weights: Tensor) -> Tensor:
        """The output as a tensor, for copies of the inputs and from one state of torch's generator.

        So a head that changes its inputs or draws random numbers is one function here, and only the properties that
        ask for these things see them.
        """
        with one_state():
            output = self.raw(theta.clone(), x.clone(), tokens.clone(), weights.clone())
        return torch.as_tensor(output)


def understand(
    head: Any, *, name: str | None = None, p: int | None = None, d: int | None = None, device: str = "cpu"
) -> Subject:
    """The subject that a user's object makes. Raises InputError with a sentence where it makes none.

    head: a HeadSpec, a `mfcheck.heads.Head`, an nn.Module, or a callable; p and d where they cannot be inferred.
    """
    spec = _spec(head, p, d)
    label = name or spec.name or _name(spec.function)
    subject, notes = Subject(spec, label, device=device), []
    try:
        _probe(subject)
    except HeadRaised as error:
        single = replace(subject, dtype=torch.float32)
        try:
            _probe(single)
        except HeadRaised:
            raise InputError(
                f"{label} raised on inputs of the protocol {ARGUMENTS} with p = {spec.parameter_dimension} and "
                f"d = {spec.token_dimension}: {error}"
            ) from error
        subject = single
        notes.append(f"it takes float32 only ({error}); tolerances are those of float32")
    began = time.perf_counter()
    for _ in range(3):
        _probe(subject)
    seconds = (time.perf_counter() - began) / 3
    return replace(subject, seconds=seconds, notes=tuple(notes))


def example(p: int, d: int, n: int, dtype: torch.dtype, device: str) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    """Plain inputs of the protocol: theta [p], x [d], tokens [n, d], weights [n]."""
    generator = torch.Generator().manual_seed(1)

    def normal(*shape: int) -> Tensor:
        return (0.5 * torch.randn(*shape, generator=generator, dtype=torch.float64)).to(device, dtype)

    return normal(p), normal(d), normal(n, d), torch.full((n,), 1 / n, dtype=dtype, device=device)


def _probe(subject: Subject) -> Tensor:
    return subject(*example(subject.p, subject.d, 3, subject.dtype, subject.device))


def _spec(head: Any, p: int | None, d: int | None) -> HeadSpec:
    if isinstance(head, HeadSpec):
        return _checked(head)
    if isinstance(head, Head):
        return HeadSpec(
            head.function, head.parameter_dimension, head.token_dimension,
            hypotheses=head.hypotheses, values=head.values, name=head.name,
        )  # fmt: skip
    if isinstance(head, nn.MultiheadAttention):
        return _spec(multihead_attention(head), p, d)
    if isinstance(head, nn.Module):
        if d is None:
            raise InputError(
                f"{type(head).__name__} is a module: its theta is all of its parameters, and the tokens' dimension d "
                "cannot be seen from outside; give it (--token-dimension, or d=)"
            )
        return _spec(module_head(head, d), p, d)
    if not callable(head):
        raise InputError(
            f"a head is a callable {ARGUMENTS}, a HeadSpec, a mfcheck Head or an nn.Module; it came as "
            f"{type(head).__name__}"
        )
    if isinstance(head, type):
        raise InputError(f"a head is called with numbers; {head.__name__} is a class: bring an instance of it")
    _check_arity(head)
    p = p if p is not None else getattr(head, "parameter_dimension", None)
    d = d if d is not None else getattr(head, "token_dimension", None)
    if p is None or d is None:
        p, d = _inferred(head, p, d)
    # of a plain callable nothing is declared: no power of growth, and all else is asked for
    return _checked(HeadSpec(head, p, d, hypotheses=Hypotheses(growth_power=None)))


def _checked(spec: HeadSpec) -> HeadSpec:
    for what, value in (("parameter", spec.parameter_dimension), ("token", spec.token_dimension)):
        if not isinstance(value, int) or value < 1:
            raise InputError(f"a head's {what} dimension is a whole number from 1; it came as {value!r}")
    if not callable(spec.function):
        raise InputError(f"a HeadSpec's function is a callable {ARGUMENTS}; it came as {type(spec.function).__name__}")
    if not spec.radius > 0:
        raise InputError(f"a domain's radius is positive; it came as {spec.radius!r}")
    return spec


def _check_arity(head: Callable[..., Any]) -> None:
    try:
        signature = inspect.signature(head)
    except (TypeError, ValueError):
        return  # written in C: the probe will tell
    try:
        signature.bind(*range(4))
    except TypeError as error:
        raise InputError(f"a head takes four arguments, {ARGUMENTS}; {_name(head)}{signature}: {error}") from error


def _inferred(head: Callable[..., Any], p: int | None, d: int | None) -> tuple[int, int]:
    """The dimensions that the head accepts and answers in. Raises InputError where none do, or more than one."""
    fits, last = [], "nothing was raised"
    for token_dimension in [d] if d is not None else D_TRIED:
        for parameters in [p] if p is not None else P_TRIED:
            arguments = example(parameters, token_dimension, 3, torch.float64, "cpu")
            try:
                output = head(*arguments)
            except Exception as error:
                last = f"{type(error).__name__}: {str(error).splitlines()[0] if str(error) else ''}"
                continue
            if tuple(np.shape(output.detach() if isinstance(output, Tensor) else output)) == (token_dimension,):
                fits.append((parameters, token_dimension))
    if len(fits) == 1:
        return fits[0]
    ask = "give them (--parameter-dimension and --token-dimension, or p= and d=, or a HeadSpec)"
    if not fits:
        raise InputError(
            f"no dimensions p <= {max(P_TRIED)}, d <= {max(D_TRIED)} were found in which {_name(head)} answers "
            f"{ARGUMENTS}; the last it raised: {last}; {ask}"
        )
    shown = ", ".join(f"p = {a}, d = {b}" for a, b in fits[:3])
    raise InputError(f"{_name(head)} answers in more than one pair of dimensions ({shown}, ...): {ask}")


def _name(head: Any) -> str:
    while isinstance(head, functools.partial):
        head = head.func
    return getattr(head, "__qualname__", None) or type(head).__name__
