"""Sigmoid attention: each token's share is a sigmoid of its own logit, without normalisation."""

from __future__ import annotations

import torch
from torch import Tensor

from mfcheck.heads.protocol import Head, Hypotheses, average_of_tokens, inner_products, split_parameters


def sigmoid_attention(token_dimension: int) -> Head:
    """Sigmoid attention v = V sum_j w_j sigmoid(x' A y_j) y_j.

    theta packs A and V [d, d], row by row, p = 2 d^2. Linear in the law of tokens; the shares do not sum to one, so the
    output is in the hull of the values and 0. Source: Ramapuram et al. 2024, with the sum over n tokens as a mean.
    """
    d = token_dimension

    def function(theta: Tensor, x: Tensor, tokens: Tensor, weights: Tensor) -> Tensor:
        a, v = split_parameters(theta, ((d, d), (d, d)))
        seen = torch.einsum("...ab,...a->...b", a, x)
        shares = inner_products(seen, tokens).sigmoid() * weights
        return torch.einsum("...ab,...b->...a", v, average_of_tokens(shares, tokens))

    return Head(f"sigmoid attention (d={d})", 2 * d * d, d, function, Hypotheses(growth_power=1.0))
