"""Free energy of one attention layer in training: rigorous bounds, and the tail's rate of twice the spectral gap.

To see: left, measured curves below both rigorous bounds; middle and right, tails (shaded) along the dashed lines of
twice the gap, from every start, long after the fast decay where beta lies below the barrier between two wells
(right). Refuted by a curve above a bound, or by a tail along another line, such as twice the gap of the frozen
potential (dotted) or the level that training without noise gets stuck at.
"""

from collections.abc import Mapping
from typing import Any

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from mfcheck.outcome import Outcome
from mfcheck.plots import BLACK, COLOURS, MARKERS, PURPLE, RED, caption, new_figure

FROZEN, STUCK = "G1: gap of the frozen potential", "G1: beta = 0 from a Dirac start"
NEEDS = ("G1", FROZEN, STUCK)

STARTS = ("start near the teacher", "start away from it", "wide start")


def draw(outcomes: Mapping[str, Outcome]) -> Figure:
    """F - F* against training time s in the three regimes of G1."""
    claim, frozen, stuck = outcomes["G1"], outcomes[FROZEN], outcomes[STUCK]
    figure, (bound, tail, metastable) = new_figure(columns=3, height=2.8, width=8.6)
    _bounds(bound, claim)
    _tail(tail, claim, frozen, "")
    data = stuck.data
    tail.plot(data["times"], data["curves"][0], color=RED, ls="-.", lw=0.9, label=r"$\beta = 0$, Dirac start (control)")
    _tail(metastable, claim, frozen, "metastable_")
    caption(bound, claim)
    settings = claim.data
    tail.set_title(rf"tail, $\lambda = \beta$ = {settings['beta']:g}", loc="left")
    values = rf"$\lambda$ = {settings['metastable_weight_decay']:g}, $\beta$ = {settings['metastable_beta']:g}"
    metastable.set_title(f"metastable, {values}", loc="left")
    for axes in (bound, tail, metastable):
        axes.set_yscale("log")
        axes.set_xlabel("training time s")
        low, high = axes.get_ylim()
        # room for the legend above the data
        axes.set_ylim(low, high * (high / low) ** 0.6)
        axes.legend(loc="upper right", fontsize=6)
    bound.set_ylabel(r"$(F - F^*) / (F_0 - F^*)$")
    tail.set_ylabel(r"$F - F^*$")
    return figure


def _bounds(axes: Axes, claim: Outcome) -> None:
    data = claim.data
    times = np.array(data["bound_times"])
    for index, curve in enumerate(np.array(data["bound_curves"])):
        axes.plot(times, curve / curve[0], MARKERS[index], color=COLOURS[index], ms=3, label=STARTS[index])
    for rate, style, name in zip(data["bound_rates"][0], ("--", ":"), ("Holley-Stroock", "Bakry-Emery"), strict=True):
        axes.plot(times, np.exp(-rate * times), color=BLACK, ls=style, lw=0.9, label=f"{name} bound, rate {rate:.2f}")


def _tail(axes: Axes, claim: Outcome, frozen: Outcome, prefix: str) -> None:
    data: Mapping[str, Any] = claim.data
    times, gap = np.array(data[f"{prefix}times"]), data[f"{prefix}gap"]
    start, stop = data[f"{prefix}window"]
    axes.axvspan(start, stop, color="0.92", lw=0)
    curves = np.array(data[f"{prefix}curves"])
    for index, curve in enumerate(curves):
        axes.plot(times, curve, color=COLOURS[index], label=STARTS[index])
    # lines of the predicted slope through the end of each curve, over the second half of the time
    late = times >= 0.4 * stop
    other = frozen.data[f"{prefix}gap"]
    for index, curve in enumerate(curves):
        line = curve[-1] * np.exp(2 * gap * (stop - times[late]))
        label = rf"2 $\times$ gap = {2 * gap:.4f}" if index == 0 else None
        axes.plot(times[late], line, color=BLACK, ls="--", lw=0.8, label=label)
    wrong = curves[1][-1] * np.exp(2 * other * (stop - times[late]))
    axes.plot(times[late], wrong, color=PURPLE, ls=":", label=f"frozen potential: {2 * other:.4f} (control)")
