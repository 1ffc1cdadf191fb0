"""Seconds to an L1 error of 1e-4 and 1e-5: mfcheck's grid solver against py-pde and fplanck, in one run.

    python benchmarks/fokker_planck.py [--quick] [--only P1 P4] [--budget SECONDS]

Errors are against an independent spectral reference (sinc collocation, DOP853), itself checked on the exact Gaussians.
'certified' is the whole call of solve_fokker_planck with its error bar below the target; 'solve' the same call at the
loosest tolerance whose true error is below it; 'bare' two grids and Richardson at sizes chosen by hand. Peers take the
fastest rung that reaches the target, and where none does, their best rung (marked): the ratio is then a lower bound.
One thread, least of several repeats. Each row is shown as it is measured; a peer that is over its budget on a problem
(compilation included) is left at the rungs that it finished.
"""

from __future__ import annotations

import argparse
import os
import signal
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass

os.environ.setdefault("OMP_NUM_THREADS", "1")
os.environ.setdefault("NUMBA_NUM_THREADS", "1")

import numpy as np
import torch
from peers_fokker_planck import Run, fplanck_run, pde_run
from problems_fokker_planck import Problem, problems, reference, turned
from rich.console import Console
from rich.progress import Progress, SpinnerColumn, TextColumn, TimeElapsedColumn
from rich.table import Table

from mfcheck.dynamics.exact import ornstein_uhlenbeck
from mfcheck.dynamics.fokker_planck import Grid, solve_fokker_planck
from mfcheck.dynamics.fokker_planck.generator import Layout
from mfcheck.dynamics.fokker_planck.landscape import landscape
from mfcheck.dynamics.fokker_planck.richardson import two_levels
from mfcheck.dynamics.fokker_planck.stepping import Dynamics, march
from mfcheck.dynamics.gaussian import gaussian
from mfcheck.errors import InputError

TARGETS = (1e-4, 1e-5)
WANTED = {1e-4: 50, 1e-5: 300}


def error(problem: Problem, nodes: np.ndarray, masses: np.ndarray) -> float:
    """sum |masses - rho h^p| at a method's own centres."""
    volume = np.prod([np.diff(np.unique(np.round(nodes[:, axis], 12))[:2])[0] for axis in range(nodes.shape[1])])
    return float(np.abs(masses - reference(problem)(np.round(nodes, 12)) * volume).sum())


def least(f: Callable[[], object], repeats: int) -> float:
    seconds = []
    for _ in range(repeats):
        begin = time.perf_counter()
        f()
        seconds.append(time.perf_counter() - begin)
    return min(seconds)


def whole(problem: Problem, target: float, certified: bool, repeats: int) -> tuple[float, float, float]:
    """Seconds, true error and bar of the whole call."""
    for factor in (1.0,) if certified else (100.0, 30.0, 10.0, 5.0, 3.0, 2.0, 1.0):

        def call(tolerance: float = factor * target) -> object:
            return solve_fokker_planck(
                problem.risk,
                problem.density,
                Grid(problem.bounds),
                beta=problem.beta,
                times=[problem.time],
                tolerance=tolerance,
            )

        solution = call()
        reached = error(problem, solution.grid.nodes, solution.masses[0].numpy())  # type: ignore[attr-defined]
        if reached <= target:
            return least(call, repeats), reached, float(solution.error[0])  # type: ignore[attr-defined]
    raise RuntimeError(f"{problem.name}: true error {reached:.2g} at tolerance {target:.2g}: the bar does not hold")


def bare(problem: Problem, target: float, repeats: int) -> float:
    """Seconds of two grids and Richardson, at the smallest sizes of a ladder that reach the target."""
    sides = [hi - lo for lo, hi in problem.bounds]
    for n in (24, 32, 40, 48, 56, 64, 80, 96, 112, 128, 160, 192, 256):
        fine = Grid(problem.bounds, [4 * round(n * side / max(sides) / 4) for side in sides])
        grids = (fine.coarsen(), fine)
        starts = [grid.masses_of(problem.density).numpy() for grid in grids]
        for steps in (4, 6, 8, 12, 16, 24) if problem.kappa else (1,):
            plan = [[problem.time / steps] * steps]

            def call(
                grids: tuple[Grid, Grid] = grids,
                starts: list[np.ndarray] = starts,
                plan: list[list[float]] = plan,
            ) -> np.ndarray:
                groups = [grids] if len(sides) == 1 else [(grid,) for grid in grids]
                ends = []
                for group in groups:
                    layout = Layout(group)
                    chain = Dynamics(landscape(problem.risk, layout, "cpu"), layout, problem.beta, 1e-2 * target)
                    first = np.concatenate(starts) if len(groups) == 1 else starts[len(ends)]
                    ends += layout.split(march(chain, first, plan)[0])
                return two_levels(ends[1], ends[0], grids[0])[0]

            if error(problem, fine.nodes, call()) <= target:
                return least(call, repeats)
    return float("nan")


@dataclass(frozen=True)
class Rung:
    """One run of a peer: its seconds without JIT, and its true error."""

    peer: str
    cells: int
    seconds: float
    error: float

    def __str__(self) -> str:
        return f"{self.peer} {self.cells}: {self.seconds:.3g} s, {self.error:.1e}"


Runner = Callable[[Problem, int], Run]

