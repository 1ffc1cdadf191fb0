"""HeadSpec: a head function with what cannot be read off it, its dimensions, domain and declared growth."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from mfcheck.errors import InputError

#: (generator, count) -> theta [count, p]: independent draws of rho_0.
StartLaw = Callable[[torch.Generator, int], Tensor]


@dataclass(frozen=True, eq=False)
class HeadSpec:
    """A head that somebody brings, and what they declare of it. Everything but the function may be left out.

    function: (theta [p], x [d], tokens [n, d], weights [n]) -> [d], or a torch module of the same call without theta
    (theta is then its parameters). parameter_dimension p, token_dimension d: asked for where they cannot be inferred.
    growth_power q: |v_theta| <= C (1 + |theta|)^q is claimed at fixed tokens; None claims none. values(theta, tokens)
    -> [n, d]: points whose convex hull is claimed to hold the output. parameter_bound, token_bound: the head is
    defined for |theta_i|, and for |x_i| and |y_i|, up to these; None where it is defined everywhere. rho_0(generator,
    count) -> [count, p]: the law of parameters at the start, N(0, 1) each by default. batched: leading axes of all
    arguments broadcast; None to find out. dtype and device: what it needs; by default float64 where it takes it, and
    the device of its own parameters.
    Raises InputError.
    """

    function: Callable[..., Any]
    parameter_dimension: int | None = None
    token_dimension: int | None = None
    growth_power: float | None = None
    values: Callable[[Tensor, Tensor], Tensor] | None = None
    parameter_bound: float | None = None
    token_bound: float | None = None
    rho_0: StartLaw | None = None
    batched: bool | None = None
    dtype: torch.dtype | None = None
    device: str | None = None
    name: str | None = None

    def __post_init__(self) -> None:
        if not callable(self.function):
            raise InputError(f"a head is a function or a torch module; it came as {type(self.function).__name__}")
        for what in ("parameter_dimension", "token_dimension"):
            value = getattr(self, what)
            if value is not None and (not isinstance(value, int) or value < 1):
                raise InputError(f"{what} is a whole number from 1; it came as {value!r}")
        for what in ("parameter_bound", "token_bound"):
            value = getattr(self, what)
            if value is not None and not 0 < value < float("inf"):
                raise InputError(f"{what} is a positive number, or None for no bound; it came as {value!r}")
        if self.dtype not in (None, torch.float32, torch.float64):
            raise InputError(f"a head is checked in torch.float64 or torch.float32; dtype came as {self.dtype}")
