"""How often the suite is wrong: every claim and control at many root seeds, and the count of unexpected verdicts.

    python benchmarks/false_alarms.py --seeds 20

All claims run at all seeds: one without replicates may still draw its problems by the seed. Outcomes go to a file as
they are reached; the same command again takes them over and runs the rest.
"""

from __future__ import annotations

import sys
from collections import Counter
from pathlib import Path
from typing import Annotated

import torch
import typer
from joblib import Parallel, delayed
from rich.console import Console
from rich.progress import track
from rich.table import Table
from threadpoolctl import threadpool_limits

sys.path.insert(0, str(Path(__file__).parents[1]))

from mfcheck.claim import Control
from mfcheck.outcome import Outcome, append_outcome, read_outcomes
from mfcheck.report.words import interval
from mfcheck.runner import Plan, identity, run
from paper_checks import CLAIMS


def one(claim_id: str, control: Control | None, plan: Plan) -> Outcome:
    """Runs a claim or control by id in a worker: claims hold functions, which do not travel between processes."""
    torch.set_num_threads(1)
    with threadpool_limits(limits=1):
        return run(CLAIMS[claim_id], plan, control)


def main(
    seeds: Annotated[int, typer.Option(help="Root seeds 0, 1, ..., this many.")] = 20,
    profile: Annotated[str, typer.Option(help="quick, standard or full.")] = "quick",
    only: Annotated[str, typer.Option(help="Claims, separated by commas; all if empty.")] = "",
    jobs: Annotated[int, typer.Option(help="Processes.")] = 2,
    out: Annotated[Path, typer.Option(help="Folder for the outcomes, one file a seed.")] = Path(
        "outcomes/false_alarms"
    ),
) -> None:
    """Prints the unexpected verdicts and their count. Exit code 1 where there is a false alarm or a missed control."""
    chosen = [CLAIMS[name] for name in only.split(",")] if only else list(CLAIMS.values())
    tasks, outcomes = [], []
    for seed in range(seeds):
        plan = Plan(seed=seed, profile=profile, registered=len(CLAIMS))
        path = out / f"seed_{seed}.jsonl"
        known = {outcome.identity: outcome for outcome in read_outcomes(path)} if path.exists() else {}
        for claim in chosen:
            for control in (None, *claim.controls):
                earlier = known.get(identity(claim, plan, control))
                if earlier is not None:
                    outcomes.append(earlier)
                else:
                    tasks.append(delayed(one)(claim.id, control, plan))
    console = Console()
    finished = Parallel(n_jobs=jobs, return_as="generator_unordered")(tasks)
    for outcome in track(finished, "claims and controls", total=len(tasks), console=console):
        append_outcome(out / f"seed_{outcome.seed}.jsonl", outcome)
        outcomes.append(outcome)

    claims = [outcome for outcome in outcomes if outcome.control is None]
    controls = [outcome for outcome in outcomes if outcome.control is not None]
    table = Table("seed", "claim or control", "verdict", "expected", "criterion", "measured", "looks")
    for outcome in (o for o in outcomes if not o.passed):
        for criterion in outcome.criteria:
            table.add_row(
                str(outcome.seed),
                outcome.name,
                outcome.verdict.value,
                outcome.expected.value,
                f"{criterion.name}: {criterion.verdict.value}",
                interval(criterion),
                str(outcome.looks),
            )
    if table.row_count:
        console.print(table)
    wrong = Counter(outcome.verdict.value for outcome in claims if not outcome.passed)
    missed = sum(not outcome.passed for outcome in controls)
    looks = Counter(outcome.looks for outcome in outcomes)
    console.print(
        f"{seeds} seeds: {len(claims)} claims run, {wrong['REFUTED']} false alarms, {wrong['INCONCLUSIVE']} undecided; "
        f"{len(controls)} controls run, {missed} missed; decided at looks {dict(sorted(looks.items()))}; "
        f"{sum(o.seconds for o in outcomes) / 60:.1f} minutes of one core"
    )
    if wrong or missed:
        raise typer.Exit(1)


if __name__ == "__main__":
    typer.run(main)
