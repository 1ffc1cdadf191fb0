"""The mfcheck command: a module a subcommand.

Exit codes: 0 all as expected, 1 something came out otherwise, 2 bad input, with a sentence.
"""

from __future__ import annotations

import typer

from mfcheck.cli.figures import figures
from mfcheck.cli.head import head

app = typer.Typer(help="Verify mean-field theories of attention, claim by claim.", no_args_is_help=True)


@app.callback()
def main() -> None:
    """Verify mean-field theories of attention, claim by claim."""


for command in (figures, head):
    app.command()(command)
