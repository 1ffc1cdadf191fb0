"""Language model: test perplexity against beta, constant and annealed, with what noise costs on paired seeds.

To see: where the perplexity goes as beta rises, beside ordinary attention's, and the paired difference to beta = 0 with
95 % intervals. Refuted is a benefit of diffusion (W5 is supported) if the differences rise above the grey margin.
"""

from collections.abc import Mapping

import numpy as np
from matplotlib.figure import Figure

from mfcheck.experiments.wikitext.hypotheses import MARGINS
from mfcheck.outcome import Outcome
from mfcheck.plots import BLACK, BLUE, GREEN, ORANGE, RED, new_figure

NEEDS = ("W1",)
SERIES = (
    (8, "constant", "mean_field", BLUE, "o", "M = 8"),
    (8, "annealed", "mean_field", ORANGE, "s", "M = 8, annealed"),
    (8, "constant", "raw", RED, "x", "M = 8, raw"),
    (32, "constant", "mean_field", GREEN, "^", "M = 32"),
)
#: Where beta = 0 stands on a logarithmic axis, and what it is called there.
ZERO = 2e-6


def draw(outcomes: Mapping[str, Outcome]) -> Figure:
    """Left: means with two standard errors. Right: paired differences to beta = 0 with 95 % intervals, in per cent."""
    outcome = outcomes["W1"]
    arms = {key: np.array(value) for key, value in outcome.data["arms"].items()}
    figure, (level, cost) = new_figure(columns=2, height=2.5, width=7.0)
    log = arms["log_perplexity"]
    n = log.shape[1]
    ordinary = np.exp(log[arms["attention"] == "multihead"][0])
    level.axhline(ordinary.mean(), color=BLACK, ls="--", lw=0.9, label="nn.MultiheadAttention")
    level.axhspan(*_around(ordinary), color="0.85", lw=0)
    for heads, schedule, scaling, colour, marker, label in SERIES:
        same = (arms["attention"] == "particles") & (arms["heads"] == heads) & arms["plain_width"]
        zero = log[same & (arms["beta"] == 0)][0]
        chosen = same & (arms["schedule"] == schedule) & (arms["scaling"] == scaling)
        chosen &= (arms["beta"] > 0) if (schedule, scaling) != ("constant", "mean_field") else True
        order = np.flatnonzero(chosen)[np.argsort(arms["beta"][chosen])]
        x = np.maximum(arms["beta"][order], ZERO)
        perplexity = np.exp(log[order])
        error = 2 * perplexity.std(1, ddof=1) / np.sqrt(n)
        style = {"color": colour, "ms": 3.5, "capsize": 2, "lw": 0.9}
        level.errorbar(x, perplexity.mean(1), yerr=error, fmt=f"{marker}-", label=label, **style)
        noisy = order[arms["beta"][order] > 0]
        differences = 100 * np.expm1(log[noisy] - zero)
        half = _student(n) * differences.std(1, ddof=1) / np.sqrt(n)
        cost.errorbar(arms["beta"][noisy], differences.mean(1), yerr=half, fmt=f"{marker}-", **style)
    for axes in (level, cost):
        axes.set_xscale("log")
        axes.set_xlabel(r"$\beta$")
    ticks = [ZERO, 1e-5, 1e-4, 1e-3, 1e-2]
    level.set_xticks(ticks, ["0", *(f"$10^{{{round(np.log10(t))}}}$" for t in ticks[1:])])
    level.minorticks_off()
    level.set_ylabel("test perplexity per word")
    margin = 100 * np.expm1(MARGINS["log_perplexity"])
    cost.axhspan(-margin, margin, color="0.9", lw=0, label="no difference that matters")
    cost.axhline(0, color=BLACK, lw=0.6)
    cost.set_ylabel(r"over $\beta = 0$, per cent")
    cost.legend(loc="upper left", fontsize=6)
    low, high = level.get_ylim()
    level.set_ylim(low, high + 0.7 * (high - low))
    level.legend(loc="upper left", fontsize=6)
    level.set_title(f"W1, W5 (n = {n} paired seeds)", loc="left")
    return figure


def _around(values: np.ndarray) -> tuple[float, float]:
    """Two standard errors around a mean."""
    half = 2 * values.std(ddof=1) / np.sqrt(len(values))
    return float(values.mean() - half), float(values.mean() + half)


def _student(n: int) -> float:
    """Student's quantile of a two-sided 95 % interval of n values."""
    from scipy import stats

    return float(stats.t.isf(0.025, n - 1))
