"""A criterion as a small picture: its interval against its region, as inline SVG that follows the page's colours."""

from __future__ import annotations

import math
from html import escape

from mfcheck.outcome import CriterionOutcome
from mfcheck.report.words import interval

WIDTH, HEIGHT = 220, 26


def drawn_interval(criterion: CriterionOutcome) -> str:
    """SVG text: the region as a band, the prediction as a tick, the interval as a line with its point."""
    estimate, region = criterion.estimate, criterion.region
    values = [
        value
        for value in (region.lower, region.upper, region.prediction, estimate.lower, estimate.upper, estimate.point)
        if math.isfinite(value)
    ]
    low, high = min(values), max(values)
    # a region without an end reaches the picture's side: leave room on both
    pad = 0.12 * (high - low) or 0.5 * abs(high) or 1.0
    low, high = low - pad, high + pad

    def x(value: float) -> float:
        return round(WIDTH * (min(max(value, low), high) - low) / (high - low), 2)

    left, right = x(region.lower), x(region.upper)
    said = f"{criterion.name}: {interval(criterion)} against {region}"
    parts = [
        f'<svg class="interval" viewBox="0 0 {WIDTH} {HEIGHT}" width="{WIDTH}" height="{HEIGHT}" role="img" '
        f'aria-label="{escape(said, quote=True)}">',
        f'<rect class="region" x="{left}" y="3" width="{max(right - left, 1)}" height="{HEIGHT - 6}"/>',
        f'<line class="prediction" x1="{x(region.prediction)}" x2="{x(region.prediction)}" y1="3" y2="{HEIGHT - 3}"/>',
    ]
    if math.isfinite(estimate.point):
        a, b, middle = x(estimate.lower), x(estimate.upper), HEIGHT / 2
        parts += [
            f'<line class="measured" x1="{a}" x2="{b}" y1="{middle}" y2="{middle}"/>',
            *(f'<line class="measured" x1="{c}" x2="{c}" y1="{middle - 4}" y2="{middle + 4}"/>' for c in (a, b)),
            f'<circle class="measured" cx="{x(estimate.point)}" cy="{middle}" r="3"/>',
        ]
    return "".join([*parts, "</svg>"])
