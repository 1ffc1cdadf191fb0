"""`mfcheck verify`: runs claims and their controls, by id or all of them."""

from __future__ import annotations

import contextlib
import json
import os
import sys
from importlib.util import find_spec
from pathlib import Path
from typing import Annotated

import typer

from mfcheck.cli.refuse import refuse
from mfcheck.errors import InputError


def verify(
    ids: Annotated[list[str] | None, typer.Argument(help="Claims by id (D1 C2); all if none is named.")] = None,
    profile: Annotated[str, typer.Option(help="quick, standard (4 times the samples) or full (16 times).")] = "quick",
    seed: Annotated[int, typer.Option(help="Root seed of all randomness.")] = 0,
    device: Annotated[str, typer.Option(help="auto, cpu or cuda.")] = "auto",
    out: Annotated[Path, typer.Option(help="Folder whose outcomes.jsonl keeps every outcome.")] = Path("outcomes"),
    resume: Annotated[bool, typer.Option("--resume", help="Take over the outcomes that OUT already holds.")] = False,
    jobs: Annotated[int, typer.Option(help="Processes; 0 is one a core.", min=0)] = 0,
    as_json: Annotated[
        bool, typer.Option("--json", help="Print the outcomes as JSON; all else goes to stderr.")
    ] = False,
) -> None:
    """Run claims and their controls, and say SUPPORTED, REFUTED or INCONCLUSIVE with intervals.

    Exit code 0 where all come out as expected, 1 where one does not, 2 on bad input, 130 when interrupted.
    """
    import pytest

    from mfcheck import catalogue
    from mfcheck.outcome import read_outcomes

    try:
        chosen = catalogue.chosen(list(ids or []))
        folder = catalogue.home()
        if profile not in ("quick", "standard", "full"):
            raise InputError(f"a profile is one of quick, standard, full; it came as {profile!r}")
        if device not in ("auto", "cpu", "cuda"):
            raise InputError(f"a device is one of auto, cpu, cuda; it came as {device!r}")
    except InputError as error:
        refuse("verify", error)
    arguments = [
        str(folder / "paper_checks" / "test_claims.py"),
        f"--rootdir={folder}",
        # the repository's own settings are for its developers; a wheel has none
        "-c",
        os.devnull,
        "-p",
        "no:cacheprovider",
        # the catalogue has been imported to look the claims up
        "-W",
        "ignore::pytest.PytestAssertRewriteWarning",
        "-q",
        f"--mfcheck-profile={profile}",
        f"--mfcheck-seed={seed}",
        f"--mfcheck-device={device}",
        f"--mfcheck-out={out.absolute()}",
    ]
    if ids:
        arguments.append(f"--mfcheck-only={','.join(chosen)}")
    if resume:
        arguments.append("--mfcheck-resume")
    tests = sum(1 + len(claim.controls) for claim in chosen.values())
    if jobs != 1 and tests > 1 and find_spec("xdist"):
        arguments += ["-n", str(min(jobs or os.cpu_count() or 1, tests))]
    with contextlib.redirect_stdout(sys.stderr) if as_json else contextlib.nullcontext():
        code = int(pytest.main(arguments))
    if as_json:
        path = out / "outcomes.jsonl"
        latest = {o.name: o for o in (read_outcomes(path) if path.exists() else []) if o.claim in chosen}
        typer.echo(json.dumps([json.loads(outcome.to_json()) for outcome in latest.values()], indent=1))
    # pytest: 0 passed, 1 failed, 2 interrupted, 3 and 4 its own errors and bad options
    raise typer.Exit({0: 0, 1: 1, 2: 130}.get(code, 2))
