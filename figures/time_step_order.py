"""Strong and weak errors of Euler-Maruyama against eta - eta_ref, with fitted slopes, and with the noise misscaled.

To see: both errors fall with slope 1. Refuted by any other slope; with the noise misscaled nothing falls.
"""

from collections.abc import Mapping

from matplotlib.figure import Figure
from matplotlib.ticker import NullFormatter

from mfcheck.outcome import Outcome
from mfcheck.plots import RED, caption, new_figure, power_law

CONTROL = "D6: noise scaled with eta instead of sqrt(eta)"
NEEDS = ("D6", CONTROL)


def draw(outcomes: Mapping[str, Outcome]) -> Figure:
    """One panel an error: the claim falls with eta; with noise sqrt(2 beta) eta nothing falls."""
    figure, panels = new_figure(columns=2, height=2.9, width=6.8)
    errors = {
        "strong order": r"strong error $E|\theta_\eta - \theta_{\rm ref}|$",
        "weak order": r"weak error $|E\theta_\eta^2 - E\theta_{\rm ref}^2|$",
    }
    for axes, (name, label) in zip(panels, errors.items(), strict=True):
        power_law(axes, outcomes["D6"].criterion(name), "as claimed")
        power_law(axes, outcomes[CONTROL].criterion(name), r"noise $\sqrt{2\beta}\,\eta$", colour=RED, marker="s",
                  theory=False)  # fmt: skip
        axes.set_xticks([0.003, 0.01, 0.03], ["0.003", "0.01", "0.03"])
        axes.xaxis.set_minor_formatter(NullFormatter())
        axes.set_xlabel(r"$\eta - \eta_{\rm ref}$ (units of time)")
        axes.set_ylabel(label)
        low, high = axes.get_ylim()
        axes.set_ylim(low, high * 8)  # room for the legend above the data
        axes.legend(loc="upper left")
        caption(axes, outcomes["D6"])
    return figure
