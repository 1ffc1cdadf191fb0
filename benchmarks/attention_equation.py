"""Seconds for the mean-field equation of an attention layer in the plane: mfcheck against naive exponential Euler.

    python benchmarks/attention_equation.py

Heads theta = (a, v) under the risk of 32 sequences of 8 tokens (claim G1's), 80 x 80 cells, s = 30. The naive scheme is
what one would type: at every step of 0.05 the potential from automatic differentiation in the weights, a sparse
generator, and SciPy's expm_multiply. mfcheck is the whole call of solve_fokker_planck, which chooses its time steps and
certifies its error: on the same 80 x 80 cells, and with cells of its own choice at a tolerance that is the naive
scheme's error. Errors are L1 distances, the largest of those at s = 1, 5 and 30, to a solution on 240 x 240 cells,
given with that solution's own bar. One thread; CPU seconds, the least of the repeats (the naive scheme runs once).
"""

from __future__ import annotations

import math
import os
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Annotated

os.environ |= {"OMP_NUM_THREADS": "1", "OPENBLAS_NUM_THREADS": "1", "MKL_NUM_THREADS": "1"}
sys.path.insert(0, str(Path(__file__).parents[1]))

import numpy as np
import scipy.sparse
import torch
import typer
from rich.console import Console
from rich.table import Table
from scipy.sparse.linalg import expm_multiply

from mfcheck.attention_risk import scalar_attention_layer, scalar_teacher
from mfcheck.dynamics.fokker_planck import Grid, Solution, solve_fokker_planck
from mfcheck.dynamics.gaussian import gaussian
from mfcheck.feature_risk import FeatureRisk
from mfcheck.measure import Measure
from mfcheck.statistics.seeds import stream

BETA, BOX, CELLS, WANTED = 0.2, (-5.0, 5.0), 80, 3.0
TIMES = (1.0, 5.0, 30.0)
#: Cells of the reference: three to a cell, so that centres coincide.
FINER = 3
START = gaussian([0.5, 0.5], 0.25)


def attention() -> FeatureRisk:
    """G1's risk: 32 sequences of 8 scalar tokens, a teacher head, lambda = beta."""
    source = stream(0, "attention layer", "data", 32, 8)
    data = scalar_teacher(32, 8, token_scale=1.0, query_scale=1.0, teacher=2.0, source=source)
    return scalar_attention_layer(*data, weight_decay=BETA)


def plane(cells: int) -> Grid:
    return Grid([BOX, BOX], [cells, cells])


def naive(risk: FeatureRisk, step: float) -> np.ndarray:
    """Exponential Euler: the potential frozen at the start of every step."""
    grid = plane(CELLS)
    points, h = grid.centres, grid.spacing[0]
    index = np.arange(CELLS * CELLS).reshape(CELLS, CELLS)
    left = np.concatenate([index[:-1].ravel(), index[:, :-1].ravel()])
    right = np.concatenate([index[1:].ravel(), index[:, 1:].ravel()])
    m = grid.masses_of(START.density)
    recorded = []
    for k in range(round(TIMES[-1] / step)):
        weights = m.clone().requires_grad_(True)
        (potential,) = torch.autograd.grad(risk(Measure(points, weights)), weights)
        u = potential.numpy()
        x = (u[right] - u[left]) / BETA
        # Scharfetter-Gummel rates of a jump across each face, forwards and backwards
        forwards, backwards = (
            BETA / h**2 * np.where(np.abs(y) < 1e-8, 1 - y / 2, y / np.expm1(np.where(y == 0, 1, y))) for y in (x, -x)
        )
        rows, columns = np.concatenate([right, left]), np.concatenate([left, right])
        jumps = scipy.sparse.coo_array((np.concatenate([forwards, backwards]), (rows, columns))).tocsr()
        generator = jumps - scipy.sparse.diags_array(np.asarray(jumps.sum(0)))
        m = torch.from_numpy(expm_multiply(generator * step, m.numpy()))
        if any(math.isclose((k + 1) * step, at) for at in TIMES):
            recorded.append(m.numpy())
    return np.stack(recorded)


def solve(risk: FeatureRisk, cells: int | None, tolerance: float) -> Solution:
    grid = Grid([BOX, BOX]) if cells is None else plane(cells)
    return solve_fokker_planck(risk, START.density, grid, beta=BETA, times=TIMES, tolerance=tolerance)


def timed(run: Callable[[], Solution], repeats: int) -> tuple[float, Solution]:
    seconds = math.inf
    for _ in range(repeats):
        start = time.process_time()
        solution = run()
        seconds = min(seconds, time.process_time() - start)
    return seconds, solution


def main(
    step: Annotated[float, typer.Option(help="The naive scheme's step.")] = 0.05,
    repeats: Annotated[int, typer.Option(min=1)] = 3,
) -> None:
    """Prints seconds, errors and ratios."""
    torch.set_num_threads(1)
    risk, console = attention(), Console()
    finest = solve(risk, FINER * CELLS, 2e-5)
    middle = FINER // 2
    points = finest.density.numpy().reshape(-1, CELLS, FINER, CELLS, FINER)[:, :, middle, :, middle]
    reference = (points * plane(CELLS).cell_volume).reshape(len(TIMES), -1)

    def error(masses: np.ndarray) -> float:
        return float(np.abs(masses - reference).sum(-1).max())

    start = time.process_time()
    end = naive(risk, step)
    naive_seconds, naive_error = time.process_time() - start, error(end)
    same_seconds, same = timed(lambda: solve(risk, CELLS, naive_error), repeats)
    own_seconds, own = timed(lambda: solve(risk, None, naive_error), repeats)

    table = Table(
        "", "cells", "seconds", "naive over it", "L1 error", "own bar", title=f"to s = {TIMES[-1]:g}, one thread"
    )
    table.add_row(
        f"exponential Euler, step {step:g}", f"{CELLS}^2", f"{naive_seconds:.1f}", "1", f"{naive_error:.1e}", "none"
    )
    for name, seconds, solution in (("same cells", same_seconds, same), ("cells of its own choice", own_seconds, own)):
        own_error = f"{error(solution.masses.numpy()):.1e}" if solution.grid == same.grid else "below its bar"
        ratio, bar = f"{naive_seconds / seconds:.1f}", f"{float(solution.error.max()):.1e}"
        table.add_row(f"mfcheck, {name}", f"{solution.grid.shape[0]}^2", f"{seconds:.2f}", ratio, own_error, bar)
    console.print(table)
    console.print(f"reference: {FINER * CELLS}^2 cells, its own bar {float(finest.error.max()):.1e}")
    reached = "reached" if same_seconds <= WANTED else "missed"
    console.print(f"wanted: at most {WANTED:g} s on {CELLS}^2 cells: {same_seconds:.2f} s, {reached}")


if __name__ == "__main__":
    typer.run(main)
