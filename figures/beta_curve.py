"""What noise costs and what it buys: the risk at the fixed point against beta, and annealing over a barrier.

To see: L_lambda rises with beta on the grid (line) and by particles (points with 99.9 % intervals), while the free
energy falls and, under strong weight decay, the bare risk falls before it rises; and heads annealed over a barrier
end lower than at constant beta. Refuted if L_lambda falls anywhere, or if annealing ends no lower, as on a convex
potential.
"""

from collections.abc import Mapping

import numpy as np
from matplotlib.figure import Figure

from mfcheck.outcome import Outcome
from mfcheck.plots import BLACK, BLUE, GREEN, ORANGE, PURPLE, caption, interval_rows, new_figure

CONVEX, NO_HOLD = "G5: a convex potential", "G5: a convex potential and no hold"
NEEDS = ("G4", "G5", CONVEX, NO_HOLD)
LOWER = "annealed minus constant, mean energy at the end"


def draw(outcomes: Mapping[str, Outcome]) -> Figure:
    """Left and middle: G4, weak and strong weight decay. Right: G5 and its controls."""
    curve, annealing = outcomes["G4"], outcomes["G5"]
    figure, (weak, strong, right) = new_figure(columns=3, height=2.7)
    betas, functionals = curve.data["betas"], curve.data["functionals"]
    values = np.array(curve.data["curve"])
    risk, energy, bare = (functionals.index(name) for name in ("L_lambda", "free energy", "L"))
    weak.plot(betas, values[0, :, risk], color=BLUE, label=r"$L_\lambda$, grid")
    weak.errorbar(
        betas, curve.data["risk"], yerr=3.3 * np.array(curve.data["risk_error"]), fmt="o", color=BLUE, capsize=2,
        label="particles",
    )  # fmt: skip
    weak.plot(betas, values[0, :, energy], color=ORANGE, ls="--", label="free energy")
    weak.plot(betas, values[0, :, bare], color=GREEN, ls="-.", label=r"bare $L$")
    caption(weak, curve)
    strong.plot(betas, values[1, :, bare], color=GREEN, ls="-.", marker="^", label=r"bare $L$, strong weight decay")
    low, high = values[1, :, bare].min(), values[1, :, bare].max()
    strong.set_ylim(low - 0.3 * (high - low), high + 0.5 * (high - low))
    for axes in (weak, strong):
        axes.set_xscale("log")
        axes.set_xticks(betas, [f"{beta:g}" for beta in betas])
        axes.minorticks_off()
        axes.set_xlabel(r"$\beta$")
    weak.set_ylabel(r"at $\rho^*_\beta$")
    weak.legend(loc="lower left")
    strong.legend(loc="upper left")
    rows = [("annealed", annealing), ("convex", outcomes[CONVEX]), ("convex,\nno hold", outcomes[NO_HOLD])]
    interval_rows(right, [(label, outcome.criterion(LOWER)) for label, outcome in rows], [BLUE, PURPLE, PURPLE])
    right.axvline(0.0, color=BLACK, lw=0.6)
    right.set_xlim(-0.65, 0.1)
    right.set_xlabel("mean energy, annealed minus constant")
    caption(right, annealing)
    return figure
