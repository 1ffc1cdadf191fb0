"""Grid: a box of equal cells in one or two dimensions; masses on it are quadrature weights at the centres."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from math import prod
from typing import Any

import numpy as np
import torch
from jaxtyping import Float
from torch import Tensor

from mfcheck.errors import InputError

FEWEST_CELLS = 4


@dataclass(frozen=True)
class Grid:
    """A box cut into equal cells, with no-flux or periodic sides.

    bounds: one (lo, hi) an axis, one or two axes; cells: how many an axis (None: solve_fokker_planck chooses them from
    its tolerance); periodic: every side is glued to the opposite one. Masses [cells] are listed with the last axis
    running fastest; the mass of a cell stands for density at the centre times cell volume, so that sums over the
    centres integrate smooth functions with an error beyond every power of the spacing.
    Raises InputError for more than two axes, an empty or infinite side, or fewer than four cells.

    >>> Grid([(-1.0, 1.0)], [4]).centres.ravel().tolist()
    [-0.75, -0.25, 0.25, 0.75]
    """

    bounds: Sequence[tuple[float, float]]
    cells: Sequence[int] | int | None = None
    periodic: bool = False

    def __post_init__(self) -> None:
        try:
            bounds = tuple((float(lo), float(hi)) for lo, hi in self.bounds)
        except (TypeError, ValueError):
            raise InputError(
                f"bounds are one (lo, hi) an axis, [(-4, 4), (-3, 3)]; they came as {self.bounds!r}"
            ) from None
        if not 1 <= len(bounds) <= 2:
            raise InputError(
                f"a grid has one or two axes; bounds came with {len(bounds)} (in more use particles: simulate)"
            )
        for lo, hi in bounds:
            if not (np.isfinite(lo) and np.isfinite(hi) and lo < hi):
                raise InputError(
                    f"each side of the box runs from lo to a greater hi, both finite; it came as ({lo}, {hi})"
                )
        object.__setattr__(self, "bounds", bounds)
        if self.cells is None:
            return
        given: Any = self.cells
        cells = (given,) * len(bounds) if isinstance(given, (int, np.integer)) else tuple(given)
        if len(cells) != len(bounds):
            raise InputError(f"cells are one number an axis: {len(bounds)} expected, {len(cells)} came")
        for n in cells:
            if int(n) != n or n < FEWEST_CELLS:
                raise InputError(f"an axis has a whole number of cells, at least {FEWEST_CELLS}; it came as {n}")
        object.__setattr__(self, "cells", tuple(int(n) for n in cells))

    @property
    def dim(self) -> int:
        """Number of axes, 1 or 2."""
        return len(self.bounds)

    @property
    def shape(self) -> tuple[int, ...]:
        """Cells along each axis. Raises InputError where they were left out."""
        if self.cells is None:
            raise InputError("this grid has no cells yet: give cells=[n, ...], one number an axis")
        return tuple(self.cells)  # type: ignore[arg-type]  # made a tuple of ints at the door

    @property
    def size(self) -> int:
        """Number of cells in all."""
        return prod(self.shape)

    @property
    def spacing(self) -> tuple[float, ...]:
        """Cell width along each axis."""
        return tuple((hi - lo) / n for (lo, hi), n in zip(self.bounds, self.shape, strict=True))

    @property
    def cell_volume(self) -> float:
        """Product of the cell widths."""
        return prod(self.spacing)

    @cached_property
    def axes(self) -> tuple[np.ndarray, ...]:
        """Centres along each axis, arrays [n]."""
        return tuple(
            lo + h * (np.arange(n) + 0.5) for (lo, _), h, n in zip(self.bounds, self.spacing, self.shape, strict=True)
        )

    @cached_property
    def nodes(self) -> np.ndarray:
        """Centres as a NumPy array [cells, p]."""
        if self.dim == 1:
            return self.axes[0][:, None]
        return np.stack([axis.ravel() for axis in np.meshgrid(*self.axes, indexing="ij")], -1)

    @property
    def centres(self) -> Float[Tensor, "cells p"]:
        """Centres [cells, p], float64, the last axis running fastest."""
        return torch.from_numpy(self.nodes)

    def refine(self) -> Grid:
        """The grid with every axis cut twice as finely; its masses `aggregate` back onto this one."""
        return replace(self, cells=tuple(2 * n for n in self.shape))

    def coarsen(self) -> Grid:
        """The grid with half the cells an axis. Raises InputError where an axis has an odd number of them."""
        if any(n % 2 for n in self.shape):
            raise InputError(f"only an even number of cells can be halved; the axes have {self.shape}")
        return replace(self, cells=tuple(n // 2 for n in self.shape))

    def aggregate(self, masses: Any) -> Any:
        """Masses [..., cells] of this grid added up over the cells of `coarsen()`: [..., cells / 2^p]."""
        coarse = self.coarsen().shape
        lead = tuple(masses.shape[:-1])
        pairs = masses.reshape(*lead, *(k for n in coarse for k in (n, 2)))
        for axis in range(self.dim):
            pairs = pairs.sum(len(lead) + axis + 1)
        return pairs.reshape(*lead, -1)

    def masses_of(self, density: Callable[[Tensor], Any]) -> Float[Tensor, " cells"]:
        """The masses [cells] of a density (points [n, p]) -> [n]: its values at the centres, normalised to sum 1.

        Raises InputError on a wrong shape, NaN, infinite or negative values, or no mass at all.
        """
        return torch.from_numpy(density_masses(density, self))


def density_masses(density: Callable[[Tensor], Any], grid: Grid) -> np.ndarray:
    """Normalised values of a density at the centres: [cells]."""
    values = density(grid.centres)
    array = np.asarray(values.detach().cpu() if isinstance(values, Tensor) else values, dtype=np.float64)
    if array.shape == (grid.size, 1):
        array = array[:, 0]
    if array.shape != (grid.size,):
        raise InputError(
            f"an initial density maps points [n, p] to values [n]; for {grid.size} points of dimension {grid.dim} it "
            f"returned shape {array.shape}"
        )
    return normalised_masses(array, grid)


def normalised_masses(values: np.ndarray, grid: Grid) -> np.ndarray:
    """Masses checked at the door and divided by their sum."""
    if values.shape != (grid.size,):
        raise InputError(f"initial masses are one a cell, {grid.size} on this grid; they came as shape {values.shape}")
    total = values.sum()
    if not np.isfinite(total) or not np.isfinite(values).all():
        raise InputError("initial masses are finite numbers; they came with NaN or infinity")
    if values.min() < 0:
        raise InputError(f"initial masses are non-negative; the smallest came as {values.min():.3g}")
    if total <= 0:
        raise InputError(
            "the initial density has no mass at the centres of the grid: is it inside the box, and resolved?"
        )
    return values / total
