"""Family G: one mean-field attention layer under the Fokker-Planck equation: G1 (decay) and G2 (limit)."""

from __future__ import annotations

import math
from collections.abc import Mapping
from functools import lru_cache
from itertools import combinations
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from mfcheck.dynamics.equilibria import desai_zwanzig_critical_beta
from mfcheck.dynamics.fokker_planck import Grid, free_energy, gibbs_fixed_point, solve_on_grid, spectral_gap
from mfcheck.dynamics.gaussian import Gaussian, gaussian
from mfcheck.dynamics.langevin import simulate
from mfcheck.experiments.attention_data import layer, layer_data, plane
from mfcheck.feature_risk import FeatureRisk
from mfcheck.functional import evaluate, first_variation
from mfcheck.measure import Measure
from mfcheck.replicates import Measurements, Replicates
from mfcheck.risks import desai_zwanzig

Settings = Mapping[str, Any]
Array = NDArray[np.float64]
Regime = tuple[tuple[str, Any], ...]

#: Starts of the heads' law: near the teacher's well, tight in a wrong place, and wide.
STARTS: Mapping[str, Gaussian] = {
    "near": gaussian([0.5, 0.5], 0.25),
    "away": gaussian([-2.0, 1.0], 0.1),
    "wide": gaussian([0.0, 0.0], 1.0),
}


_REGIME = ("data", "tokens", "token_scale", "query_scale", "teacher", "weight_decay", "beta", "cells", "step")


def decay(settings: Settings, replicates: Replicates) -> Measurements:
    """G1: free energy and L1 distance to the fixed point along the equation, in three regimes, from every start.

    settings: the tail regime's data, tokens, token_scale, query_scale, teacher, weight_decay, beta, step and cells;
    what differs from it in the bound regime (bound_token_scale, bound_weight_decay, bound_beta) and in the metastable
    one (metastable_weight_decay, metastable_beta, metastable_step); window and metastable_window: (first, last) time
    of the tails; bound_times; rate: "linearised gap" as claimed, "frozen gap" or "2 lambda"; noise: False is beta = 0
    from a Dirac start in the place of the equation. Measures, each with a leading axis of 1: free_energy_rate,
    distance_rate and their metastable_ kind [1, starts, 2 halves of the window], over twice the gap and over the gap;
    bound [1, 2 regimes, 2 bounds]: the largest (F - F*) / (F(0) - F*) e^{rate s} over s > 0 and starts; bound_rates
    [1, 2 regimes, 2 bounds], the bound regime first; weight_decay_rate [1], 2 lambda there; and for figures times
    [1, T], curves [1, starts, T] and gap [1], also as metastable_, bound_times [1, T'], bound_curves [1, starts, T'].
    """
    bound_times = np.asarray(settings["bound_times"], dtype=np.float64)
    bound = _regime(settings, "bound_")
    _, bound_energies, _ = _relaxation(bound, tuple(bound_times.tolist()))
    tail = _tail(settings, "")
    constants = np.array([rigorous_rates(dict(regime)) for regime in (bound, _regime(settings))])
    if settings["rate"] == "2 lambda":
        constants = np.array([[2 * settings["bound_weight_decay"]] * 2, [2 * settings["weight_decay"]] * 2])
    crossed = [
        (values / values[:, :1] * np.exp(np.multiply.outer(rate, at))[:, None])[..., 1:].max((-2, -1))
        for values, at, rate in (
            (bound_energies, bound_times, constants[0]),
            (tail["energies"], tail["times"], constants[1]),
        )
    ]
    measured = {
        "bound": np.array(crossed)[None],
        "bound_rates": constants[None],
        "weight_decay_rate": np.array([2 * settings["bound_weight_decay"]]),
        "bound_times": bound_times[None],
        "bound_curves": bound_energies[None],
    }
    for prefix, found in (("", tail), ("metastable_", _tail(settings, "metastable_"))):
        measured |= {
            f"{prefix}free_energy_rate": found["energy_rates"][None],
            f"{prefix}distance_rate": found["distance_rates"][None],
            f"{prefix}times": found["times"][None],
            f"{prefix}curves": found["energies"][None],
            f"{prefix}gap": found["gap"],
        }
    return measured


def _tail(settings: Settings, prefix: str) -> dict[str, Array]:
    """Curves over the whole time of a regime, and the tail's rates over twice the gap (energy) and the gap (L1)."""
    regime = _regime(settings, prefix)
    start, stop = settings[f"{prefix}window"]
    times = np.unique(np.concatenate([np.linspace(0.0, stop, 61), [start, 0.5 * (start + stop)]]))
    gaps, energies, distances = _relaxation(regime, tuple(times.tolist()))
    if not settings["noise"]:
        energies, distances = _without_noise(dict(regime), times)
    gap = gaps[settings["rate"]]
    marks = np.searchsorted(times, [start, 0.5 * (start + stop), stop])
    energy, distance = (-np.diff(np.log(values[:, marks])) / np.diff(times[marks]) for values in (energies, distances))
    return {
        "times": times,
        "energies": energies,
        "energy_rates": energy / (2 * gap),
        "distance_rates": distance / gap,
        "gap": np.array([gap]),
    }


