"""What the figures share: the style, and plots of estimates with their intervals. Reads outcomes; never simulates."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import numpy as np
from matplotlib import pyplot
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from mfcheck.outcome import CriterionOutcome, Outcome

#: Okabe and Ito's colours, which people with any common colour blindness can tell apart (jfly.uni-koeln.de/color).
BLUE, ORANGE, GREEN, RED, PURPLE, SKY, BLACK = (
    "#0072B2",
    "#E69F00",
    "#009E73",
    "#D55E00",
    "#CC79A7",
    "#56B4E9",
    "#000000",
)
COLOURS = (BLUE, ORANGE, GREEN, PURPLE, RED, SKY)
MARKERS = "os^Dv<"
#: One column of a two-column paper, in inches.
COLUMN = 3.4

STYLE = Path(__file__).with_name("mfcheck.mplstyle")


def new_figure(
    columns: int = 1, rows: int = 1, height: float = 2.5, width: float | None = None
) -> tuple[Figure, list[Axes]]:
    """A figure in the one style, each panel a column wide: (figure, its axes row by row). height in inches a row."""
    pyplot.switch_backend("Agg")
    pyplot.style.use(STYLE)
    figure, axes = pyplot.subplots(rows, columns, figsize=((width or COLUMN * columns), height * rows), squeeze=False)
    return figure, list(axes.ravel())


def power_law(
    axes: Axes, criterion: CriterionOutcome, label: str, *, colour: str = BLUE, marker: str = "o", theory: bool = True
) -> None:
    """Errors against x with their intervals, the fitted power law, the slopes its interval allows, and the theory's.

    The band is the interval of the slope, turned about the centre of the data; the theory's line (dashed) has the
    predicted slope through the same centre. Rungs below the noise floor are drawn hollow: they were not fitted.
    """
    details, estimate = criterion.estimate.details, criterion.estimate
    x, mean = np.array(details["x"]), np.array(details["mean"])
    above = np.array(details["above_floor"], dtype=bool)
    low, high = np.array(details.get("low", mean)), np.array(details.get("high", mean))
    spread = np.vstack([np.maximum(mean - low, 0), np.maximum(high - mean, 0)])
    for chosen, face in ((above, colour), (~above, "white")):
        if chosen.any():
            axes.errorbar(
                x[chosen], mean[chosen], yerr=spread[:, chosen], fmt=marker, color=colour, mfc=face, capsize=1.5, lw=0.8
            )
    if "slope" in details:
        # the data's centre in logarithms, about which the fitted line turns
        centre = np.exp(np.log(x[above]).mean())
        level = np.exp(details["intercept"] + details["slope"] * np.log(centre))
        line = np.geomspace(x.min(), x.max(), 50)
        fit = level * (line / centre) ** estimate.point
        text = f"{label}: slope {estimate.point:.3f} [{estimate.lower:.3f}, {estimate.upper:.3f}]"
        axes.plot(line, fit, color=colour, label=text)
        ends = [level * (line / centre) ** slope for slope in (estimate.lower, estimate.upper)]
        axes.fill_between(line, np.minimum(*ends), np.maximum(*ends), color=colour, alpha=0.2, lw=0)
        if theory:
            predicted = criterion.region.prediction
            axes.plot(
                line,
                level * (line / centre) ** predicted,
                color=BLACK,
                ls="--",
                lw=0.8,
                label=f"theory: slope {predicted:g}",
            )
    axes.set_xscale("log")
    axes.set_yscale("log")


def interval_rows(
    axes: Axes, rows: Sequence[tuple[str, CriterionOutcome]], colours: Sequence[str] | None = None
) -> None:
    """One row an estimate: the point and its interval against its region (shaded) and its prediction (line)."""
    for row, (label, criterion) in enumerate(rows):
        estimate, region = criterion.estimate, criterion.region
        colour = colours[row] if colours else BLUE
        height = (row - 0.4, row + 0.4)
        # an end that is infinite is drawn as far beyond the prediction as the finite end is before it
        reach = max(abs(end - region.prediction) for end in (region.lower, region.upper) if np.isfinite(end))
        ends = np.clip((region.lower, region.upper), region.prediction - reach, region.prediction + reach)
        axes.fill_betweenx(height, *ends, color="0.9", lw=0)
        axes.plot([region.prediction] * 2, height, color=BLACK, lw=0.8)
        bars = [[estimate.point - estimate.lower], [estimate.upper - estimate.point]]
        axes.errorbar([estimate.point], [row], xerr=bars, fmt="o", color=colour, capsize=2)
        axes.annotate(label, (0, row), xycoords=("axes fraction", "data"), xytext=(-4, 0), textcoords="offset points",
                      ha="right", va="center", fontsize=7)  # fmt: skip
    axes.set_yticks([])
    axes.set_ylim(len(rows) - 0.4, -0.6)
    axes.spines["left"].set_visible(False)


def caption(axes: Axes, outcome: Outcome) -> None:
    """The title of a panel: the claim, its verdict, the seed."""
    axes.set_title(f"{outcome.name}: {outcome.verdict.value} (n = {outcome.n}, seed {outcome.seed})", loc="left")
