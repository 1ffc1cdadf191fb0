"""What is measured of a trained model: perplexities, with fewer particles too, and how alike its particles are."""

from __future__ import annotations

import copy
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import torch
from jaxtyping import Float, Int
from numpy.typing import NDArray
from torch import Tensor, nn

from mfcheck.attention.particles import ParticleAttention
from mfcheck.experiments.wikitext.arms import Scoring
from mfcheck.experiments.wikitext.model import LanguageModel
from mfcheck.experiments.wikitext.prepared import Prepared
from mfcheck.experiments.wikitext.train import Run, autocast, effective_step
from mfcheck.statistics.seeds import Stream

#: Points of the training curve that an outcome keeps.
CURVE = 40


def measure(run: Run, text: Prepared, scoring: Scoring, source: Stream) -> dict[str, Any]:
    """All that an outcome says of a trained run. source: draws subsets of particles and windows, shared by arms."""
    model = run.model.eval()
    device = run.training.device
    scores: dict[str, Any] = {}
    with autocast(run.training):
        for name in ("valid", "test"):
            split = text.splits[name]
            total = nats(model, split.tokens, scoring.batch, device)
            scores[name] = {"log_perplexity": split.log_perplexity(total), "perplexity": split.perplexity(total)}
        test = text.splits["test"]
        kept = kept_curve(model, test.tokens, scoring, source.child("kept"), device)
    per_word = (len(test.tokens) - 1) / test.words
    losses = run.losses.double().cpu().numpy()
    return scores | {
        "training_curve": curve(losses),
        "final_training_loss": float(losses[-max(len(losses) // 10, 1) :].mean()),
        "kept": [{"kept": m, "rise": float(r.mean() * per_word), "sd": spread(r * per_word)} for m, r in kept.items()],
        "effective_step": effective_step(run),
    }


@torch.no_grad()
def nats(model: nn.Module, tokens: NDArray[np.int32], batch: int, device: str, limit: int | None = None) -> float:
    """The sum of -log p over all tokens but the first, in nats, read in windows of the context, none overlapping.

    limit: only as many windows as hold at most so many tokens, evenly spread over the text.
    """
    assert isinstance(model, LanguageModel)
    total = 0.0
    for windows in batches(tokens, model.shape.context, batch, limit):
        total += float(model.loss(windows.to(device), reduction="sum").double())
    return total


def batches(
    tokens: NDArray[np.int32], context: int, batch: int, limit: int | None = None
) -> Iterator[Int[Tensor, "B N1"]]:
    """Windows of context + 1 tokens, each beginning with the last token of the one before; the shorter rest last."""
    whole = (len(tokens) - 1) // context
    chosen = np.arange(whole)
    if limit is not None and limit < whole * context:
        chosen = np.linspace(0, whole - 1, max(limit // context, 1)).astype(np.intp)
    reach = np.arange(context + 1)
    for first in range(0, len(chosen), batch):
        rows = chosen[first : first + batch, None] * context + reach
        yield torch.from_numpy(tokens[rows].astype(np.int64))
    if limit is None and whole * context + 1 < len(tokens):
        yield torch.from_numpy(tokens[None, whole * context :].astype(np.int64))


def kept_curve(
    model: LanguageModel, tokens: NDArray[np.int32], scoring: Scoring, source: Stream, device: str
) -> dict[int, Float[NDArray[np.float64], " subsets"]]:
    """The rise in nats a token on keeping m particles of M in every layer, for m = M, M/2, M/4, ..., 1, by subset.

    Subsets are drawn anew in every layer; the rise is over the same model with all of them on the same windows.
    """
    count = min(scoring.subset_tokens // model.shape.context, (len(tokens) - 1) // model.shape.context)
    predicted = max(count, 1) * model.shape.context

    def score(chosen: LanguageModel) -> float:
        return nats(chosen, tokens, scoring.batch, device, limit=predicted) / predicted

    as_particles = with_particles(model)
    whole, m = score(as_particles), model.shape.heads
    rises = {m: np.zeros(1)}
    while m > 1:
        m //= 2
        drawn = [source.child(m, subset).torch() for subset in range(scoring.subsets)]
        rises[m] = np.array([score(_kept(as_particles, m, generator)) - whole for generator in drawn])
    return rises


def with_particles(model: LanguageModel) -> LanguageModel:
    """The model with its attention as particles, to rounding the same; itself where it is so already."""
    return _replaced(model, lambda a: ParticleAttention.from_multihead(a) if not _is_particles(a) else a)


def _kept(model: LanguageModel, m: int, generator: torch.Generator) -> LanguageModel:
    return _replaced(model, lambda attention: attention.subsample(m, generator))


def _replaced(model: LanguageModel, change: Callable[[Any], nn.Module]) -> LanguageModel:
    """A copy of the model with other attention, all else shared with it."""
    made = copy.copy(model)
    made._modules = dict(model._modules)
    blocks = []
    for block in model.blocks:
        other = copy.copy(block)
        other._modules = dict(block._modules)
        other.attention = change(block.attention)
        blocks.append(other)
    made.blocks = nn.ModuleList(blocks)
    return made


def _is_particles(attention: nn.Module) -> bool:
    return isinstance(attention, ParticleAttention)


def curve(losses: NDArray[np.float64]) -> dict[str, list[float]]:
    """The training loss averaged over CURVE stretches of equal length: the step in the middle of each, and its mean."""
    parts = np.array_split(losses, min(CURVE, len(losses)))
    ends = np.cumsum([len(part) for part in parts])
    middles = [float(end - (len(part) + 1) / 2) for end, part in zip(ends, parts, strict=True)]
    return {"step": middles, "loss": [float(part.mean()) for part in parts]}


def spread(values: NDArray[np.float64]) -> float:
    """Standard deviation of a sample; 0 where there is one value."""
    return float(values.std(ddof=1)) if len(values) > 1 else 0.0


