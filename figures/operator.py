"""The error of V_M against the number of particles M: its rate, its constant, and what Sobol particles make of it.

To see: points on the dashed 1/sqrt(M), constant and all; scrambled Sobol particles below it. Refuted by another
constant, as with 1/(M - 1), by another slope, as with heavy tails, or if Sobol particles fall no faster, as for a
hardmax head.
"""

from collections.abc import Mapping

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import NullFormatter

from mfcheck.outcome import CriterionOutcome, Outcome
from mfcheck.plots import BLACK, BLUE, GREEN, ORANGE, PURPLE, RED, new_figure

RATE, MEDIAN = "slope of the root mean square", "slope of the median error"
SOBOL = "slope of the standard deviation over scrambles"
HEAVY, SHORT, HARDMAX = "V1: Student-t(1.5) values", "V1: 1/(M-1)", "V4: hardmax heads, d = 2"
NEEDS = ("V1", HEAVY, SHORT, "V4", HARDMAX)


def draw(outcomes: Mapping[str, Outcome]) -> Figure:
    """Errors over sigma, the standard deviation of v_theta under rho: the prediction is 1/sqrt(M), constant and all."""
    figure, (rate, constant, sobol) = new_figure(columns=3, height=2.6, width=7.0)
    claim, nets = outcomes["V1"], outcomes["V4"]

    _prediction(rate, claim.criterion(RATE))
    _errors(rate, claim.criterion(RATE), "root mean square", BLUE, "o")
    _errors(rate, claim.criterion(MEDIAN), "median", GREEN, "s")
    _errors(rate, outcomes[HEAVY].criterion(MEDIAN), "median, t(1.5) $v$", RED, "^")
    rate.set_ylabel(r"$|V_M - V_\rho| \, / \, \sigma$")
    rate.set_title(f"V1 (n = {claim.n}, seed {claim.seed})", loc="left")

    constant.axhspan(0.95, 1.05, color="0.9", lw=0, label="5 %")
    constant.axhline(1.0, color=BLACK, ls="--", lw=0.8)
    _constants(constant, claim.criterion(RATE), r"$\frac{1}{M}\sum_i v_{\theta_i}$", BLUE, "o")
    _constants(constant, outcomes[SHORT].criterion(RATE), r"$\frac{1}{M-1}\sum_i v_{\theta_i}$", ORANGE, "D")
    constant.set_xscale("log")
    constant.set_ylim(0.92, 1.25)
    constant.set_ylabel(r"$\sqrt{M} \times$ root mean square / $\sigma$")
    constant.set_title("V1: the constant", loc="left")

    _prediction(sobol, nets.criterion(SOBOL), r"independent: $1/\sqrt{M}$")
    _errors(sobol, outcomes[HARDMAX].criterion(SOBOL), "hardmax", RED, "^")
    _errors(sobol, nets.criterion(SOBOL), "softmax", PURPLE, "v")
    sobol.set_ylabel(r"deviation over scrambles / $\sigma$")
    sobol.set_title(f"V4: scrambled Sobol (seed {nets.seed})", loc="left")

    for axes in (rate, constant, sobol):
        axes.set_xlabel("particles M")
        axes.xaxis.set_minor_formatter(NullFormatter())
    for axes in (rate, sobol):
        low, high = axes.get_ylim()
        # room for the legend below the data
        axes.set_ylim(low / (high / low) ** 0.55, high)
        axes.legend(loc="lower left", fontsize=6)
    constant.legend(loc="upper right")
    return figure


def _prediction(axes: Axes, criterion: CriterionOutcome, label: str = r"$1/\sqrt{M}$") -> None:
    x = np.array(criterion.estimate.details["x"])
    axes.loglog(x, x**-0.5, color=BLACK, ls="--", lw=0.8, label=label)


def _errors(axes: Axes, criterion: CriterionOutcome, label: str, colour: str, marker: str) -> None:
    """Points with their intervals, named with the fitted slope."""
    estimate = criterion.estimate
    x, mean, spread = _with_interval(criterion)
    text = f"{label}: slope {estimate.point:.2f}"
    axes.errorbar(x, mean, yerr=spread, fmt=marker, color=colour, ms=3, capsize=1.5, lw=0.8, label=text)


def _constants(axes: Axes, criterion: CriterionOutcome, label: str, colour: str, marker: str) -> None:
    x, mean, spread = _with_interval(criterion)
    root = np.sqrt(x)
    axes.errorbar(x, mean * root, yerr=spread * root, fmt=marker, color=colour, ms=3, capsize=1.5, lw=0.8, label=label)


def _with_interval(criterion: CriterionOutcome) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    details = criterion.estimate.details
    x, mean, low, high = (np.array(details[name]) for name in ("x", "mean", "low", "high"))
    return x, mean, np.vstack([mean - low, high - mean])
