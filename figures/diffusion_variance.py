"""The variance of the injected noise over its prediction, for every schedule, and what four faults make of it.

To see: every interval covers 1 and lies inside its grey region. Refuted if an interval lies outside, where the faults
on the right put it.
"""

from collections.abc import Mapping

from matplotlib.figure import Figure

from mfcheck.outcome import Outcome
from mfcheck.plots import BLACK, BLUE, GREEN, ORANGE, PURPLE, RED, interval_rows, new_figure

HALF, WRONG_POWER = "D1: amplitude sqrt(beta eta)", "D1: amplitude sqrt(2 beta) eta"
FINAL, SHIFTED = "D2: the final beta throughout", "D2: the schedule shifted by one step"
NEEDS = ("D1", HALF, WRONG_POWER, "D2", FINAL, SHIFTED, "D2: amplitude sqrt(beta eta)")

#: Fault -> (the outcomes that show it, colour, marker). Colour and marker say the same thing twice.
FAULTS = {
    r"$\sqrt{\beta\eta}$": ((HALF, "D2: amplitude sqrt(beta eta)"), ORANGE, "s"),
    r"$\sqrt{2\beta}\,\eta$": ((WRONG_POWER,), PURPLE, "D"),
    r"last $\beta$ throughout": ((FINAL,), GREEN, "^"),
    "one step ahead": ((SHIFTED,), RED, "v"),
}


def draw(outcomes: Mapping[str, Outcome]) -> Figure:
    """Left: the claims' intervals in their region. Right: the same points among the controls', on a wider axis."""
    figure, (near, far) = new_figure(columns=2, height=2.3, width=6.8)
    claims = [
        (f"{name}: {criterion.name}", criterion) for name in ("D1", "D2") for criterion in outcomes[name].criteria
    ]
    rows = {name: row for row, (name, _) in enumerate(claims)}
    interval_rows(near, [("no schedule" if name.startswith("D1") else name[4:], c) for name, c in claims])
    near.set_xlim(0.985, 1.015)
    near.set_xlabel(r"variance / $\sum_k 2\beta_k\eta$")
    near.set_title(f"D1, D2 (seed {outcomes['D1'].seed})", loc="left")

    far.axvline(1.0, color=BLACK, lw=0.8)
    far.plot([c.estimate.point for _, c in claims], list(rows.values()), "o", color=BLUE, label="as claimed")
    for label, (names, colour, marker) in FAULTS.items():
        refuted = [
            (c.estimate.point, rows[f"{name[:2]}: {c.name}"])
            for name in names
            for c in outcomes[name].criteria
            # a schedule's fault leaves the constant one alone
            if not (name in (FINAL, SHIFTED) and c.name == "constant")
        ]
        far.plot(*zip(*refuted, strict=True), marker, color=colour, ls="", label=label)
    far.set_xscale("log")
    far.set_xticks([0.03, 0.1, 0.3, 1.0], ["0.03", "0.1", "0.3", "1"])
    far.minorticks_off()
    far.set_yticks([])
    far.set_ylim(near.get_ylim())
    far.set_xlabel(r"variance / $\sum_k 2\beta_k\eta$")
    far.set_title("controls: what a fault does", loc="left")
    far.legend(loc="center left", bbox_to_anchor=(1.0, 0.5))
    return figure
