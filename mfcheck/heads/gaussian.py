"""Gaussian-kernel attention: a kernel between query and key, without normalisation."""

from __future__ import annotations

import torch
from torch import Tensor

from mfcheck.heads.protocol import Head, Hypotheses, average_of_tokens, split_parameters


def gaussian_attention(token_dimension: int, head_dimension: int | None = None) -> Head:
    """Gaussian-kernel attention v = V sum_j w_j exp(-|W_Q x - W_K y_j|^2 / 2) y_j.

    theta packs W_Q, W_K [k, d] and V [d, d], row by row, p = 2 k d + d^2; k = head_dimension, d by default. Linear in
    the law of tokens; the shares do not sum to one. Source: Lu et al. 2021 (SOFT), with the sum as a mean.
    """
    d, k = token_dimension, head_dimension or token_dimension
    shapes = ((k, d), (k, d), (d, d))

    def function(theta: Tensor, x: Tensor, tokens: Tensor, weights: Tensor) -> Tensor:
        query, key, v = split_parameters(theta, shapes)
        asked = torch.einsum("...ka,...a->...k", query, x)
        distance = (asked[..., None, :] - torch.einsum("...ka,...na->...nk", key, tokens)).square().sum(-1)
        shares = (-0.5 * distance).exp() * weights
        return torch.einsum("...ab,...b->...a", v, average_of_tokens(shares, tokens))

    return Head(f"Gaussian attention (d={d}, k={k})", 2 * k * d + d * d, d, function, Hypotheses(growth_power=1.0))
