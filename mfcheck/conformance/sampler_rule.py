"""An update rule as a person brings it, as chains that the suite can move: optimisers and plain functions alike."""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn
from torch.optim import Optimizer

from mfcheck.errors import InputError

OPTIMIZER, UPDATE = "optimizer", "update"
KINDS = (OPTIMIZER, UPDATE)
ACCEPTED = (
    "a factory make_optimizer(params, lr, beta, generator) of a torch optimiser, or a function "
    "(theta, grad, step, beta, generator) -> theta"
)
_FACTORY = ("params", "lr", "beta", "generator")
_FUNCTION = ("theta", "grad", "step", "beta", "generator")
_FIRST_NAMES = {OPTIMIZER: ("params", "parameters"), UPDATE: ("theta", "x", "w", "particles", "position")}


class RuleFailure(Exception):
    """The rule did not make a step: a sentence on what it did instead and with which arguments."""


@dataclass(frozen=True, eq=False)
class UpdateRule:
    """What a person brought: `bring` is called as its kind says, in a dtype and on a device that it accepts."""

    bring: Callable[..., Any]
    kind: str
    name: str
    dtype: torch.dtype = torch.float64
    device: str = "cpu"

    def start(
        self, theta: Sequence[Tensor], step: float, beta: Any, generator: torch.Generator
    ) -> OptimizerChain | FunctionChain:
        """Chains at theta, a list of [M, D]: M particles of D coordinates. beta: a number (or a schedule k -> beta_k).

        Raises RuleFailure where an optimiser cannot be made.
        """
        if self.kind == OPTIMIZER:
            return OptimizerChain(self, theta, step, beta, generator)
        return FunctionChain(self, theta, step, beta, generator)


class OptimizerChain:
    """Parameters and the optimiser that was made for them."""

    def __init__(
        self, rule: UpdateRule, theta: Sequence[Tensor], step: float, beta: Any, generator: torch.Generator
    ) -> None:
        self.rule, self.generator = rule, generator
        self.parameters = [nn.Parameter(part.clone()) for part in theta]
        shown = _shown("params", theta, step, beta)
        made = _called(rule, shown, rule.bring, *_bound(rule, _FACTORY, (self.parameters, step, beta, generator)))
        if not isinstance(made, Optimizer):
            raise RuleFailure(
                f"{rule.name} called with {shown} gave {_a(made)} where a torch.optim.Optimizer was expected"
            )
        self.optimizer: Optimizer = made

    @property
    def theta(self) -> list[Tensor]:
        """The parameters as they stand, one [M, D] each; not a copy."""
        return [parameter.detach() for parameter in self.parameters]

    @property
    def recorded_noise(self) -> list[Tensor] | None:
        """The noise that the optimiser says it added in its last step, where its state has an entry 'noise'."""
        kept = [self.optimizer.state.get(parameter, {}).get("noise") for parameter in self.parameters]
        return kept if all(isinstance(noise, Tensor) for noise in kept) else None

    def give(self, gradients: Sequence[Tensor]) -> None:
        """Puts gradients where the optimiser looks for them."""
        for parameter, gradient in zip(self.parameters, gradients, strict=True):
            parameter.grad = gradient.clone()

    def move(self, gradients: Sequence[Tensor] | None = None) -> None:
        """One step on these gradients (or those that were given). Raises RuleFailure where it fails."""
        if gradients is not None:
            self.give(gradients)
        _called(self.rule, f"step() at theta of shape {tuple(self.parameters[0].shape)}", self.optimizer.step)
        _check_finite(self.rule, self.theta)


class FunctionChain:
    """Particles that a plain function moves."""

    def __init__(
        self, rule: UpdateRule, theta: Sequence[Tensor], step: float, beta: Any, generator: torch.Generator
    ) -> None:
        self.rule, self.generator = rule, generator
        self.theta = [part.clone() for part in theta]
        self.step, self.beta = step, beta
        self.recorded_noise: list[Tensor] | None = None

    def move(self, gradients: Sequence[Tensor]) -> None:
        """One step on these gradients. Raises RuleFailure where it fails or returns something else than theta."""
        moved, noise = [], []
        for theta, gradient in zip(self.theta, gradients, strict=True):
            shown = _shown("theta", [theta], self.step, self.beta)
            # its own copies: it may work in place
            before, handed = theta.clone(), theta.clone()
            arguments = (handed, gradient.clone(), self.step, self.beta, self.generator)
            returned = _called(self.rule, shown, self.rule.bring, *_bound(self.rule, _FUNCTION, arguments))
            if isinstance(returned, tuple) and len(returned) == 2:
                returned, said = returned
                noise.append(_tensor(self.rule, said, theta, shown))
            if returned is None:
                if torch.equal(handed, before):
                    raise RuleFailure(
                        f"{self.rule.name} called with {shown} returned None and left theta as it was; expected the "
                        "new theta, returned or written in place"
                    )
                returned = handed
            moved.append(_tensor(self.rule, returned, theta, shown))
        self.theta = moved
        self.recorded_noise = noise or None
        _check_finite(self.rule, self.theta)


def understand(bring: object, name: str, kind: str | None, device: str, generator: torch.Generator) -> UpdateRule:
    """The rule behind an object: its kind by inspection, its dtype by a trial step. Raises InputError else."""
    if kind is not None and kind not in KINDS:
        raise InputError(f"a rule's kind is {' or '.join(KINDS)}; it came as {kind!r}")
    if isinstance(bring, Optimizer):
        raise InputError(
            f"{name} is an optimiser already made; expected {ACCEPTED}, since the suite makes many of them"
        )
    if not callable(bring):
        raise InputError(f"{name} is {_a(bring)}, which cannot be called; expected {ACCEPTED}")
    rule = UpdateRule(bring, kind or kind_of(bring, name), name, device=device)
    try:
        return _tried(rule, generator)
    except RuleFailure as double:
        try:
            return _tried(replace(rule, dtype=torch.float32), generator)
        except RuleFailure:
            raise InputError(str(double)) from double


