"""The peers on the benchmark's problems: seconds without construction's JIT, and masses at their own centres."""

from __future__ import annotations

import logging
import time
from typing import Any

import numpy as np

Run = tuple[float, np.ndarray, np.ndarray]


def fplanck_run(problem: Any, cells: int) -> Run:
    """fplanck's matrix exponential (sparse expm_multiply): seconds, centres [n, p], masses [n]; linear only."""
    import fplanck
    from scipy.constants import k as boltzmann

    if not hasattr(np, "product"):
        vars(np)["product"] = np.prod  # fplanck 0.2 asks for the name that NumPy 2 dropped
    sides = [hi - lo for lo, hi in problem.bounds]
    middle = [0.5 * (hi + lo) for lo, hi in problem.bounds]
    spacing = max(sides) / cells
    begin = time.perf_counter()
    # its grid is centred at 0: shift the arguments instead
    system = fplanck.fokker_planck(
        temperature=problem.beta / boltzmann,
        drag=1.0,
        extent=[spacing * round(side / spacing) for side in sides],
        resolution=spacing,
        boundary=fplanck.boundary.reflecting,
        potential=lambda *x: problem.potential(*(a + c for a, c in zip(x, middle, strict=True))),
    )
    masses = system.propagate(lambda *x: problem.start(*(a + c for a, c in zip(x, middle, strict=True))), problem.time)
    seconds = time.perf_counter() - begin
    nodes = np.stack([a.ravel() + c for a, c in zip(system.grid, middle, strict=True)], -1)
    return seconds, nodes, masses.ravel()


def pde_run(problem: Any, cells: int) -> Run:
    """py-pde, compiled explicit Runge-Kutta with adaptive steps: its own solver's seconds, JIT left out.

    Its NumPy backend needs no JIT and took 170 to 1500 times as long on P4.
    """
    import pde

    logging.getLogger("pde").setLevel(logging.ERROR)
    sides = [hi - lo for lo, hi in problem.bounds]
    shape = [max(4, round(cells * side / max(sides))) for side in sides]
    grid = pde.CartesianGrid(problem.bounds, shape)
    axes = "xy"[: len(shape)]
    centres = [grid.cell_coords[..., a] for a in range(len(shape))]
    start = problem.start(*centres)
    field = pde.ScalarField(grid, start / (start.sum() * np.prod(grid.discretization)))
    drift = " + ".join(f"d_d{a}(c * ({expression}))" for a, expression in zip(axes, problem.gradients, strict=True))
    # the mean-field force, kappa (x - mean), in py-pde's own expressions
    if problem.kappa:
        drift += f" + d_dx(c * {problem.kappa} * (x - integral(x * c)))"
    equation = pde.PDE({"c": f"{problem.beta} * laplace(c) + {drift}"}, bc={"value": 0})
    result, info = equation.solve(
        field,
        t_range=problem.time,
        dt=1e-5,
        adaptive=True,
        solver="runge-kutta",
        tracker=None,
        tolerance=1e-6,  # its default, 1e-4, stalls at an error of 1.7e-4 on P4 and is slower there
        ret_info=True,
    )
    seconds = info["controller"]["profiler"]["solver"]
    nodes = np.stack([c.ravel() for c in centres], -1)
    return seconds, nodes, result.data.ravel() * np.prod(grid.discretization)
