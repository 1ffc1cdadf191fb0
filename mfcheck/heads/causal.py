"""Causal attention, a control: a token sees only those before it in the list, so that the order of the list matters."""

from __future__ import annotations

import dataclasses

import torch
from torch import Tensor

from mfcheck.heads.protocol import Head


def causal(head: Head) -> Head:
    """The head with a causal mask: x sees the tokens of the list up to its own place, their weights renormalised.

    The place of x is that of the token nearest to it among those of positive weight, the last one of several. Then a
    token split into neighbours in the list changes nothing, and only the order of the list matters.
    """

    def function(theta: Tensor, x: Tensor, tokens: Tensor, weights: Tensor) -> Tensor:
        distance = (tokens - x[..., None, :]).square().sum(-1)
        distance = torch.where(weights > 0, distance, torch.inf)
        count = tokens.shape[-2]
        index = torch.arange(count, device=tokens.device)
        nearest = torch.where(distance == distance.amin(-1, keepdim=True), index, -1).amax(-1, keepdim=True)
        seen = torch.where(index <= nearest, weights, 0.0)
        return head.function(theta, x, tokens, seen / seen.sum(-1, keepdim=True))

    hypotheses = dataclasses.replace(head.hypotheses, permutation_invariant=False, lipschitz_in_law=False, smooth=False)
    return dataclasses.replace(
        head, name=f"causal {head.name}", function=function, hypotheses=hypotheses, everywhere=None
    )
