"""Attention heads in training: particles over the density of the law of heads that the mean-field equation gives.

To see: at every time the particles fill the density's contours, which move from the start into the teacher's well
and spread to its mirror image, both signs flipped. Refuted by particles elsewhere than the density, as for the raw
gradient without the factor M (bottom), whose heads only diffuse.
"""

from collections.abc import Mapping

import numpy as np
from matplotlib.animation import FuncAnimation
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from mfcheck.outcome import Outcome
from mfcheck.plots import BLUE, RED, new_figure

RAW = "C6: gradient without the factor M (raw scaling)"
NEEDS = ("C6", RAW)
#: The part of the box that is shown, and the shares of the mass that the contours enclose.
SHOWN, SHARES = 4.0, (0.99, 0.9, 0.5)
#: The training times of the columns, of those on record.
COLUMNS = (0.0, 0.5, 2.0, 5.0)
ROWS = (("C6", "mean field", BLUE), (RAW, "raw (control)", RED))


def draw(outcomes: Mapping[str, Outcome]) -> Figure:
    """A row for the claim and one for its control, a column a training time."""
    claim = outcomes["C6"]
    figure, panels = new_figure(columns=len(COLUMNS), rows=2, height=1.75, width=7.0)
    for row, (name, words, colour) in enumerate(ROWS):
        for column, time in enumerate(COLUMNS):
            axes = panels[row * len(COLUMNS) + column]
            _portrait(axes, outcomes[name], claim.data["times"].index(time), colour)
            if row == 0:
                axes.set_title(f"s = {time:g}", loc="center")
            else:
                axes.set_xlabel("$a$ (query and key)")
        panels[row * len(COLUMNS)].set_ylabel(f"{words}\n$v$ (value)")
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


def animate(outcomes: Mapping[str, Outcome]) -> FuncAnimation:
    """The claim beside its control, a frame a training time on record; the last one stays for a while."""
    times = outcomes["C6"].data["times"]
    figure, panels = new_figure(columns=2, rows=1, height=3.0, width=5.6)

    def frame(index: int) -> list[Axes]:
        for axes, (name, words, colour) in zip(panels, ROWS, strict=True):
            axes.clear()
            _portrait(axes, outcomes[name], index, colour, 2.5)
            axes.set_title(f"{words}, s = {times[index]:.1f}", loc="center")
            axes.set_xlabel("$a$ (query and key)")
            axes.set_ylabel("$v$ (value)")
        return list(panels)

    return FuncAnimation(figure, frame, frames=[*range(len(times)), *[len(times) - 1] * 5], interval=300)


def _portrait(axes: Axes, outcome: Outcome, index: int, colour: str, size: float = 1.2) -> None:
    low, high = outcome.data["box"]
    density = np.array(outcome.data["density"][index])
    width = (high - low) / len(density)
    centres = low + width * (np.arange(len(density)) + 0.5)
    levels = [*_levels(density), density.max()]
    axes.contourf(centres, centres, density.T, levels=levels, colors=("0.92", "0.82", "0.66"))
    heads = np.array(outcome.data["heads"][index])
    axes.plot(heads[:, 0], heads[:, 1], ".", color=colour, ms=size, mew=0, rasterized=True)
    axes.set_xlim(-SHOWN, SHOWN)
    axes.set_ylim(-SHOWN, SHOWN)
    axes.set_aspect("equal")


def _levels(density: np.ndarray) -> list[float]:
    """Densities above which lie the SHARES of the mass, increasing."""
    heights = np.sort(density.ravel())[::-1]
    mass = np.cumsum(heights) / heights.sum()
    return [float(heights[np.searchsorted(mass, share)]) for share in SHARES]
