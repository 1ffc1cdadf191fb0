"""The gate in words and tables, for the terminal and for documents. Reads numbers and verdicts; never simulates."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from typing import Any

from rich import box
from rich.table import Table
from rich.text import Text

from mfcheck.experiments.toy_gate.hypotheses import CARD, NOISE_AFTER, NORMS, STRONG, Row
from mfcheck.experiments.toy_gate.metrics import METRICS
from mfcheck.experiments.toy_gate.verdict import ALPHA, POWER, Arms, GateVerdict, Judged, Planned, means
from mfcheck.report.tables import STYLES
from mfcheck.statistics.paired import Effect, Result

WORDS = {Effect.BETTER: "green", Effect.WORSE: "red", Effect.EQUIVALENT: "cyan", Effect.UNDECIDED: "yellow"}
VERDICT_COLUMNS = (
    "paired difference",
    f"mean [{1 - ALPHA:.0%}]",
    "card's run",
    "sign flip (Holm)",
    "Wilcoxon",
    "equivalent (Holm)",
    "margin",
    "seen from",
    "n needed",
    "word",
)
MEAN_COLUMNS = ("loss", "accuracy", "half_loss", "half_accuracy", "cosine", "effective_rank")
SIDE_COLUMNS = ("roughness", "gradient_variance", "particle_variance", "query_norm", "key_norm", "exposure")
NOTES = (
    f"seen from: the smallest true difference that this n shows with {POWER:.0%} power at Holm's strictest level; "
    "n needed: pairs that show a difference as large as the one seen. Word: by the sign-flip test of the mean and two "
    f"one-sided t-tests against the margin, both adjusted by Holm over the family at {ALPHA:.0%}; rows in brackets "
    "stand beside the verdict and are judged one by one. Less loss, cosine and cost are better."
)


def row_cells(row: Row, result: Result) -> list[str]:
    """The cells of a row of the verdict table, in the order of VERDICT_COLUMNS."""
    estimate, card = result.estimate, row.card
    digits = METRICS[row.metric].digits
    name = f"{METRICS[row.metric].label}: {row.treated} - {row.baseline}"
    return [
        name if row.judged else f"({name})",
        f"{estimate.point:+.{digits}f} [{estimate.lower:+.{digits}f}, {estimate.upper:+.{digits}f}]",
        "" if card is None else f"{card:+.{digits}f}",
        _p(result.p_difference),
        _p(result.wilcoxon),
        _p(result.p_equivalence),
        f"{result.margin:g}",
        f"{result.visible(POWER):.2g}" if result.sd > 0 else "",
        _count(result.needed(POWER)),
        result.effect.value,
    ]


def verdict_lines(verdict: GateVerdict) -> Iterator[tuple[Judged, list[list[str]]]]:
    """Each hypothesis with the cells of its rows."""
    for one in verdict.judged:
        rows = zip(one.hypothesis.rows, one.results, strict=True)
        yield one, [row_cells(row, result) for row, result in rows]


def verdict_table(verdict: GateVerdict) -> Table:
    """A rich table: a line a hypothesis with its verdict, and under it one for each of its rows."""
    table = Table(box=box.SIMPLE_HEAD, pad_edge=False, title=gate_line(verdict), title_justify="left", caption=NOTES)
    table.add_column(VERDICT_COLUMNS[0], ratio=1)
    for name in VERDICT_COLUMNS[1:]:
        table.add_column(name, justify="right", overflow="fold")
    for one, rows in verdict_lines(verdict):
        style = STYLES[one.verdict]
        head = Text(f"{one.hypothesis.id}  {one.hypothesis.statement}: ", style="bold")
        head.append(one.verdict.value, style=f"bold {style}")
        head.append(f"  ({one.hypothesis.on_record})", style="dim")
        table.add_row(head)
        for cells, result in zip(rows, one.results, strict=True):
            table.add_row(*("  " + cells[0], *cells[1:-1]), Text(cells[-1], style=WORDS[result.effect]))
    return table


def gate_line(verdict: GateVerdict) -> str:
    """Whether the gate passed, and the rule."""
    return (
        f"Gate {'passed' if verdict.passed else 'failed'} (n = {verdict.n} paired seeds). It passes where, at one beta "
        "> 0, diffusion is better in validation loss or in accuracy with half the particles, and worse in neither."
    )


def means_table(seeds: Sequence[Arms], columns: Sequence[str] = MEAN_COLUMNS) -> Table:
    """A rich table: mean and standard error of each arm's metrics, the card's single run in brackets."""
    table = Table(box=box.SIMPLE_HEAD, pad_edge=False)
    table.add_column("arm", no_wrap=True)
    for name in columns:
        table.add_column(name.replace("_", " "), justify="right")
    for cells in mean_rows(seeds, columns):
        table.add_row(*cells)
    return table


def mean_rows(seeds: Sequence[Arms], columns: Sequence[str]) -> Iterator[list[str]]:
    """The cells of the table of means: arm, then one a column."""
    found = means(seeds)
    for arm in seeds[0]:
        cells = [arm]
        for metric in columns:
            if metric not in found[arm]:
                cells.append("")
                continue
            mean, error = found[arm][metric]
            digits = METRICS[metric].digits if metric in METRICS else 4
            text = f"{mean:.{digits}f}" + (f" ± {error:.1g}" if error > 0 else "")
            if metric in CARD.get(arm, {}):
                text += f" ({CARD[arm][metric]:.{digits}f})"
            cells.append(text)
        yield cells


def plan_table(planned: Sequence[Planned]) -> Table:
    """A rich table: what the pilot's spread asks for, a line a row of the gate."""
    table = Table("paired difference", "effect planned for", "spread of pairs", "pairs", box=box.SIMPLE_HEAD)
    for one in planned:
        table.add_row(one.row.name, f"{one.effect:.4f}", f"{one.sd:.4f}", str(one.pairs))
    return table


