"""`mfcheck bench`: the benchmarks, as ratios to peers in one run."""

from __future__ import annotations

import json
import subprocess
import sys
from typing import Annotated

import typer

from mfcheck.cli.refuse import refuse
from mfcheck.errors import InputError


def bench(
    name: Annotated[str | None, typer.Argument(help="A benchmark; the names are listed if none is given.")] = None,
    options: Annotated[list[str] | None, typer.Argument(help="Its own options, after `--`.")] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print the list as JSON.")] = False,
) -> None:
    """Run a benchmark of the repository. Exit code 2 where there is none of that name."""
    from mfcheck import catalogue

    try:
        folder = catalogue.home() / "benchmarks"
        if not folder.is_dir():
            raise InputError(f"benchmarks are in the repository, not in the installed package; no folder {folder}")
        scripts = {p.stem: p for p in sorted(folder.glob("*.py")) if '__name__ == "__main__"' in p.read_text("utf-8")}
        if name is None:
            says = {stem: path.read_text("utf-8").splitlines()[0].strip('"') for stem, path in scripts.items()}
            if as_json:
                typer.echo(json.dumps(says, indent=1))
                return
            for stem, words in says.items():
                typer.echo(f"{stem:{max(map(len, says))}}  {words}")
            return
        if name not in scripts:
            raise InputError(f"no benchmark is called {name}; there are {', '.join(scripts)}")
    except InputError as error:
        refuse("bench", error)
    raise typer.Exit(subprocess.call([sys.executable, str(scripts[name]), *(options or [])], cwd=folder.parent))
