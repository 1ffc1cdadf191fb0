"""Particle steps a second on one core: mfcheck against torchsde, diffrax, NumPy and a plain torch loop, in one run.

    python benchmarks/particles.py --rounds 10

Problem: dtheta = -theta dt + sqrt(2 beta) dW in R^1, beta = 0.5, eta = 0.01, M = 1e5, Euler-Maruyama. All sides run in
turn, round after round, on one thread; each keeps its best round, in CPU time of this process, so that neighbours on
the machine count little. Compilation is left out. Every side's final variance is held to the chain's own (a side that
skipped its noise would be fast). What counts are the ratios; the numbers to reach are in the last table.
"""

from __future__ import annotations

import importlib.util
import math
import os
import sys
import time
import warnings
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any

# one thread for every library: read when they are imported
os.environ |= {
    "OMP_NUM_THREADS": "1",
    "MKL_NUM_THREADS": "1",
    "JAX_PLATFORMS": "cpu",
    "XLA_FLAGS": "--xla_cpu_multi_thread_eigen=false intra_op_parallelism_threads=1",
}
sys.path.insert(0, str(Path(__file__).parents[1]))

import numpy as np
import torch
import typer
from rich.console import Console
from rich.progress import track
from rich.table import Table
from torch import Tensor

from mfcheck import risks
from mfcheck.device import keep_freed_memory
from mfcheck.dynamics.drift import feature_gradient
from mfcheck.dynamics.langevin import Drift, simulate
from mfcheck.feature_risk import FeatureRisk

BETA, ETA, PARTICLES, DATA = 0.5, 0.01, 100_000, 32
DTYPES = {"float32": torch.float32, "float64": torch.float64}


@dataclass(frozen=True)
class Side:
    """One contestant at one precision: run() does `steps` steps of PARTICLES and returns the final state, or None."""

    name: str
    precision: str
    steps: int
    run: Callable[[], Any]
    quadratic: bool = True


def half_square(theta: Tensor) -> Tensor:
    """The potential as somebody would type it."""
    return 0.5 * (theta * theta).sum(-1)


def mfcheck_sides(precision: str, steps: int) -> list[Side]:
    """simulate with built-in risks and with what users bring: a drift, a potential, a risk of a Measure."""
    start = torch.zeros(1, PARTICLES, 1, dtype=DTYPES[precision])
    cases: dict[str, Any] = {
        "mfcheck, quadratic": risks.quadratic(1.0),
        "mfcheck, double well": risks.double_well(),
        "mfcheck, Desai-Zwanzig": risks.desai_zwanzig(),
        "mfcheck, a user's drift": Drift(lambda theta, s: -theta),
        "mfcheck, a user's potential": FeatureRisk("own", potential=half_square),
        "mfcheck, a user's risk": lambda measure: measure.integrate(half_square),
    }
    return [
        Side(
            name,
            precision,
            steps,
            lambda risk=risk: simulate(risk, start, beta=BETA, step=ETA, steps=steps, seed=0).final.numpy(),
            quadratic=not isinstance(risk, FeatureRisk) or risk.name in ("quadratic", "own"),
        )
        for name, risk in cases.items()
    ]


def floors(precision: str, steps: int) -> list[Side]:
    """What no torch program goes below: the random numbers, and for K data points the activations alone."""
    numbers = torch.empty(PARTICLES, dtype=DTYPES[precision])
    pre = torch.randn(PARTICLES, DATA, dtype=DTYPES[precision])

    def normals() -> None:
        for _ in range(steps):
            numbers.normal_()

    def tanh() -> None:
        for chunk in pre.split(4096):
            torch.tanh(chunk)

    def drift() -> None:
        with torch.no_grad():
            feature_gradient(network, theta, DATA)

    generator = torch.Generator().manual_seed(0)
    network = risks.two_layer_network(torch.randn(DATA, 1, generator=generator), torch.randn(DATA, generator=generator))
    theta = torch.randn(1, PARTICLES, 1, dtype=DTYPES[precision])
    return [
        Side("floor: torch normal_", precision, steps, normals),
        Side(f"floor: tanh of {DATA} numbers", precision, 1, tanh),
        Side(f"mfcheck, drift of a network on {DATA} data points", precision, 1, drift),
    ]


