"""Tokens in depth: the order in dt, the density of N tokens over the continuity equation, and W2 against N.

To see: errors on the slope 1 in dt; the histogram of tokens on the equation's density; W2 on the slope -1/2 in N with
its constant. Refuted by steps that are not scaled, which do not converge, and by a flat W2, which a causal mask
on sorted tokens gives.
"""

from collections.abc import Mapping

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import NullFormatter

from mfcheck.outcome import Outcome
from mfcheck.plots import BLACK, BLUE, GREEN, ORANGE, RED, SKY, caption, new_figure, power_law

NOT_SCALED, CAUSAL = "T1: dt not scaled", "T2: causal mask on sorted tokens"
NEEDS = ("T1", NOT_SCALED, "T2", CAUSAL)


def draw(outcomes: Mapping[str, Outcome]) -> Figure:
    """Left: T1 and its control. Middle: one system and the mean of all, over the grid. Right: T2 and its control."""
    figure, (layers, density, rate) = new_figure(columns=3, height=2.8, width=9.6)
    # where dt is not scaled the tokens leave every bound: the first rungs show it
    _first_rungs(layers, outcomes[NOT_SCALED], 3)
    power_law(layers, outcomes["T1"].criterion("order in dt"), r"$dt = 1/L$")
    steps = outcomes["T1"].criterion("order in dt").estimate.details["x"]
    layers.set_xticks(steps, [f"1/{round(1 / dt)}" for dt in steps])
    layers.xaxis.set_minor_formatter(NullFormatter())
    layers.set_ylim(1e-5, 1e5)
    layers.set_xlabel(r"$dt = 1/L$")
    layers.set_ylabel("largest distance of a token from the flow")
    layers.legend(loc="upper right", fontsize=6)
    caption(layers, outcomes["T1"])

    _density(density, outcomes["T2"])

    power_law(rate, outcomes[CAUSAL].criterion("W2 slope"), "causal, sorted", colour=ORANGE, marker="s", theory=False)
    power_law(rate, outcomes["T2"].criterion("W2 slope"), "claim", theory=False)
    ladder = np.array(outcomes["T2"].criterion("W2 slope").estimate.details["x"])
    rate.plot(ladder, np.sqrt(outcomes["T2"].data["constant"] / ladder), color=BLACK, ls="--", lw=0.8,
              label="delta method, constant and all")  # fmt: skip
    rate.set_xticks(ladder, [f"{n:g}" for n in ladder])
    rate.xaxis.set_minor_formatter(NullFormatter())
    low, high = rate.get_ylim()
    rate.set_ylim(low * (low / high) ** 0.5, high)  # room for the legend below the data
    rate.set_xlabel("tokens N")
    rate.set_ylabel(r"$(E\,W_2^2)^{1/2}$ to the continuity equation")
    rate.legend(loc="lower left", fontsize=6)
    caption(rate, outcomes["T2"])
    return figure


def _first_rungs(axes: Axes, outcome: Outcome, count: int) -> None:
    details = outcome.criterion("order in dt").estimate.details
    axes.plot(details["x"][:count], details["mean"][:count], "s-", color=RED, lw=0.8, label="dt not scaled")


def _density(axes: Axes, outcome: Outcome) -> None:
    data = outcome.data
    edges, width = np.array(data["edges"]), np.diff(data["edges"])
    ladder = outcome.criterion("W2 slope").estimate.details["x"]
    one, all_of_them = (np.array(data[name]) / width for name in ("one_system", "histogram"))
    axes.stairs(one, edges, color=SKY, fill=True, alpha=0.5, label=f"one system, N = {ladder[-1]:g}")
    axes.stairs(all_of_them, edges, color=BLUE, lw=0.9, label=f"mean of {outcome.n} systems")
    masses = np.array(data["masses"])
    grid = np.linspace(*data["grid"], len(masses) + 1)
    values = masses / np.diff(grid)
    # cells outside the support are empty
    kept = values > 0
    axes.plot(0.5 * (grid[1:] + grid[:-1])[kept], values[kept], color=GREEN, ls="--", label="continuity equation, grid")
    axes.set_ylim(0, 1.55 * values.max())
    axes.set_xlabel("token x after the last layer")
    axes.set_ylabel("density")
    axes.legend(loc="upper left", fontsize=6)
    caption(axes, outcome)
