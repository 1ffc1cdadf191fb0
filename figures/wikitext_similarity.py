"""Language model: cosine of attention maps between particles against beta, beside what norms and noise alone do.

To see: how alike the particles' maps are as beta rises. Refuted is W3 (training with noise lowers redundancy) as far as
the two controls, which were trained without any noise, fall alike.
"""

from collections.abc import Mapping

import numpy as np
from matplotlib.figure import Figure

from mfcheck.experiments.wikitext.hypotheses import NOISED_AFTER, NORM_MATCHED
from mfcheck.outcome import Outcome
from mfcheck.plots import BLACK, BLUE, GREEN, ORANGE, new_figure

NEEDS = ("W1",)
ZERO = 2e-6


def draw(outcomes: Mapping[str, Outcome]) -> Figure:
    """Means with two standard errors, eight particles; the controls use the beta = 0 net of the same seed."""
    arms = {key: np.array(value) for key, value in outcomes["W1"].data["arms"].items()}
    figure, (axes,) = new_figure(height=2.7)
    chosen = (arms["attention"] == "particles") & (arms["heads"] == 8) & arms["plain_width"]
    chosen &= (arms["schedule"] == "constant") & (arms["scaling"] == "mean_field")
    order = np.flatnonzero(chosen)[np.argsort(arms["beta"][chosen])]
    x = np.maximum(arms["beta"][order], ZERO)
    n = arms["similarity"].shape[1]
    for key, colour, marker, label in (
        ("similarity", BLUE, "o", "trained with noise"),
        (NORM_MATCHED, ORANGE, "s", r"$\beta = 0$, Q and K at that norm"),
        (NOISED_AFTER, GREEN, "^", r"$\beta = 0$, that noise added after"),
    ):
        values = arms[key][order].astype(float)
        there = np.isfinite(values[:, 0])
        error = 2 * values[there].std(1, ddof=1) / np.sqrt(n)
        axes.errorbar(
            x[there], values[there].mean(1), yerr=error, fmt=f"{marker}-", color=colour, ms=3.5, capsize=2, lw=0.9,
            label=label,
        )  # fmt: skip
    ordinary = arms["similarity"][arms["attention"] == "multihead"][0]
    axes.axhline(ordinary.mean(), color=BLACK, ls="--", lw=0.9, label="nn.MultiheadAttention")
    axes.set_xscale("log")
    ticks = [ZERO, 1e-5, 1e-4, 1e-3, 1e-2]
    axes.set_xticks(ticks, ["0", *(f"$10^{{{round(np.log10(t))}}}$" for t in ticks[1:])])
    axes.minorticks_off()
    axes.set_xlabel(r"$\beta$")
    axes.set_ylabel("cosine of attention maps")
    low, high = axes.get_ylim()
    axes.set_ylim(low, high + 0.5 * (high - low))
    axes.legend(loc="upper left", fontsize=6)
    axes.set_title(f"W3, M = 8 (n = {n} paired seeds)", loc="left")
    return figure
