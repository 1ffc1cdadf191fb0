"""Update rules that are right: the suite finds nothing wrong with them."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable
from typing import Any

import torch
from torch import Tensor
from torch.nn import Parameter
from torch.optim import Optimizer

from mfcheck.attention.optim import Langevin
from mfcheck.dynamics.schedules import Schedule, as_schedule


def euler_maruyama(theta: Tensor, grad: Tensor, step: float, beta: float, generator: torch.Generator) -> Tensor:
    """theta - eta g + sqrt(2 beta eta) xi."""
    noise = torch.randn(theta.shape, generator=generator, dtype=theta.dtype, device=theta.device)
    return theta - step * grad + math.sqrt(2 * beta * step) * noise


def in_place(theta: Tensor, grad: Tensor, step: float, beta: float, generator: torch.Generator) -> None:
    """The same, written into theta."""
    theta.sub_(grad, alpha=step)
    theta.add_(torch.empty_like(theta).normal_(0.0, math.sqrt(2 * beta * step), generator=generator))


class SGLD(Optimizer):
    """Stochastic gradient Langevin dynamics, weight decay added to the gradient; leaves its noise in the state.

    beta: a number or a schedule k -> beta_k; scaling: "raw" (drift g) or "mean_field" (M g, M the leading axis).
    Source: Welling and Teh 2011.
    """

    def __init__(
        self,
        params: Iterable[Tensor],
        lr: float,
        beta: float | Schedule | Callable[[int], float],
        generator: torch.Generator,
        weight_decay: float = 0.0,
        scaling: str = "raw",
    ) -> None:
        super().__init__(params, {"lr": lr, "weight_decay": weight_decay})
        self.schedule, self.generator, self.scaling = as_schedule(beta), generator, scaling

    @torch.no_grad()
    def step(self, closure: Any = None) -> None:  # type: ignore[override]
        """One step; each parameter's state counts its own, so that a resumed run goes on with its schedule."""
        for group in self.param_groups:
            for theta in group["params"]:
                if theta.grad is None:
                    continue
                state = self.state[theta]
                beta = self.schedule(state.get("step", 0))
                state["step"] = state.get("step", 0) + 1
                many = theta.shape[0] if self.scaling == "mean_field" else 1
                noise = torch.empty_like(theta).normal_(generator=self.generator)
                state["noise"] = noise.mul_(math.sqrt(2 * beta * group["lr"]))
                theta.sub_(many * theta.grad + group["weight_decay"] * theta, alpha=group["lr"]).add_(noise)


def sgld(params: Iterable[Tensor], lr: float, beta: Any, generator: torch.Generator) -> SGLD:
    """SGLD with raw scaling."""
    return SGLD(params, lr, beta, generator)


def sgld_mean_field(params: Iterable[Tensor], lr: float, beta: Any, generator: torch.Generator) -> SGLD:
    """SGLD with mean-field scaling."""
    return SGLD(params, lr, beta, generator, scaling="mean_field")


def langevin(params: Iterable[Parameter], lr: float, beta: Any, generator: torch.Generator) -> Langevin:
    """mfcheck.Langevin over SGD, raw scaling."""
    parameters = list(params)
    return Langevin(torch.optim.SGD(parameters, lr=lr), parameters, beta, generator=generator)


def langevin_mean_field(params: Iterable[Parameter], lr: float, beta: Any, generator: torch.Generator) -> Langevin:
    """mfcheck.Langevin over SGD, mean-field scaling."""
    parameters = list(params)
    base = torch.optim.SGD(parameters, lr=lr)
    return Langevin(base, parameters, beta, scaling="mean_field", generator=generator)
