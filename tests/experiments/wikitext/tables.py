"""Small tables for the tests: the preset tiny made smaller, and what of an outcome does not depend on the clock."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from mfcheck.experiments.wikitext.preset import Preset, read_preset

CLOCK = ("seconds", "processor_seconds", "tokens_per_second", "peak_memory_bytes")


def tiny(steps: int = 12, seeds: int = 1, dropout: float = 0.0) -> Preset:
    """The preset tiny with fewer steps and less text."""
    preset = read_preset("tiny")
    return replace(
        preset,
        seeds=seeds,
        text=replace(preset.text, size=2500),
        model=replace(preset.model, dropout=dropout),
        training=replace(preset.training, steps=steps),
        scoring=replace(preset.scoring, subset_tokens=128, subsets=2),
    )


def without_clock(outcome: Mapping[str, Any]) -> dict[str, Any]:
    """All of an outcome that must be equal to the last bit, wherever and however often its cell was run."""
    return {key: value for key, value in outcome.items() if key not in CLOCK}