def kind_of(bring: Callable[..., Any], name: str) -> str:
    """Optimiser's factory or update function, by the signature. Raises InputError where it may be both, or neither."""
    inner: object = bring
    while isinstance(inner, functools.partial):
        inner = inner.func
    try:
        signature = inspect.signature(bring)
    except (TypeError, ValueError):
        raise InputError(
            f"{name} does not say which arguments it takes; give kind='optimizer' or kind='update' (--kind)"
        ) from None
    if isinstance(inner, type) and issubclass(inner, Optimizer):
        if not {"beta", "temperature", "T"} & set(signature.parameters) and not _open(signature):
            raise InputError(
                f"{name} is the optimiser class {inner.__name__}{signature}, which takes no beta and no generator; "
                f"expected {ACCEPTED}"
            )
        return OPTIMIZER
    fits = {kind: _fits(signature, names) for kind, names in ((OPTIMIZER, _FACTORY), (UPDATE, _FUNCTION))}
    if fits[OPTIMIZER] != fits[UPDATE]:
        return OPTIMIZER if fits[OPTIMIZER] else UPDATE
    first = next(iter(signature.parameters), "")
    named = [kind for kind, names in _FIRST_NAMES.items() if first in names]
    if fits[OPTIMIZER] and named:
        return named[0]
    if fits[OPTIMIZER]:
        raise InputError(
            f"{name}{signature} can be called with four arguments and with five, so it may be {ACCEPTED}; say which "
            "with kind='optimizer' or kind='update' (--kind)"
        )
    raise InputError(f"{name} takes {signature}, which is neither four arguments nor five; expected {ACCEPTED}")


def _fits(signature: inspect.Signature, names: tuple[str, ...]) -> bool:
    try:
        signature.bind(*names)
    except TypeError:
        return _by_name(signature, names)
    return True


def _by_name(signature: inspect.Signature, names: tuple[str, ...]) -> bool:
    """Whether it wants the arguments by these names: some of them are keyword-only."""
    wanted = {p.name for p in signature.parameters.values() if p.kind is inspect.Parameter.KEYWORD_ONLY}
    if not wanted & set(names):
        return False
    try:
        signature.bind(**dict.fromkeys(names))
    except TypeError:
        return False
    return True


def _open(signature: inspect.Signature) -> bool:
    return any(p.kind is inspect.Parameter.VAR_POSITIONAL for p in signature.parameters.values())


def _bound(rule: UpdateRule, names: tuple[str, ...], values: tuple[Any, ...]) -> tuple[Any, ...]:
    """The values in order, or one dict of them where the rule wants names."""
    try:
        signature = inspect.signature(rule.bring)
    except (TypeError, ValueError):
        return values
    return (dict(zip(names, values, strict=True)),) if _by_name(signature, names) else values


def _called(rule: UpdateRule, shown: str, function: Callable[..., Any], *values: Any) -> Any:
    try:
        if len(values) == 1 and isinstance(values[0], dict):
            return function(**values[0])
        with torch.no_grad() if function is rule.bring and rule.kind == UPDATE else torch.enable_grad():
            return function(*values)
    except (Exception, SystemExit) as error:
        what = f"{type(error).__name__}: {error}" if str(error) else type(error).__name__
        raise RuleFailure(f"{rule.name} called with {shown} raised {what}") from error


def _tried(rule: UpdateRule, generator: torch.Generator) -> UpdateRule:
    """The rule after one trial step of two particles in R^3, with the dtype that it works in."""
    theta = torch.ones(2, 3, dtype=rule.dtype, device=rule.device)
    chain = rule.start([theta], 0.03, 0.005, generator)
    chain.move([torch.full_like(theta, 0.5)])
    # where it answers in a precision of its own, that is the one it works in
    return replace(rule, dtype=chain.theta[0].dtype)


def _tensor(rule: UpdateRule, returned: object, given: Tensor, shown: str) -> Tensor:
    """What a function returned, as a tensor of theta's shape: tensors and NumPy arrays."""
    if isinstance(returned, np.ndarray):
        returned = torch.from_numpy(returned.copy()).to(given.device)
    if not isinstance(returned, Tensor):
        raise RuleFailure(f"{rule.name} called with {shown} returned {_a(returned)}; expected the new theta, a tensor")
    if returned.shape != given.shape:
        raise RuleFailure(
            f"{rule.name} called with {shown} returned a tensor of shape {tuple(returned.shape)}; expected "
            f"{tuple(given.shape)}"
        )
    if not returned.dtype.is_floating_point:
        raise RuleFailure(f"{rule.name} called with {shown} returned {returned.dtype}; expected floating point")
    return returned.detach().clone()


def _check_finite(rule: UpdateRule, theta: Sequence[Tensor]) -> None:
    bad = sum(int(torch.count_nonzero(~torch.isfinite(part))) for part in theta)
    if bad:
        raise RuleFailure(
            f"{rule.name} made {bad} of {sum(part.numel() for part in theta)} coordinates NaN or infinite"
        )


def _shown(what: str, theta: Sequence[Tensor], step: float, beta: Any) -> str:
    kind = str(theta[0].dtype).removeprefix("torch.")
    size = "lr" if what == "params" else "step"
    worth = f"{beta:g}" if isinstance(beta, float) else "a schedule"
    return f"{what} of shape {tuple(theta[0].shape)} ({kind}, {theta[0].device.type}), {size} {step:g}, beta {worth}"


def _a(value: object) -> str:
    return "None" if value is None else f"an object of type {type(value).__name__}"
