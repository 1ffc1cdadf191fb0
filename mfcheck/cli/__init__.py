"""The mfcheck command: a module a subcommand.

Exit codes: 0 all as expected, 1 something came out otherwise, 2 bad input, with a sentence.
"""

from __future__ import annotations

import typer

from mfcheck.cli.bench import bench
from mfcheck.cli.claims import claims
from mfcheck.cli.doctor import doctor
from mfcheck.cli.figures import figures
from mfcheck.cli.gate import gate
from mfcheck.cli.head import head
from mfcheck.cli.report import report
from mfcheck.cli.sampler import sampler
from mfcheck.cli.verify import verify
from mfcheck.cli.wikitext import wikitext

app = typer.Typer(help="Verify mean-field theories of attention, claim by claim.", no_args_is_help=True)


@app.callback()
def main() -> None:
    """Verify mean-field theories of attention, claim by claim."""


for command in (verify, figures, report, gate, wikitext, head, sampler, bench, doctor):
    app.command()(command)
app.add_typer(claims, name="claims")
