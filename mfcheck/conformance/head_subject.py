"""The head under test as the properties call it: one token at a time, with copies of everything, on the clock."""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

import torch
from jaxtyping import Float
from torch import Tensor

from mfcheck.conformance.head_spec import StartLaw
from mfcheck.statistics.seeds import Stream

#: Entries of theta, x and the tokens are drawn up to this where the head declares no bound of its own.
BOUND = 2.0
#: A call of more seconds than these, most of them idle, waits for something.
WAIT = 0.05


class HeadFailure(Exception):
    """The head raised, or returned what is no token: a sentence."""


@dataclass(frozen=True, eq=False)
class Call:
    """The arguments of one call, float64 on the CPU: theta [p], x [d], tokens [n, d], shares [n] of any sum above 0."""

    theta: Float[Tensor, " p"]
    x: Float[Tensor, " d"]
    tokens: Float[Tensor, "n d"]
    shares: Float[Tensor, " n"]

    @property
    def weights(self) -> Float[Tensor, " n"]:
        """The shares over their sum: the law's weights."""
        return self.shares / self.shares.sum()

    @property
    def arguments(self) -> tuple[Tensor, Tensor, Tensor, Tensor]:
        """theta [p], x [d], tokens [n, d], weights [n]."""
        return self.theta, self.x, self.tokens, self.weights

    def with_law(self, tokens: Tensor, shares: Tensor) -> Call:
        """The same theta and query in another law."""
        return Call(self.theta, self.x, tokens, shares)

    @property
    def key(self) -> tuple[Any, ...]:
        """Equal for equal calls."""
        return tuple((tuple(part.shape), *part.flatten().tolist()) for part in (*self.arguments, self.shares))


@dataclass
class Clock:
    """What the head was asked so far, and until when it may be.

    Time is that of this process's work, and of calls that wait (for a device, or asleep): on a machine that others use,
    too, a suite takes longer by the wall and is cut no shorter.
    """

    calls: int = 0
    waited: float = 0.0
    until: float = math.inf

    @property
    def now(self) -> float:
        """Seconds of work and of waiting, from any origin."""
        return time.process_time() + self.waited

    @property
    def over(self) -> bool:
        """Whether the time of the property at hand is spent."""
        return self.now > self.until

    def count(self, wall: float, worked: float) -> None:
        """One more call, of these seconds by the wall, and of work."""
        self.calls += 1
        if wall > WAIT and worked < 0.5 * wall:
            self.waited += wall - worked


@dataclass(frozen=True)
class Origin:
    """How a snippet gets the head: lines that import it, and the expression that is its function, or None."""

    lines: tuple[str, ...]
    function: str | None


