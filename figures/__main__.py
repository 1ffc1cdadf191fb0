"""`python -m figures`: the same as `mfcheck figures`."""

import typer

from mfcheck.cli.figures import figures

if __name__ == "__main__":
    typer.run(figures)
