"""The gap above a quadratic's minimum while beta is annealed: linearly, logarithmically, and not at all.

To see: at constant beta the gap stays at the predicted plateau (1); annealed linearly it closes, logarithmically it
lags. Refuted if the annealed gap ends at the plateau, which is where the control, constant beta called annealed,
ends.
"""

from collections.abc import Mapping

import numpy as np
from matplotlib.figure import Figure

from mfcheck.outcome import Outcome
from mfcheck.plots import BLACK, BLUE, ORANGE, RED, caption, new_figure

CONTROL = "D8: constant beta called annealed"
NEEDS = ("D8", CONTROL)


def draw(outcomes: Mapping[str, Outcome]) -> Figure:
    """Mean gap over the plateau's prediction, against the step of the annealing."""
    figure, (axes,) = new_figure(height=2.6)
    claim, control = outcomes["D8"], outcomes[CONTROL]
    steps, curves = np.array(claim.data["steps"]), np.array(claim.data["curves"]) / claim.data["plateau"]
    constant = np.array(control.data["curves"])[0] / control.data["plateau"]
    axes.plot(steps, constant, color=RED, label=r"constant $\beta$ (control)")
    axes.plot(steps, curves[1], color=ORANGE, ls="-.", label=r"logarithmic $\beta_k$")
    axes.plot(steps, curves[0], color=BLUE, label=r"linear $\beta_k$, to 0")
    bound = claim.criterion("gap after the linear schedule").region.upper
    axes.axhline(bound, color=BLACK, ls="--", lw=0.8, label=f"{bound:.0%} of the plateau")
    axes.set_yscale("log")
    axes.set_ylim(bound / 3, 12)  # room for the legend above the data
    axes.set_xlabel("step k of the annealing")
    axes.set_ylabel("gap / plateau")
    axes.legend(loc="upper left", ncols=2)
    caption(axes, claim)
    return figure