@dataclass(eq=False)
class Subject:
    """A head function with its dimensions and declarations. All its values come back in float64 on the CPU.

    seconds: of one call. must_batch: leading axes are part of what it promises. notes: sentences for the report.
    """

    name: str
    function: Callable[[Tensor, Tensor, Tensor, Tensor], Any]
    parameter_dimension: int
    token_dimension: int
    dtype: torch.dtype
    device: str
    growth_power: float | None
    values: Callable[[Tensor, Tensor], Tensor] | None
    parameter_bound: float | None
    token_bound: float | None
    rho_0: StartLaw | None
    batched: bool | None
    origin: Origin
    stream: Stream
    notes: tuple[str, ...] = ()
    seconds: float = 0.0
    clock: Clock = field(default_factory=Clock)
    #: Names of the properties that are violated so far: what others may rest on.
    violated: set[str] = field(default_factory=set)
    facts: dict[str, Any] = field(default_factory=dict)

    @property
    def theta_bound(self) -> float:
        """The largest entry of theta that properties other than `finite` draw."""
        return BOUND if self.parameter_bound is None else self.parameter_bound

    @property
    def x_bound(self) -> float:
        """The largest entry of x and the tokens that properties other than `finite` draw."""
        return BOUND if self.token_bound is None else self.token_bound

    @property
    def ball(self) -> str:
        """The ball on which an estimated constant holds, in words."""
        return f"|theta_i| <= {self.theta_bound:g}, |x_i|, |y_i| <= {self.x_bound:g}"

    @cached_property
    def eps(self) -> float:
        """The rounding unit of its arithmetic: the coarser of what goes in and what comes out of an ordinary call."""
        output = self.raw(ordinary_call(self.parameter_dimension, self.token_dimension))
        return max(torch.finfo(self.dtype).eps, torch.finfo(output.dtype).eps)

    def place(self, call: Call, dtype: torch.dtype | None = None, device: str | None = None) -> tuple[Tensor, ...]:
        """Fresh arguments in the head's dtype and on its device, or in others: it may do with them what it likes."""
        return tuple(part.to(device or self.device, dtype or self.dtype, copy=True) for part in call.arguments)

    def ask(self, *arguments: Tensor) -> Tensor:
        """What the function returns, on the clock. Raises HeadFailure where it raises or returns no real tensor."""
        began, worked = time.perf_counter(), time.process_time()
        try:
            output = self.function(*arguments)
        except Exception as error:
            raise HeadFailure(f"it raised {type(error).__name__}: {first_line(error)}") from error
        finally:
            self.clock.count(time.perf_counter() - began, time.process_time() - worked)
        if not isinstance(output, Tensor) or not output.is_floating_point():
            came = f"a tensor of {output.dtype}" if isinstance(output, Tensor) else f"a {type(output).__name__}"
            raise HeadFailure(f"it returned {came}, and a head returns a floating tensor [d]")
        return output

    def raw(self, call: Call, dtype: torch.dtype | None = None, device: str | None = None) -> Tensor:
        """What the function returns, as it comes. Raises HeadFailure."""
        with torch.no_grad():
            return self.ask(*self.place(call, dtype, device))

    def value(self, call: Call, dtype: torch.dtype | None = None, device: str | None = None) -> Float[Tensor, " d"]:
        """v_theta(x; mu), [d] in float64 on the CPU; a wrong shape of d numbers is `shape_and_dtype`'s to find.

        Raises HeadFailure, and Unanswered where the value is not finite.
        """
        return self._numbers(self.raw(call, dtype, device), (self.token_dimension,))

    def together(self, arguments: Sequence[Tensor], batch: tuple[int, ...]) -> Float[Tensor, "*batch d"]:
        """One call with leading axes. Raises HeadFailure where the function raises or the shape is another."""
        with torch.no_grad():
            copies = (part.to(self.device, self.dtype, copy=True) for part in arguments)
            output = self.ask(*copies)
        if tuple(output.shape) != (*batch, self.token_dimension):
            raise HeadFailure(
                f"with leading axes it returns [..., d] = {(*batch, self.token_dimension)}; it returned "
                f"{tuple(output.shape)}"
            )
        return self._numbers(output, (*batch, self.token_dimension))

    def _numbers(self, output: Tensor, shape: tuple[int, ...]) -> Tensor:
        if output.numel() != math.prod(shape):
            raise HeadFailure(f"it returned shape {tuple(output.shape)}, and a head returns [d] = {shape}")
        values = output.detach().to("cpu", torch.float64, copy=True).reshape(shape)
        if not bool(torch.isfinite(values).all()):
            raise Unanswered(f"it returned {values.flatten()[~torch.isfinite(values.flatten())][0].item()}")
        return values


class Unanswered(HeadFailure):
    """The head returned NaN or infinity."""


def ordinary_call(p: int, d: int, n: int = 3) -> Call:
    """A call on which every head should work: entries of either sign below 1, equal weights."""
    theta = 0.5 * torch.sin(torch.arange(1, p + 1, dtype=torch.float64))
    x = torch.cos(torch.arange(1, d + 1, dtype=torch.float64))
    tokens = torch.sin(1.7 * torch.arange(1, n * d + 1, dtype=torch.float64)).reshape(n, d)
    return Call(theta, x, tokens, torch.ones(n, dtype=torch.float64))


def first_line(error: BaseException) -> str:
    """The first line of an exception's words, cut where it is long."""
    lines = str(error).strip().splitlines() or ["no words"]
    return lines[0] if len(lines[0]) <= 160 else f"{lines[0][:157]}..."