def rigorous_rates(settings: Settings) -> tuple[float, float]:
    """Rates at which F - F* decays at least, by Holley-Stroock and by Bakry-Emery: each 2 alpha beta, or 0 if less.

    F is convex along mixtures, so that F[rho] - F* <= beta KL(rho | rho^), rho^ = exp(-U / beta) / Z the Gibbs law of
    U = dL_lambda/drho[rho], and dF/ds = -beta^2 I(rho | rho^) along the equation. If every rho^ has a log-Sobolev
    constant of at least alpha, I >= 2 alpha KL gives dF/ds <= -2 alpha beta (F - F*) [NWS, Ch]. Here
    U = lambda |theta|^2 / 2 + g, g = sum_k (V_k - y_k) h_k(theta) / K. With B_k the largest |token| of datum k,
    |h_k| < B_k since |tanh| < 1 and S_k is an average of tokens, so that |V_k - y_k| <= B_k + |y_k| =: K c_k.

    Holley-Stroock: exp(-lambda |theta|^2 / 2 beta) has alpha = lambda / beta, and g is bounded of oscillation
    osc <= 2 sum_k c_k B_k: alpha = (lambda / beta) exp(-osc / beta).
    Bakry-Emery: alpha is the least eigenvalue of the Hessian of U / beta, at least (lambda - |Hess g|) / beta. With
    T = |tanh v|, D_k the tokens' range and m_2 <= D^2/4, |m_3| <= D^3 / (6 sqrt 3) the largest second and third central
    moments of a law on an interval of length D, the second derivatives of h_k = tanh(v) S_k(a) are at most
    aa: T x_k^2 D_k^3 / (6 sqrt 3); av: (1 - T^2) |x_k| D_k^2 / 4; vv: 2 T (1 - T^2) B_k. The norm of a symmetric matrix
    is at most that of a matrix of bounds of its entries, whose largest over T in [0, 1] is taken on a mesh of width
    1e-3 plus what it can change in half a width.
    """
    sequences, targets = layer_data(settings)
    weight_decay, beta = settings["weight_decay"], settings["beta"]
    tokens, query = sequences.tokens[..., 0].numpy(), np.abs(sequences.queries[:, 0].numpy())
    highest, width = np.abs(tokens).max(-1), np.ptp(tokens, axis=-1)
    share = (highest + np.abs(targets.numpy())) / len(query)
    oscillation = 2 * share @ highest
    aa = share @ (query**2 * width**3) / (6 * math.sqrt(3))
    av, vv = share @ (query * width**2) / 4, 2 * share @ highest
    t = np.linspace(0.0, 1.0, 1001)
    first, off, last = t * aa, (1 - t**2) * av, t * (1 - t**2) * vv
    norms = 0.5 * (first + last) + np.hypot(0.5 * (first - last), off)
    norm = float(norms.max()) + 0.5e-3 * (aa + 2 * av + vv)
    return 2 * weight_decay * math.exp(-oscillation / beta), 2 * max(weight_decay - norm, 0.0)


def _regime(settings: Settings, prefix: str = "") -> Regime:
    """What the equation depends on, in a form that can be a key; a regime may have its own value of any setting."""
    return tuple((name, settings.get(prefix + name, settings[name])) for name in _REGIME)


@lru_cache(maxsize=8)
def _relaxation(regime: Regime, times: tuple[float, ...]) -> tuple[dict[str, float], Array, Array]:
    """The gaps at the fixed point; F - F* and the L1 distance to the fixed point, each [starts, T]."""
    settings = dict(regime)
    risk, grid, beta = layer(settings), plane(settings["cells"]), settings["beta"]
    limit = gibbs_fixed_point(risk, grid, beta)
    least = float(free_energy(risk, limit, grid, beta))
    energies, distances = [], []
    for law in STARTS.values():
        masses = solve_on_grid(
            risk,
            grid.masses_of(law.density),
            grid,
            beta=beta,
            times=times,
            step=settings["step"],
            scheme="commutator_free",
        )
        energies.append([float(free_energy(risk, m, grid, beta)) - least for m in masses])
        distances.append((masses - limit).abs().sum(-1).tolist())
    gaps = {
        "linearised gap": spectral_gap(risk, limit, grid, beta),
        "frozen gap": spectral_gap(risk, limit, grid, beta, linearised=False),
        "2 lambda": settings["weight_decay"],
    }
    return gaps, np.array(energies), np.array(distances)


