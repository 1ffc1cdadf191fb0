"""Language model: how the test perplexity rises when only some of the particles are kept in every layer.

To see: the rise against the share of particles kept, beside ordinary attention whose heads are dropped likewise.
Refuted is W2 (diffusion makes this robust) if curves with noise lie on those without, and W4 where the rise at 1/2 is
above 5 %.
"""

from collections.abc import Mapping

import numpy as np
from matplotlib.figure import Figure

from mfcheck.experiments.wikitext.hypotheses import COMPARABLE
from mfcheck.outcome import Outcome
from mfcheck.plots import BLACK, BLUE, GREEN, ORANGE, PURPLE, RED, new_figure

NEEDS = ("W1",)
SHOWN = (
    ("multihead-8", BLACK, "D", "nn.MultiheadAttention"),
    ("multihead-8-mean", "0.5", "d", "the same, a mean's step of $W_O$"),
    ("particles-8", BLUE, "o", r"M = 8, $\beta = 0$"),
    ("particles-8-beta-1e-3", ORANGE, "s", r"M = 8, $\beta = 10^{-3}$"),
    ("particles-8-beta-1e-2", RED, "v", r"M = 8, $\beta = 10^{-2}$"),
    ("particles-32", GREEN, "^", r"M = 32, $\beta = 0$"),
    ("particles-32-beta-1e-3", PURPLE, "<", r"M = 32, $\beta = 10^{-3}$"),
)


def draw(outcomes: Mapping[str, Outcome]) -> Figure:
    """Means over seeds with two standard errors; each seed is a mean over random subsets."""
    outcome = outcomes["W1"]
    arms = {key: np.array(value) for key, value in outcome.data["arms"].items()}
    names = list(outcome.data["arms"]["name"])
    figure, (axes,) = new_figure(height=2.9)
    for name, colour, marker, label in SHOWN:
        if name not in names:
            continue
        index = names.index(name)
        there = np.isfinite(arms["kept"][index])
        share = arms["kept"][index][there] / arms["heads"][index]
        rise = 100 * np.expm1(arms["rise"][index][there])
        error = 200 * arms["rise_sd"][index][there] * np.exp(arms["rise"][index][there])
        later = share < 1
        axes.errorbar(
            share[later], rise[later], yerr=error[later], fmt=f"{marker}-", color=colour, ms=3.5, capsize=2, lw=0.9,
            label=label,
        )  # fmt: skip
    axes.axhline(100 * np.expm1(COMPARABLE), color=BLACK, ls="--", lw=0.8)
    axes.annotate("5 %: comparable", (1 / 32, 5), xytext=(0, 2), textcoords="offset points", fontsize=6)
    axes.set_xscale("log", base=2)
    axes.set_yscale("log")
    shares = [1 / 32, 1 / 16, 1 / 8, 1 / 4, 1 / 2]
    axes.set_xticks(shares, [f"1/{round(1 / share)}" for share in shares])
    axes.set_xlabel("share of the particles kept")
    axes.set_ylabel("rise of the test perplexity, per cent")
    low, high = axes.get_ylim()
    axes.set_ylim(low, high * (high / low) ** 0.45)
    axes.legend(loc="upper right", fontsize=6, ncols=2)
    axes.set_title(f"W2, W4 (n = {arms['half_rise'].shape[1]} paired seeds)", loc="left")
    return figure
