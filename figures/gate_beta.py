"""The toy gate against beta: validation loss, accuracy with half the particles, cosine of attention maps.

To see: where loss, half-particle accuracy and cosine go as beta rises, with intervals over paired seeds. Refuted is a
benefit of diffusion if the loss rises and the half-particle accuracy falls.
"""

from collections.abc import Mapping
from typing import Any

from matplotlib.figure import Figure

from mfcheck.experiments.toy_gate.hypotheses import CARD
from mfcheck.outcome import Outcome
from mfcheck.plots import BLACK, BLUE, ORANGE, new_figure

NEEDS = ("S1", "S2", "S3", "S5")
PANELS = (
    ("loss", "validation loss"),
    ("half_accuracy", "accuracy, 4 of 8 particles"),
    ("cosine", "attention-map cosine"),
)


def draw(outcomes: Mapping[str, Outcome]) -> Figure:
    """Means with two standard errors, constant and annealed; crosses: the card's single run."""
    arms: dict[str, dict[str, Any]] = {}
    for name in NEEDS:
        for arm, found in outcomes[name].data["arms"].items():
            arms.setdefault(arm, {})
            # the outcome with the most seeds of an arm speaks for it
            arms[arm] = found | arms[arm]
    figure, panels = new_figure(columns=3, height=2.3, width=7.0)
    for axes, (metric, label) in zip(panels, PANELS, strict=True):
        for prefix, colour, marker, told in (("beta ", BLUE, "o", "constant"), ("annealed ", ORANGE, "s", "annealed")):
            names = [arm for arm in arms if arm.startswith(prefix) and metric in arms[arm]]
            points = sorted((float(arm.removeprefix(prefix)), *arms[arm][metric]) for arm in names)
            if points:
                beta, mean, error = zip(*points, strict=True)
                axes.errorbar(
                    beta, mean, yerr=[2 * e for e in error], fmt=f"{marker}-", color=colour, ms=3, capsize=2,
                    lw=0.9, label=told,
                )  # fmt: skip
        known = [(float(arm.removeprefix("beta ")), run[metric]) for arm, run in CARD.items() if metric in run]
        axes.plot(*zip(*known, strict=True), "x", color=BLACK, label="card, one run")
        axes.set_xlabel(r"$\beta$")
        axes.set_ylabel(label)
    panels[0].legend(loc="upper left", fontsize=6)
    panels[0].set_title(f"S1 to S3, S5 (n = {outcomes['S1'].n}, seed {outcomes['S1'].seed})", loc="left")
    return figure
