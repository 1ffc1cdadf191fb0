"""Gaussian tokens under softmax attention: ellipses of the moments' equation over tokens, and the rates in N.

To see: the ellipse of N tokens on that of the moments' equation, and both errors on the slope -1/2 with the constants
of the delta method. Refuted if the logits are left out of the equation, or where the tilt is too high for the average
to have two moments.
"""

from collections.abc import Mapping

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import NullFormatter

from mfcheck.outcome import Outcome
from mfcheck.plots import BLACK, BLUE, GREEN, ORANGE, RED, SKY, caption, new_figure, power_law

WITHOUT_LOGITS = "T3: A left out of the ODE"
HIGH_TILT = "T3: tilt held above 1/2, at 1.2 to 1.4: the rate is lost"
NEEDS = ("T3", WITHOUT_LOGITS, HIGH_TILT)


def draw(outcomes: Mapping[str, Outcome]) -> Figure:
    """Left: two standard deviations of tokens and of the moments believed. Middle and right: both errors against N."""
    claim = outcomes["T3"]
    figure, (plane, mean, covariance) = new_figure(columns=3, height=2.9, width=9.6)
    tokens = np.array(claim.data["drawn"])
    plane.plot(*tokens.T, ".", color=SKY, ms=2.5, label=f"{len(tokens)} tokens of one system")
    for data, kind, colour, style, label in (
        (claim.data, "empirical", BLUE, "-", "their system's moments"),
        (claim.data, "believed", BLACK, "--", "moments' equation"),
        (outcomes[WITHOUT_LOGITS].data, "believed", RED, ":", "with A left out"),
    ):
        _ellipse(plane, np.array(data[f"{kind}_mean"]), np.array(data[f"{kind}_covariance"]), colour, style, label)
    plane.set_aspect("equal")
    low, high = plane.get_ylim()
    plane.set_ylim(low, high + 0.45 * (high - low))  # room for the legend above the data
    plane.set_xlabel(r"token coordinate $x_1$")
    plane.set_ylabel(r"token coordinate $x_2$")
    plane.legend(loc="upper left", fontsize=6)
    caption(plane, claim)

    norms = {"mean": r"$(E\,|\bar x - m|^2)^{1/2}$", "covariance": r"$(E\,|\hat S - S|^2)^{1/2}$"}
    for index, (axes, (name, label)) in enumerate(zip((mean, covariance), norms.items(), strict=True)):
        slope = f"{name} slope"
        power_law(axes, outcomes[HIGH_TILT].criterion(slope), "tilt 1.2", colour=ORANGE, marker="s", theory=False)
        power_law(axes, outcomes[WITHOUT_LOGITS].criterion(slope), "A left out", colour=RED, marker="^", theory=False)
        power_law(axes, claim.criterion(slope), "claim", colour=BLUE, theory=False)
        ladder = np.array(claim.criterion(slope).estimate.details["x"])
        axes.plot(ladder, np.sqrt(claim.data["constants"][index] / ladder), color=GREEN, ls="--", lw=1.2,
                  label="delta method, constant and all")  # fmt: skip
        axes.set_xticks(ladder, [f"{n:g}" for n in ladder])
        axes.xaxis.set_minor_formatter(NullFormatter())
        low, high = axes.get_ylim()
        axes.set_ylim(low * (low / high) ** 0.75, high)  # room for the legend below the data
        axes.set_xlabel("tokens N")
        axes.set_ylabel(label)
        axes.legend(loc="lower left", fontsize=6)
        axes.set_title(f"T3: error of the {name}", loc="left")
    return figure


def _ellipse(axes: Axes, mean: np.ndarray, covariance: np.ndarray, colour: str, style: str, label: str) -> None:
    """Two standard deviations about the mean, and the mean."""
    angle = np.linspace(0, 2 * np.pi, 200)
    edge = mean[:, None] + 2 * np.linalg.cholesky(covariance) @ np.stack([np.cos(angle), np.sin(angle)])
    axes.plot(*edge, style, color=colour, lw=1.1, label=label)
    axes.plot(*mean, "+", color=colour, ms=5)
