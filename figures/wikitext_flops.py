"""Language model: perplexity of particles less ordinary attention's at equal FLOPs, for 8, 16 and 32 particles.

To see: paired differences with 95 % intervals, beside the counts that were matched. Refuted is W1 (a lower
perplexity at equal compute) where an arm with noise, a square, lies right of the grey margin or in it. The diamond is
ordinary attention whose W_O takes the step that it has in a mean: where it lies with the particles, the step is why.
"""

from collections.abc import Mapping

import numpy as np
from matplotlib.figure import Figure
from scipy import stats

from mfcheck.experiments.wikitext.hypotheses import MARGINS
from mfcheck.outcome import Outcome
from mfcheck.plots import BLACK, BLUE, ORANGE, new_figure

NEEDS = ("W1",)


def draw(outcomes: Mapping[str, Outcome]) -> Figure:
    """One row an arm: paired difference with its 95 % interval, in per cent, beside FLOPs and parameters as ratios."""
    arms = {key: np.array(value) for key, value in outcomes["W1"].data["arms"].items()}
    log = arms["log_perplexity"]
    reference = log[arms["attention"] == "multihead"][0]
    rows = np.flatnonzero(arms["attention"] != "multihead")
    n = log.shape[1]
    figure, (axes,) = new_figure(height=0.24 * len(rows) + 0.9, width=5.2)
    margin = 100 * np.expm1(MARGINS["log_perplexity"])
    axes.axvspan(-margin, margin, color="0.9", lw=0)
    axes.axvline(0, color=BLACK, lw=0.8)
    for place, index in enumerate(rows):
        difference = 100 * np.expm1(log[index] - reference)
        half = float(stats.t.isf(0.025, n - 1)) * difference.std(ddof=1) / np.sqrt(n)
        colour, marker = (ORANGE, "s") if arms["beta"][index] else (BLUE, "o")
        if arms["attention"][index] == "multihead_mean":
            colour, marker = BLACK, "D"
        axes.errorbar([difference.mean()], [place], xerr=[half], fmt=marker, color=colour, ms=3.5, capsize=2)
        told = f"FLOPs x {arms['flop_ratio'][index]:.2f}, parameters x {arms['parameter_ratio'][index]:.2f}"
        axes.annotate(told, (1, place), xycoords=("axes fraction", "data"), xytext=(4, 0), textcoords="offset points",
                      va="center", fontsize=5.5, color="0.35")  # fmt: skip
    axes.set_yticks(range(len(rows)), [str(name) for name in arms["name"][rows]], fontsize=6)
    axes.invert_yaxis()
    axes.set_xlabel("test perplexity over nn.MultiheadAttention's, per cent")
    axes.set_title(f"W1 (n = {n} paired seeds; squares: noise; diamond: ordinary)", loc="left")
    return figure
