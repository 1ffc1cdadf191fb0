"""What is measured on trained models. Pure functions of models and samples; every metric is [G] over models."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import torch
from jaxtyping import Float, Int
from torch import Tensor

from mfcheck.attention.diversity import effective_rank, gradient_variance, mean_cosine
from mfcheck.experiments.toy_gate.layer import EPSILON, Memory, Models, Shape, attend, loss_and_gradient, merge
from mfcheck.experiments.toy_gate.task import Sample
from mfcheck.statistics.seeds import Stream

#: Random subsets of each size over which the metrics of thinned models are averaged.
SUBSETS = 12


@dataclass(frozen=True)
class Metric:
    """A metric as tables and verdicts need it: its words, which direction is better (-1: less), its unit."""

    label: str
    better: int
    digits: int = 4


METRICS = {
    "loss": Metric("validation loss", -1),
    "accuracy": Metric("validation accuracy", 1),
    "half_loss": Metric("validation loss, half the particles", -1),
    "half_accuracy": Metric("accuracy, half the particles", 1),
    "half_cost": Metric("accuracy that dropping half costs", -1),
    "cosine": Metric("attention-map cosine", -1),
    "effective_rank": Metric("effective rank of the particles' outputs", 1, 3),
    "roughness": Metric("roughness of the training loss", -1),
    "gradient_variance": Metric("gradient variance across batches", -1),
    "particle_variance": Metric("gradient variance across particles", -1),
    "query_norm": Metric("norm of W_Q", 0, 3),
    "key_norm": Metric("norm of W_K", 0, 3),
}


@dataclass(frozen=True)
class View:
    """What G models make of their samples: attention maps and each particle's share of the layer's output."""

    tokens: Float[Tensor, "G B N d"]
    maps: Float[Tensor, "G B keys queries M"]
    shares: Float[Tensor, "G M B N d"]


def look(models: Models, shape: Shape, tokens: Float[Tensor, "G B N d"]) -> View:
    """Attention maps and the particles' shares, scale W_V W_O included: the layer's output is tokens + their sum."""
    g, b, n, d = tokens.shape
    m, memory, merged = shape.particles, Memory(shape, g, b, n, tokens), merge(models, shape)
    attend(merged, tokens, memory)
    mixed = memory.mixed.view(g, b * n, m, d).transpose(1, 2).reshape(g * m, b * n, d)
    shares = torch.bmm(mixed, merged.values.view(g * m, d, d))
    return View(tokens, memory.maps.view(g, b, n, n, m), shares.view(g, m, b, n, d))


def classify(
    models: Models, shape: Shape, view: View, kept: Float[Tensor, "G K M"], labels: Int[Tensor, "G B"]
) -> tuple[Float[Tensor, "G K"], Float[Tensor, "G K"]]:
    """(mean loss, accuracy) with the particles' shares weighted by each row of kept (ones: as they are)."""
    g, b, n, d = view.tokens.shape
    norm_weight, norm_bias, weight, bias = models.split(shape)
    out = torch.bmm(kept, view.shares.flatten(2)).view(g, -1, b, n, d).add_(view.tokens[:, None])
    pooled = torch.nn.functional.layer_norm(out, [d], eps=EPSILON).sum(3).mul_(1 / n).flatten(1, 2)
    features = torch.addcmul(norm_bias[:, None], pooled, norm_weight[:, None])
    scores = torch.log_softmax(torch.baddbmm(bias[:, None], features, weight), -1).view(g, -1, b, shape.classes)
    asked = labels[:, None, :, None].expand(-1, scores.shape[1], -1, 1)
    losses = -scores.gather(-1, asked).mean((2, 3))
    return losses, (scores.argmax(-1) == asked[..., 0]).to(scores.dtype).mean(2)


def subsets(particles: int, size: int, source: Stream) -> Float[Tensor, "SUBSETS M"]:
    """Random subsets of a size as weights M / size on the kept particles, so that a mean stays a mean; float64."""
    generator = source.child("subsets", size).torch()
    ranks = torch.rand(SUBSETS, particles, generator=generator).argsort(-1).argsort(-1)
    return (ranks < size).to(torch.float64) * (particles / size)


def norms(models: Models) -> tuple[Float[Tensor, " G"], Float[Tensor, " G"]]:
    """Root mean square over the particles of the Frobenius norms of W_Q and of W_K."""
    query, key = models.theta[:2].square().sum((-2, -1)).mean(-1).sqrt()
    return query, key


def gradient_variances(
    models: Models, shape: Shape, samples: Sequence[Sample], batch: int
) -> tuple[Float[Tensor, " G"], Float[Tensor, " G"]]:
    """(across batches, across particles): variance of the particles' gradient, summed over coordinates.

    Across batches of the training sample for each coordinate of each particle, summed over all of them; across the
    particles for each coordinate of the gradient on the whole sample, summed over the coordinates of one particle.
    """
    n = len(samples[0].labels) // batch
    memory = Memory(shape, len(samples), batch, samples[0].tokens.shape[1], samples[0].tokens)
    gradients = []
    for k in range(n):
        chosen = slice(k * batch, (k + 1) * batch)
        tokens = torch.stack([sample.tokens[chosen] for sample in samples])
        labels = torch.stack([sample.labels[chosen, None] for sample in samples])
        loss_and_gradient(models, shape, tokens, labels, memory)
        gradients.append(memory.grad.theta.clone())
    every = torch.stack(gradients)  # [batches, 4, G, M, d, h]
    across_batches = [gradient_variance(one) for one in every.unbind(2)]
    across_particles = [gradient_variance(one.transpose(0, 1)) for one in every.mean(0).unbind(1)]
    return torch.tensor(across_batches), torch.tensor(across_particles)


def measure(
    models: Models, shape: Shape, samples: Sequence[Sample], sources: Sequence[Stream]
) -> dict[str, Float[Tensor, " G *more"]]:
    """Metrics of G models on their validation samples; "kept_accuracy" [G, M]: accuracy with 1, ..., M particles kept.

    A seed's subsets are the same for all of its models. "half_cost" is accuracy less that with half the particles.
    """
    tokens = torch.stack([sample.tokens for sample in samples])
    labels = torch.stack([sample.labels for sample in samples])
    view = look(models, shape, tokens)
    m = shape.particles
    found: dict[str, Tensor] = {}
    # a row with all particles, then SUBSETS rows with 1, 2, ..., M - 1 of them
    rows = [torch.cat([torch.ones(1, m), *(subsets(m, size, source) for size in range(1, m))]) for source in sources]
    losses, hits = classify(models, shape, view, torch.stack(rows).to(tokens), labels)
    thinned, right = (x[:, 1:].unflatten(1, (m - 1, SUBSETS)).mean(2) for x in (losses, hits))
    found["loss"], found["accuracy"] = losses[:, 0], hits[:, 0]
    found["half_loss"], found["half_accuracy"] = thinned[:, m // 2 - 1], right[:, m // 2 - 1]
    found["kept_accuracy"] = torch.cat([right, hits[:, :1]], 1)
    found["half_cost"] = found["accuracy"] - found["half_accuracy"]
    found["cosine"] = torch.tensor([mean_cosine(maps.permute(0, 3, 2, 1)) for maps in view.maps])
    found["effective_rank"] = torch.tensor([effective_rank(shares.flatten(1)) for shares in view.shares])
    found["query_norm"], found["key_norm"] = norms(models)
    return {name: values.cpu() for name, values in found.items()}
