"""Family T, stability: growth of W2 between two laws of tokens, against the exponent of its bound (T4)."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import ot
import torch
from numpy.typing import NDArray
from torch import Tensor

from mfcheck.dynamics.tokens import residual_flow, stability_exponent
from mfcheck.heads import Head, hardmax_attention, matrix_softmax
from mfcheck.measure import Measure
from mfcheck.replicates import Measurements, Replicates
from mfcheck.statistics.seeds import stream

#: |A| R^2 of the pairs: beyond 0.05 the bound holds by so much that it says nothing.
LOGITS = 0.04


def squared_wasserstein_2(left: NDArray[np.float64], right: NDArray[np.float64]) -> float:
    """W2^2 of two uniform laws on equally many tokens [N, d]: sorted on the line, by optimal transport beyond it."""
    if left.shape[1] == 1:
        return float(np.square(np.sort(left[:, 0]) - np.sort(right[:, 0])).mean())
    uniform = np.full(len(left), 1 / len(left))
    return float(ot.emd2(uniform, uniform, ot.dist(left, right)))


def growth_over_bound(
    head: Head, logits: Tensor, value: Tensor, left: Tensor, right: Tensor, layers: int
) -> tuple[float, float]:
    """log W2(mu_1, nu_1) / W2(mu_0, nu_0), and the bound's exponent int_0^1 L(R_s) ds, for tokens [N, d] each."""
    rho = Measure.uniform(torch.cat([logits.reshape(-1), value.reshape(-1)])[None])
    ends = [residual_flow(head, rho, x, depth_step=1 / layers, layers=layers)[0].numpy() for x in (left, right)]
    growth = 0.5 * np.log(squared_wasserstein_2(*ends) / squared_wasserstein_2(left.numpy(), right.numpy()))
    logit_norm, value_norm = (float(torch.linalg.matrix_norm(matrix, 2)) for matrix in (logits, value))
    radius = max(float(x.norm(dim=-1).max()) for x in (left, right))
    return float(growth), stability_exponent(logit_norm, value_norm, radius)


def stability(settings: Mapping[str, Any], replicates: Replicates) -> Measurements:
    """T4: the growth of W2 over the bound's exponent, for fixed pairs of laws on the line and in the plane.

    settings: pairs; tokens; layers; head "softmax" or "hardmax"; bound_factor, which multiplies L; offset: how far
    from a tie the second law of the pair at a tie has its token. Returns, leading axis 1: line and plane [1, pairs],
    growth over exponent with |A| R^2 = LOGITS; translated [1]: two translates at A = 0, whose growth is V's own;
    tied [1]: growth over exponent at a tie of the logits.
    """
    build = {"softmax": matrix_softmax, "hardmax": hardmax_attention}[settings["head"]]
    layers, factor, count = settings["layers"], settings["bound_factor"], settings["tokens"]
    found: dict[str, list[float]] = {"line": [], "plane": []}
    for name, d in (("line", 1), ("plane", 2)):
        for pair in range(settings["pairs"]):
            draw = stream(0, "T4", name, pair).numpy()
            both = draw.uniform(-1, 1, (2, count, d)) / np.sqrt(d)
            shift = draw.uniform(-0.5, 0.5, d) / np.sqrt(d)
            left = torch.from_numpy(both[0])
            right = torch.from_numpy(both[1] if pair % 2 else both[0] + shift)
            logits, value = (torch.from_numpy(draw.standard_normal((d, d))) for _ in range(2))
            radius = max(float(x.norm(dim=-1).max()) for x in (left, right))
            logits *= LOGITS / radius**2 / torch.linalg.matrix_norm(logits, 2)
            value /= torch.linalg.matrix_norm(value, 2)
            growth, exponent = growth_over_bound(build(d), logits, value, left, right, layers)
            found[name].append(growth / (factor * exponent))
    line = torch.linspace(-1, 1, count, dtype=torch.float64)[:, None]
    zero, one = torch.zeros(1, 1, dtype=torch.float64), torch.ones(1, 1, dtype=torch.float64)
    growth, exponent = growth_over_bound(build(1), zero, one, line, line + 0.3, layers)
    # the token at 0 sees equal logits; next to it the larger one wins, whose value is far from the average
    tie = torch.tensor([[-1.0], [0.0], [1.0]], dtype=torch.float64)
    beside = torch.tensor([[-1.0], [settings["offset"]], [1.0]], dtype=torch.float64)
    at_tie, bound = growth_over_bound(build(1), LOGITS * one, one, tie, beside, layers)
    return {name: np.array([values]) for name, values in found.items()} | {
        "translated": np.array([growth / (factor * exponent)]),
        "tied": np.array([at_tie / (factor * bound)]),
    }