def _without_noise(settings: Settings, times: Array) -> tuple[Array, Array]:
    """beta = 0 from a Dirac start: L_lambda above the least that any start reached, and the L1 distance, [1, T].

    A Dirac law stays one and ends in a critical point of theta -> L_lambda[delta_theta], here in the wrong well; its
    distance to a density is 2.
    """
    risk, step = layer(settings), 0.1
    path = simulate(
        risk,
        torch.stack([STARTS["away"].mean, STARTS["near"].mean])[:, None, :],
        beta=0.0,
        step=step,
        steps=round(times[-1] / step),
        scheme="heun",
        observables={"risk": lambda theta: evaluate(risk, Measure.uniform(theta))},
        record=[round(time / step) for time in times],
    ).observables["risk"]
    return path[:, :1].T.numpy() - float(path[-1].min()), np.full((1, len(times)), 2.0)


def limits(settings: Settings, replicates: Replicates) -> Measurements:
    """G2: the limits of the equation from three starts, Newton's, and the undamped iteration of the Gibbs map.

    settings: model ("attention", or "Desai-Zwanzig" below its critical beta), the data's, beta, cells, step, time,
    iteration_betas: where the undamped iteration is tried, iterations.
    Measures distances [1, pairs]: L1 between the ends of the starts and Newton's fixed point, all pairs; residual [1]:
    that of Newton's in the Gibbs map; ratios [1, betas]: lambda_max(C) / (K beta) at each iteration_beta;
    multiplier [1, betas]: the factor by which an iteration changes a small deviation, over the ratio;
    converged [1, betas]: 1 where the iteration from the uniform law comes to rest.
    """
    interacting = settings["model"] == "attention"
    risk: FeatureRisk = layer(settings) if interacting else desai_zwanzig()
    grid = plane(settings["cells"]) if interacting else Grid([(-4.0, 4.0)], [100])
    beta = settings["beta"] if interacting else 0.6 * desai_zwanzig_critical_beta()
    newton = gibbs_fixed_point(risk, grid, beta)
    ends = [newton]
    for law in STARTS.values():
        here = law if interacting else gaussian(float(law.mean[0]), float(law.covariance[0, 0]))
        (end,) = solve_on_grid(
            risk,
            grid.masses_of(here.density),
            grid,
            beta=beta,
            times=[settings["time"]],
            step=settings["step"],
            scheme="commutator_free",
        )
        ends.append(end)
    rows = [_iteration(risk, grid, b, settings["iterations"]) for b in settings["iteration_betas"]]
    multiplier, converged, ratios = (np.array(column)[None] for column in zip(*rows, strict=True))
    return {
        "distances": np.array([[float((a - b).abs().sum()) for a, b in combinations(ends, 2)]]),
        "residual": np.array([float((_gibbs_map(risk, grid, beta, newton) - newton).abs().sum())]),
        "multiplier": multiplier,
        "converged": converged,
        "ratios": ratios,
    }


def iteration_ratio(risk: FeatureRisk, grid: Grid, beta: float) -> float:
    """The spectral radius of the Gibbs map's derivative at its fixed point; lambda_max(C) / (K beta) for mean squares.

    On the moments V the map's derivative is -C loss''(V) / beta, C = Cov_{rho*}(h) [HRSS].
    """
    assert risk.features is not None and risk.loss is not None
    measure = Measure(grid.centres, gibbs_fixed_point(risk, grid, beta))
    features = risk.features(measure.points)
    moments = measure.integrate(features)
    covariance = Measure(features, measure.weights).covariance()
    hessian: Any = torch.autograd.functional.hessian(lambda v: risk.loss(v).sum(), moments)
    return float(torch.linalg.eigvals(covariance @ hessian).abs().max()) / beta


def _iteration(risk: FeatureRisk, grid: Grid, beta: float, iterations: int) -> tuple[float, float, float]:
    """(measured factor of an iteration over the ratio, 1 where the iteration converges, the ratio)."""
    assert risk.features is not None
    limit, ratio = gibbs_fixed_point(risk, grid, beta), iteration_ratio(risk, grid, beta)
    features = risk.features(grid.centres)  # once, and not at every iteration
    base = torch.zeros(grid.size, dtype=torch.float64)
    if risk.potential is not None:
        base = risk.potential(grid.centres)

    def image_of(masses: Tensor) -> Tensor:
        return torch.softmax(-(base + features @ risk.field_at(masses @ features)) / beta, -1)

    masses = torch.full_like(limit, 1.0 / grid.size)
    # a deviation small enough to stay linear, renormalised at every iteration: a power method
    deviation, size, factor = masses - limit, 1e-4, math.nan
    for _ in range(40):
        deviation = deviation * (size / float(deviation.abs().sum()))
        image = image_of(limit + deviation) - limit
        factor = float(image.abs().sum()) / size
        deviation = image
    moved = math.inf
    for _ in range(iterations):
        image = image_of(masses)
        moved = float((image - masses).abs().sum())
        masses = image
    return factor / ratio, float(moved < 1e-6), ratio


def _gibbs_map(risk: FeatureRisk, grid: Grid, beta: float, masses: Tensor) -> Tensor:
    return torch.softmax(-first_variation(risk, Measure(grid.centres, masses)) / beta, -1)
