"""The grid solver's L1 error against cell size and time step, with fitted slopes, and with flux or scheme broken.

To see: errors fall along the dashed slopes, order 2 in space and in time. Refuted by a slope of 1, which an upwind
flux in space and a frozen potential in time give.
"""

from collections.abc import Mapping

from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import NullFormatter

from mfcheck.outcome import Outcome
from mfcheck.plots import GREEN, ORANGE, PURPLE, RED, caption, new_figure, power_law

UPWIND, FROZEN = "P2: upwind flux", "P3: potential frozen at the old time"
NEEDS = ("P2", UPWIND, "P3", FROZEN)


def draw(outcomes: Mapping[str, Outcome]) -> Figure:
    """Left: Ornstein-Uhlenbeck against its exact law (P2). Right: mean-field drifts in time (P3)."""
    figure, (space, time) = new_figure(columns=2, height=3.4, width=7.0)
    claim, control = outcomes["P2"], outcomes[UPWIND]
    power_law(space, claim.criterion("order on the line"), "1-D")
    power_law(space, claim.criterion("order in the plane"), "2-D", colour=ORANGE, marker="s", theory=False)
    power_law(space, control.criterion("order on the line"), "1-D, upwind", colour=RED, marker="v", theory=False)
    power_law(space, control.criterion("order in the plane"), "2-D, upwind", colour=PURPLE, marker="^", theory=False)
    _finish(space, claim, "cell size h", [0.03, 0.1, 0.3])
    claim, control = outcomes["P3"], outcomes[FROZEN]
    anchor = "order to the closed form, linear mean-field"
    power_law(time, claim.criterion("order, Desai-Zwanzig"), "Desai-Zwanzig")
    power_law(time, claim.criterion("order, two-layer network"), "two-layer network", colour=ORANGE, marker="s",
              theory=False)  # fmt: skip
    power_law(time, claim.criterion(anchor), "linear, exact law", colour=GREEN, marker="D", theory=False)
    power_law(time, control.criterion("order, Desai-Zwanzig"), "Desai-Zwanzig, frozen", colour=RED, marker="v",
              theory=False)  # fmt: skip
    _finish(time, claim, r"time step $\tau$ (units of time)", [0.01, 0.03, 0.1])
    return figure


def _finish(axes: Axes, outcome: Outcome, label: str, ticks: list[float]) -> None:
    axes.set_xticks(ticks, [f"{tick:g}" for tick in ticks])
    axes.xaxis.set_minor_formatter(NullFormatter())
    axes.set_xlabel(label)
    axes.set_ylabel(r"error $\|\rho_{\rm grid} - \rho\|_{L^1}$")
    low, high = axes.get_ylim()
    axes.set_ylim(low, high * (high / low) ** 0.65)  # room for the legend above the data
    axes.legend(loc="upper left", handlelength=1.6)
    caption(axes, outcome)
