"""Linear attention: no softmax, the logit itself is the weight."""

from __future__ import annotations

import torch
from torch import Tensor

from mfcheck.heads.protocol import Head, Hypotheses, average_of_tokens, inner_products, split_parameters


def linear_attention(token_dimension: int) -> Head:
    """Linear attention v = V sum_j w_j (x' A y_j) y_j = V S A' x, with S the second moment of the tokens.

    theta packs A and V [d, d], row by row, p = 2 d^2: of degree 2 in theta, linear in the law of tokens, and not in the
    convex hull of the values. Source: Katharopoulos et al. 2020 without feature map; [CACP].
    """
    d = token_dimension

    def function(theta: Tensor, x: Tensor, tokens: Tensor, weights: Tensor) -> Tensor:
        a, v = split_parameters(theta, ((d, d), (d, d)))
        seen = torch.einsum("...ab,...a->...b", a, x)
        logits = inner_products(seen, tokens)
        return torch.einsum("...ab,...b->...a", v, average_of_tokens(logits * weights, tokens))

    return Head(f"linear attention (d={d})", 2 * d * d, d, function, Hypotheses(growth_power=2.0))
