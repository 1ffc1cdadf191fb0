"""Heads made of torch modules: theta is the module's parameters in one vector."""

from __future__ import annotations

from collections.abc import Callable

import torch
from jaxtyping import Float
from torch import Tensor, nn
from torch.func import functional_call, vmap

from mfcheck.errors import InputError
from mfcheck.heads.protocol import Head, Hypotheses


def flat_parameters(module: nn.Module) -> Float[Tensor, " p"]:
    """The module's parameters in one vector [p], in the order of named_parameters: theta of `module_head`."""
    return torch.cat([parameter.detach().reshape(-1) for parameter in module.parameters()])


def module_head(
    module: nn.Module,
    token_dimension: int,
    *,
    call: Callable[[Callable[..., Tensor], Tensor, Tensor, Tensor], Tensor] | None = None,
    hypotheses: Hypotheses | None = None,
    name: str | None = None,
) -> Head:
    """A head whose theta [p] are all parameters of a module, in the order of named_parameters.

    call(module, x [d], tokens [n, d], weights [n]) -> [d] says how one query goes through the module; by default
    module(x, tokens, weights). Batches go through torch.func.vmap. hypotheses: what is claimed of it; by default no
    power of growth in theta (a module's depth is not known). Raises InputError where the module has no parameters.
    """
    shapes = {key: parameter.shape for key, parameter in module.named_parameters()}
    sizes = [shape.numel() for shape in shapes.values()]
    label = name or type(module).__name__
    if not sum(sizes):
        raise InputError(f"{label} has no parameters, so that there is no theta to have a law")

    def single(theta: Tensor, x: Tensor, tokens: Tensor, weights: Tensor) -> Tensor:
        parts = theta.split(sizes)
        parameters = {key: part.reshape(shape) for (key, shape), part in zip(shapes.items(), parts, strict=True)}

        def bound(*arguments: Tensor, **options: object) -> Tensor:
            return functional_call(module, parameters, arguments, options)

        return bound(x, tokens, weights) if call is None else call(bound, x, tokens, weights)

    # a module with dropout on draws anew for every call: that it is not deterministic is for a check to find
    batched = vmap(single, randomness="different")

    def function(theta: Tensor, x: Tensor, tokens: Tensor, weights: Tensor) -> Tensor:
        batch = torch.broadcast_shapes(theta.shape[:-1], x.shape[:-1], tokens.shape[:-2], weights.shape[:-1])
        flat = [
            value.expand(*batch, *value.shape[value.ndim - kept :]).reshape(-1, *value.shape[value.ndim - kept :])
            for value, kept in ((theta, 1), (x, 1), (tokens, 2), (weights, 1))
        ]
        output = batched(*flat)
        return output.reshape(*batch, *output.shape[1:])

    return Head(label, sum(sizes), token_dimension, function, hypotheses or Hypotheses(growth_power=None))


def multihead_attention(module: nn.MultiheadAttention) -> Head:
    """A head of torch.nn.MultiheadAttention: x is the query, the tokens are keys and values, theta all parameters.

    The law's weights enter as an additive mask log w_j, which makes its softmax the weighted one exactly. Raises
    InputError where keys or values have another width than queries, or extra tokens are added (they have no weight).
    """
    d = module.embed_dim
    if (module.kdim, module.vdim) != (d, d) or module.bias_k is not None or module.add_zero_attn:
        raise InputError(
            "a head of nn.MultiheadAttention has queries, keys and values of one width and no added tokens; it came "
            f"with embed_dim {d}, kdim {module.kdim}, vdim {module.vdim}, add_bias_kv {module.bias_k is not None}, "
            f"add_zero_attn {module.add_zero_attn}"
        )

    def call(bound: Callable[..., Tensor], x: Tensor, tokens: Tensor, weights: Tensor) -> Tensor:
        mask = torch.where(weights > 0, torch.where(weights > 0, weights, 1.0).log(), -torch.inf)
        # with the attention asked for, the module writes its softmax out: the fused kernel has no batching rule
        output, _ = bound(x[None], tokens, tokens, attn_mask=mask[None], need_weights=True)
        return output[0]

    name = f"nn.MultiheadAttention (d={d}, {module.num_heads} heads)"
    # values through W_V and W_O, each with its bias: a polynomial of degree 2 in theta; softmax is bounded
    return module_head(module, d, call=call, hypotheses=Hypotheses(growth_power=2.0), name=name)
