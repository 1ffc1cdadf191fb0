"""Free energy and relative entropy along the flow, with the predicted rate, the log-Sobolev bound and its mutants.

To see: F never rises and falls at the rate of its dissipation; relative entropy follows its rate on the quadratic and
stays below the bound on the quartic. Refuted if F misses the entropy's share, if the rate is another, or if the bound
is crossed: the mutants do these.
"""

from collections.abc import Mapping

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from mfcheck.outcome import Outcome
from mfcheck.plots import BLACK, BLUE, ORANGE, RED, caption, new_figure

ENERGY, RATE, ALPHA = "P5: energy without the entropy", "P6: rate 4a", "P6: alpha taken as a"
NEEDS = ("P5", ENERGY, "P6", RATE, ALPHA)


def draw(outcomes: Mapping[str, Outcome]) -> Figure:
    """Free energy (P5); relative entropy on a quadratic against its rate, on a quartic against the bound (P6)."""
    figure, (energy, rate, bound) = new_figure(columns=3, height=2.8, width=8.6)
    _energy(energy, outcomes["P5"], outcomes[ENERGY])
    _rate(rate, outcomes["P6"], outcomes[RATE])
    _bound(bound, outcomes["P6"], outcomes[ALPHA])
    return figure


def _energy(axes: Axes, outcome: Outcome, control: Outcome) -> None:
    for shown, colour, style, label in (
        (outcome, BLUE, "-", r"free energy $F$"),
        (control, RED, "--", "energy without entropy (control)"),
    ):
        values = np.array(shown.data["free_energy"])
        axes.plot(shown.data["time"], values - values[0], color=colour, ls=style, label=label)
    axes.axhline(0.0, color=BLACK, lw=0.5)
    axes.set_xlabel("time s")
    axes.set_ylabel("change since s = 0")
    axes.margins(y=0.3)  # room for the legend above the data
    axes.legend(loc="upper right")
    caption(axes, outcome)


def _rate(axes: Axes, outcome: Outcome, control: Outcome) -> None:
    data = outcome.data
    times, entropy = np.array(data["time"]), np.array(data["entropy"])
    measured = outcome.criterion("rate / (2 alpha beta)").estimate.point
    axes.plot(times[::3], entropy[::3], "o", color=BLUE, label=f"grid: rate {measured:.4f} of the predicted")
    axes.plot(times, entropy[0] * np.exp(-data["predicted"] * times), color=BLACK, ls="--", lw=0.8, label=r"$e^{-2as}$")
    wrong = entropy[0] * np.exp(-control.data["predicted"] * times)
    axes.plot(times, wrong, color=RED, ls=":", label=r"$e^{-4as}$ (control)")
    axes.set_ylim(1e-8, 1e4)  # room for the legend above the data
    _entropy_axes(axes, r"KL$(\rho_s\,|\,\pi)$, $U = ax^2/2$")
    caption(axes, outcome)


def _bound(axes: Axes, outcome: Outcome, control: Outcome) -> None:
    data = outcome.data
    times, betas = np.array(data["quartic_time"]), data["quartic_betas"]
    for k, (beta, colour, marker) in enumerate(zip(betas, (BLUE, ORANGE), "os", strict=True)):
        entropy = np.array(data["quartic_entropy"][k])
        axes.plot(times[::2], (entropy / entropy[0])[::2], marker, color=colour, label=rf"grid, $\beta$ = {beta:g}")
    # relative to its start the bound is one line, alpha beta = a at every temperature
    allowed, wrong = np.array(data["quartic_bound"][0]), np.array(control.data["quartic_bound"][-1])
    axes.plot(times, allowed / allowed[0], color=BLACK, ls="--", lw=0.8, label=r"bound $e^{-2\alpha\beta s}$")
    label = rf"$\alpha = a$, $\beta$ = {betas[-1]:g} (control): crossed"
    axes.plot(times, wrong / wrong[0], color=RED, ls=":", label=label)
    axes.set_ylim(1e-12, 1e7)
    _entropy_axes(axes, r"KL / KL$_0$, $U = x^2/2 + x^4/4$")
    caption(axes, outcome)


def _entropy_axes(axes: Axes, label: str) -> None:
    axes.set_yscale("log")
    axes.set_xlabel("time s")
    axes.set_ylabel(label)
    axes.legend(loc="upper right")
