"""Between nn.MultiheadAttention and particles: the same numbers in another order, with W_O times or over M."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

import torch
from torch import Tensor, nn

from mfcheck.errors import InputError

if TYPE_CHECKING:
    from mfcheck.attention.particles import ParticleAttention


def from_multihead(cls: type[ParticleAttention], module: nn.MultiheadAttention) -> ParticleAttention:
    """See ParticleAttention.from_multihead."""
    if module.bias_k is not None or module.add_zero_attn:
        raise InputError("an nn.MultiheadAttention with add_bias_kv or add_zero_attn has tokens that no law mu has")
    source = module.out_proj.weight
    made = cls(
        module.embed_dim,
        module.num_heads,
        module.dropout,
        bias=module.in_proj_bias is not None,
        kdim=module.kdim,
        vdim=module.vdim,
        batch_first=module.batch_first,
        device=source.device,
        dtype=source.dtype,
    )
    m, h = made.num_heads, made.head_dim
    if made.qkv_weight is not None:
        _copy(made.qkv_weight, module.in_proj_weight, lambda w: w.view(3, m, h, -1).transpose(0, 1))
    else:
        for name in ("q", "k", "v"):
            into, part = getattr(made, f"{name}_weight"), getattr(module, f"{name}_proj_weight")
            _copy(into, part, lambda w: w.view(m, h, -1))
    _copy(made.qkv_bias, module.in_proj_bias, lambda b: b.view(3, m, h).transpose(0, 1))
    _copy(made.out_bias, module.out_proj.bias, lambda b: b)
    _copy(made.out_weight, source, lambda w: w.t().reshape(m, h, -1) * m)
    return made.train(module.training)


def to_multihead(attention: ParticleAttention) -> nn.MultiheadAttention:
    """See ParticleAttention.to_multihead."""
    m, h, d = attention.num_heads, attention.head_dim, attention.embed_dim
    if m * h != d:
        raise InputError(
            f"nn.MultiheadAttention has heads of width embed_dim / num_heads; {m} particles of width {h} make {m * h}, "
            f"and embed_dim is {d}"
        )
    made = nn.MultiheadAttention(
        d,
        m,
        attention.dropout,
        bias=attention.qkv_bias is not None,
        kdim=attention.kdim,
        vdim=attention.vdim,
        batch_first=attention.batch_first,
        device=attention.out_weight.device,
        dtype=attention.out_weight.dtype,
    )
    if attention.qkv_weight is not None:
        _copy(made.in_proj_weight, attention.qkv_weight, lambda w: w.transpose(0, 1).reshape(3 * d, -1))
    else:
        for name in ("q", "k", "v"):
            into, part = getattr(made, f"{name}_proj_weight"), getattr(attention, f"{name}_weight")
            _copy(into, part, lambda w: w.flatten(0, 1))
    _copy(made.in_proj_bias, attention.qkv_bias, lambda b: b.transpose(0, 1).reshape(3 * d))
    _copy(made.out_proj.bias, attention.out_bias, lambda b: b)
    _copy(made.out_proj.weight, attention.out_weight, lambda w: (w / m).flatten(0, 1).t())
    return made.train(attention.training)


@torch.no_grad()
def _copy(into: Tensor | None, source: Tensor | None, reshape: Callable[[Tensor], Tensor]) -> None:
    if into is not None and source is not None:
        into.copy_(reshape(source))
        into.requires_grad_(source.requires_grad)
