"""Update rules that are right: the suite finds nothing wrong with them."""

from __future__ import annotations

import math
from collections.abc import Iterable
from typing import Any

import torch
from torch import Tensor
from torch.nn import Parameter

from mfcheck.attention.optim import Langevin
from mfcheck.conformance.broken.base import Langevin as UnbrokenLangevin


def euler_maruyama(theta: Tensor, grad: Tensor, step: float, beta: float, generator: torch.Generator) -> Tensor:
    """theta - eta g + sqrt(2 beta eta) xi."""
    noise = torch.randn(theta.shape, generator=generator, dtype=theta.dtype, device=theta.device)
    return theta - step * grad + math.sqrt(2 * beta * step) * noise


def in_place(theta: Tensor, grad: Tensor, step: float, beta: float, generator: torch.Generator) -> None:
    """The same, written into theta."""
    theta.sub_(grad, alpha=step)
    theta.add_(torch.empty_like(theta).normal_(0.0, math.sqrt(2 * beta * step), generator=generator))


class SGLD(UnbrokenLangevin):
    """Stochastic gradient Langevin dynamics, weight decay added to the gradient; leaves its noise in the state.

    beta: a number or a schedule k -> beta_k. Source: Welling and Teh 2011.
    """

    def record(self, state: dict[str, Any], noise: Tensor, drawn: Tensor) -> None:
        """Leaves the noise in the state."""
        state["noise"] = noise


def langevin(params: Iterable[Parameter], lr: float, beta: Any, generator: torch.Generator) -> Langevin:
    """mfcheck.Langevin over SGD, raw scaling."""
    parameters = list(params)
    return Langevin(torch.optim.SGD(parameters, lr=lr), parameters, beta, generator=generator)


def langevin_mean_field(params: Iterable[Parameter], lr: float, beta: Any, generator: torch.Generator) -> Langevin:
    """mfcheck.Langevin over SGD, mean-field scaling."""
    parameters = list(params)
    base = torch.optim.SGD(parameters, lr=lr)
    return Langevin(base, parameters, beta, scaling="mean_field", generator=generator)
