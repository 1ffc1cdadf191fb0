"""What the broken rules share: a Langevin update that is right, method by method, and the register of mutants."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping
from typing import Any

import torch
from torch import Tensor
from torch.optim import Optimizer

from mfcheck.conformance.mutant import Broken, registered_in
from mfcheck.dynamics.schedules import Schedule, as_schedule

TEMPERATURE = {"stationary_temperature": "the noise over the drift is the temperature"}
FOLLOWING = {"schedules": "the wrong power of a setting is wrong while the setting changes, too"}


BROKEN: list[Broken] = []
breaks = registered_in(BROKEN)


class Langevin(Optimizer):
    """theta - eta (g + weight decay theta) + amplitude xi, right as it stands; the mutants change one method."""

    def __init__(
        self,
        params: Iterable[Tensor],
        lr: float,
        beta: float | Schedule | Callable[[int], float],
        generator: torch.Generator,
    ) -> None:
        super().__init__(params, {"lr": lr, "weight_decay": 0.0})
        self.schedule, self.generator = as_schedule(beta), generator
        self.prepare()

    def prepare(self) -> None:
        """Sets up what a mutant keeps beside."""

    def amplitude(self, beta: float, eta: float) -> float:
        """What multiplies a standard normal draw."""
        return math.sqrt(2 * beta * eta)

    def beta(self, k: int) -> float:
        """The diffusion of step k."""
        return self.schedule(k)

    def eta(self, group: Mapping[str, Any], k: int) -> float:
        """The step that the noise goes by."""
        return float(group["lr"])

    def draw(self, theta: Tensor, k: int) -> Tensor:
        """Standard normal noise of theta's shape."""
        return torch.randn(theta.shape, generator=self.generator, dtype=theta.dtype, device=theta.device)

    def gradient(self, theta: Tensor, g: Tensor, k: int) -> Tensor:
        """What the drift goes down."""
        return g

    def shape(self, noise: Tensor, theta: Tensor, g: Tensor, group: Mapping[str, Any], k: int) -> Tensor:
        """The noise as it is added."""
        return noise

    def add(self, theta: Tensor, drift: Tensor, noise: Tensor, group: Mapping[str, Any]) -> None:
        """Moves theta."""
        theta.sub_(group["lr"] * (drift + group["weight_decay"] * theta)).add_(noise)

    def record(self, state: dict[str, Any], noise: Tensor, drawn: Tensor) -> None:
        """Leaves something on record."""

    @torch.no_grad()
    def step(self, closure: Any = None) -> None:  # type: ignore[override]
        """One step of every parameter that has a gradient."""
        for group in self.param_groups:
            for theta in group["params"]:
                if theta.grad is None:
                    continue
                state = self.state[theta]
                k = state.get("step", 0)
                state["step"] = k + 1
                drawn = self.draw(theta, k)
                scaled = self.amplitude(self.beta(k), self.eta(group, k)) * drawn
                noise = self.shape(scaled, theta, theta.grad, group, k)
                self.record(state, noise, drawn)
                self.add(theta, self.gradient(theta, theta.grad, k), noise, group)
