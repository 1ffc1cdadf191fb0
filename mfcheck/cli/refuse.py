"""How a command ends on bad input: a sentence on the error stream and exit code 2."""

from __future__ import annotations

from typing import NoReturn

import typer


def refuse(command: str, error: Exception) -> NoReturn:
    """Says what came and what was expected, and exits with code 2."""
    typer.echo(f"mfcheck {command}: {error}", err=True)
    raise typer.Exit(2) from error
