"""Family G, what noise does to training: the risk it costs (G4), and the barrier it takes one over (G5)."""

from __future__ import annotations

import math
from collections.abc import Mapping
from functools import lru_cache
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from mfcheck.dynamics.fokker_planck import Grid, free_energy, spectral_gap
from mfcheck.dynamics.fokker_planck.equilibrium import gibbs_fixed_point
from mfcheck.dynamics.langevin import simulate
from mfcheck.dynamics.schedules import Schedule, linear
from mfcheck.experiments.attention_data import draws, layer, plane
from mfcheck.experiments.batches import in_batches
from mfcheck.feature_risk import FeatureRisk
from mfcheck.functional import evaluate
from mfcheck.measure import Measure
from mfcheck.replicates import Measurements, Replicates

Settings = Mapping[str, Any]
Array = NDArray[np.float64]

#: What may be followed along beta: the claim is about the first, the others are its controls.
FUNCTIONALS = ("L_lambda", "free energy", "L")
_DATA = ("data", "tokens", "token_scale", "query_scale", "teacher", "weight_decay")


@in_batches(64)
def risk_against_beta(settings: Settings, replicates: Replicates) -> Measurements:
    """G4: the risk at the Gibbs fixed point rho*_beta, on the grid and by particles in stationarity, for each beta.

    settings: the risk's data; weight_decays: every curve is computed for each; betas; cells; particles, systems (of a
    replicate), step, time (from independent draws of rho*_beta); functional: one of FUNCTIONALS.
    Measures curve [n, weight_decays, betas, FUNCTIONALS] and curve_bars of it from twice the cells; smallest_step and
    smallest_step_bar [n]: the least increase of the functional between neighbouring betas; and by particles with the
    first weight decay risk [n, betas] (a replicate's mean; the same noise for all betas), where functional is not the
    free energy, which particles do not have: then it is NaN.
    """
    curves = [_curve(_key(settings, decay), settings["cells"]) for decay in settings["weight_decays"]]
    fine, bars = (np.stack(part) for part in zip(*curves, strict=True))
    which = FUNCTIONALS.index(settings["functional"])
    steps = np.diff(fine[..., which], axis=-1)
    uncertain = bars[:, 1:, which] + bars[:, :-1, which]
    least = np.unravel_index(steps.argmin(), steps.shape)
    count = len(replicates)
    return {
        "curve": np.broadcast_to(fine, (count, *fine.shape)),
        "curve_bars": np.broadcast_to(bars, (count, *bars.shape)),
        "smallest_step": np.full(count, steps[least]),
        "smallest_step_bar": np.full(count, uncertain.max()),
        "risk": _by_particles(settings, replicates),
    }


def _by_particles(settings: Settings, replicates: Replicates) -> Array:
    """The risk of M heads in stationarity, [n, betas]."""
    count, block = len(replicates), settings["systems"]
    if settings["functional"] == "free energy":
        return np.full((count, len(settings["betas"])), np.nan)
    own = dict(settings) | {"weight_decay": settings["weight_decays"][0]}
    risk = layer(own)
    shown = risk if settings["functional"] == "L_lambda" else layer(own | {"weight_decay": 0.0})
    columns = []
    for beta in settings["betas"]:
        grid = _grid(beta, own["weight_decay"], settings["cells"])
        law = Measure(grid.centres, gibbs_fixed_point(risk, grid, beta))
        theta = simulate(
            risk,
            draws(law, grid, replicates, "beta curve", (block, settings["particles"])),
            beta=beta,
            step=settings["step"],
            steps=round(settings["time"] / settings["step"]),
            scheme="leimkuhler_matthews",
            # one name for all betas: neighbouring ones share their noise, and their difference loses it
            seed=replicates.stream.child("noise"),
            first_replicate=replicates.start * block,
        ).final
        risks = evaluate(shown, Measure.uniform(theta.double()))
        columns.append(risks.reshape(count, block).mean(1).cpu().numpy())
    return np.stack(columns, -1)


def _key(settings: Settings, decay: float) -> tuple[tuple[str, Any], ...]:
    own = dict(settings) | {"weight_decay": decay}
    return tuple((name, own[name]) for name in (*_DATA, "betas"))


