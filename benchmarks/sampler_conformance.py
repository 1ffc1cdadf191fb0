"""The suite for update rules, tested: broken rules against all properties, rules that are right at many seeds.

    python benchmarks/sampler_conformance.py --seeds 50 --write

Outcomes go to a file as they are reached; the same command again takes them over and runs the rest.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Annotated

import torch
import typer
from joblib import Parallel, delayed
from rich.console import Console
from rich.progress import track

sys.path.insert(0, str(Path(__file__).parents[1]))

from mfcheck.conformance.broken import BROKEN
from mfcheck.conformance.report import UNDECIDED, VIOLATED
from mfcheck.conformance.sampler_matrix import GOOD, page, statuses

PAGE = Path(__file__).parents[1] / "docs" / "conformance_samplers.md"


def one(kind: str, name: str, seed: int) -> dict[str, str]:
    """The statuses of a rule by name, in a worker."""
    torch.set_num_threads(1)
    rule = GOOD[name] if kind == "good" else next(each.brought for each in BROKEN if each.name == name)
    return statuses(rule, seed, budget=None)


def main(
    seeds: Annotated[int, typer.Option(help="Root seeds 0, 1, ..., for the rules that are right.")] = 50,
    jobs: Annotated[int, typer.Option(help="Processes.")] = 2,
    write: Annotated[bool, typer.Option("--write", help="Write docs/conformance_samplers.md.")] = False,
    out: Annotated[Path, typer.Option(help="File of outcomes, a line each.")] = Path("outcomes/samplers.jsonl"),
) -> None:
    """Exit code 1 where a broken rule is not caught as declared, or a rule that is right is called violated."""
    tasks = [("broken", each.name, 0) for each in BROKEN]
    tasks += [("good", name, seed) for seed in range(seeds) for name in GOOD]
    found: dict[tuple[str, str, int], dict[str, str]] = {}
    if out.exists():
        for line in out.read_text().splitlines():
            kind, name, seed, result = json.loads(line)
            found[kind, name, seed] = result
    left = [task for task in tasks if task not in found]
    console = Console(stderr=True)
    out.parent.mkdir(parents=True, exist_ok=True)
    results = Parallel(n_jobs=jobs, return_as="generator")(delayed(one)(*task) for task in left)
    for task, result in track(zip(left, results, strict=True), "rules", total=len(left), console=console):
        found[task] = result
        with out.open("a") as file:
            file.write(json.dumps([*task, result]) + "\n")
    broken = {each.name: found["broken", each.name, 0] for each in BROKEN}
    good = {name: [found["good", name, seed] for seed in range(seeds)] for name in GOOD}
    missed = [fault for each in BROKEN for fault in each.faults(broken[each.name])]
    counts = {
        status: sum(list(run.values()).count(status) for runs in good.values() for run in runs)
        for status in (VIOLATED, UNDECIDED)
    }
    console.print(
        f"{len(BROKEN)} broken rules, not as declared: {', '.join(missed) or 'none'}; {len(GOOD)} rules that are right "
        f"at {seeds} seeds: {counts[VIOLATED]} false alarms, {counts[UNDECIDED]} undecided"
    )
    if write:
        PAGE.write_text(page(broken, good), encoding="utf-8")
    if missed or counts[VIOLATED]:
        raise typer.Exit(1)


if __name__ == "__main__":
    typer.run(main)
