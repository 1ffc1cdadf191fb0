"""solve_on_grid: one grid, one step, no extrapolation and no error bar, for studies of order."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Literal

import numpy as np
import scipy.sparse
import torch
from jaxtyping import Float
from torch import Tensor

from mfcheck.dynamics.fokker_planck.exponential import propagate
from mfcheck.dynamics.fokker_planck.generator import Flux, Layout, check_beta, check_flux, face_rates
from mfcheck.dynamics.fokker_planck.grid import Grid, normalised_masses
from mfcheck.dynamics.fokker_planck.landscape import landscape
from mfcheck.dynamics.fokker_planck.stepping import Dynamics, march, time_intervals
from mfcheck.errors import InputError
from mfcheck.functional import Risk

Scheme = Literal["commutator_free", "midpoint", "frozen"]
SCHEMES = ("commutator_free", "midpoint", "frozen")


def solve_on_grid(
    risk: Risk,
    masses: Tensor | np.ndarray,
    grid: Grid,
    *,
    beta: float,
    times: Sequence[float],
    step: float,
    scheme: Scheme = "midpoint",
    flux: Flux = "scharfetter_gummel",
    device: str = "cpu",
) -> Float[Tensor, "T cells"]:
    """Masses [T, cells] on one grid at one step, with no extrapolation and no error bar: for studies of order.

    masses [cells]; step: an upper bound, each time interval is cut into equal steps no longer. scheme: "midpoint" (the
    potential at a predicted half step, order 2), "frozen" (the potential at the old time, order 1) or "commutator_free"
    (order 4; Scharfetter-Gummel only). flux as in `generator`. Raises InputError on bad input, as solve_fokker_planck.
    """
    check_beta(beta)
    check_flux(flux)
    intervals = time_intervals(times)
    if not (np.isfinite(step) and step > 0):
        raise InputError(f"a step is finite and > 0; it came as {step}")
    if scheme not in SCHEMES:
        raise InputError(f"scheme is one of {', '.join(SCHEMES)}; it came as {scheme!r}")
    m = normalised_masses(_array(masses), grid)
    layout = Layout((grid,))
    land = landscape(risk, layout, device)
    mesh = [_equal(length, step) for length in intervals]
    dynamics = Dynamics(land, layout, beta, 1e-13)
    if scheme == "commutator_free":
        if flux != "scharfetter_gummel":
            raise InputError(f"scheme='commutator_free' goes with flux='scharfetter_gummel'; flux came as {flux!r}")
        return torch.from_numpy(np.stack(march(dynamics, m, mesh)))
    exponential = dynamics.exponential if flux == "scharfetter_gummel" else _other_flux(layout, beta, flux)
    results = []
    for steps in mesh:
        for tau in steps:
            potential = land.potentials(land.state(m)[None])[0]
            if scheme == "midpoint" and not land.linear:
                potential = land.potentials(land.state(exponential(potential, m, 0.5 * tau))[None])[0]
            m = exponential(potential, m, tau)
        results.append(m)
    return torch.from_numpy(np.stack(results))


def _other_flux(layout: Layout, beta: float, flux: Flux) -> Callable[[np.ndarray, np.ndarray, float], np.ndarray]:
    """exp(tQ) m as it comes, with no clipping: these fluxes are there to be compared with."""

    def exponential(potential: np.ndarray, m: np.ndarray, t: float) -> np.ndarray:
        matrix = scipy.sparse.csc_array(face_rates(potential, layout, beta, flux).matrix())
        reversible = flux == "upwind" and layout.axes[0].stride == 1 and not layout.axes[0].periodic
        return propagate(matrix, m, t, "cram" if reversible else "expm").numpy()

    return exponential


def _equal(length: float, step: float) -> list[float]:
    count = int(np.ceil(length / step * (1.0 - 1e-9)))
    return [length / count] * count if count else []


def _array(values: Tensor | np.ndarray) -> np.ndarray:
    return np.asarray(values.detach().cpu() if isinstance(values, Tensor) else values, dtype=np.float64)
