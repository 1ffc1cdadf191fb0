"""Family T, the flow in depth: order in dt (T1) and number of tokens on the line (T2)."""

from __future__ import annotations

import functools
from collections.abc import Mapping
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from scipy.integrate import solve_ivp

from mfcheck.dynamics.continuity_grid import GridFlow, continuity_grid
from mfcheck.dynamics.scalar_tokens import scalar_softmax_flow
from mfcheck.dynamics.tokens import QuantileFlow, quantile_flow, residual_flow, token_velocity
from mfcheck.experiments.batches import in_batches
from mfcheck.experiments.depth_rates import linearised_quantiles, wasserstein_constant
from mfcheck.heads import matrix_softmax, scalar_softmax
from mfcheck.measure import Measure
from mfcheck.replicates import Measurements, Replicates
from mfcheck.statistics.seeds import stream

#: T2's two scalar heads (a, v).
SCALAR_HEADS = ((1.0, 0.8), (-0.5, 0.6))
#: The interval of T2's grid; the tokens end within [-0.9, 2].
GRID = (-1.1, 2.1)


def residual_order(settings: Mapping[str, Any], replicates: Replicates) -> Measurements:
    """T1: the largest distance of a token from the depth flow after L residual steps of a fixed problem in the plane.

    settings: layers L; heads M; tokens N; scaled: dt = 1/L as claimed, else 1/L of the first rung throughout.
    Returns errors [1, rungs] and the reference's error [1], of the flow by Dormand and Prince at two tolerances.
    """
    head = matrix_softmax(2)
    source = stream(0, "T1", "problem")
    theta = 0.7 * torch.randn(settings["heads"], 8, generator=source.child("heads").torch(), dtype=torch.float64)
    tokens = torch.randn(settings["tokens"], 2, generator=source.child("tokens").torch(), dtype=torch.float64)
    rho = Measure.uniform(theta)

    def velocity(_: float, x: NDArray[np.float64]) -> NDArray[np.float64]:
        return token_velocity(head, rho, torch.from_numpy(x).reshape(tokens.shape)).numpy().ravel()

    coarse, fine = (
        solve_ivp(velocity, (0.0, 1.0), tokens.numpy().ravel(), method="DOP853", rtol=rtol, atol=rtol).y[:, -1]
        for rtol in (1e-8, 1e-11)
    )
    errors = []
    for layers in settings["layers"]:
        step = 1 / layers if settings["scaled"] else 1 / settings["layers"][0]
        end, _ = residual_flow(head, rho, tokens, depth_step=step, layers=layers)
        errors.append(np.linalg.norm(end.numpy() - fine.reshape(tokens.shape), axis=-1).max())
    return {"errors": np.array([errors]), "reference": np.array([np.abs(coarse - fine).max()])}


def start_quantile(u: NDArray[np.float64]) -> NDArray[np.float64]:
    """The quantile function of T2's start, smooth and increasing, with support [-1, 1.5]."""
    return -1 + 2.5 * u + 0.3 * np.sin(2 * np.pi * u)


def start_density_quantile(u: NDArray[np.float64]) -> NDArray[np.float64]:
    """Its derivative, one over the density at the quantile: between 0.6 and 4.4."""
    return 2.5 + 0.6 * np.pi * np.cos(2 * np.pi * u)


@functools.lru_cache
def _continuity_equation(layers: int, nodes: int) -> QuantileFlow:
    heads = Measure.uniform(torch.tensor(SCALAR_HEADS, dtype=torch.float64))
    return quantile_flow(scalar_softmax(), heads, start_quantile, depth_step=1 / layers, layers=layers, nodes=nodes)


@functools.lru_cache
def _on_a_grid(layers: int, cells: int) -> GridFlow:
    heads = Measure.uniform(torch.tensor(SCALAR_HEADS, dtype=torch.float64))
    levels = np.linspace(0.0, 1.0, 2**14 + 1)
    # linear between so many quantiles F is off by 1e-8
    places = start_quantile(levels)
    return continuity_grid(
        scalar_softmax(), heads, lambda x: np.interp(x, places, levels), (places[0], places[-1]), GRID,
        depth_step=1 / layers, layers=layers, cells=cells,
    )  # fmt: skip


@functools.lru_cache
def _constant(layers: int, nodes: int) -> tuple[float, float]:
    """lim N E W2^2 and its error, of second order in the nodes: 4/3 of the change from half as many bounds both."""
    constants = []
    for count in (nodes // 2, nodes):
        u = (np.arange(count) + 0.5) / count
        jacobian = linearised_quantiles(
            np.array(SCALAR_HEADS), start_quantile(u), depth_step=1 / layers, layers=layers
        )  # fmt: skip
        constants.append(wasserstein_constant(jacobian, start_density_quantile(u)))
    return constants[1], abs(constants[1] - constants[0])


@in_batches(64)
def number_of_tokens(settings: Mapping[str, Any], replicates: Replicates) -> Measurements:
    """T2: W2^2 of N scalar tokens to the continuity equation of their law, after the same residual steps.

    A replicate draws as many tokens as the largest N of `tokens`, cut into systems of N for every rung (each N
    divides the next). settings: tokens; layers; nodes of the quantile flow; mask: "none", or "causal on sorted
    tokens"; cells of the grid. Returns w2_squared [n, rungs], reference [n] (W2), constant [n, 2]: lim N E W2^2 and its
    error, grid_gap [n]: W1 between the quantile flow and the grid's solution over the sum of their error bars; and for
    the figure masses [n, cells] on the grid, histogram [n, 50] of the largest system between edges [n, 51].
    """
    heads = torch.tensor(SCALAR_HEADS, dtype=torch.float64, device=replicates.device)
    layers, ladder = settings["layers"], settings["tokens"]
    flow = _continuity_equation(layers, settings["nodes"])
    masked = settings["mask"] == "causal on sorted tokens"
    uniform = np.stack([replicates.stream.child(r).numpy().random(ladder[-1]) for r in replicates])
    pool = torch.from_numpy(start_quantile(uniform)).to(replicates.device)
    columns = []
    for count in ladder:
        systems = pool.reshape(-1, count)
        systems = systems.sort(-1).values if masked else systems
        end = scalar_softmax_flow(
            Measure.uniform(heads), systems, depth_step=1 / layers, layers=layers, causal=masked
        )  # fmt: skip
        moved = end.cpu().numpy().reshape(len(pool), -1, count)
        columns.append(flow.squared_wasserstein_2(moved).mean(-1))
    grid = _on_a_grid(layers, settings["cells"])
    gap = grid.wasserstein_1(flow.edges, np.linspace(0.0, 1.0, len(flow.edges))) / (grid.error + flow.error)
    edges = np.linspace(flow.edges[0] - 1e-9, flow.edges[-1] + 1e-9, 51)
    repeat = (len(pool), 1)
    return {
        "w2_squared": np.stack(columns, -1),
        "reference": np.full(len(pool), flow.error),
        "constant": np.tile(_constant(layers, settings["nodes"] // 4), repeat),
        "grid_gap": np.full(len(pool), gap),
        "masses": np.tile(grid.masses, repeat),
        "histogram": np.stack([np.histogram(row, edges)[0] / ladder[-1] for row in moved[:, 0]]),
        "edges": np.tile(edges, repeat),
    }