# each problem's best peer in full runs, at the rungs just beyond a target (or at its best where none reaches it)
BEST: dict[str, tuple[str, Runner, tuple[int, ...]]] = {
    "P1": ("fplanck", fplanck_run, (400, 1100)),
    "P2": ("fplanck", fplanck_run, (200, 480)),
    "P3": ("fplanck", fplanck_run, (200, 400)),
    "P4": ("py-pde", pde_run, (384, 1536)),
    "P5": ("fplanck", fplanck_run, (200,)),
}


def ladders(problem: Problem, quick: bool) -> list[tuple[str, Runner, tuple[int, ...]]]:
    if quick:
        return [BEST[problem.name]]
    if len(problem.bounds) == 2:
        return [("fplanck", fplanck_run, (50, 100, 200, 400)), ("py-pde", pde_run, (64, 128, 192))]
    py_pde = ("py-pde", pde_run, (128, 256, 384, 768, 1536))
    return [py_pde] if problem.kappa else [("fplanck", fplanck_run, (100, 200, 400, 800, 1600)), py_pde]


@contextmanager
def budget(seconds: float) -> Iterator[None]:
    """Raises TimeoutError in the block when the time (JIT included) is over."""

    def stop(*_: object) -> None:
        raise TimeoutError

    before = signal.signal(signal.SIGALRM, stop)
    signal.setitimer(signal.ITIMER_REAL, max(seconds, 1e-3))
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0.0)
        signal.signal(signal.SIGALRM, before)


def climb(problem: Problem, quick: bool, allowed: float, progress: Progress) -> list[Rung]:
    """Every rung that ends within the budget of its peer on this problem; each is shown as soon as it is measured."""
    rungs: list[Rung] = []
    for peer, run, sizes in ladders(problem, quick):
        end = time.monotonic() + allowed
        for cells in sizes:
            task = progress.add_task(f"{problem.name} {peer} {cells}", total=None)
            try:
                with budget(end - time.monotonic()):
                    seconds, nodes, masses = run(problem, cells)
            except ImportError:
                progress.console.print(f"{peer} is not installed: pip install -e '.\\[bench]' to compare with it")
                break
            except TimeoutError:
                progress.console.print(
                    f"{problem.name} {peer} {cells}: over its budget of {allowed:.0f} s, JIT included"
                )
                break
            finally:
                progress.remove_task(task)
            rung = Rung(peer, cells, seconds, error(problem, nodes, masses))
            progress.console.print(f"{problem.name} {rung}")
            if np.isfinite(rung.error):
                rungs.append(rung)
    return rungs


def row(problem: Problem, target: float, rungs: list[Rung], repeats: int) -> tuple[str, ...]:
    """One line of the table."""
    try:
        sure, _, bar = whole(problem, target, True, repeats)
        free, _, _ = whole(problem, target, False, repeats)
    except InputError as sentence:
        return problem.name, f"{target:.0e}", str(sentence)
    plain = bare(problem, target, repeats)
    cells = (
        problem.name,
        f"{target:.0e}",
        f"{1e3 * sure:.2f} ({bar:.1e})",
        f"{1e3 * free:.2f}",
        f"{1e3 * plain:.2f}",
    )
    reaching = [rung for rung in rungs if rung.error <= target]
    best = min(reaching, key=lambda rung: rung.seconds) if reaching else min(rungs, key=lambda r: r.error, default=None)
    if best is None:
        return *cells, "none", "", ""
    ratio = best.seconds / free
    return (
        *cells,
        str(best) if reaching else f"{best}, not reached",
        f"{ratio:.0f} ({'>=' if ratio >= WANTED[target] else '<'} {WANTED[target]})",
        f"{best.seconds / plain:.0f}",
    )


HEADINGS = ("problem", "target", "certified ms (bar)", "solve ms", "bare ms", "best peer", "ratio", "bare ratio")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--quick", action="store_true", help="each problem's best peer at its best rung, fewer repeats")
    parser.add_argument("--budget", type=float, help="seconds a peer may take on a problem, JIT included (60; 180)")
    parser.add_argument("--only", nargs="+", default=[], metavar="P1", help="these problems alone")
    arguments = parser.parse_args()
    allowed = arguments.budget or (60.0 if arguments.quick else 180.0)
    torch.set_num_threads(1)
    repeats = 10 if arguments.quick else 15
    table = Table(*HEADINGS)
    with Progress(SpinnerColumn(), TextColumn("{task.description}"), TimeElapsedColumn(), transient=True) as progress:
        console = progress.console
        for problem, curvature in zip(problems()[:3:2], (1.0, turned()), strict=True):
            start = gaussian(problem.mean, problem.deviation**2)
            law = ornstein_uhlenbeck(curvature, start, beta=problem.beta, time=problem.time)
            grid = Grid(problem.bounds, [64] * len(problem.bounds))
            miss = error(problem, grid.nodes, law.density(grid.centres).numpy() * grid.cell_volume)
            console.print(f"{problem.name}: the reference is {miss:.1e} (L1) from the exact Gaussian")
        try:
            for problem in (p for p in problems() if not arguments.only or p.name in arguments.only):
                rungs = climb(problem, arguments.quick, allowed, progress)
                for target in TARGETS:
                    task = progress.add_task(f"{problem.name} mfcheck to {target:.0e}", total=None)
                    table.add_row(*(cells := row(problem, target, rungs, repeats)))
                    progress.remove_task(task)
                    console.print(" | ".join(cells))
        except KeyboardInterrupt:
            console.print("interrupted; what was measured:")
    Console().print(table)


if __name__ == "__main__":
    main()
