"""Attention maps of eight particles on one sequence: trained without noise, with it, and with its norms alone.

To see: maps that get sharper and less alike under noise, and as much so where the norms alone are matched or the
noise comes after training. Refuted is a benefit to diversity beyond norm growth if the last two look like the second.
"""

from collections.abc import Mapping

import numpy as np
from matplotlib.figure import Figure

from mfcheck.outcome import Outcome
from mfcheck.plots import new_figure

NEEDS = ("S3",)
SHOWN = ("beta 0", "beta 0.005", "noise after, 0.005", "norms of 0.005")


def draw(outcomes: Mapping[str, Outcome]) -> Figure:
    """A row an arm, a column a particle: weight of each key (across) for each query (down), on one grey scale."""
    outcome = outcomes["S3"]
    maps = {name: np.array(outcome.data["maps"][name]) for name in SHOWN if name in outcome.data["maps"]}
    columns = len(next(iter(maps.values())))
    figure, axes = new_figure(columns=columns, rows=len(maps), height=0.95, width=7.0)
    for row, (name, values) in enumerate(maps.items()):
        for column in range(columns):
            panel = axes[row * columns + column]
            image = panel.imshow(values[column], cmap="Greys", vmin=0, vmax=1, interpolation="nearest")
            panel.set_xticks([])
            panel.set_yticks([])
            if row == 0:
                panel.set_title(f"particle {column + 1}", fontsize=6)
        axes[row * columns].set_ylabel(name, fontsize=6)
    axes[-columns].set_xlabel("key", fontsize=6)
    figure.colorbar(image, ax=axes, shrink=0.6, label="attention weight")
    return figure
