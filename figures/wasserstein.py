"""W1, W2^2 and sliced W1 of M particles to the PDE's law against M; at 1.2 beta the error stops falling.

To see: slopes -1/2, -1 and -1/2, and the theory's constant for W1. Refuted by a slope outside the band; at 1.2 beta
the law is a wrong one, and more particles do not bring it closer.
"""

from collections.abc import Mapping

from matplotlib.figure import Figure
from matplotlib.ticker import NullLocator

from mfcheck.outcome import Outcome
from mfcheck.plots import BLUE, ORANGE, caption, new_figure, power_law

NEEDS = ("C1", "C1: particles at 1.2 beta")
PANELS = (
    ("W1 slope", r"$E\,W_1$"),
    ("W2^2 slope", r"$E\,W_2^2$"),
    ("sliced W1 slope", r"$E$ sliced $W_1$ in the plane"),
)


def draw(outcomes: Mapping[str, Outcome]) -> Figure:
    """One panel a distance: the claim with its fit and the theory's line, the control beside it."""
    claim, control = (outcomes[name] for name in NEEDS)
    figure, panels = new_figure(columns=3, height=2.8)
    for axes, (name, label) in zip(panels, PANELS, strict=True):
        power_law(axes, control.criterion(name), r"at $1.2\,\beta$", colour=ORANGE, marker="s", theory=False)
        power_law(axes, claim.criterion(name), "claim", colour=BLUE)
        ladder = claim.criterion(name).estimate.details["x"]
        axes.set_xticks(ladder, [f"{m:g}" for m in ladder])
        axes.xaxis.set_minor_locator(NullLocator())
        low, high = axes.get_ylim()
        axes.set_ylim(low * (low / high) ** 0.35, high)  # room for the legend below the data
        axes.set_xlabel("particles M")
        axes.set_ylabel(label)
        axes.legend(loc="lower left")
    caption(panels[0], claim)
    return figure