def plain_sides(precision: str, steps: int) -> list[Side]:
    """The loops that people type."""
    amplitude = math.sqrt(2 * BETA * ETA)

    def torch_loop() -> np.ndarray:
        theta = torch.zeros(PARTICLES, 1, dtype=DTYPES[precision])
        for _ in range(steps):
            theta = theta - ETA * theta + amplitude * torch.randn_like(theta)
        return theta.numpy()

    def numpy_loop() -> np.ndarray:
        generator, dtype = np.random.default_rng(0), np.dtype(precision).type
        theta = np.zeros((PARTICLES, 1), dtype)
        noise = np.empty_like(theta)
        for _ in range(steps):
            generator.standard_normal(out=noise, dtype=dtype)
            noise *= dtype(amplitude)
            theta *= dtype(1 - ETA)
            theta += noise
        return theta

    return [Side("plain torch loop", precision, steps, torch_loop), Side("plain NumPy", precision, steps, numpy_loop)]


def torchsde_sides(precision: str, steps: int) -> list[Side]:
    """torchsde with diagonal noise: as it comes, and with a Brownian interval that is told the step, its fastest."""
    import torchsde

    dtype, end = DTYPES[precision], steps * ETA

    class Process(torch.nn.Module):
        noise_type, sde_type = "diagonal", "ito"

        def f(self, t: Tensor, y: Tensor) -> Tensor:
            return -y

        def g(self, t: Tensor, y: Tensor) -> Tensor:
            return torch.full_like(y, math.sqrt(2 * BETA))

    process, times = Process(), torch.tensor([0.0, end], dtype=dtype)

    def run(told: bool) -> np.ndarray:
        start = torch.zeros(PARTICLES, 1, dtype=dtype)
        path = torchsde.BrownianInterval(0.0, end, size=start.shape, dtype=dtype, dt=ETA) if told else None
        with torch.no_grad():
            return torchsde.sdeint(process, start, times, bm=path, dt=ETA, method="euler")[-1].numpy()

    return [
        Side("torchsde", precision, steps, lambda: run(True)),
        Side("torchsde as it comes", precision, steps, lambda: run(False)),
    ]


def diffrax_sides(precision: str, steps: int) -> list[Side]:
    """diffrax, compiled, with its fastest Brownian path (one that cannot be asked twice)."""
    import diffrax
    import jax
    import lineax

    jax.config.update("jax_enable_x64", True)
    dtype, end = np.dtype(precision), steps * ETA
    amplitude = jax.numpy.full((PARTICLES, 1), math.sqrt(2 * BETA), dtype)

    @jax.jit
    def solve(key: Any) -> Any:
        path = diffrax.UnsafeBrownianPath(jax.ShapeDtypeStruct((PARTICLES, 1), dtype), key)
        terms = diffrax.MultiTerm(
            diffrax.ODETerm(lambda t, y, args: -y),
            diffrax.ControlTerm(lambda t, y, args: lineax.DiagonalLinearOperator(amplitude), path),
        )
        solution = diffrax.diffeqsolve(
            terms, diffrax.Euler(), 0.0, end, ETA, jax.numpy.zeros((PARTICLES, 1), dtype),
            adjoint=diffrax.DirectAdjoint(), max_steps=steps + 2,
        )  # fmt: skip
        return solution.ys[-1]

    def run() -> np.ndarray:
        return np.asarray(solve(jax.random.PRNGKey(0)))

    return [Side("diffrax", precision, steps, run)]


def gather(steps: int, console: Console) -> list[Side]:
    """All sides that are installed here; a sentence for each that is not."""
    makers = [floors, mfcheck_sides, plain_sides]
    for package, maker in {"torchsde": torchsde_sides, "diffrax": diffrax_sides}.items():
        if importlib.util.find_spec(package) is None:
            console.print(f"{package} is not installed and is left out; `pip install 'mfcheck[bench]'` brings it.")
        else:
            makers.append(maker)
    return [side for maker in makers for precision in DTYPES for side in maker(precision, steps)]


