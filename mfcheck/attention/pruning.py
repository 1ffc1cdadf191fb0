"""Which particles to drop: at random, those that contribute least, those that repeat another; and dropping for a while.

The three choices return indices for ParticleAttention.prune. `kept_only` drops heads of a model in place and puts
them back, of nn.MultiheadAttention too.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager

import torch
from jaxtyping import Float
from torch import Tensor, nn

from mfcheck.attention.particles import ParticleAttention
from mfcheck.errors import InputError

#: The layers whose heads can be looked at and dropped.
AttentionLayer = ParticleAttention | nn.MultiheadAttention


def by_random_choice(particles: int, drop: int, generator: torch.Generator | None = None) -> list[int]:
    """`drop` of M particles, drawn without replacement. Raises InputError unless 0 <= drop < M."""
    _check_drop(particles, drop)
    device = None if generator is None else generator.device
    return sorted(torch.randperm(particles, generator=generator, device=device)[:drop].tolist())


def by_contribution(outputs: Float[Tensor, "B M ..."], drop: int) -> list[int]:
    """The `drop` particles of least mean square output, the first by index where they tie.

    outputs: v_i(x) over a batch, from ParticleAttention.particle_outputs or `observe`.
    """
    _check_drop(outputs.shape[1], drop)
    sizes = outputs.detach().transpose(0, 1).flatten(1).double().square().mean(1)
    return sorted(sizes.argsort(stable=True)[:drop].tolist())


def by_redundancy(cosine: Float[Tensor, "M M"], drop: int) -> list[int]:
    """`drop` particles that repeat others, one after another.

    cosine: similarities between particles, as `diversity.pairwise_cosine` of maps or outputs. Of the most similar pair
    that is left, the one with the larger sum of similarities to all that are left goes (of a tie, the later).
    """
    _check_drop(len(cosine), drop)
    similar = cosine.detach().double().cpu().clone()
    similar.fill_diagonal_(-torch.inf)
    left = list(range(len(similar)))
    for _ in range(drop):
        among = similar[left][:, left]
        first, second = divmod(int(among.argmax()), len(left))
        sums = among.masked_fill(among == -torch.inf, 0.0).sum(1)
        left.remove(left[first if float(sums[first]) > float(sums[second]) else max(first, second)])
    return sorted(set(range(len(similar))) - set(left))


def attention_layers(model: nn.Module) -> dict[str, AttentionLayer]:
    """The ParticleAttention and nn.MultiheadAttention layers of a model by name. Raises InputError where none is."""
    layers = {
        name: module
        for name, module in model.named_modules()
        if isinstance(module, (ParticleAttention, nn.MultiheadAttention))
    }
    if not layers:
        raise InputError(f"{type(model).__name__} holds no ParticleAttention and no nn.MultiheadAttention")
    return layers


@contextmanager
def kept_only(layer: AttentionLayer, indices: Sequence[int]) -> Iterator[None]:
    """Within the block the layer's output is the mean over these heads alone, times M for nn.MultiheadAttention's sum.

    The others' W_O is 0 and the kept ones' is multiplied by M / m, in place; afterwards it is what it was, to the bit.
    Raises InputError where an index is out of range or twice there, or none is given.
    """
    heads, chosen = layer.num_heads, [int(i) for i in indices]
    if not chosen or len(set(chosen)) < len(chosen) or not all(0 <= i < heads for i in chosen):
        raise InputError(f"kept heads are in [0, {heads}), each once and at least one; they came as {chosen}")
    weight = layer.out_weight if isinstance(layer, ParticleAttention) else layer.out_proj.weight
    # by particle: [M, h, d], or the columns [d, M h] of the output projection
    factors = torch.zeros(heads, dtype=weight.dtype, device=weight.device)
    factors[chosen] = heads / len(chosen)
    if isinstance(layer, ParticleAttention):
        factors = factors[:, None, None]
    else:
        factors = factors.repeat_interleave(layer.head_dim)
    before = weight.detach().clone()
    try:
        with torch.no_grad():
            weight.mul_(factors)
        yield
    finally:
        with torch.no_grad():
            weight.copy_(before)


def _check_drop(particles: int, drop: int) -> None:
    if isinstance(drop, bool) or not isinstance(drop, int) or not 0 <= drop < particles:
        raise InputError(f"of {particles} particles, 0 to {particles - 1} can be dropped; asked for were {drop!r}")
