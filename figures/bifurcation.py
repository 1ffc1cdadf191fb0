"""Desai-Zwanzig: stationary magnetisation on the grid against beta, the self-consistency curve and beta_c.

To see: below beta_c the flow ends on the self-consistent magnetisation, above it at 0, and the band that brackets the
switch holds the exact beta_c. Refuted if the band misses it, as the control's does, whose attraction is halved.
"""

from collections.abc import Mapping

import numpy as np
from matplotlib.figure import Figure

from mfcheck.outcome import Outcome
from mfcheck.plots import BLACK, BLUE, GREEN, RED, caption, new_figure

CONTROL = "P8: kappa halved"
NEEDS = ("P8", CONTROL)


def draw(outcomes: Mapping[str, Outcome]) -> Figure:
    """Means that the flow reaches, above the roots of m = E[theta | m]; the bracket of beta_c as a band."""
    figure, (axes,) = new_figure(height=2.8)
    outcome, control = outcomes["P8"], outcomes[CONTROL]
    data = outcome.data
    axes.axvspan(data["low"], data["high"], color=GREEN, alpha=0.4, lw=0, label=r"$\beta_c$ bracketed by the grid")
    axes.axvline(data["beta_c"], color=BLACK, ls=":", lw=0.8, label=rf"$\beta_c$ = {data['beta_c']:.5f}")
    # the curve rises like a square root: the point where it meets the axis belongs to it
    beta, mean = np.array(data["curve_beta"]), np.array(data["curve_mean"])
    split = int(np.searchsorted(beta, data["beta_c"]))
    axes.plot(
        np.insert(beta, split, data["beta_c"]), np.insert(mean, split, 0.0), color=BLACK, lw=0.8,
        label="self-consistency",
    )  # fmt: skip
    axes.plot(data["betas"], data["means"], "o", color=BLUE, label="grid, s = 100")
    axes.plot(
        control.data["betas"], control.data["means"], "v", color=RED, mfc="white", label=r"$\kappa$ halved (control)"
    )
    axes.set_xlabel(r"$\beta$")
    axes.set_ylabel(r"stationary mean of $\theta$")
    axes.set_ylim(-0.04, 1.1)
    axes.legend(loc="lower left", bbox_to_anchor=(0.0, 0.07))
    caption(axes, outcome)
    return figure
