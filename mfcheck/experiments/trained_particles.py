"""Trained particles are not i.i.d.: the covariance of V_M across independent trainings in stationarity (V5)."""

from __future__ import annotations

from collections.abc import Mapping
from functools import lru_cache
from typing import Any

import numpy as np
import torch
from jaxtyping import Float
from numpy.typing import NDArray
from torch import Tensor

from mfcheck.dynamics.fokker_planck import gibbs_fixed_point
from mfcheck.dynamics.langevin import BrownianPath, simulate
from mfcheck.experiments.attention_data import draws, layer, plane
from mfcheck.experiments.batches import in_batches
from mfcheck.experiments.chaos_limits import TOGETHER
from mfcheck.measure import Measure
from mfcheck.replicates import Measurements, Replicates

Settings = Mapping[str, Any]
Array = NDArray[np.float64]


@in_batches(TOGETHER)
def operator_of_trained_heads(settings: Settings, replicates: Replicates) -> Measurements:
    """V5: M Cov(V_M) over the K data for M heads trained together, against the linear response of their Gibbs law.

    A replicate is a block of `systems` independent trainings of each M: their sample covariance at each of
    snapshots times, averaged over these (one training's times are no replicates). settings: the risk's data, tokens,
    token_scale, query_scale, teacher, weight_decay; beta, step, burn_in (time), snapshots, spacing (time between two),
    particles, systems, cells; constant: "linear response" as claimed or "independent"; shared_noise.

    Every training starts from M independent draws of the grid's rho*, the limit of any start: then only what the heads
    have learnt of each other has to come about, at the latest at twice the spectral gap: by s = 12 the excess of 80 %
    of independent heads has fallen to 2 % (measured; averaged over snapshots up to s = 20, to 1 %).
    Measures covariance [n, ladder, K, K], M times that of V_M; expected [n, K, K], the constant that it is compared
    with, and expected_bar [n], the relative error of its trace.
    """
    risk, step = layer(settings), settings["step"]
    assert risk.features is not None
    features = risk.features
    marks = [round((settings["burn_in"] + k * settings["spacing"]) / step) for k in range(settings["snapshots"])]
    block, count = settings["systems"], len(replicates)
    ladder = []
    for particles in settings["particles"]:
        seed = replicates.stream.child("trainings", particles)
        operators = simulate(
            risk,
            draws(
                _stationary(_regime(settings), settings["cells"]),
                plane(settings["cells"]),
                replicates,
                str(particles),
                (settings["systems"], particles),
            ),
            beta=settings["beta"],
            step=step,
            steps=marks[-1],
            scheme="leimkuhler_matthews",
            noise=BrownianPath(seed, step, (particles, 2), shared=settings["shared_noise"]),
            observables={"operator": lambda theta: features(theta).mean(-2)},
            record=marks,
            first_replicate=replicates.start * block,
        ).observables["operator"]
        values = operators.double().unflatten(1, (count, block))
        centred = values - values.mean(2, keepdim=True)
        covariance = torch.einsum("tnbk,tnbl->nkl", centred, centred) / (len(marks) * (block - 1))
        ladder.append((particles * covariance).cpu().numpy())
    expected, bar = expected_covariance(settings)
    return {
        "covariance": np.stack(ladder, 1),
        "expected": np.broadcast_to(expected, (count, *expected.shape)),
        "expected_bar": np.full(count, bar),
    }


def linear_response(covariance: Float[Tensor, "K K"], beta: float) -> Float[Tensor, "K K"]:
    """(C^-1 + I / (K beta))^-1 = C (I + C / (K beta))^-1: M Cov(V_M) in stationarity for the mean squared error.

    M heads trained together have the Gibbs law exp(-M R / beta) of the risk R = |V - y|^2 / (2 K) + int U. To leading
    order V_M is Gaussian of covariance C / M about V* under the product of M copies of rho*, C = Cov_{rho*}(h), and
    the interaction left over multiplies that by exp(-M |V - V*|^2 / (2 K beta)).
    """
    count = covariance.shape[-1]
    identity = torch.eye(count, dtype=covariance.dtype)
    return torch.linalg.solve(identity + covariance / (count * beta), covariance)


def expected_covariance(settings: Settings) -> tuple[Array, float]:
    """The constant [K, K] that settings name, on the grid, and the relative error of its trace from half the cells."""
    fine, rough = (_features_covariance(_regime(settings), cells)
                   for cells in (settings["cells"], settings["cells"] // 2))  # fmt: skip
    if settings["constant"] == "linear response":
        fine, rough = (linear_response(covariance, settings["beta"]) for covariance in (fine, rough))
    return fine.numpy(), float((rough.trace() / fine.trace() - 1).abs())


_REGIME = ("data", "tokens", "token_scale", "query_scale", "teacher", "weight_decay", "beta")


def _regime(settings: Settings) -> tuple[tuple[str, Any], ...]:
    return tuple((name, settings[name]) for name in _REGIME)


@lru_cache(maxsize=8)
def _stationary(regime: tuple[tuple[str, Any], ...], cells: int) -> Measure:
    """rho*, the Gibbs fixed point on the grid."""
    settings = dict(regime)
    grid = plane(cells)
    return Measure(grid.centres, gibbs_fixed_point(layer(settings), grid, settings["beta"]))


def _features_covariance(regime: tuple[tuple[str, Any], ...], cells: int) -> Float[Tensor, "K K"]:
    """C = Cov_{rho*}(h)."""
    law, features = _stationary(regime, cells), layer(dict(regime)).features
    assert features is not None
    return Measure(features(law.points), law.weights).covariance()
