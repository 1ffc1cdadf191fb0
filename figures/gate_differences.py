"""What diffusion changes in the toy gate: paired differences with their intervals, the card's run beside them.

To see: intervals of the paired differences against beta = 0, with the card's single run where it had one. Refuted is a
hypothesis whose interval lies on the wrong side of 0 by more than the margin.
"""

from collections.abc import Mapping

from matplotlib.axes import Axes
from matplotlib.figure import Figure

from mfcheck.outcome import CriterionOutcome, Outcome
from mfcheck.plots import BLACK, BLUE, ORANGE, new_figure

NEEDS = ("S1", "S2", "S3", "S5", "S6", "S7")


def draw(outcomes: Mapping[str, Outcome]) -> Figure:
    """A row a paired difference: mean, interval, region (shaded), the card's value (cross)."""
    rows = [(name, criterion) for name in NEEDS if name in outcomes for criterion in outcomes[name].criteria]
    figure, (axes,) = new_figure(height=0.6 + 0.19 * len(rows), width=5.8)
    for place, (name, criterion) in enumerate(rows):
        _row(axes, place, criterion, BLUE if place % 2 else ORANGE)
        axes.annotate(
            f"{name}  {criterion.name}", (0, place), xycoords=("axes fraction", "data"), xytext=(-4, 0),
            textcoords="offset points", ha="right", va="center", fontsize=6,
        )  # fmt: skip
    # what is allowed, as far as the picture goes
    low, high = axes.get_xlim()
    for place, (_, criterion) in enumerate(rows):
        ends = max(criterion.region.lower, low), min(criterion.region.upper, high)
        axes.fill_betweenx((place - 0.4, place + 0.4), *ends, color="0.88", lw=0, zorder=0)
    axes.set_xlim(low, high)
    axes.axvline(0.0, color=BLACK, lw=0.8)
    axes.plot([], [], "x", color=BLACK, label="card's single run")
    axes.plot([], [], "o-", color=BLUE, label="mean and interval")
    axes.fill_betweenx([], [], [], color="0.88", label="allowed")
    axes.set_yticks([])
    axes.set_ylim(len(rows) - 0.4, -0.6)
    axes.spines["left"].set_visible(False)
    axes.set_xlabel("paired difference (loss; accuracy; cosine)")
    axes.legend(loc="upper center", bbox_to_anchor=(0.3, -0.5 / (0.6 + 0.19 * len(rows))), ncols=3, fontsize=6)
    first = outcomes["S1"]
    axes.set_title(f"toy gate, n = {first.n} paired seeds (S1), seed {first.seed}", loc="left")
    return figure


def _row(axes: Axes, place: int, criterion: CriterionOutcome, colour: str) -> None:
    estimate = criterion.estimate
    reach = [[estimate.point - estimate.lower], [estimate.upper - estimate.point]]
    axes.errorbar([estimate.point], [place], xerr=reach, fmt="o", color=colour, ms=3, capsize=2, lw=0.9)
    card = estimate.details.get("card")
    if card is not None:
        axes.plot([card], [place], "x", color=BLACK, ms=5)
