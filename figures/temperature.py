"""The temperature that an update samples at: Euler-Maruyama's bias in the step, and M beta under raw scaling.

To see: the stationary variance of each update on its own formula, not on the PDE's beta/a, and raw scaling at M beta.
Refuted if the points lie on the other curve, which is where they lie when the two scalings are exchanged.
"""

from collections.abc import Mapping

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from mfcheck.outcome import Outcome
from mfcheck.plots import BLACK, BLUE, ORANGE, RED, caption, new_figure

EXCHANGED = "K2: the two exchanged"
NEEDS = ("D5", "K2", EXCHANGED)


def draw(outcomes: Mapping[str, Outcome]) -> Figure:
    """Left: stationary variance against a eta (D5). Right: against M, for both scalings and for the two exchanged."""
    figure, (step, particles) = new_figure(columns=2, height=2.7, width=6.8)
    _against_step(step, outcomes["D5"])
    _against_particles(particles, outcomes["K2"], outcomes[EXCHANGED])
    return figure


def _against_step(axes: Axes, outcome: Outcome) -> None:
    z = np.array(outcome.data["contractions"])
    predicted = 1 / (1 - z / 2)
    estimates = [criterion.estimate for criterion in outcome.criteria]
    points = np.array([e.point for e in estimates])
    reach = np.array([[e.point - e.lower for e in estimates], [e.upper - e.point for e in estimates]])
    axes.errorbar(z, points * predicted, yerr=reach * predicted, fmt="o", color=BLUE, capsize=2, label="measured")
    line = np.linspace(0, 1.6, 100)
    axes.plot(line, 1 / (1 - line / 2), color=BLACK, ls="--", lw=0.8, label=r"$1 / (1 - a\eta/2)$")
    axes.axhline(1.0, color=RED, ls=":", label=r"Gibbs: $\beta/a$")
    axes.set_xlabel(r"$a\eta$")
    axes.set_ylabel(r"stationary variance $/\ (\beta/a)$")
    axes.legend(loc="upper left")
    caption(axes, outcome)


def _against_particles(axes: Axes, outcome: Outcome, exchanged: Outcome) -> None:
    data = outcome.data
    m = np.array(data["particles"])
    for kind, gibbs, colour, marker, label in (
        ("raw", m, ORANGE, "s", "raw"),
        ("mean_field", np.ones_like(m), BLUE, "o", "mean field"),
    ):
        # what an update of curvature a samples at: the Gibbs temperature, and the step's own bias on top of it
        predicted = np.array(data[f"{kind}_predicted"])
        axes.plot(m, gibbs, color=BLACK, ls=":", lw=0.8)
        axes.plot(m, predicted, color=BLACK, ls="--", lw=0.8)
        label = rf"{label}, $a\eta$ = {data[f'{kind}_contraction']:g}"
        axes.plot(m, predicted * np.array(data[kind]), marker, color=colour, label=label)
        # at M = 1 the two are one
        axes.plot(m[1:], (predicted * np.array(exchanged.data[kind]))[1:], marker, color=RED, mfc="white")
    axes.plot([], [], "s", color=RED, mfc="white", label="the two exchanged (control)")
    axes.plot([], [], color=BLACK, ls="--", lw=0.8, label=r"$1/(1-a\eta/2)$ and $M/(1-a\eta/2M)$")
    axes.plot([], [], color=BLACK, ls=":", lw=0.8, label=r"Gibbs laws at $\beta$ and $M\beta$")
    axes.set_xscale("log", base=2)
    axes.set_yscale("log")
    axes.set_ylim(0.8, 2000)  # room for the legend above the data
    axes.set_xticks(m, [str(value) for value in m])
    axes.set_yticks([1, 10, 100], ["1", "10", "100"])
    axes.set_xlabel("particles M")
    axes.set_ylabel(r"stationary variance $/\ (\beta/a)$")
    axes.legend(loc="upper left")
    caption(axes, outcome)
