"""Language model: training loss against the step, ordinary attention and particles, without noise and with it.

To see: all arms learn alike, and how far apart they end. Refuted is that noise does no harm in training if its curve
leaves that of beta = 0 upwards.
"""

from collections.abc import Mapping

import numpy as np
from matplotlib.figure import Figure

from mfcheck.outcome import Outcome
from mfcheck.plots import BLACK, BLUE, GREEN, ORANGE, RED, new_figure

NEEDS = ("W1",)
SHOWN = (
    ("multihead-8", BLACK, "--", "nn.MultiheadAttention"),
    ("particles-8", BLUE, "-", r"M = 8, $\beta = 0$"),
    ("particles-8-beta-1e-3", ORANGE, "-.", r"M = 8, $\beta = 10^{-3}$"),
    ("particles-8-beta-1e-2", RED, ":", r"M = 8, $\beta = 10^{-2}$"),
    ("particles-32", GREEN, "-", r"M = 32, $\beta = 0$"),
)


def draw(outcomes: Mapping[str, Outcome]) -> Figure:
    """Left: means over seeds, in nats a token. Right: the same less ordinary attention's, smoothed over five points."""
    data = outcomes["W1"].data["arms"]
    names, step, loss = list(data["name"]), np.array(data["step"]), np.array(data["loss"])
    figure, (level, apart) = new_figure(columns=2, height=2.5, width=7.0)
    reference = loss[names.index("multihead-8")]
    window = np.ones(5) / 5
    for name, colour, line, label in SHOWN:
        if name not in names:
            continue
        own = loss[names.index(name)]
        level.plot(step, own, color=colour, ls=line, label=label)
        apart.plot(step[2:-2], np.convolve(own - reference, window, "valid"), color=colour, ls=line)
    level.set_ylabel("training loss, nats a token")
    level.legend(loc="upper right", fontsize=6)
    apart.set_ylabel("less nn.MultiheadAttention's")
    for axes in (level, apart):
        axes.set_xlabel("step")
    level.set_title(f"means of {len(data['log_perplexity'][0])} seeds", loc="left")
    return figure
