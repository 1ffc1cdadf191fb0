"""The report: one self-contained HTML file from the outcomes of a run."""

from __future__ import annotations

import base64
import json
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from importlib import import_module
from typing import Any

from jinja2 import Environment, PackageLoader, StrictUndefined, select_autoescape
from latex2mathml.converter import convert
from markupsafe import Markup

from mfcheck.claim import Claim, catalogue_order
from mfcheck.outcome import Outcome
from mfcheck.report import gallery
from mfcheck.report.compare import Comparison
from mfcheck.report.drawn_interval import drawn_interval
from mfcheck.report.words import interval

FAMILIES = {
    "D": "Diffusion and time stepping",
    "P": "The grid solver",
    "C": "Particles against the PDE",
    "K": "Consistency of the scaling",
    "V": "The Monte Carlo operator",
    "T": "Tokens and depth",
    "G": "Convergence of training",
    "S": "Stage 1: the toy gate",
    "W": "Stage 2: WikiText-2",
}
VERDICTS = ("SUPPORTED", "INCONCLUSIVE", "REFUTED")


@dataclass(frozen=True)
class Row:
    """A claim's outcome with what the catalogue says of it, its controls, and the figures that show it."""

    outcome: Outcome
    claim: Claim | None
    places: Mapping[str, str]
    controls: tuple[Outcome, ...]
    figures: tuple[str, ...]

    @property
    def refuted(self) -> int:
        """How many of the controls that were run came out as expected: REFUTED, but for those of refuted hypotheses."""
        return sum(control.passed for control in self.controls)

    @property
    def mathematics(self) -> Markup:
        """The prediction as MathML, empty where the claim has no formula."""
        return Markup(convert(self.claim.formula)) if self.claim is not None and self.claim.formula else Markup()

    @property
    def reproduce(self) -> str:
        """The line that runs this claim and its controls again."""
        o = self.outcome
        return f"mfcheck verify {o.claim} --seed {o.seed} --profile {o.profile} --device {o.device}"


@dataclass(frozen=True)
class Picture:
    """A figure as a data address, with the claims it shows and its caption."""

    name: str
    claims: tuple[str, ...]
    caption: str
    address: str


def latest(outcomes: Sequence[Outcome]) -> dict[str, Outcome]:
    """The last outcome of each claim and control: a file may hold several runs."""
    return {outcome.name: outcome for outcome in outcomes}


def pictures(
    modules: Mapping[str, str], read: Mapping[str, Outcome], told: Callable[[str], None] = lambda name: None
) -> list[Picture]:
    """Every figure whose outcomes were read; `told` hears the name of each before it is drawn."""
    drawn = []
    for name, module_name in modules.items():
        told(name)
        text = gallery.svg(module_name, read)
        if text is not None:
            module = import_module(module_name)
            address = "data:image/svg+xml;base64," + base64.b64encode(text.encode()).decode()
            drawn.append(Picture(name, tuple(gallery.claims_of(module)), gallery.caption(module), address))
    return drawn


def html(
    outcomes: Sequence[Outcome],
    claims: Mapping[str, Claim],
    places: Callable[[Claim], Mapping[str, str]],
    drawn: Sequence[Picture],
    comparison: Comparison | None = None,
) -> str:
    """The report as one HTML text: no address in it leaves the file.

    claims: the catalogue, for sources, hypotheses and formulas; places(claim): where its code is. A claim that the
    catalogue no longer has is shown with what its outcome says.
    """
    read = latest(outcomes)
    rows = [
        Row(
            outcome,
            claims.get(outcome.claim),
            places(claims[outcome.claim]) if outcome.claim in claims else {},
            tuple(o for o in read.values() if o.claim == outcome.claim and o.control is not None),
            tuple(picture.name for picture in drawn if outcome.claim in picture.claims),
        )
        for outcome in sorted((o for o in read.values() if o.control is None), key=lambda o: catalogue_order(o.claim))
    ]
    environment = Environment(
        loader=PackageLoader("mfcheck.report"),
        autoescape=select_autoescape(("html", "j2")),
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    environment.filters["interval"] = interval
    environment.filters["drawn"] = lambda criterion: Markup(drawn_interval(criterion))
    first = {picture.name: next((n for n in picture.claims if n in read), picture.claims[0]) for picture in drawn}
    runs = sorted({(o.seed, o.profile, o.device) for o in read.values()})
    return environment.get_template("page.html.j2").render(
        rows=rows,
        registered=len(claims),
        registered_controls=sum(len(claim.controls) for claim in claims.values()),
        controls=sum(len(row.controls) for row in rows),
        refuted=sum(row.refuted for row in rows),
        families=_families(rows),
        verdicts=VERDICTS,
        totals=Counter(row.outcome.verdict.value for row in rows),
        unexpected=[o.name for o in read.values() if not o.passed],
        pictures={picture.name: picture for picture in drawn},
        first=first,
        runs=runs,
        versions=_versions(read.values()),
        seconds=sum(o.seconds for o in read.values()),
        started=min((o.started for o in read.values()), default=""),
        comparison=comparison,
    )


def summary(outcomes: Sequence[Outcome]) -> str:
    """The outcomes as JSON: the last one of each claim and control."""
    return json.dumps([json.loads(outcome.to_json()) for outcome in latest(outcomes).values()], indent=1)


def _families(rows: Sequence[Row]) -> list[dict[str, Any]]:
    """Counts a family, in the catalogue's order."""
    found = []
    for letter, title in FAMILIES.items():
        members = [row for row in rows if row.outcome.claim[0] == letter]
        if members:
            found.append(
                {
                    "letter": letter,
                    "title": title,
                    "claims": len(members),
                    "counts": Counter(row.outcome.verdict.value for row in members),
                    "controls": sum(len(row.controls) for row in members),
                    "refuted": sum(row.refuted for row in members),
                }
            )
    return found


def _versions(outcomes: Any) -> list[str]:
    return sorted({", ".join(f"{k} {v}" for k, v in outcome.versions.items()) for outcome in outcomes})
