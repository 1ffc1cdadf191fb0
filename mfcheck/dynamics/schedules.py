"""Schedules for the diffusion: step index k -> beta_k, the value used at step k (the first step is k = 0)."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial

from mfcheck.errors import InputError


@dataclass(frozen=True)
class Schedule:
    """beta_k as a function of the step index k = 0, 1, ...; any function of your own makes one.

    name: shown in tables; values: k -> beta_k >= 0. Step k goes from theta_k to theta_{k+1} and adds
    sqrt(2 beta_k eta) xi_k, so that beta_0 is the first value used and a run of n steps never sees beta_n.
    """

    name: str
    values: Callable[[int], float]

    def __call__(self, k: int) -> float:
        return float(self.values(k))

    def betas(self, steps: int) -> list[float]:
        """[beta_0, ..., beta_{steps-1}]. Raises InputError where one of them is negative or not finite."""
        betas = [self(k) for k in range(steps)]
        for k, beta in enumerate(betas):
            if not (math.isfinite(beta) and beta >= 0):
                raise InputError(f"beta is finite and >= 0; schedule {self.name!r} gives {beta} at step {k}")
        return betas

    def total(self, steps: int) -> float:
        """sum_{k < steps} beta_k, correctly rounded; times the step it is the exposure of a run."""
        return math.fsum(self.betas(steps))


def constant(beta: float) -> Schedule:
    """beta_k = beta."""
    _check(beta=beta)
    return Schedule("constant", partial(_constant, beta))


def linear(start: float, end: float, steps: int) -> Schedule:
    """beta_k = start + (end - start) min(k / steps, 1): a straight line, at `end` from k = steps on."""
    _check(start=start, end=end)
    return Schedule("linear", partial(_linear, start, end, _positive(steps)))


def cosine(start: float, end: float, steps: int) -> Schedule:
    """beta_k = end + (start - end) (1 + cos(pi min(k / steps, 1))) / 2: half a wave, then `end`."""
    _check(start=start, end=end)
    return Schedule("cosine", partial(_cosine, start, end, _positive(steps)))


def exponential(start: float, end: float, steps: int) -> Schedule:
    """beta_k = start (end / start)^min(k / steps, 1): a constant ratio a step, then `end`. Both ends > 0."""
    _check(start=start, end=end)
    if start == 0 or end == 0:
        raise InputError(f"an exponential schedule has both ends > 0; they came as {start} and {end}")
    return Schedule("exponential", partial(_exponential, start, end, _positive(steps)))


def logarithmic(start: float, offset: float = 2.0) -> Schedule:
    """beta_k = start log(offset) / log(offset + k): starts at `start`, decays like 1/log k, never ends. Source: [Ch].

    offset > 1: how many steps pass before the decay is felt.
    """
    _check(start=start)
    if not (math.isfinite(offset) and offset > 1):
        raise InputError(f"a logarithmic schedule has an offset > 1; it came as {offset}")
    return Schedule("logarithmic", partial(_logarithmic, start, offset))


def as_schedule(beta: float | Schedule | Callable[[int], float]) -> Schedule:
    """A number as a constant schedule, a function k -> beta_k under its own name. Raises InputError else."""
    if isinstance(beta, Schedule):
        return beta
    if isinstance(beta, bool) or not (callable(beta) or hasattr(beta, "__float__")):
        raise InputError(f"beta is a number >= 0 or a schedule k -> beta_k; it came as {beta!r}")
    if callable(beta) and not hasattr(beta, "__float__"):
        return Schedule(getattr(beta, "__name__", "own schedule"), beta)
    return constant(float(beta))  # type: ignore[arg-type]


def _constant(beta: float, k: int) -> float:
    return beta


def _linear(start: float, end: float, steps: int, k: int) -> float:
    return end if k >= steps else start + (end - start) * (k / steps)


def _cosine(start: float, end: float, steps: int, k: int) -> float:
    return end if k >= steps else end + (start - end) * 0.5 * (1.0 + math.cos(math.pi * k / steps))


def _exponential(start: float, end: float, steps: int, k: int) -> float:
    return end if k >= steps else start * (end / start) ** (k / steps)


def _logarithmic(start: float, offset: float, k: int) -> float:
    return start * math.log(offset) / math.log(offset + k)


def _check(**betas: float) -> None:
    for name, beta in betas.items():
        if not (math.isfinite(beta) and beta >= 0):
            said = "beta" if name == "beta" else f"a schedule's {name}"
            raise InputError(f"{said} is a finite number >= 0; it came as {beta}")


def _positive(steps: int) -> int:
    if isinstance(steps, bool) or not hasattr(steps, "__index__") or steps < 1:
        raise InputError(f"a schedule lasts a whole number of steps >= 1; it came as {steps!r}")
    return int(steps)
