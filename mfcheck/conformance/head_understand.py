"""From what somebody brings (a Head, a HeadSpec, a function, a torch module) to the subject of the suite."""

from __future__ import annotations

import dataclasses
import importlib
import inspect
from collections.abc import Callable
from typing import Any

import torch
from torch import nn

from mfcheck.conformance.head_inference import infer
from mfcheck.conformance.head_spec import HeadSpec
from mfcheck.conformance.head_subject import Origin, Subject, ordinary_call
from mfcheck.conformance.surroundings import least_seconds
from mfcheck.conformance.target import name_of
from mfcheck.device import resolve_device
from mfcheck.errors import InputError
from mfcheck.heads import Head, module_head, multihead_attention
from mfcheck.heads.module import flat_parameters
from mfcheck.statistics.seeds import Stream

ACCEPTED = (
    "a function (theta [p], x [d], tokens [n, d], weights [n]) -> [d], a Head, a HeadSpec, a torch module, or a "
    "function without arguments that makes one of these"
)


def understand(
    brought: Any,
    stream: Stream,
    *,
    target: str | None = None,
    name: str | None = None,
    parameter_dimension: int | None = None,
    token_dimension: int | None = None,
    device: str | None = None,
) -> Subject:
    """The subject of the suite. Raises InputError with a sentence on what cannot be called as a head."""
    made, origin = _made(brought, _origin(brought, target), name or target)
    spec, origin = _spec(made, origin, token_dimension)
    p = spec.parameter_dimension if parameter_dimension is None else parameter_dimension
    d = spec.token_dimension if token_dimension is None else token_dimension
    shown = name or spec.name or target or name_of(spec.function)
    _check_arity(spec.function, shown)
    place = resolve_device(device or spec.device or "cpu")
    p, d, dtype, notes = infer(spec.function, shown, p, d, spec.dtype, place)
    subject = Subject(
        name=shown,
        function=spec.function,
        parameter_dimension=p,
        token_dimension=d,
        dtype=dtype,
        device=place,
        growth_power=spec.growth_power,
        values=spec.values,
        parameter_bound=spec.parameter_bound,
        token_bound=spec.token_bound,
        rho_0=spec.rho_0,
        batched=spec.batched,
        origin=origin,
        stream=stream,
        notes=(*notes, *_own_parameters(spec.function, p, d, dtype, place)),
    )
    call = ordinary_call(p, d)
    subject.seconds = least_seconds(lambda: subject.raw(call))
    return subject


def _made(brought: Any, origin: Origin, name: str | None) -> tuple[Any, Origin]:
    """What was brought, or what it makes where it is a module class or a function without arguments."""
    if isinstance(brought, (Head, HeadSpec, nn.Module)):
        return brought, origin
    if not callable(brought):
        raise InputError(f"a head is {ACCEPTED}; it came as {type(brought).__name__}")
    if not inspect.isclass(brought) and not _takes_nothing(brought):
        return brought, origin
    shown = name or name_of(brought)
    try:
        made = brought()
    except Exception as error:
        raise InputError(f"making the head, {shown}() raised {type(error).__name__}: {error}") from error
    if not isinstance(made, (Head, HeadSpec, nn.Module)):
        raise InputError(f"{shown}() made a {type(made).__name__}; a head is {ACCEPTED}")
    return made, Origin(origin.lines, f"{origin.function}()" if origin.function else None)


def _spec(made: Any, origin: Origin, token_dimension: int | None) -> tuple[HeadSpec, Origin]:
    """What was brought as a HeadSpec whose function is no module, and where a snippet finds that function."""
    place = origin.function
    if isinstance(made, HeadSpec):
        if not isinstance(made.function, nn.Module):
            return made, Origin(origin.lines, f"{place}.function" if place else None)
        inner = Origin(origin.lines, f"{place}.function" if place else None)
        spec, origin = _of_module(made.function, inner, made.token_dimension or token_dimension)
        declared = {
            field.name: getattr(made, field.name)
            for field in dataclasses.fields(made)
            if field.name != "function" and getattr(made, field.name) is not None
        }
        return dataclasses.replace(spec, **declared), origin
    if isinstance(made, Head):
        return _of_head(made), Origin(origin.lines, f"{place}.function" if place else None)
    if isinstance(made, nn.Module):
        return _of_module(made, origin, token_dimension)
    inner_function = made
    while hasattr(inner_function, "func"):  # functools.partial
        inner_function = inner_function.func
    p, d = (getattr(inner_function, what, None) for what in ("parameter_dimension", "token_dimension"))
    return HeadSpec(made, p if isinstance(p, int) else None, d if isinstance(d, int) else None), origin


