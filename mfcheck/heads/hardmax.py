"""Hardmax attention, a control: all weight on the tokens of the largest logit. Jumps at a tie."""

from __future__ import annotations

import math

import torch
from torch import Tensor

from mfcheck.heads.protocol import Head, Hypotheses, average_of_tokens, inner_products, split_parameters


def hardmax_attention(token_dimension: int) -> Head:
    """Hardmax attention: V times the average of the tokens of the largest logit x' A y, weight 0 left out.

    theta packs A and V [d, d], row by row, p = 2 d^2. Softmax with its logits sent to infinity: it reads a law and
    stays in the hull of the values, and it is Lipschitz in nothing, since it jumps at a tie. Source: [GLPR].
    """
    d = token_dimension

    def function(theta: Tensor, x: Tensor, tokens: Tensor, weights: Tensor) -> Tensor:
        a, v = split_parameters(theta, ((d, d), (d, d)))
        seen = torch.einsum("...ab,...a->...b", a, x)
        logits = inner_products(seen, tokens)
        logits = torch.where(weights > 0, logits, -math.inf)
        shares = torch.where(logits == logits.amax(-1, keepdim=True), weights, 0.0)
        average = average_of_tokens(shares, tokens) / shares.sum(-1, keepdim=True)
        return torch.einsum("...ab,...b->...a", v, average)

    def values(theta: Tensor, tokens: Tensor) -> Tensor:
        return torch.einsum("...ab,...nb->...na", split_parameters(theta, ((d, d), (d, d)))[1], tokens)

    hypotheses = Hypotheses(lipschitz_in_law=False, growth_power=1.0, smooth=False)
    return Head(f"hardmax attention (d={d})", 2 * d * d, d, function, hypotheses, values)
