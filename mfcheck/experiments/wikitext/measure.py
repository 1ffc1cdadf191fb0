"""What an outcome says of a trained model: perplexities, with fewer particles too, its gradient, how alike they are."""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial
from typing import Any

import numpy as np
from numpy.typing import NDArray

from mfcheck.attention.diversity import gradient_variance, gradients_over_batches, roughness
from mfcheck.attention.observe import head_gradients
from mfcheck.attention.pruning import attention_layers
from mfcheck.experiments.wikitext.arms import Arm, Scoring
from mfcheck.experiments.wikitext.prepared import Prepared
from mfcheck.experiments.wikitext.preset import Preset
from mfcheck.experiments.wikitext.redundancy import (
    noised_after,
    norm_matched,
    observed,
    output_rank,
    query_key_norm,
    similarity,
)
from mfcheck.experiments.wikitext.scores import all_windows, kept_curve, nats, some_windows
from mfcheck.experiments.wikitext.train import Run, autocast, effective_step
from mfcheck.statistics.seeds import Stream

#: Points of the training curve that an outcome keeps.
CURVE = 40
#: The part of the steps, at the end, whose mean is the final training loss and whose roughness is its smoothness.
LAST = 0.2


def measure(run: Run, text: Prepared, preset: Preset, arm: Arm, source: Stream) -> dict[str, Any]:
    """Measures a trained run. source: draws the subsets of particles and the noise of a control, alike in all arms."""
    model, scoring = run.model.eval(), preset.scoring
    context = model.shape.context
    with autocast(run.training):
        scores = {}
        for name in ("valid", "test"):
            split = text.splits[name]
            total = nats(model, list(all_windows(split.tokens, context, scoring.batch)))
            scores[name] = {"log_perplexity": split.log_perplexity(total), "perplexity": split.perplexity(total)}
        kept = _kept(run, text, scoring, source.child("kept"))
        similar = _redundancy(run, text, preset, arm, source.child("redundancy"))
        gradient = _gradient(run, scoring)
    losses = run.losses.double().cpu().numpy()
    last = losses[-max(round(LAST * len(losses)), 3) :]
    return {
        **scores,
        "training_curve": curve(losses),
        "final_training_loss": float(last.mean()),
        "roughness": roughness(last.tolist()),
        "kept": kept,
        **similar,
        "gradient": gradient,
        "effective_step": effective_step(run),
    }


def _kept(run: Run, text: Prepared, scoring: Scoring, source: Stream) -> list[dict[str, float]]:
    """The rise of the logarithm of the perplexity per word with m particles kept: mean over subsets, and sd."""
    test = text.splits["test"]
    whole, dropped = kept_curve(run.model, test.tokens, scoring, source)
    tokens_a_word = (len(test.tokens) - 1) / test.words
    rows = [{"kept": run.model.shape.heads, "rise": 0.0, "sd": 0.0}]
    for some in dropped:
        rises = (some.losses.numpy() - whole) * tokens_a_word
        sd = float(rises.std(ddof=1)) if len(rises) > 1 else 0.0
        rows.append({"kept": next(iter(some.heads.values())), "rise": float(rises.mean()), "sd": sd})
    return rows


def _redundancy(run: Run, text: Prepared, preset: Preset, arm: Arm, source: Stream) -> dict[str, Any]:
    """How alike the particles are; of a beta = 0 arm of particles also the two controls of the arms with noise."""
    model = run.model
    tokens, count = text.splits["test"].tokens, preset.scoring.map_windows
    (windows,) = some_windows(tokens, model.shape.context, count, count)
    layers = observed(model, windows)
    found: dict[str, Any] = {
        "similarity": similarity(layers),
        "effective_rank": output_rank(layers),
        "query_key_norm": query_key_norm(model),
    }
    if arm.attention == "particles" and arm.beta == 0:
        found["norm_matched"] = norm_matched(model, windows)
        exposures: Mapping[str, float] = {
            other.name: preset.training.exposure(other)
            for other in preset.arms
            if other.beta and other.heads == arm.heads
        }
        found["noised_after"] = {
            name: noised_after(model, windows, exposure, source) for name, exposure in exposures.items()
        }
    return found


def _gradient(run: Run, scoring: Scoring) -> dict[str, float]:
    """Of the gradient on training batches, without dropout: its variance across batches (all parameters) and, of the
    mean over the batches, across particles (mean over layers), each beside the squared length of the mean."""
    model = run.model
    device = run.training.device
    batches = [run.windows.at(run.step + index).to(device) for index in range(scoring.gradient_batches)]
    named = list(model.parameters())
    rows = gradients_over_batches([partial(model.loss, batch) for batch in batches], named)
    mean = rows.mean(0)
    sizes = [parameter.numel() for parameter in named]
    for parameter, part in zip(named, mean.split(sizes), strict=True):
        parameter.grad = part.reshape(parameter.shape)
    by_particle = [head_gradients(layer) for layer in attention_layers(model).values()]
    model.zero_grad()
    return {
        "across_batches": gradient_variance(rows),
        "squared_mean": float(mean.double().square().sum()),
        "across_particles": float(np.mean([gradient_variance(gradients) for gradients in by_particle])),
        "squared_mean_particle": float(
            np.mean([float(gradients.double().mean(0).square().sum()) for gradients in by_particle])
        ),
    }


def curve(losses: NDArray[np.float64]) -> dict[str, list[float]]:
    """The training loss averaged over CURVE stretches of equal length: the step in the middle of each, and its mean."""
    parts = np.array_split(losses, min(CURVE, len(losses)))
    ends = np.cumsum([len(part) for part in parts])
    middles = [float(end - (len(part) + 1) / 2) for end, part in zip(ends, parts, strict=True)]
    return {"step": middles, "loss": [float(part.mean()) for part in parts]}
