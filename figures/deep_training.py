"""Loss of deep residual attention without noise, with the line of the tangent kernel at the end, and where it stalls.

To see: each network's loss ends on its own dotted line, the decay 2 lambda_min(K)/n with the kernel at the end; and on
the right all measured rates on the diagonal. Refuted if the rates leave the diagonal, as they do for the kernel at the
start, or if the loss stalls, as it does where two equal inputs have different targets.
"""

from collections.abc import Mapping

import numpy as np
from matplotlib.figure import Figure

from mfcheck.outcome import Outcome
from mfcheck.plots import BLACK, BLUE, COLOURS, ORANGE, RED, caption, new_figure

START, EQUAL = "G3: the kernel at the start", "G3: two equal inputs with different targets"
NEEDS = ("G3", START, EQUAL)


def draw(outcomes: Mapping[str, Outcome]) -> Figure:
    """Left: losses over their start against s. Right: measured rate against the kernel's."""
    claim, start, equal = (outcomes[name] for name in NEEDS)
    figure, (left, right) = new_figure(columns=2, height=2.7)
    every = claim.data["step"] * claim.data["every"]
    for k, losses in enumerate(claim.data["loss"]):
        values = np.array(losses) / losses[0]
        s = every * np.arange(len(values))
        # a network that is done is trained no further: its loss stays where it was
        seen = np.arange(len(values)) <= values.argmin()
        left.plot(s[seen], values[seen], color=COLOURS[k], lw=0.9, label="four networks" if k == 0 else None)
        # the line through the last value above rounding
        last = int(np.flatnonzero(values > 1e-18)[-1])
        tail = s[: last + 1]
        line = values[last] * np.exp(-claim.data["predicted"][k] * (tail - s[last]))
        left.plot(
            tail[line < 1], line[line < 1], color=BLACK, ls=":", lw=0.8, label="kernel's rate" if k == 0 else None
        )
    stalled = np.array(equal.data["loss"][0]) / equal.data["loss"][0][0]
    left.plot(every * np.arange(len(stalled)), stalled, color=RED, ls="--", label="two equal inputs")
    left.set_yscale("log")
    left.set_ylim(1e-23, 3)
    left.set_xlabel("training time s")
    left.set_ylabel("loss / loss at the start")
    left.legend(loc="upper right")
    caption(left, claim)
    for outcome, colour, marker, label in (
        (start, ORANGE, "s", "kernel at the start"),
        (claim, BLUE, "o", "at the end"),
    ):
        right.plot(outcome.data["predicted"], outcome.data["rate"], marker, color=colour, ms=3, label=label)
    ends = np.array([0.5 * min(claim.data["predicted"]), 2 * max(claim.data["predicted"])])
    right.plot(ends, ends, color=BLACK, ls="--", lw=0.8, label="equal")
    right.set_xscale("log")
    right.set_yscale("log")
    right.set_xlabel(r"$-2\,\ln(1-dt\,\lambda_{\min}/n)/dt$")
    right.set_ylabel("measured rate")
    right.legend(loc="upper left")
    return figure
