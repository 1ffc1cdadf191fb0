"""Which spread Adam's drift has on quadratics of unlike curvature, and the effective steps that make it so (D7).

To see: Adam's spread at beta + eta/2 for every curvature, while its effective steps differ by the curvatures' ratio.
Refuted if the spread follows sqrt(beta/a), where plain gradient drift puts it.
"""

from collections.abc import Mapping

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import NullFormatter

from mfcheck.outcome import Outcome
from mfcheck.plots import BLACK, BLUE, GREEN, RED, caption, new_figure

GRADIENT, PRECONDITIONED = "D7: plain gradient drift", "D7: noise preconditioned like the drift"
NEEDS = ("D7", GRADIENT, PRECONDITIONED)
ARMS = (
    ("D7", "Adam, isotropic noise", BLUE, "o"),
    (PRECONDITIONED, "Adam, preconditioned noise (control)", GREEN, "s"),
    (GRADIENT, "plain gradient (control)", RED, "^"),
)


def draw(outcomes: Mapping[str, Outcome]) -> Figure:
    """Left: stationary standard deviation against the curvature. Right: the mean effective step on record."""
    figure, (spread, step) = new_figure(columns=2, height=2.7, width=6.8)
    beta, eta = outcomes["D7"].data["beta"], outcomes["D7"].data["eta"]
    a = np.geomspace(0.35, 5.6, 100)
    spread.axhline(beta + eta / 2, color=BLACK, ls="--", lw=0.8, label=r"$\beta + \eta/2$")
    spread.plot(a, np.sqrt(beta / a), color=BLACK, ls=":", lw=0.8, label=r"Gibbs: $\sqrt{\beta/a}$")
    step.plot(a, eta / (a * (beta + eta / 2)), color=BLACK, ls="--", lw=0.8, label=r"$\eta\,/\,a(\beta + \eta/2)$")
    step.axhline(eta, color=BLACK, ls=":", lw=0.8, label=r"$\eta$")
    for name, label, colour, marker in ARMS:
        _points(spread, outcomes[name], "std", label, colour, marker)
        _points(step, outcomes[name], "effective_step", label, colour, marker)
    for axes, ticks in ((spread, (0.3, 0.5, 1, 2)), (step, (0.03, 0.1, 0.3, 1))):
        axes.set_xscale("log")
        axes.set_yscale("log")
        axes.set_xticks([0.5, 1, 2, 4], ["0.5", "1", "2", "4"])
        axes.set_yticks(ticks, [f"{tick:g}" for tick in ticks])
        axes.xaxis.set_minor_formatter(NullFormatter())
        axes.yaxis.set_minor_formatter(NullFormatter())
        axes.set_xlabel("curvature a")
    spread.set_ylim(0.28, 6.0)  # room for the legend above the data
    step.set_ylim(0.03, 0.6)
    spread.set_ylabel(r"stationary standard deviation of $\theta$")
    step.set_ylabel("mean effective step")
    spread.legend(loc="upper right", fontsize=6)
    step.legend(*_first(step, 2), loc="upper right", fontsize=6)
    caption(spread, outcomes["D7"])
    return figure


def _points(axes: Axes, outcome: Outcome, what: str, label: str, colour: str, marker: str) -> None:
    axes.plot(outcome.data["curvatures"], outcome.data[what], marker, color=colour, label=label)


def _first(axes: Axes, count: int) -> tuple[list[object], list[str]]:
    """The lines' names: the points' are in the other panel."""
    handles, labels = axes.get_legend_handles_labels()
    return handles[:count], labels[:count]