@lru_cache(maxsize=8)
def _curve(key: tuple[tuple[str, Any], ...], cells: int) -> tuple[Array, Array]:
    """[betas, FUNCTIONALS] at the fixed points, and how far half the cells are from them."""
    settings = dict(key)
    fine, rough = (np.array([_values(settings, beta, n) for beta in settings["betas"]]) for n in (cells, cells // 2))
    return fine, np.abs(fine - rough)


def _values(settings: Settings, beta: float, cells: int) -> list[float]:
    """L_lambda, the free energy and the bare risk L at rho*_beta."""
    risk, grid = layer(settings), _grid(beta, settings["weight_decay"], cells)
    masses = gibbs_fixed_point(risk, grid, beta)
    law = Measure(grid.centres, masses)
    bare = layer({**settings, "weight_decay": 0.0})
    return [float(evaluate(risk, law)), float(free_energy(risk, masses, grid, beta)), float(evaluate(bare, law))]


def _grid(beta: float, decay: float, cells: int) -> Grid:
    """A box of 5.5 deviations of exp(-decay |theta|^2 / 2 beta): 1e-7 of its mass lies beyond; at least the usual."""
    return plane(cells, max(5.0, 5.5 * math.sqrt(beta / decay)))


@in_batches(64)
def annealing_against_constant(settings: Settings, replicates: Replicates) -> Measurements:
    """G5: the final mean energy of heads annealed from beta_start to beta, less that of heads at beta throughout.

    Pairs share start and noise and differ in the schedule alone. settings: potential ("tilted": (x^2 - 1)^2 + tilt x,
    or "convex": 2 x^2), tilt, start, beta_start, beta, step, time, annealed (the share of the time after which beta
    holds; above 1 there is no hold and beta is never reached), particles.
    Measures annealed, constant [n], mean energies above the minimum; hold [n], the time at beta in the end; and of the
    potential, [n] alike, what `_landscape` says.
    """
    risk = _potential(settings)
    steps = round(settings["time"] / settings["step"])
    beta = settings["beta"]
    schedules = {
        "annealed": linear(settings["beta_start"], beta, round(settings["annealed"] * steps)),
        "constant": Schedule("constant", lambda k: beta),
    }
    start = torch.full((len(replicates), settings["particles"], 1), settings["start"], dtype=torch.float64)
    landscape = _landscape(_landscape_key(settings))
    landscape = landscape | {"hold": max(1 - settings["annealed"], 0.0) * settings["time"]}
    result: dict[str, Array] = {name: np.full(len(replicates), value) for name, value in landscape.items()}
    for name, schedule in schedules.items():
        theta = simulate(
            risk,
            start.to(replicates.device),
            beta=schedule,
            step=settings["step"],
            steps=steps,
            seed=replicates.stream.child("noise"),
            first_replicate=replicates.start,
        ).final
        result[name] = evaluate(risk, Measure.uniform(theta)).cpu().numpy() - landscape["minimum"]
    return result


def _potential(settings: Settings) -> FeatureRisk:
    tilt = settings["tilt"]

    def tilted(x: Tensor) -> Tensor:
        return ((x.square() - 1).square() + tilt * x)[..., 0]

    def convex(x: Tensor) -> Tensor:
        return 2 * x.square()[..., 0]

    return FeatureRisk(settings["potential"], potential={"tilted": tilted, "convex": convex}[settings["potential"]])


def _landscape_key(settings: Settings) -> tuple[tuple[str, Any], ...]:
    return tuple((name, settings[name]) for name in ("potential", "tilt", "start", "beta", "beta_start"))


@lru_cache(maxsize=8)
def _landscape(key: tuple[tuple[str, Any], ...]) -> dict[str, float]:
    """Minimum; barrier out of the start's well (0 where there is none); relaxation, 1 over the deep well's curvature;
    crossing and crossing_at_start, 1 over the spectral gap at beta and at beta_start.

    A hold cannot wait for crossings at beta; what it must outlast is the relaxation within the deep well.
    """
    settings = dict(key)
    risk = _potential(settings)
    x = torch.linspace(-2.5, 2.5, 20001, dtype=torch.float64)[:, None]
    assert risk.potential is not None
    u = risk.potential(x).numpy()
    here = int(np.searchsorted(x[:, 0].numpy(), settings["start"]))
    deep = int(u.argmin())
    between = u[min(here, deep) : max(here, deep) + 1]
    # the bottom of the start's own well: downhill from the start
    bottom = here
    while 0 < bottom < len(u) - 1 and min(u[bottom - 1], u[bottom + 1]) < u[bottom]:
        bottom += -1 if u[bottom - 1] < u[bottom + 1] else 1
    h = float(x[1, 0] - x[0, 0])
    grid = Grid([(-2.5, 2.5)], [400])
    gaps = {
        name: spectral_gap(risk, gibbs_fixed_point(risk, grid, settings[name]), grid, settings[name])
        for name in ("beta", "beta_start")
    }
    return {
        "minimum": float(u.min()),
        "barrier": float(between.max() - u[bottom]) if bottom != deep else 0.0,
        "relaxation": h**2 / float(u[deep + 1] - 2 * u[deep] + u[deep - 1]),
        "crossing": 1 / gaps["beta"],
        "crossing_at_start": 1 / gaps["beta_start"],
    }
