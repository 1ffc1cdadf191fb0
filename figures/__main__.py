"""`python -m figures [NAME ...] [--outcomes DIR] [--out DIR]`: the same as `mfcheck figures`."""

from mfcheck.cli import figures_app

if __name__ == "__main__":
    figures_app()
