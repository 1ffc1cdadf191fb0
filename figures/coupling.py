"""Particles beside PDE-driven copies on the same noise, the constants of the linear model, and the error in time.

To see: the squared distance to PDE-driven copies falls like 1/M; M times each quantity lies at its exact constant;
the convex risk's error does not grow in time. Refuted if the distance is flat, as with independent noises, if a
constant is missed, or if the error grows, as it does for Desai-Zwanzig below its critical beta.
"""

from collections.abc import Mapping

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from mfcheck.outcome import Outcome
from mfcheck.plots import BLACK, BLUE, GREEN, ORANGE, PURPLE, caption, new_figure, power_law

DESAI_ZWANZIG = "C5: Desai-Zwanzig at 0.4 beta_c from a symmetric start"
NEEDS = ("C2", "C2: independent noises", "C3", "C4", "C4: shared noise", "C5", DESAI_ZWANZIG)


def draw(outcomes: Mapping[str, Outcome]) -> Figure:
    """Left: C2 and its control. Middle: C3 and C4, M times each quantity over its constant. Right: C5."""
    figure, (coupled, constants, growth) = new_figure(columns=3, height=2.8)
    independent = outcomes["C2: independent noises"].criterion("squared distance slope")
    power_law(coupled, independent, "independent noises", colour=ORANGE, marker="s", theory=False)
    power_law(coupled, outcomes["C2"].criterion("squared distance slope"), "same noise")
    low, high = coupled.get_ylim()
    coupled.set_ylim(low * (low / high) ** 0.35, high)  # room for the legend below the data
    coupled.set_xlabel("particles M")
    coupled.set_ylabel(r"$E\,|\theta_i - \bar\theta_i|^2$")
    coupled.legend(loc="lower left")
    caption(coupled, outcomes["C2"])
    _constants(constants, outcomes)
    _growth(growth, outcomes)
    return figure


def _constants(axes: Axes, outcomes: Mapping[str, Outcome]) -> None:
    rows = (
        ("C3", "mean variance slope", "M Var(mean)", r"$M$ Var(mean)", BLUE, "o"),
        ("C3", "second moment bias slope", "M (E theta^2 - beta/(a+kappa))", r"$M$ bias of $E\theta^2$", GREEN, "^"),
        ("C4", "covariance slope", "M Cov(theta_1, theta_2)", r"$M$ Cov$(\theta_1, \theta_2)$", PURPLE, "D"),
    )
    for shift, (claim, ladder, constant, label, colour, marker) in enumerate(rows):
        details = outcomes[claim].criterion(ladder).estimate.details
        predicted = outcomes[claim].criterion(constant).region.prediction
        particles = np.array(details["x"])
        mean, low, high = (np.array(details[key]) * particles / predicted for key in ("mean", "low", "high"))
        # beside each other, so that the intervals do not cover one another
        axes.errorbar(
            particles * 1.06 ** (shift - 1), mean, yerr=[mean - low, high - mean], fmt=marker, color=colour,
            capsize=2, lw=0.8, label=label,
        )  # fmt: skip
    axes.axhline(1.0, color=BLACK, ls="--", lw=0.8, label="theory, exact for every M")
    axes.axhspan(0.95, 1.05, color="0.9", lw=0)
    axes.set_xscale("log", base=2)
    axes.set_xticks(particles, [f"{m:g}" for m in particles])
    axes.set_xlabel("particles M")
    axes.set_ylabel("measured / theory")
    axes.set_ylim(0.6, 1.25)
    axes.legend(loc="lower left")
    axes.set_title(f"C3: {outcomes['C3'].verdict.value}, C4: {outcomes['C4'].verdict.value}", loc="left")


def _growth(axes: Axes, outcomes: Mapping[str, Outcome]) -> None:
    for name, label, colour, marker in (
        (DESAI_ZWANZIG, "Desai-Zwanzig, symmetric start", ORANGE, "s"),
        ("C5", "convex along mixtures", BLUE, "o"),
    ):
        data = outcomes[name].data
        axes.errorbar(
            data["times"], data["w1"], yerr=2 * np.array(data["standard_error"]), fmt=f"{marker}-", color=colour,
            capsize=2, lw=0.8, label=label,
        )  # fmt: skip
    axes.set_xscale("log")
    axes.set_yscale("log")
    axes.set_xlabel("training time s")
    axes.set_ylabel(r"$E\,W_1(\rho_M, \rho_s)$, M = 256")
    low, high = axes.get_ylim()
    axes.set_ylim(low, high * (high / low) ** 0.3)  # room for the legend above the data
    axes.legend(loc="upper left")
    caption(axes, outcomes["C5"])
