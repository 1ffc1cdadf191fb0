"""Attention heads in training: particles over the density of the law of heads that the mean-field equation gives.

To see: at every time the particles fill the density's contours, which move from the start into the teacher's well
and spread to its mirror image, both signs flipped. Refuted by particles elsewhere than the density, as for the raw
gradient without the factor M (bottom), whose heads only diffuse.
"""

from collections.abc import Mapping

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from mfcheck.outcome import Outcome
from mfcheck.plots import BLUE, RED, new_figure

RAW = "C6: gradient without the factor M (raw scaling)"
NEEDS = ("C6", RAW)
#: The part of the box that is shown, and the shares of the mass that the contours enclose.
SHOWN, SHARES = 4.0, (0.99, 0.9, 0.5)


def draw(outcomes: Mapping[str, Outcome]) -> Figure:
    """A row for the claim and one for its control, a column a training time."""
    claim = outcomes["C6"]
    times = claim.data["times"]
    figure, panels = new_figure(columns=len(times), rows=2, height=1.75, width=7.0)
    for row, (outcome, colour) in enumerate(((claim, BLUE), (outcomes[RAW], RED))):
        for column, time in enumerate(times):
            axes = panels[row * len(times) + column]
            _portrait(axes, outcome, column, colour)
            if row == 0:
                axes.set_title(f"s = {time:g}", loc="center")
            else:
                axes.set_xlabel("$a$ (query and key)")
        name = "mean field" if row == 0 else "raw (control)"
        panels[row * len(times)].set_ylabel(f"{name}\n$v$ (value)")
    count = len(np.array(claim.data["heads"])[0])
    shares = ", ".join(f"{share:.0%}" for share in reversed(SHARES))
    figure.suptitle(
        f"C6: {claim.verdict.value} (seed {claim.seed}); {count} heads over the grid's density, contours of {shares} "
        "of its mass",
        fontsize=8,
        x=0.01,
        ha="left",
    )
    return figure


def _portrait(axes: Axes, outcome: Outcome, index: int, colour: str) -> None:
    low, high = outcome.data["box"]
    density = np.array(outcome.data["density"][index])
    width = (high - low) / len(density)
    centres = low + width * (np.arange(len(density)) + 0.5)
    levels = [*_levels(density), density.max()]
    axes.contourf(centres, centres, density.T, levels=levels, colors=("0.92", "0.82", "0.66"))
    heads = np.array(outcome.data["heads"][index])
    axes.plot(heads[:, 0], heads[:, 1], ".", color=colour, ms=1.2, mew=0)
    axes.set_xlim(-SHOWN, SHOWN)
    axes.set_ylim(-SHOWN, SHOWN)
    axes.set_aspect("equal")


def _levels(density: np.ndarray) -> list[float]:
    """Densities above which lie the SHARES of the mass, increasing."""
    heights = np.sort(density.ravel())[::-1]
    mass = np.cumsum(heights) / heights.sum()
    return [float(heights[np.searchsorted(mass, share)]) for share in SHARES]
