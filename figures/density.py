"""Density of particles over the solution of the mean-field equation, at several times.

To see: histograms of particles on the lines of the solution at every time. Refuted if the points leave the lines by
more than their scatter.
"""

from collections.abc import Mapping

import numpy as np
from matplotlib.figure import Figure

from mfcheck.outcome import Outcome
from mfcheck.plots import BLACK, COLOURS, MARKERS, caption, new_figure

NEEDS = ("C1",)


def draw(outcomes: Mapping[str, Outcome]) -> Figure:
    """One colour and marker a time: points are particles (a histogram), lines the grid's solution."""
    claim = outcomes["C1"]
    data = claim.data
    lo, hi = data["box"]
    figure, (axes,) = new_figure()
    for index, (time, heights, line) in enumerate(zip(data["times"], data["histogram"], data["density"], strict=True)):
        axes.plot(_centres(lo, hi, len(line)), line, color=COLOURS[index])
        axes.plot(
            _centres(lo, hi, len(heights)), heights, MARKERS[index], color=COLOURS[index], ms=3, label=f"s = {time:g}"
        )
    axes.plot([], [], color=BLACK, label="PDE")
    axes.plot([], [], "o", color=BLACK, ms=3, label="particles")
    # the part of the box where a density is above a thousandth of the maximum
    seen = np.array(data["density"]).max(0)
    inside = _centres(lo, hi, len(seen))[seen > 1e-3 * seen.max()]
    axes.set_xlim(inside[0], inside[-1])
    axes.set_ylim(0, None)
    axes.set_xlabel(r"$\theta$")
    axes.set_ylabel("density")
    axes.legend(loc="upper right")
    caption(axes, claim)
    return figure


def _centres(lo: float, hi: float, count: int) -> np.ndarray:
    return lo + (hi - lo) / count * (np.arange(count) + 0.5)
