"""Masked softmax attention of many heads at once: masks as nn.MultiheadAttention takes them, and the two kernels."""

from __future__ import annotations

import torch
import torch.nn.functional as F
from jaxtyping import Float
from torch import Tensor

from mfcheck.errors import InputError

#: On the CPU a written-out softmax beats the fused kernel up to this many tokens and this head width
#: (benchmarks/attention.py times both): such blocks are smaller than the kernel's own tiles.
SMALL_TOKENS, SMALL_HEAD = 32, 16


def attend(
    q: Float[Tensor, "B M L h"],
    k: Float[Tensor, "B M S h"],
    v: Float[Tensor, "B M S h"],
    mask: Tensor | None = None,
    *,
    causal: bool = False,
    dropout: float = 0.0,
    need_weights: bool = False,
) -> tuple[Float[Tensor, "B M L h"], Float[Tensor, "B M L S"] | None]:
    """softmax(q k' / sqrt(h) + mask) v, and the softmax itself where it is asked for (after dropout).

    mask: broadcasts to [B, M, L, S]; bool with True where a query may look, or float and added. causal: query i sees
    keys j <= i, with mask None. A query that may look nowhere attends with weight 0 to every token.
    """
    tokens, keys, width = q.shape[-2], k.shape[-2], q.shape[-1]
    small = q.device.type == "cpu" and max(tokens, keys) <= SMALL_TOKENS and width <= SMALL_HEAD
    if not (need_weights or small):
        return F.scaled_dot_product_attention(q, k, v, mask, dropout_p=dropout, is_causal=causal), None
    if causal:
        mask = torch.ones(tokens, keys, dtype=torch.bool, device=q.device).tril()
    scores = (q * width**-0.5) @ k.transpose(-1, -2)
    if mask is None:
        weights = scores.softmax(-1)
    else:
        open_ = mask if mask.dtype == torch.bool else mask != -torch.inf
        nowhere = ~open_.any(-1, keepdim=True)
        scores = scores.masked_fill(~mask, -torch.inf) if mask.dtype == torch.bool else scores + mask
        # such a row's softmax is 0/0: computed as uniform and then zeroed, its gradient is 0 and not NaN
        weights = scores.masked_fill(nowhere, 0.0).softmax(-1).masked_fill(nowhere, 0.0)
    if dropout > 0:
        weights = F.dropout(weights, dropout)
    return weights.to(v.dtype) @ v, weights if need_weights else None


def joined_mask(
    attn_mask: Tensor | None,
    key_padding_mask: Tensor | None,
    *,
    batch: int,
    heads: int,
    tokens: int,
    keys: int,
    dtype: torch.dtype,
) -> Tensor | None:
    """The two masks of nn.MultiheadAttention as one for `attend`.

    attn_mask: [L, S] or [B M, L, S]; key_padding_mask: [B, S]. Either is bool, True where a query may NOT look, or
    float and added to the logits. Raises InputError on other shapes or types.
    """
    masks = []
    if attn_mask is not None:
        if attn_mask.shape not in ((tokens, keys), (batch * heads, tokens, keys)):
            raise InputError(
                f"attn_mask is [L, S] = {(tokens, keys)} or [B M, L, S] = {(batch * heads, tokens, keys)}; it came as "
                f"{tuple(attn_mask.shape)}"
            )
        masks.append(attn_mask if attn_mask.ndim == 2 else attn_mask.view(batch, heads, tokens, keys))
    if key_padding_mask is not None:
        if key_padding_mask.shape != (batch, keys):
            raise InputError(
                f"key_padding_mask is [B, S] = {(batch, keys)}; it came as {tuple(key_padding_mask.shape)}"
            )
        masks.append(key_padding_mask[:, None, None, :])
    if not masks:
        return None
    for mask in masks:
        if mask.dtype != torch.bool and not mask.is_floating_point():
            raise InputError(f"a mask is bool (True: not to be looked at) or float (added); it came as {mask.dtype}")
    if all(mask.dtype == torch.bool for mask in masks):
        blocked = masks[0] if len(masks) == 1 else masks[0] | masks[1]
        return ~blocked
    added = [_additive(mask, dtype) for mask in masks]
    return added[0] if len(added) == 1 else added[0] + added[1]


def _additive(mask: Tensor, dtype: torch.dtype) -> Tensor:
    if mask.dtype != torch.bool:
        return mask.to(dtype)
    return torch.zeros_like(mask, dtype=dtype).masked_fill(mask, -torch.inf)
