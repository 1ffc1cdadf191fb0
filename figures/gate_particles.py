"""Accuracy of the toy gate's nets with 1 to 8 of their particles kept, trained with and without diffusion.

To see: how accuracy falls as particles are dropped, for each beta. Refuted is robustness by diffusion if the curves
at beta > 0 lie below that of beta = 0.
"""

from collections.abc import Mapping

import numpy as np
from matplotlib.figure import Figure

from mfcheck.outcome import Outcome
from mfcheck.plots import BLACK, COLOURS, MARKERS, new_figure

NEEDS = ("S2", "S4")
SHOWN = ("beta 0", "beta 0.001", "beta 0.005", "ordinary heads")


def draw(outcomes: Mapping[str, Outcome]) -> Figure:
    """Mean over seeds and random subsets, two standard errors; dotted: 5 points below all particles at beta = 0."""
    arms = outcomes["S4"].data["arms"] | outcomes["S2"].data["arms"]
    figure, (axes,) = new_figure(height=2.6)
    for place, name in enumerate(name for name in SHOWN if name in arms):
        mean, error = (np.array(values) for values in arms[name]["kept_accuracy"])
        kept = np.arange(1, len(mean) + 1)
        axes.errorbar(
            kept,
            mean,
            yerr=2 * error,
            fmt=f"{MARKERS[place]}-",
            color=COLOURS[place],
            ms=3,
            capsize=2,
            lw=0.9,
            label=name,
        )
    plain = arms["beta 0"]["kept_accuracy"][0][-1]
    axes.axhline(plain - 0.05, color=BLACK, ls=":", lw=0.8, label="5 points below")
    axes.set_xlabel("particles kept of 8")
    axes.set_ylabel("validation accuracy")
    axes.legend(loc="lower right", fontsize=6)
    axes.set_title(f"S4 (n = {outcomes['S4'].n}, seed {outcomes['S4'].seed})", loc="left")
    return figure
