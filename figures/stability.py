"""Stability of tokens in depth: growth of W2 under its bound, and the coupled system perturbed and refined.

To see: growth of W2 never above its bound (1), and the coupled system moved in proportion to eps. Refuted if the
bound is crossed, as with a halved constant or a hardmax head at a tie, or if the end point does not move with eps, as
at a tie.
"""

from collections.abc import Mapping

from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import NullFormatter

from mfcheck.outcome import Outcome
from mfcheck.plots import BLACK, BLUE, GREEN, ORANGE, PURPLE, RED, caption, new_figure, power_law

HALVED, HARDMAX = "T4: L halved at A = 0", "T4: hardmax at a tie"
TIE, DT, ETA = "T5: hardmax at an exact tie", "T5: dt not refined", "T5: eta not refined"
NEEDS = ("T4", HALVED, HARDMAX, "T5", TIE, DT, ETA)


def draw(outcomes: Mapping[str, Outcome]) -> Figure:
    """Left: T4, growth over the bound. Middle: T5, eps moves the end by O(eps). Right: T5, joint refinement."""
    figure, (growth, moved, refined) = new_figure(columns=3, height=2.9, width=9.6)
    _growth(growth, outcomes)

    power_law(moved, outcomes[TIE].criterion("slope in the perturbation"), "hardmax, tie", colour=RED, marker="s",
              theory=False)  # fmt: skip
    power_law(moved, outcomes["T5"].criterion("slope in the perturbation"), "softmax")
    moved.set_xlabel(r"perturbation $\varepsilon$ of $\mu_0$ and $\rho_0$")
    moved.set_ylabel("root mean square change of the end")
    caption(moved, outcomes["T5"])

    order = "order of the joint refinement"
    power_law(refined, outcomes[DT].criterion(order), "dt not refined", colour=RED, marker="s", theory=False)
    power_law(refined, outcomes[ETA].criterion(order), r"$\eta$ not refined", colour=ORANGE, marker="^", theory=False)
    power_law(refined, outcomes["T5"].criterion(order), "all refined")
    refined.set_xlabel("scale of 1/N, 1/M, dt and " + r"$\eta$")
    refined.set_ylabel("distance of moments from the limit's")
    refined.set_xticks([0.25, 0.5, 1.0], ["1/4", "1/2", "1"])
    refined.set_yticks([0.02, 0.05, 0.1], ["0.02", "0.05", "0.1"])
    refined.yaxis.set_minor_formatter(NullFormatter())
    refined.xaxis.set_minor_formatter(NullFormatter())
    for axes, room in ((moved, 0.45), (refined, 0.6)):
        low, high = axes.get_ylim()
        axes.set_ylim(low, high * (high / low) ** room)  # room for the legend above the data
        axes.legend(loc="upper left", fontsize=6)
    caption(refined, outcomes["T5"])
    return figure


def _growth(axes: Axes, outcomes: Mapping[str, Outcome]) -> None:
    """log growth over the exponent: pairs of laws, translates at A = 0 (tight), and a tie; the bound is 1."""
    data = outcomes["T4"].data
    names = {"line": ("line", BLUE), "plane": ("plane", GREEN), "four heads": ("four\nheads", PURPLE)}
    for place, (name, (_, colour)) in enumerate(names.items()):
        axes.plot([place] * len(data["growth"][name]), data["growth"][name], "o", color=colour, ms=3, mfc="none")
    axes.plot([3, 4], [data["translated"], data["tied"]], "o", color=BLUE, ms=4, label="softmax")
    axes.plot([3], [outcomes[HALVED].data["translated"]], "^", color=ORANGE, ms=5, label="control: L halved")
    axes.plot([4], [outcomes[HARDMAX].data["tied"]], "s", color=RED, ms=4, label="control: hardmax")
    axes.axhline(1.0, color=BLACK, ls="--", lw=0.8, label="the bound")
    axes.set_xticks(range(5), [*(label for label, _ in names.values()), "A = 0", "tie"])
    axes.set_xlim(-0.5, 4.5)
    axes.set_yscale("symlog", linthresh=1.0)
    axes.set_ylim(-1.0, 40.0)
    axes.set_yticks([-1, -0.5, 0, 0.5, 1, 3, 10], ["-1", "-0.5", "0", "0.5", "1", "3", "10"])
    axes.yaxis.set_minor_formatter(NullFormatter())
    axes.set_ylabel(r"$\log$ growth of $W_2$ / $\int_0^1 L(R_s)\,ds$")
    axes.legend(loc="upper left", fontsize=6, ncols=2)
    caption(axes, outcomes["T4"])
