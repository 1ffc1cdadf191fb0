"""How alike the particles of a trained model are, and the two controls that say what it takes to make them less so.

Attention maps become less alike as the logits grow, whatever makes them grow. So beside an arm with noise stand the
beta = 0 net with its Q and K scaled, and the beta = 0 net with the same amount of noise added after training.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import numpy as np
import torch
from jaxtyping import Int
from torch import Tensor

from mfcheck.attention.diversity import effective_rank, mean_cosine
from mfcheck.attention.observe import Observation, observe
from mfcheck.attention.particles import ParticleAttention
from mfcheck.experiments.wikitext.model import LanguageModel
from mfcheck.statistics.seeds import Stream

#: What Q and K of the beta = 0 net are scaled by for the norm-matched control; between them it is interpolated.
FACTORS = (0.7, 0.8, 0.9, 1.0, 1.1, 1.25, 1.5, 2.0, 3.0)


@torch.no_grad()
def observed(model: LanguageModel, windows: Int[Tensor, "B N1"]) -> list[Observation]:
    """What the heads of each layer do on a few windows [B, N + 1], in evaluation mode."""
    device = model.token_embedding.weight.device
    with observe(model) as seen:
        model(windows[:, :-1].to(device))
    return list(seen.values())


def similarity(layers: list[Observation]) -> float:
    """Cosine of attention maps between particles, mean over pairs and layers."""
    return float(np.mean([mean_cosine(layer.maps) for layer in layers]))


def output_rank(layers: list[Observation]) -> float:
    """Effective rank of the particles' outputs, each particle a row; mean over layers."""
    return float(np.mean([effective_rank(layer.outputs.transpose(0, 1).flatten(1)) for layer in layers]))


def query_key_norm(model: LanguageModel) -> float:
    """Root of the mean square of all entries of W_Q and W_K, over the layers."""
    squares, count = 0.0, 0
    for block in model.blocks:
        a = block.attention
        if isinstance(a, ParticleAttention):
            weights = torch.cat([a.query_weight.reshape(-1), a.key_weight.reshape(-1)])
        else:
            weights = a.in_proj_weight[: 2 * a.embed_dim].reshape(-1)  # type: ignore[union-attr, operator, index]
        squares, count = squares + float(weights.detach().double().square().sum()), count + weights.numel()
    return (squares / count) ** 0.5


def norm_matched(model: LanguageModel, windows: Int[Tensor, "B N1"]) -> dict[str, list[float]]:
    """Norm of Q and K, and similarity, of the model with Q and K (and their biases) times each of FACTORS."""
    norms, similarities = [], []
    for factor in FACTORS:
        with _restored(model) as layers, torch.no_grad():
            for layer in layers:
                assert layer.qkv_weight is not None and layer.qkv_bias is not None
                layer.qkv_weight[:, :2] *= factor
                layer.qkv_bias[:, :2] *= factor
            norms.append(query_key_norm(model))
            similarities.append(similarity(observed(model, windows)))
    return {"norm": norms, "similarity": similarities}


def noised_after(model: LanguageModel, windows: Int[Tensor, "B N1"], exposure: float, source: Stream) -> float:
    """The similarity with noise of variance 2 exposure added to every coordinate of every particle."""
    with _restored(model) as layers, torch.no_grad():
        for index, layer in enumerate(layers):
            for number, parameter in enumerate(layer.particle_parameters()):
                generator = source.child(index, number).torch()
                noise = torch.randn(parameter.shape, generator=generator).to(parameter)
                parameter.add_(noise, alpha=(2 * exposure) ** 0.5)
        return similarity(observed(model, windows))


@contextmanager
def _restored(model: LanguageModel) -> Iterator[list[ParticleAttention]]:
    """The particle layers, whose parameters are as before after the block."""
    layers = [module for module in model.modules() if isinstance(module, ParticleAttention)]
    before = [[parameter.detach().clone() for parameter in layer.parameters()] for layer in layers]
    try:
        yield layers
    finally:
        with torch.no_grad():
            for layer, values in zip(layers, before, strict=True):
                for parameter, value in zip(layer.parameters(), values, strict=True):
                    parameter.copy_(value)
