"""The effective step of an optimiser: what multiplies a coordinate's (averaged) gradient in the step just made."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import torch
from torch import Tensor, optim

#: (optimiser, parameter group, parameter), just after the step -> the effective step: a tensor of the parameter's
#: shape, or one number where it is the same for every coordinate.
EffectiveStep = Callable[[optim.Optimizer, Mapping[str, Any], Tensor], Tensor | float]


def known_effective_step(base: optim.Optimizer) -> EffectiveStep | None:
    """The effective step of torch's SGD, Adam, AdamW, RMSprop and Adagrad and their heirs; None of another optimiser.

    SGD: eta, on the gradient or its momentum buffer. Adam and AdamW: eta / (sqrt(v_hat) + eps) on m_hat, both
    bias-corrected, v the running maximum with amsgrad. RMSprop: eta / (sqrt(v) + eps). Adagrad: eta_k / (sqrt(sum of
    squares) + eps). Decoupled weight decay is a displacement beside it. Source: the update formulas in torch's
    documentation, one each.
    """
    for kind, function in _KNOWN.items():
        if isinstance(base, kind):
            return function
    return None


def _sgd(base: optim.Optimizer, group: Mapping[str, Any], parameter: Tensor) -> float:
    return float(group["lr"])


def _adam(base: optim.Optimizer, group: Mapping[str, Any], parameter: Tensor) -> Tensor:
    state = base.state[parameter]
    squares = state["max_exp_avg_sq"] if group["amsgrad"] else state["exp_avg_sq"]
    correction = 1 - float(group["betas"][1]) ** float(state["step"])
    return float(group["lr"]) / ((squares / correction).sqrt_() + group["eps"])


def _rmsprop(base: optim.Optimizer, group: Mapping[str, Any], parameter: Tensor) -> Tensor:
    state = base.state[parameter]
    squares = state["square_avg"]
    if group["centered"]:
        squares = torch.addcmul(squares, state["grad_avg"], state["grad_avg"], value=-1)
    return float(group["lr"]) / (squares.sqrt() + group["eps"])


def _adagrad(base: optim.Optimizer, group: Mapping[str, Any], parameter: Tensor) -> Tensor:
    state = base.state[parameter]
    decayed = float(group["lr"]) / (1 + (float(state["step"]) - 1) * group["lr_decay"])
    return decayed / (state["sum"].sqrt() + group["eps"])


_KNOWN: dict[type[optim.Optimizer], EffectiveStep] = {
    optim.SGD: _sgd,
    optim.Adam: _adam,
    # before torch 2.6 no heir of Adam
    optim.AdamW: _adam,
    optim.RMSprop: _rmsprop,
    optim.Adagrad: _adagrad,
}
