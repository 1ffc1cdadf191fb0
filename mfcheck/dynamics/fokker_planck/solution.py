"""Solution: masses at the requested times, each with its own certified L1 bar."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np
import torch
from jaxtyping import Float
from scipy.interpolate import PchipInterpolator
from torch import Tensor

from mfcheck.dynamics.fokker_planck.energy import free_energy
from mfcheck.dynamics.fokker_planck.grid import Grid
from mfcheck.errors import InputError
from mfcheck.functional import Risk
from mfcheck.measure import Measure


@dataclass(frozen=True)
class Solution:
    """What solve_fokker_planck returns; tensors are float64 on the device that was asked for.

    times [T]; masses [T, cells] on `grid`: density at each centre times the cell volume, >= 0, sum 1; error [T]: a bar
    of sum_i |masses_i - rho(theta_i) h^p|, made of space_error and time_error (each twice a Richardson estimate), the
    rounding that was clipped, and boundary_mass [T], what lies in the outermost cells of a no-flux box;
    steps: how many time steps the solution took (0: exact in time); step: the longest of them.
    """

    times: Float[Tensor, " T"]
    grid: Grid
    masses: Float[Tensor, "T cells"]
    error: Float[Tensor, " T"]
    boundary_mass: Float[Tensor, " T"]
    space_error: Float[Tensor, " T"]
    time_error: Float[Tensor, " T"]
    rounding: float
    steps: int
    step: float
    beta: float
    risk: Risk

    @property
    def density(self) -> Float[Tensor, "T cells"]:
        """rho at the centres, [T, cells]."""
        return self.masses / self.grid.cell_volume

    def measure(self, k: int = -1) -> Measure:
        """The law at the k-th time: points are the cells' centres, weights their masses."""
        return Measure(self.grid.centres.to(self.masses.device), self.masses[k])

    @cached_property
    def free_energy(self) -> Float[Tensor, " T"]:
        """F = risk + beta int rho log rho at each time, [T]."""
        device = str(self.masses.device)
        return torch.stack([free_energy(self.risk, m, self.grid, self.beta, device=device) for m in self.masses])

    def face_cdf(self, k: int = -1) -> tuple[np.ndarray, np.ndarray]:
        """Faces [n + 1] of a 1-D grid and the distribution function there, to fourth order in the spacing.

        A cell's average is rho + h^2 rho'' / 24: with second differences it stays positive, at least 11/12 rho.
        Raises InputError in two dimensions.
        """
        if self.grid.dim != 1:
            raise InputError(f"a distribution function needs one dimension; this grid has {self.grid.dim}")
        ((lo, hi),) = self.grid.bounds
        m = self.masses[k].cpu().numpy()
        padded = np.concatenate([m[-1:], m, m[:1]]) if self.grid.periodic else np.pad(m, 1, mode="edge")
        averages = m + np.diff(padded, 2) / 24.0
        heights = np.concatenate([[0.0], np.cumsum(averages)])
        return np.linspace(lo, hi, m.size + 1), heights / heights[-1]

    def cdf(self, x: Tensor | np.ndarray, k: int = -1) -> Float[Tensor, " n"]:
        """P(theta <= x) at the k-th time, monotone between the faces; 1-D only. x [n]."""
        faces, heights = self.face_cdf(k)
        places = np.clip(np.asarray(torch.as_tensor(x).cpu(), dtype=np.float64), faces[0], faces[-1])
        return torch.from_numpy(np.clip(PchipInterpolator(faces, heights)(places), 0.0, 1.0))

    def quantile(self, u: Tensor | np.ndarray, k: int = -1) -> Float[Tensor, " n"]:
        """The place where the distribution function reaches u in [0, 1], at the k-th time; 1-D only. u [n]."""
        faces, heights = self.face_cdf(k)
        levels = np.asarray(torch.as_tensor(u).cpu(), dtype=np.float64)
        if levels.size and (levels.min() < 0 or levels.max() > 1):
            raise InputError(f"quantile levels lie in [0, 1]; they came between {levels.min()} and {levels.max()}")
        # where the distribution function is flat to rounding the quantile is not determined: keep the first face
        rising = np.concatenate([[True], np.diff(np.maximum.accumulate(heights)) > 1e-15])
        return torch.from_numpy(
            PchipInterpolator(heights[rising], faces[rising])(np.clip(levels, 0.0, heights[rising][-1]))
        )
