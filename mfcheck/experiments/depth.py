"""Family T, the flow in depth: order in dt, number of tokens, Gaussian tokens (T1 to T3)."""

from __future__ import annotations

import functools
from collections.abc import Mapping
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from scipy.integrate import solve_ivp
from torch import Tensor

from mfcheck.dynamics.gaussian_tokens import moment_flow, moment_steps
from mfcheck.dynamics.tokens import QuantileFlow, quantile_flow, residual_flow, token_velocity
from mfcheck.experiments.batches import in_batches
from mfcheck.heads import causal, matrix_softmax, scalar_softmax
from mfcheck.measure import Measure
from mfcheck.replicates import Measurements, Replicates
from mfcheck.statistics.seeds import stream

#: T2's two scalar heads (a, v).
SCALAR_HEADS = ((1.0, 0.8), (-0.5, 0.6))
#: T3's logits, value, and Gaussian start. V A' is near -0.6 I, so that S shrinks by a third and A is seen in it.
GAUSSIAN_LOGITS, GAUSSIAN_VALUE = ((0.2, -0.5), (0.6, 0.1)), ((-0.2, 1.1), (-0.9, -0.4))
GAUSSIAN_MEAN, GAUSSIAN_COVARIANCE = (0.5, -0.3), ((0.6, 0.1), (0.1, 0.5))


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


@functools.lru_cache
def _continuity_equation(layers: int, nodes: int) -> QuantileFlow:
    heads = Measure.uniform(torch.tensor(SCALAR_HEADS, dtype=torch.float64))
    return quantile_flow(scalar_softmax(), heads, start_quantile, depth_step=1 / layers, layers=layers, nodes=nodes)


@in_batches(32)
def number_of_tokens(settings: Mapping[str, Any], replicates: Replicates) -> Measurements:
    """T2: W2^2 of N scalar tokens to the continuity equation of their law, after the same residual steps.

    A replicate draws as many tokens as the largest N of `tokens`, cut into systems of N for every rung (each N
    divides the next). settings: tokens; layers; nodes of the quantile flow; mask: "none", or "causal on sorted
    tokens". Returns w2_squared [n, rungs], reference [n] (W2), and cell masses on a grid for the figure: masses
    [n, 50] of the flow, histogram [n, 50] of the largest system, both on grid edges [n, 51].
    """
    heads = Measure.uniform(torch.tensor(SCALAR_HEADS, dtype=torch.float64))
    layers, ladder = settings["layers"], settings["tokens"]
    plain = scalar_softmax()
    flow = _continuity_equation(layers, settings["nodes"])
    masked = settings["mask"] == "causal on sorted tokens"
    head = causal(plain) if masked else plain
    uniform = np.stack([replicates.stream.child(r).numpy().random(ladder[-1]) for r in replicates])
    pool = torch.from_numpy(start_quantile(uniform)).to(replicates.device)
    columns = []
    for count in ladder:
        systems = pool.reshape(len(pool), -1, count)
        systems = systems.sort(-1).values if masked else systems
        end, _ = residual_flow(
            head, Measure(heads.points.to(pool), heads.weights.to(pool)), systems[..., None], depth_step=1 / layers,
            layers=layers,
        )  # fmt: skip
        moved = end[..., 0].cpu().numpy()
        columns.append(flow.squared_wasserstein_2(moved).mean(-1))
    edges = np.linspace(flow.edges[0] - 1e-9, flow.edges[-1] + 1e-9, 51)
    repeat = (len(pool), 1)
    return {
        "w2_squared": np.stack(columns, -1),
        "reference": np.full(len(pool), flow.error),
        "masses": np.tile(flow.masses(edges), repeat),
        "histogram": np.stack([np.histogram(row, edges)[0] / ladder[-1] for row in moved[:, 0]]),
        "edges": np.tile(edges, repeat),
    }


@in_batches(32)
def gaussian_moments(settings: Mapping[str, Any], replicates: Replicates) -> Measurements:
    """T3: squared errors of the mean and covariance of N tokens against the moments of Gaussian tokens.

    Systems as T2's. settings: tokens; layers; logit_scale (times A); logits_in_ode: 0 leaves A out of the moments.
    Returns mean_error and covariance_error [n, rungs] (|.|^2 and squared Frobenius norm), tilt [n]; ode_error
    [n, 4]: the residual moments' distance from the ODE at dt = 1/L for L of ODE_LAYERS; ode_covariance [n, 2, 2] and
    empirical [n, 2, 2], of the ODE's steps and of the largest system, and their means.
    """
    logits, value = settings["logit_scale"] * np.array(GAUSSIAN_LOGITS), np.array(GAUSSIAN_VALUE)
    m0, s0 = np.array(GAUSSIAN_MEAN), np.array(GAUSSIAN_COVARIANCE)
    layers, ladder, count = settings["layers"], settings["tokens"], len(replicates)
    _, _, tilt = moment_steps(m0, s0, logits, value, depth_step=1 / layers, layers=layers)
    believed = logits * settings["logits_in_ode"]
    mean, covariance, _ = moment_steps(m0, s0, believed, value, depth_step=1 / layers, layers=layers)
    theta = torch.from_numpy(np.concatenate([logits.ravel(), value.ravel()]))[None].to(replicates.device)
    factor = np.linalg.cholesky(s0)
    normal = np.stack([replicates.stream.child(r).numpy().standard_normal((ladder[-1], 2)) for r in replicates])
    pool = torch.from_numpy(m0 + normal @ factor.T).to(replicates.device)
    errors: dict[str, list[NDArray[np.float64]]] = {"mean_error": [], "covariance_error": []}
    for size in ladder:
        systems: Tensor = pool.reshape(count, -1, size, 2)
        end, _ = residual_flow(matrix_softmax(2), Measure.uniform(theta), systems, depth_step=1 / layers, layers=layers)
        law = Measure.uniform(end)
        off = law.mean().cpu().numpy() - mean
        # (N - 1) for N: without it the covariance's bias S/N is in the error, of higher order
        spread = law.covariance().cpu().numpy() * size / (size - 1) - covariance
        errors["mean_error"].append(np.square(off).sum(-1).mean(-1))
        errors["covariance_error"].append(np.square(spread).sum((-2, -1)).mean(-1))
    exact = moment_flow(m0, s0, believed, value)
    ode = []
    for steps in settings["ode_layers"]:
        m, s, _ = moment_steps(m0, s0, believed, value, depth_step=1 / steps, layers=steps)
        ode.append(np.hypot(np.linalg.norm(m - exact[0]), np.linalg.norm(s - exact[1])))
    return {name: np.stack(columns, -1) for name, columns in errors.items()} | {
        "tilt": np.full(count, tilt),
        "ode_error": np.tile(ode, (count, 1)),
        "believed_mean": np.tile(mean, (count, 1)),
        "believed_covariance": np.tile(covariance, (count, 1, 1)),
        "empirical_mean": law.mean()[:, 0].cpu().numpy(),
        "empirical_covariance": law.covariance()[:, 0].cpu().numpy(),
    }
