"""L2 attention: softmax of minus the squared distance between query and key."""

from __future__ import annotations

import math

import torch
from torch import Tensor

from mfcheck.heads.protocol import Head, Hypotheses, split_parameters
from mfcheck.heads.softmax import softmax_average


def l2_attention(token_dimension: int, head_dimension: int | None = None) -> Head:
    """L2 attention v = V sum_j softmax_j(-|W x - W y_j|^2 / sqrt(k)) y_j, with queries and keys tied.

    theta packs W [k, d] and V [d, d], row by row, p = k d + d^2; k = head_dimension, d by default. Source: Kim,
    Papamakarios, Mnih 2021 (with tied W it is Lipschitz in the tokens where dot-product softmax is not).
    """
    d, k = token_dimension, head_dimension or token_dimension
    shapes = ((k, d), (d, d))
    scale = 1 / math.sqrt(k)

    def function(theta: Tensor, x: Tensor, tokens: Tensor, weights: Tensor) -> Tensor:
        w, v = split_parameters(theta, shapes)
        distance = torch.einsum("...ka,...na->...nk", w, x[..., None, :] - tokens).square().sum(-1)
        return torch.einsum("...ab,...b->...a", v, softmax_average(-scale * distance, tokens, weights))

    def values(theta: Tensor, tokens: Tensor) -> Tensor:
        return torch.einsum("...ab,...nb->...na", split_parameters(theta, shapes)[1], tokens)

    return Head(f"L2 attention (d={d}, k={k})", k * d + d * d, d, function, Hypotheses(growth_power=1.0), values)
