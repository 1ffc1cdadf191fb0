"""Free energy and its dissipation on a grid."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import torch
from jaxtyping import Float
from torch import Tensor

from mfcheck.dynamics.fokker_planck.generator import Layout, check_beta, face_rates
from mfcheck.dynamics.fokker_planck.grid import Grid, normalised_masses
from mfcheck.dynamics.fokker_planck.landscape import potential_of
from mfcheck.functional import Risk, evaluate
from mfcheck.measure import Measure


def free_energy(
    risk: Risk,
    masses: Float[Tensor, " cells"] | np.ndarray,
    grid: Grid,
    beta: float,
    entropy: bool = True,
    device: str = "cpu",
) -> Float[Tensor, ""]:
    """F = risk + beta int rho log rho of masses [cells], a scalar; entropy=False leaves the second term out."""
    m = torch.as_tensor(masses, dtype=torch.float64, device=device)
    with torch.no_grad():
        value = evaluate(risk, Measure(grid.centres.to(device), m)).to(torch.float64)
    return value + beta * torch.special.xlogy(m, m / grid.cell_volume).sum() if entropy else value


@dataclass(frozen=True)
class Dissipation:
    """dF/ds in two ways: `discrete` = sum_i psi_i (Q m)_i, exact for the grid's own dynamics; `continuous` =
    -int rho |grad psi|^2 by differences across the faces. They agree to second order in the spacing."""

    discrete: float
    continuous: float


def dissipation(
    risk: Risk,
    masses: Float[Tensor, " cells"] | np.ndarray,
    grid: Grid,
    beta: float,
    entropy: bool = True,
    device: str = "cpu",
) -> Dissipation:
    """The dissipation identity at masses [cells], psi = dL/drho + beta log rho (entropy=False: dL/drho alone).

    Cells whose mass is 0 or below 1e-300 take no part: there log rho is not defined and rho log rho is 0.
    Raises InputError on beta <= 0 or bad masses. Source: [JKO].
    """
    check_beta(beta)
    m = normalised_masses(np.asarray(torch.as_tensor(masses).cpu(), dtype=np.float64), grid)
    layout = Layout((grid,))
    potential = potential_of(risk, layout, m, device)
    rates = face_rates(potential, layout, beta)
    psi = potential + (beta * np.log(np.maximum(m, 1e-300) / grid.cell_volume) if entropy else 0.0)
    change = rates.apply(m)
    total = 0.0
    for axis in layout.axes:
        between = 0.5 * (m + axis.ahead(m))
        total -= float((between * axis.step(psi) ** 2 * axis.inverse_square).sum())
    return Dissipation(float((psi * change).sum()), total)