def check(side: Side, final: np.ndarray | None) -> None:
    """The final variance of a side is the chain's, beta (1 - (1 - eta)^(2 steps)) / (1 - eta/2), to 7 of its sigmas."""
    if final is None or not side.quadratic:
        return
    variance = BETA * (1 - (1 - ETA) ** (2 * side.steps)) / (1 - ETA / 2)
    ratio = float(np.square(final.astype(np.float64)).mean()) / variance
    if abs(ratio - 1) > 7 * math.sqrt(2 / PARTICLES):
        raise SystemExit(f"{side.name} ({side.precision}) does not solve the problem: variance off by {ratio:.3f}")


def measure(sides: list[Side], rounds: int) -> dict[tuple[str, str], float]:
    """Million particle steps a CPU second, the best of the rounds; the sides take turns within a round."""
    for side in sides:
        check(side, side.run())  # compiles and warms up, too
    seconds = dict.fromkeys(((side.name, side.precision) for side in sides), math.inf)
    for _ in track(range(rounds), description="rounds", transient=True):
        for side in sides:
            start = time.process_time()
            side.run()
            key = (side.name, side.precision)
            seconds[key] = min(seconds[key], (time.process_time() - start) / side.steps)
    return {key: PARTICLES / 1e6 / each for key, each in seconds.items()}


def ratios(speed: dict[tuple[str, str], float]) -> list[tuple[str, float, float]]:
    """(what over what, measured, to reach); peers that are not installed are left out."""
    single, double = "float32", "float64"
    normals, tanh = "floor: torch normal_", f"floor: tanh of {DATA} numbers"
    drift = f"mfcheck, drift of a network on {DATA} data points"
    wanted = [
        ("mfcheck, quadratic", single, normals, single, 0.75),
        ("mfcheck, a user's drift", single, normals, single, 0.45),
        ("mfcheck, a user's potential", single, normals, single, 0.45),
        ("mfcheck, quadratic", double, "plain torch loop", double, 3.0),
        ("mfcheck, quadratic", double, "torchsde", double, 15.0),
        ("mfcheck, quadratic", double, "torchsde as it comes", double, 15.0),
        (drift, single, tanh, single, 0.6),
        (drift, double, tanh, double, 0.6),
        ("mfcheck, quadratic", single, "diffrax", single, math.nan),
        ("mfcheck, quadratic", double, "diffrax", double, math.nan),
    ]
    return [
        (f"{over} / {under} ({own})", speed[over, own] / speed[under, other], reach)
        for over, own, under, other, reach in wanted
        if (over, own) in speed and (under, other) in speed
    ]


def main(rounds: Annotated[int, typer.Option(min=1)] = 10, steps: Annotated[int, typer.Option(min=10)] = 100) -> None:
    """Runs all sides and prints speeds and ratios."""
    torch.set_num_threads(1)
    keep_freed_memory()  # as simulate does: for the sides that time a part of it, and for all others as well
    warnings.filterwarnings("ignore", module="torchsde")  # its times in float32 end a rounding beyond the horizon
    console = Console()
    speed = measure(gather(steps, console), rounds)
    table = Table("million particle steps a second", *DTYPES, title=f"M = {PARTICLES:,}, R^1, one thread")
    for name in dict.fromkeys(name for name, _ in speed):
        table.add_row(name, *(f"{speed[name, precision]:.1f}" for precision in DTYPES))
    console.print(table)
    table = Table("ratio", "measured", "to reach", "")
    for name, value, reach in ratios(speed):
        told = ("-", "") if math.isnan(reach) else (f">= {reach:g}", "reached" if value >= reach else "missed")
        table.add_row(name, f"{value:.2f}", *told)
    console.print(table)


if __name__ == "__main__":
    typer.run(main)