def _of_head(head: Head) -> HeadSpec:
    return HeadSpec(
        head.function,
        head.parameter_dimension,
        head.token_dimension,
        growth_power=head.hypotheses.growth_power,
        values=head.values,
        batched=True,
        name=head.name,
    )


def _of_module(module: nn.Module, origin: Origin, token_dimension: int | None) -> tuple[HeadSpec, Origin]:
    """The adapter's head: theta is all of the module's parameters. The dimension of the tokens may be left open."""
    place = origin.function
    if isinstance(module, nn.MultiheadAttention):
        lines = ("from mfcheck.heads import multihead_attention", *origin.lines)
        head = multihead_attention(module)
        written = f"multihead_attention({place}).function" if place else None
    else:
        lines = ("from mfcheck.heads import module_head", *origin.lines)
        named = [getattr(module, what, None) for what in ("token_dimension", "embed_dim", "d_model")]
        given = token_dimension or next((value for value in named if isinstance(value, int)), None)
        # the adapter's function does not look at the dimension
        head = module_head(module, given or 1)
        written = f"module_head({place}, {given or 1}).function" if place else None
        if given is None:
            spec = dataclasses.replace(_of_head(head), token_dimension=None)
            return _on_its_device(spec, module), Origin(lines, written)
    return _on_its_device(_of_head(head), module), Origin(lines, written)


def _on_its_device(spec: HeadSpec, module: nn.Module) -> HeadSpec:
    """With the module's own device, and with a law of parameters about those that it has."""
    mean = flat_parameters(module)
    deviation = float(mean.double().std(correction=0)) or 1.0

    def rho_0(generator: torch.Generator, count: int) -> torch.Tensor:
        drawn = torch.randn(count, len(mean), generator=generator, dtype=torch.float64)
        return mean.to("cpu", torch.float64) + deviation * drawn

    return dataclasses.replace(spec, device=mean.device.type, rho_0=rho_0)


def _check_arity(function: Callable[..., Any], name: str) -> None:
    try:
        signature = inspect.signature(function)
    except (TypeError, ValueError):
        return
    try:
        signature.bind(None, None, None, None)
    except TypeError:
        raise InputError(f"a head is called as (theta, x, tokens, weights); {name} takes {signature}") from None


def _takes_nothing(function: Callable[..., Any]) -> bool:
    try:
        signature = inspect.signature(function)
    except (TypeError, ValueError):
        return False
    try:
        signature.bind()
    except TypeError:
        return False
    try:
        # (*args) takes both: it is a head
        signature.bind(None, None, None, None)
    except TypeError:
        return True
    return False


def _own_parameters(function: Callable[..., Any], p: int, d: int, dtype: torch.dtype, device: str) -> tuple[str, ...]:
    """A note where the output has a gradient though no argument has: it comes from tensors of the head's own."""
    with torch.enable_grad():
        output = function(*(part.to(device, dtype, copy=True) for part in ordinary_call(p, d).arguments))
    if not output.requires_grad:
        return ()
    return ("it has parameters of its own beside theta; they stay as they are, and no law of heads moves them",)


def _origin(brought: Any, target: str | None) -> Origin:
    """How a fresh interpreter imports what was brought; by its own name where that leads back to it."""
    if target is None:
        module, path = getattr(brought, "__module__", None), getattr(brought, "__qualname__", None)
        if not module or not path or module == "__main__" or not _leads_to(module, path, brought):
            return Origin(("# v: the function (theta, x, tokens, weights) that you handed to check_head",), None)
        target = f"{module}:{path}"
    module, _, path = target.partition(":")
    first, *rest = path.split(".")
    return Origin((f"from {module} import {first}",), ".".join((first, *rest)))


def _leads_to(module: str, path: str, brought: Any) -> bool:
    try:
        found: Any = importlib.import_module(module)
        for part in path.split("."):
            found = getattr(found, part)
    except (ImportError, AttributeError):
        return False
    return found is brought
