"""Sums of -log p over a split, and the loss with fewer particles."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import torch
from jaxtyping import Int
from numpy.typing import NDArray
from torch import Tensor

from mfcheck.attention.diversity import Dropped, loss_under_dropping
from mfcheck.experiments.wikitext.arms import Scoring
from mfcheck.experiments.wikitext.model import LanguageModel
from mfcheck.statistics.seeds import Stream


@torch.no_grad()
def nats(model: LanguageModel, windows: list[Int[Tensor, "B N1"]]) -> float:
    """The sum of -log p over all tokens of the windows but each one's first, in nats, in float64 over windows."""
    device = model.token_embedding.weight.device
    return sum(float(model.loss(batch.to(device), reduction="sum").double()) for batch in windows)


def all_windows(tokens: NDArray[np.int32], context: int, batch: int) -> Iterator[Int[Tensor, "B N1"]]:
    """Batches of windows of context + 1 tokens, each beginning with the last token of the one before: every token but
    the very first is predicted once. The shorter rest comes last."""
    whole = (len(tokens) - 1) // context
    yield from _batched(tokens, np.arange(whole), context, batch)
    if whole * context + 1 < len(tokens):
        yield torch.from_numpy(tokens[None, whole * context :].astype(np.int64))


def some_windows(tokens: NDArray[np.int32], context: int, batch: int, count: int) -> Iterator[Int[Tensor, "B N1"]]:
    """As `all_windows`, but only `count` of the whole windows, evenly spread over the text."""
    whole = (len(tokens) - 1) // context
    chosen = np.linspace(0, whole - 1, min(count, whole)).astype(np.intp)
    yield from _batched(tokens, chosen, context, batch)


def _batched(
    tokens: NDArray[np.int32], chosen: NDArray[np.intp], context: int, batch: int
) -> Iterator[Int[Tensor, "B N1"]]:
    reach = np.arange(context + 1)
    for first in range(0, len(chosen), batch):
        rows = chosen[first : first + batch, None] * context + reach
        yield torch.from_numpy(tokens[rows].astype(np.int64))


def kept_curve(
    model: LanguageModel, tokens: NDArray[np.int32], scoring: Scoring, source: Stream
) -> tuple[float, list[Dropped]]:
    """Nats a token with all M particles, and with M/2, M/4, ..., 1 of them kept in every layer, by subset.

    On the same windows, scoring.subset_tokens in all, evenly spread over the text.
    """
    context = model.shape.context
    windows = list(some_windows(tokens, context, scoring.batch, max(scoring.subset_tokens // context, 1)))
    predicted = sum(batch[:, 1:].numel() for batch in windows)

    def loss() -> float:
        return nats(model, windows) / predicted

    halvings = int(np.log2(model.shape.heads))
    fractions = [0.5**halving for halving in range(1, halvings + 1)]
    return loss(), loss_under_dropping(model, loss, fractions, subsets=scoring.subsets, seed=source)
