"""How different the heads of a layer are, how their gradients scatter, and what dropping some of them costs.

Functions over tensors. Maps, outputs and gradients of a model's heads, nn.MultiheadAttention's too, come from
`mfcheck.attention.observe`.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import ExitStack
from dataclasses import dataclass

import torch
from jaxtyping import Float
from torch import Tensor, nn

from mfcheck.attention.pruning import attention_layers, kept_only
from mfcheck.errors import InputError
from mfcheck.statistics.seeds import Stream


def pairwise_cosine(features: Float[Tensor, "B M ..."]) -> Float[Tensor, "M M"]:
    """Cosine between heads i and j, of a sample's features as one vector, averaged over the samples.

    features: attention maps [B, M, L, S], or outputs [B, M, L, d]. A vector of zeros has cosine 0 with all others.
    Computed in float64.
    """
    _check_heads(features)
    flat = features.detach().double().flatten(2)
    unit = flat / flat.norm(dim=-1, keepdim=True).clamp_min(torch.finfo(torch.float64).tiny)
    return (unit @ unit.transpose(1, 2)).mean(0)


def mean_cosine(features: Float[Tensor, "B M ..."]) -> float:
    """The mean of `pairwise_cosine` over pairs of different heads: the redundancy of a layer. Needs M >= 2."""
    cosine = pairwise_cosine(features)
    heads = len(cosine)
    if heads < 2:
        raise InputError("a redundancy needs two heads and more; there is one")
    return float((cosine.sum() - cosine.trace()) / (heads * (heads - 1)))


def output_covariance(outputs: Float[Tensor, "B M L d"]) -> Float[Tensor, "M M"]:
    """C_ij = E (v_i - E v_i) . (v_j - E v_j) over all samples and tokens, E the mean over them, . over coordinates.

    The variance of the mean over heads is the mean of all entries. Divisor B L. Computed in float64.
    """
    _check_heads(outputs)
    flat = outputs.detach().double().transpose(0, 1).flatten(1, -2)
    centred = (flat - flat.mean(1, keepdim=True)).flatten(1)
    return centred @ centred.t() / flat.shape[1]


def effective_rank(matrix: Float[Tensor, "m n"]) -> float:
    """exp of the entropy of the singular values over their sum: 1 at rank one, r where r are equal and the rest 0.

    Of heads: effective_rank(outputs.transpose(0, 1).flatten(1)). Raises InputError on a matrix of zeros.
    Source: Roy and Vetterli 2007, The effective rank.
    """
    if matrix.ndim != 2:
        raise InputError(f"an effective rank is a matrix's; it came with shape {tuple(matrix.shape)}")
    values = torch.linalg.svdvals(matrix.detach().double())
    if not float(values.sum()) > 0:
        raise InputError("a matrix of zeros, or one that is not finite, has no effective rank")
    shares = values / values.sum()
    return float(torch.special.entr(shares).sum().exp())


def gradient_variance(gradients: Float[Tensor, "n ..."]) -> float:
    """The trace of the sample covariance of n gradients, divisor n - 1: sum over coordinates of their variances.

    Across particles: of observe.head_gradients. Across batches: of `gradients_over_batches`. Raises InputError for
    n < 2.
    """
    if len(gradients) < 2:
        raise InputError(f"a variance needs two gradients and more; it came with {len(gradients)}")
    return float(gradients.detach().double().flatten(1).var(0).sum())


def gradients_over_batches(
    losses: Sequence[Callable[[], Tensor]], parameters: Sequence[Tensor]
) -> Float[Tensor, "n p"]:
    """The gradient of each loss in the parameters, one row a loss; .grad is left as it is.

    losses: functions without arguments, one a batch. A parameter that a loss does not reach has gradient 0 in it.
    """
    rows = []
    for loss in losses:
        gradients = torch.autograd.grad(loss(), list(parameters), allow_unused=True)
        parts = (torch.zeros_like(p) if g is None else g for p, g in zip(parameters, gradients, strict=True))
        rows.append(torch.cat([part.reshape(-1) for part in parts]))
    return torch.stack(rows)


def roughness(losses: Sequence[float] | Float[Tensor, " n"]) -> float:
    """How much a training loss jitters: the standard deviation of its steps about a locally straight trend.

    sqrt(mean (l_{k+1} - 2 l_k + l_{k-1})^2 / 6). A straight trend has roughness 0; independent noise of standard
    deviation s on it has s, since a second difference then has variance 6 s^2. Lower is smoother. Needs n >= 3.
    Source: Gasser, Sroka and Jennen-Steinmetz 1986.
    """
    values = torch.as_tensor(losses, dtype=torch.float64).detach()
    if values.ndim != 1 or len(values) < 3:
        raise InputError(f"a roughness needs three losses and more, in order; they came as {tuple(values.shape)}")
    return float((values.diff(n=2).square().mean() / 6).sqrt())


@dataclass(frozen=True)
class Dropped:
    """Losses with a fraction of every layer's heads kept: one for each subset, in float64.

    fraction: kept, as asked for; heads: how many that is by layer; losses [subsets].
    """

    fraction: float
    heads: dict[str, int]
    losses: Float[Tensor, " subsets"]


def loss_under_dropping(
    model: nn.Module,
    loss: Callable[[], float | Tensor],
    fractions: Sequence[float],
    *,
    subsets: int = 12,
    seed: Stream,
) -> list[Dropped]:
    """The loss with each fraction of the heads kept, over repeated random subsets, independent between layers.

    loss: a function without arguments that runs the model as it is, and returns one number (an error rate will do).
    In a layer of M heads max(1, round(fraction M)) are kept, and its output is their mean (`pruning.kept_only`).
    Subset s of a layer is drawn from seed's child by fraction, s and the layer's name: equal seeds drop the same heads
    in every model. Raises InputError on a fraction outside (0, 1], subsets < 1, or a model without attention.
    """
    layers = attention_layers(model)
    if subsets < 1 or not all(0 < fraction <= 1 for fraction in fractions):
        raise InputError(
            f"fractions kept are in (0, 1] and subsets at least 1; they came as {list(fractions)} and {subsets}"
        )
    made = []
    for fraction in fractions:
        kept = {name: max(1, round(fraction * layer.num_heads)) for name, layer in layers.items()}
        losses = []
        for subset in range(subsets):
            with ExitStack() as stack, torch.no_grad():
                for name, layer in layers.items():
                    generator = seed.child(fraction, subset, name).torch()
                    chosen = torch.randperm(layer.num_heads, generator=generator)[: kept[name]].tolist()
                    stack.enter_context(kept_only(layer, chosen))
                losses.append(float(loss()))
        made.append(Dropped(fraction, kept, torch.tensor(losses, dtype=torch.float64)))
    return made


def _check_heads(features: Tensor) -> None:
    if features.ndim < 3 or 0 in features.shape:
        raise InputError(f"features are [B, M, ...], a sample and a head each; they came as {tuple(features.shape)}")
