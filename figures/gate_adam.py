"""Adam's effective step in the toy gate: what a coordinate's first moment is multiplied with, over training.

To see: how much larger a step Adam takes than its learning rate says, with and without noise. Refuted is the belief
that equal beta is equal noise under Adam if the steps differ from the learning rate by factors.
"""

from collections.abc import Mapping

import numpy as np
from matplotlib.figure import Figure

from mfcheck.experiments.toy_gate.arms import RECIPE
from mfcheck.experiments.toy_gate.training import LOOK_EVERY
from mfcheck.outcome import Outcome
from mfcheck.plots import BLACK, BLUE, ORANGE, new_figure

NEEDS = ("S7",)
SHOWN = ("Adam, beta 0", "Adam, exposure of 0.005")


def draw(outcomes: Mapping[str, Outcome]) -> Figure:
    """Median and the middle 90 % over the coordinates of all particles of one seed; dashed: the step of SGD."""
    effective = outcomes["S7"].data["effective"]
    figure, (axes,) = new_figure(height=2.6)
    for name, colour in zip(SHOWN, (BLUE, ORANGE), strict=True):
        if name in effective:
            # [looks, 1 + quantiles]: the mean, then 5, 25, 50, 75 and 95 %
            values = np.array(effective[name])
            steps = LOOK_EVERY * np.arange(len(values)) + 1
            axes.plot(steps, values[:, 3], color=colour, label=name)
            axes.fill_between(steps, values[:, 1], values[:, 5], color=colour, alpha=0.2, lw=0)
    axes.axhline(RECIPE.sgd_step, color=BLACK, ls="--", lw=0.8, label="SGD")
    axes.set_yscale("log")
    axes.set_xlabel("training step")
    axes.set_ylabel(r"$\eta / (\sqrt{\hat v} + \epsilon)$")
    axes.legend(fontsize=6)
    axes.set_title(f"S7: effective step (seed {outcomes['S7'].seed})", loc="left")
    return figure
