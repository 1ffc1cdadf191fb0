"""Hooks on the attention layers of any model: every head's maps, outputs and gradients, under one convention."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import torch
from jaxtyping import Float
from torch import Tensor, nn
from torch.utils.hooks import RemovableHandle

from mfcheck.attention.particles import ParticleAttention
from mfcheck.attention.pruning import AttentionLayer, attention_layers
from mfcheck.errors import InputError


@dataclass(frozen=True)
class Observation:
    """What the heads of one layer did in its latest forward pass, detached.

    maps [B, M, L, S]: softmax weights (without dropout). outputs [B, M, L, d]: v_i(x), whose mean over the heads plus
    the output's bias is what the layer returned; a head of nn.MultiheadAttention is M times its summand.
    """

    maps: Float[Tensor, "B M L S"]
    outputs: Float[Tensor, "B M L d"]


@contextmanager
def observe(model: nn.Module) -> Iterator[dict[str, Observation]]:
    """Within the block every forward pass of the model leaves an Observation of each attention layer, by its name.

    The pass itself computes what it would without the block; the maps are computed once more beside it. Fused paths
    that go round a layer's forward are left by torch as soon as a hook is there. Raises InputError where the model has
    no ParticleAttention and no nn.MultiheadAttention.
    """
    seen: dict[str, Observation] = {}
    handles: list[RemovableHandle] = []
    try:
        for name, layer in attention_layers(model).items():
            handles.append(layer.register_forward_hook(_looking(seen, name), with_kwargs=True))
        yield seen
    finally:
        for handle in handles:
            handle.remove()


def _looking(seen: dict[str, Observation], name: str) -> Callable[..., None]:
    names = (
        "query", "key", "value", "key_padding_mask", "need_weights", "attn_mask", "average_attn_weights", "is_causal"
    )  # fmt: skip

    @torch.no_grad()
    def hook(layer: AttentionLayer, args: tuple[Any, ...], kwargs: dict[str, Any], output: Any) -> None:
        given = dict(zip(names, args, strict=False)) | kwargs
        given = {key: value for key, value in given.items() if key not in ("need_weights", "average_attn_weights")}
        particles = layer if isinstance(layer, ParticleAttention) else ParticleAttention.from_multihead(layer)
        training = particles.training
        try:
            # no call of forward: hooks stay silent
            outputs, maps = particles.eval().particle_outputs(**given)
        finally:
            particles.train(training)
        seen[name] = Observation(maps, outputs)

    return hook


def head_gradients(layer: AttentionLayer) -> Float[Tensor, "M p"]:
    """The gradient that backward left on each head's own parameters, in one row a head: dR/dtheta_i.

    For nn.MultiheadAttention the rows are gradients in its own W_O, which is 1/M times the particle's. Raises
    InputError where a head parameter has no gradient.
    """
    heads = layer.num_heads
    if isinstance(layer, ParticleAttention):
        gradients = [_gradient(parameter).reshape(heads, -1) for parameter in layer.particle_parameters()]
    else:
        packed = [layer.in_proj_weight] if layer.in_proj_weight is not None else []
        apart = [layer.q_proj_weight, layer.k_proj_weight, layer.v_proj_weight]
        stacked = [*packed, *(weight for weight in apart if weight is not None), layer.in_proj_bias]
        gradients = []
        for parameter in stacked:
            if parameter is not None:
                parts = 3 if parameter is layer.in_proj_weight or parameter is layer.in_proj_bias else 1
                gradients.append(_gradient(parameter).reshape(parts, heads, -1).transpose(0, 1).reshape(heads, -1))
        gradients.append(_gradient(layer.out_proj.weight).t().reshape(heads, -1))
    return torch.cat(gradients, 1)


def _gradient(parameter: Tensor) -> Tensor:
    if parameter.grad is None:
        raise InputError(f"a head's parameter of shape {tuple(parameter.shape)} has no gradient; call backward first")
    return parameter.grad.detach()
