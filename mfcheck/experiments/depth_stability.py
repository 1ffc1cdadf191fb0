"""Family T, stability: growth of W2 between two laws of tokens, against the exponent of its bound (T4)."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import ot
import torch
from numpy.typing import NDArray
from torch import Tensor

from mfcheck.dynamics.stability import stability_exponent
from mfcheck.dynamics.tokens import residual_flow
from mfcheck.heads import Head, hardmax_attention, matrix_softmax
from mfcheck.measure import Measure
from mfcheck.replicates import Measurements, Replicates
from mfcheck.statistics.seeds import stream

#: |A| R^2 of the pairs: beyond 0.05 the bound holds by so much that it says nothing.
LOGITS = 0.04
#: Families of pairs of laws: dimension of the tokens, and heads.
FAMILIES = {"line": (1, 1), "plane": (2, 1), "four heads": (2, 4)}


def squared_wasserstein_2(left: NDArray[np.float64], right: NDArray[np.float64]) -> float:
    """W2^2 of two uniform laws on equally many tokens [N, d]: sorted on the line, by optimal transport beyond it."""
    if left.shape[1] == 1:
        return float(np.square(np.sort(left[:, 0]) - np.sort(right[:, 0])).mean())
    uniform = np.full(len(left), 1 / len(left))
    return float(ot.emd2(uniform, uniform, ot.dist(left, right)))


def growth_over_bound(
    head: Head, logits: Tensor, values: Tensor, left: Tensor, right: Tensor, layers: int
) -> tuple[float, float]:
    """log W2(mu_1, nu_1) / W2(mu_0, nu_0), and the bound's exponent int_0^1 L(R_s) ds, for tokens [N, d] each.

    logits and values [M, d, d]: heads of equal weight.
    """
    rho = Measure.uniform(torch.cat([logits.flatten(1), values.flatten(1)], -1))
    ends = residual_flow(head, rho, torch.stack([left, right]), depth_step=1 / layers, layers=layers)[0].numpy()
    growth = 0.5 * np.log(squared_wasserstein_2(*ends) / squared_wasserstein_2(left.numpy(), right.numpy()))
    logit_norms, value_norms = (torch.linalg.matrix_norm(matrices, 2).numpy() for matrices in (logits, values))
    return float(growth), stability_exponent(logit_norms, value_norms, _radius(left, right))


def stability(settings: Mapping[str, Any], replicates: Replicates) -> Measurements:
    """T4: the growth of W2 over the bound's exponent, for fixed pairs of laws on the line and in the plane.

    settings: pairs; tokens; layers; head "softmax" or "hardmax"; bound_factor, which multiplies L; offset: how far
    from a tie the second law of the pair at a tie has its token. Returns, leading axis 1: growth over exponent with
    |A| R^2 = LOGITS for FAMILIES [1, families, pairs]; translated [1]: two translates at A = 0, whose growth is V's
    own; tied [1]: growth over exponent at a tie of the logits.
    """
    build = {"softmax": matrix_softmax, "hardmax": hardmax_attention}[settings["head"]]
    layers, factor, count = settings["layers"], settings["bound_factor"], settings["tokens"]
    growths = []
    for name, (d, heads) in FAMILIES.items():
        for pair in range(settings["pairs"]):
            growth, exponent = growth_over_bound(build(d), *_pair(name, pair, count, d, heads), layers)
            growths.append(growth / (factor * exponent))
    line = torch.linspace(-1, 1, count, dtype=torch.float64)[:, None]
    zero, one = torch.zeros(1, 1, 1, dtype=torch.float64), torch.ones(1, 1, 1, dtype=torch.float64)
    growth, exponent = growth_over_bound(build(1), zero, one, line, line + 0.3, layers)
    # the token at 0 sees equal logits; next to it the larger one wins, whose value is far from the average
    tie = torch.tensor([[-1.0], [0.0], [1.0]], dtype=torch.float64)
    beside = torch.tensor([[-1.0], [settings["offset"]], [1.0]], dtype=torch.float64)
    at_tie, bound = growth_over_bound(build(1), LOGITS * one, one, tie, beside, layers)
    return {
        "growth": np.array(growths).reshape(1, len(FAMILIES), -1),
        "translated": np.array([growth / (factor * exponent)]),
        "tied": np.array([at_tie / (factor * bound)]),
    }


def _pair(name: str, pair: int, count: int, d: int, heads: int) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    """Logits and values [M, d, d], and two laws of tokens [N, d].

    Unrelated laws and values of norm 1 at odd `pair`; translates and V = I, which moves them apart, at even.
    """
    draw = stream(0, "T4", name, pair).numpy()
    both = draw.uniform(-1, 1, (2, count, d)) / np.sqrt(d)
    shift = draw.uniform(-0.5, 0.5, d) / np.sqrt(d)
    left = torch.from_numpy(both[0])
    right = torch.from_numpy(both[1] if pair % 2 else both[0] + shift)
    logits, values = torch.from_numpy(draw.standard_normal((2, heads, d, d)))
    logits *= LOGITS / _radius(left, right) ** 2 / torch.linalg.matrix_norm(logits, 2)[:, None, None]
    values = values / torch.linalg.matrix_norm(values, 2)[:, None, None]
    if pair % 2 == 0:
        values = torch.eye(d, dtype=values.dtype).repeat(heads, 1, 1)
    return logits, values, left, right


def _radius(left: Tensor, right: Tensor) -> float:
    return max(float(x.norm(dim=-1).max()) for x in (left, right))
