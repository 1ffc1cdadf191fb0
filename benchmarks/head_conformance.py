"""False alarms of the heads' conformance suite: good heads over many seeds, and how long a suite takes.

`python benchmarks/head_conformance.py --seeds 50` prints a line a head: results violated or undecided, over all
properties and seeds, and the seconds of work of a suite.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Annotated, Any

import torch
import typer
from torch import nn

from mfcheck.conformance.check_head import check_head
from mfcheck.heads import (
    gaussian_attention,
    l2_attention,
    linear_attention,
    matrix_softmax,
    multihead_attention,
    scalar_softmax,
    sigmoid_attention,
    softmax_attention,
)

#: Heads that meet every hypothesis they declare.
GOOD: dict[str, Callable[[], Any]] = {
    "scalar softmax": scalar_softmax,
    "scalar softmax, tanh": lambda: scalar_softmax("tanh"),
    "matrix softmax": lambda: matrix_softmax(2),
    "matrix softmax, tanh": lambda: matrix_softmax(2, "tanh"),
    "softmax attention": lambda: softmax_attention(2),
    "softmax attention, k = 1": lambda: softmax_attention(2, 1),
    "linear attention": lambda: linear_attention(2),
    "sigmoid attention": lambda: sigmoid_attention(2),
    "L2 attention": lambda: l2_attention(2),
    "Gaussian attention": lambda: gaussian_attention(2),
    "nn.MultiheadAttention": lambda: multihead_attention(nn.MultiheadAttention(4, 2)),
}


def main(
    seeds: Annotated[int, typer.Option(help="Seeds a head.")] = 50,
    first: Annotated[int, typer.Option(help="The first seed.")] = 0,
    only: Annotated[list[str] | None, typer.Option(help="Heads by name; all if none is named.")] = None,
) -> None:
    """Counts false alarms; exit code 1 where there is one."""
    torch.set_num_threads(1)
    total = alarms = 0
    for name in only or GOOD:
        wrong: list[str] = []
        seconds = []
        for seed in range(first, first + seeds):
            began = time.process_time()
            # no budget: a machine under load decides as an idle one does
            report = check_head(GOOD[name](), seed=seed, budget=None)
            seconds.append(time.process_time() - began)
            total += len(report.results)
            wrong += [
                f"seed {seed}: {result.name} {result.status}: {result.told}"
                for result in report.results
                if result.status in ("violated", "undecided")
            ]
        alarms += len(wrong)
        typer.echo(f"{name}: {len(wrong)} of {seeds} suites' results wrong; {min(seconds):.1f} to {max(seconds):.1f} s")
        for line in wrong:
            typer.echo(f"  {line}")
    typer.echo(f"{alarms} false alarms in {total} results")
    if alarms:
        raise typer.Exit(1)


if __name__ == "__main__":
    typer.run(main)