def plan_line(planned: Sequence[Planned], pilot: int) -> str:
    """How many seeds the pilot asks for, in a sentence."""
    return (
        f"{max(one.pairs for one in planned)} paired seeds show half of the card's difference in every row with "
        f"{POWER:.0%} power at Holm's strictest level, by the spread of {pilot} pilot seeds (no means looked at)."
    )


def conclusion(verdict: GateVerdict, seeds: Sequence[Arms]) -> list[str]:
    """What came out, in sentences made of the words and numbers; one for each thing that there is to explain."""
    words = {result.name: result.effect for one in verdict.judged for result in one.results}
    found = means(seeds)
    said = []
    for control, told in ((NOISE_AFTER, "noise added after training"), (NORMS, "Q and K scaled to the trained norms")):
        row = Row("cosine", STRONG, control)
        if row.name in words:
            plain, noisy, like = (found[arm]["cosine"][0] for arm in ("beta 0", STRONG, control))
            share = (plain - like) / (plain - noisy)
            said.append(
                f"Redundancy: of the fall in attention-map cosine from {plain:.3f} to {noisy:.3f}, {told} has "
                f"{share:.0%} ({like:.3f}) without any training under noise; the two are {words[row.name].value}."
            )
    if "mean-field 0.005" in found:
        raw, field = found[STRONG]["exposure"][0], found["mean-field 0.005"]["exposure"][0]
        said.append(
            f"Scaling: raw at beta = 0.005 has an exposure beta eta T of {raw:.3g}, mean_field {field:.3g}; at M beta "
            "mean_field is raw, bit by bit (K2)."
        )
    if "annealed 0.005" in found and "beta 0.0025" in found:
        annealed, halved = (found[arm]["loss"][0] for arm in ("annealed 0.005", "beta 0.0025"))
        said.append(
            f"Annealing: loss {annealed:.4f} annealed from 0.005 to 0, {halved:.4f} at constant 0.0025, which has "
            f"the same exposure; {found['beta 0']['loss'][0]:.4f} at beta = 0."
        )
    return said


def markdown(verdict: GateVerdict, seeds: Sequence[Arms]) -> str:
    """All of it in Markdown: the gate's line, the verdicts, the means."""
    lines = [f"**{gate_line(verdict)}**", ""]
    lines += ["| " + " | ".join(VERDICT_COLUMNS) + " |", "|" + "---|" * len(VERDICT_COLUMNS)]
    for one, rows in verdict_lines(verdict):
        rule = f"**{one.hypothesis.id}: {one.hypothesis.statement}: {one.verdict.value}** ({one.hypothesis.on_record})"
        lines.append(f"| {rule} |" + " |" * (len(VERDICT_COLUMNS) - 1))
        lines += ["| " + " | ".join(cells) + " |" for cells in rows]
    lines += ["", NOTES, ""]
    for columns in (MEAN_COLUMNS, SIDE_COLUMNS):
        lines += ["| arm | " + " | ".join(name.replace("_", " ") for name in columns) + " |"]
        lines += ["|" + "---|" * (1 + len(columns))]
        lines += ["| " + " | ".join(cells) + " |" for cells in mean_rows(seeds, columns)] + [""]
    lines.append("Mean ± standard error over the seeds; in brackets the card's single run.")
    lines += ["", *(f"- {sentence}" for sentence in conclusion(verdict, seeds))]
    return "\n".join(lines)


def as_json(verdict: GateVerdict, seeds: Sequence[Arms]) -> dict[str, Any]:
    """The verdict as plain data."""
    return {
        "n": verdict.n,
        "passed": verdict.passed,
        "hypotheses": [
            {
                "id": one.hypothesis.id,
                "statement": one.hypothesis.statement,
                "rule": one.hypothesis.rule_in_words,
                "verdict": one.verdict.value,
                "on_record": one.hypothesis.on_record,
                "rows": [
                    _row_as_json(row, result) for row, result in zip(one.hypothesis.rows, one.results, strict=True)
                ],
            }
            for one in verdict.judged
        ],
        "means": {
            arm: {
                metric: {"mean": m, "standard_error": None if math.isnan(e) else e} for metric, (m, e) in found.items()
            }
            for arm, found in means(seeds).items()
        },
        "conclusion": conclusion(verdict, seeds),
    }


def _row_as_json(row: Row, result: Result) -> dict[str, Any]:
    estimate = result.estimate
    return {
        "metric": row.metric,
        "treated": row.treated,
        "baseline": row.baseline,
        "judged": row.judged,
        "mean": estimate.point,
        "interval": [estimate.lower, estimate.upper],
        "level": estimate.level,
        "card": row.card,
        "margin": result.margin,
        "sign_flip": result.sign_flip,
        "sign_flip_holm": result.p_difference,
        "wilcoxon": result.wilcoxon,
        "equivalence": result.equivalence,
        "equivalence_holm": result.p_equivalence,
        "visible": result.visible(POWER) if result.sd > 0 else 0.0,
        "needed": result.needed(POWER),
        "needed_equivalent": result.needed_equivalent(POWER),
        "word": result.effect.value,
    }


def _p(value: float) -> str:
    return "< 1e-4" if value < 1e-4 else f"{value:.2g}"


def _count(value: int | None) -> str:
    return "" if value is None else f"{value:,}"
