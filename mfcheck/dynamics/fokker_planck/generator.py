"""The finite-volume generator Q of dm/dt = Q m: Scharfetter-Gummel fluxes, and two fluxes to compare them with."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import pairwise
from typing import Any, Literal

import numpy as np
import scipy.sparse

from mfcheck.dynamics.fokker_planck.grid import Grid
from mfcheck.errors import InputError

Flux = Literal["scharfetter_gummel", "centred", "upwind"]
FLUXES = ("scharfetter_gummel", "centred", "upwind")


def bernoulli(x: np.ndarray) -> np.ndarray:
    """x / (exp(x) - 1), equal to 1 at 0, to full relative precision for x >= 0.

    expm1 keeps the eight digits that exp(x) - 1 loses near 0; below 0 use B(-x) = x + B(x), where nothing cancels.
    """
    # 1e-300 in place of 0 gives 1; beyond 700 B is below 1e-301 and exp would overflow
    safe = np.minimum(x, 700.0)
    np.maximum(safe, 1e-300, out=safe)
    safe /= np.expm1(safe)
    return safe


class Axis:
    """The faces of one axis in flat order: face i lies between cell i and its next cell along the axis.

    Arrays are [..., cells]; leading axes are several potentials on the same cells.
    """

    def __init__(self, stride: int, count: int, periodic: bool, inverse_square: np.ndarray) -> None:
        self.stride, self.count, self.periodic = stride, count, periodic
        self.inverse_square = inverse_square  # 1/h^2 a face, 0 where there is no face

    def step(self, values: np.ndarray) -> np.ndarray:
        """values[next(i)] - values[i]; 0 where there is no next cell."""
        if self.periodic:
            return self.ahead(values) - values
        difference = np.empty_like(values)
        np.subtract(values[..., self.stride :], values[..., : -self.stride], out=difference[..., : -self.stride])
        difference[..., -self.stride :] = 0.0
        return difference

    def ahead(self, values: np.ndarray) -> np.ndarray:
        """values[next(i)]; values[i] where there is no next cell."""
        if self.periodic:
            return np.roll(values.reshape(-1, self.count, self.stride), -1, 1).reshape(values.shape)
        moved = np.empty_like(values)
        moved[..., : -self.stride] = values[..., self.stride :]
        moved[..., -self.stride :] = values[..., -self.stride :]
        return moved

    def behind(self, faces: np.ndarray) -> np.ndarray:
        """Face values moved to the cell after the face."""
        if self.periodic:
            return np.roll(faces.reshape(-1, self.count, self.stride), 1, 1).reshape(faces.shape)
        moved = np.empty_like(faces)
        moved[..., self.stride :] = faces[..., : -self.stride]
        moved[..., : self.stride] = 0.0
        return moved


@dataclass(frozen=True)
class Layout:
    """The faces of a grid, or of several 1-D grids laid end to end without a face at the seams.

    One-dimensional levels advance together as one long chain: at these sizes the calls cost more than the arithmetic.
    """

    grids: tuple[Grid, ...]

    @cached_property
    def offsets(self) -> tuple[int, ...]:
        """Where each grid starts, and the end."""
        return tuple(np.cumsum([0, *(grid.size for grid in self.grids)]).tolist())

    @property
    def size(self) -> int:
        return self.offsets[-1]

    @cached_property
    def nodes(self) -> np.ndarray:
        return self.grids[0].nodes if len(self.grids) == 1 else np.concatenate([grid.nodes for grid in self.grids])

    @cached_property
    def axes(self) -> tuple[Axis, ...]:
        first = self.grids[0]
        axes = []
        stride = first.size
        for k, n in enumerate(first.shape):
            stride //= n
            parts = []
            for grid in self.grids:
                h = grid.spacing[k]
                faces = np.full(grid.shape, 1.0 / h**2)
                if not first.periodic:
                    faces[(slice(None),) * k + (-1,)] = 0.0
                parts.append(faces.ravel())
            axes.append(Axis(stride, n, first.periodic, np.concatenate(parts)))
        return tuple(axes)

    @cached_property
    def members(self) -> np.ndarray:
        """[grids, cells]: 1 where a cell belongs to a grid. One product sums over each grid."""
        member = np.zeros((len(self.grids), self.size))
        for k, (a, b) in enumerate(pairwise(self.offsets)):
            member[k, a:b] = 1.0
        return member

    def split(self, values: np.ndarray) -> list[np.ndarray]:
        """An array [cells] cut into the parts that belong to each grid."""
        return [values[a:b] for a, b in pairwise(self.offsets)]


@dataclass(frozen=True)
class Rates:
    """Jump rates across the faces: up[k] from cell i to the next along axis k, down[k] back; arrays [..., cells]."""

    layout: Layout
    up: tuple[np.ndarray, ...]
    down: tuple[np.ndarray, ...]

    @cached_property
    def diagonal(self) -> np.ndarray:
        """Minus the total rate of leaving each cell."""
        total = np.negative(self.up[0])
        for up in self.up[1:]:
            total -= up
        for axis, down in zip(self.layout.axes, self.down, strict=True):
            if axis.periodic:
                total -= axis.behind(down)
            else:
                total[..., axis.stride :] -= down[..., : -axis.stride]
        return total

    def one(self, k: int) -> Rates:
        """The rates of the k-th of several potentials."""
        rates = Rates(self.layout, tuple([up[k] for up in self.up]), tuple([down[k] for down in self.down]))
        rates.__dict__["diagonal"] = self.diagonal[k]  # computed once for all of them
        return rates

    def apply(self, masses: np.ndarray) -> np.ndarray:
        """Q m, face by face: what leaves one cell enters its neighbour, so the sum is 0 to rounding."""
        out = np.zeros_like(masses)
        for axis, up, down in zip(self.layout.axes, self.up, self.down, strict=True):
            flux = up * masses - down * axis.ahead(masses)
            out -= flux
            out += axis.behind(flux)
        return out

    def matrix(self) -> scipy.sparse.dia_array:
        """Q by diagonals, [cells, cells]; columns sum to 0."""
        return banded(self.layout, self.diagonal, self.up, self.down)


def banded(
    layout: Layout, diagonal: np.ndarray, up: Sequence[np.ndarray], down: Sequence[np.ndarray]
) -> scipy.sparse.dia_array:
    """The matrix with A[next(i), i] = up[i] and A[i, next(i)] = down[i]. DIA keeps A[j - k, j] at [k, j]."""
    bands: dict[int, np.ndarray] = {0: diagonal}
    for axis, forward, backward in zip(layout.axes, up, down, strict=True):
        s = axis.stride
        after = axis.behind(backward)
        if not axis.periodic:
            bands[-s], bands[s] = forward, after
            continue
        wrap = (axis.count - 1) * s
        last = np.zeros((layout.size // (axis.count * s), axis.count, s), dtype=bool)
        last[:, -1] = True
        first = np.roll(last, 1, 1).ravel()
        ends = last.ravel()
        _add(bands, -s, np.where(ends, 0.0, forward))
        _add(bands, s, np.where(first, 0.0, after))
        _add(bands, wrap, np.where(ends, forward, 0.0))
        _add(bands, -wrap, np.where(first, after, 0.0))
    offsets = np.array(sorted(bands), dtype=np.int32)
    return scipy.sparse.dia_array((np.stack([bands[k] for k in offsets]), offsets), shape=(layout.size, layout.size))


def _add(bands: dict[int, np.ndarray], offset: int, values: np.ndarray) -> None:
    bands[offset] = bands[offset] + values if offset in bands else values


def face_rates(potential: np.ndarray, layout: Layout, beta: float, flux: Flux = "scharfetter_gummel") -> Rates:
    """Jump rates of potentials [..., cells] at the centres; see `generator`."""
    ups, downs = [], []
    for axis in layout.axes:
        x = axis.step(potential)
        x /= beta
        diffusion = beta * axis.inverse_square
        if flux == "scharfetter_gummel":
            # B(|x|) downhill and B(|x|) + |x| uphill: neither cancels
            b = bernoulli(np.abs(x))
            down = np.maximum(x, 0.0)
            down += b
            down *= diffusion
            downs.append(down)
            b -= np.minimum(x, 0.0, out=x)
            b *= diffusion
            ups.append(b)
        elif flux == "centred":
            ups.append(diffusion * (1.0 - 0.5 * x))
            downs.append(diffusion * (1.0 + 0.5 * x))
        else:
            ups.append(diffusion * (1.0 + np.maximum(-x, 0.0)))
            downs.append(diffusion * (1.0 + np.maximum(x, 0.0)))
    return Rates(layout, tuple(ups), tuple(downs))


def generator(potential: Any, grid: Grid, beta: float, flux: Flux = "scharfetter_gummel") -> scipy.sparse.csc_array:
    """The generator Q [cells, cells] of the masses' evolution dm/dt = Q m in a potential [cells], sparse.

    Columns sum to 0. "scharfetter_gummel": rates beta/h^2 B(+-dU/beta), off-diagonals >= 0, the Gibbs density
    exp(-U/beta) exactly stationary, second order in h. "upwind" is first order; "centred" is second order but its rates
    turn negative where a cell's Peclet number |dU|/beta exceeds 2. Raises InputError on beta <= 0, a wrong shape, NaN
    or infinite potential, or an unknown flux. Source: [SG], [CC].
    """
    values = checked_potential(potential, grid.size)
    check_beta(beta)
    check_flux(flux)
    return face_rates(values, Layout((grid,)), beta, flux).matrix().tocsc()


def check_beta(beta: float) -> None:
    """Raises InputError unless beta is one finite positive number."""
    if not isinstance(beta, (int, float, np.floating, np.integer)):
        raise InputError(f"the grid solver takes one constant beta > 0; it came as {type(beta).__name__}")
    if not (np.isfinite(beta) and beta > 0):
        raise InputError(
            f"the grid solver needs beta > 0; it came as {beta}. Without diffusion use particles (simulate with "
            "beta=0), which follow the characteristics of the continuity equation"
        )


def check_flux(flux: str) -> None:
    if flux not in FLUXES:
        raise InputError(f"flux is one of {', '.join(FLUXES)}; it came as {flux!r}")


def checked_potential(potential: Any, size: int) -> np.ndarray:
    """A potential as float64 [cells]; raises InputError on a wrong shape, NaN or infinity."""
    values = np.asarray(potential.detach().cpu() if hasattr(potential, "detach") else potential, dtype=np.float64)
    if values.shape != (size,):
        raise InputError(f"a potential has one value a cell, {size} on this grid; it came as shape {values.shape}")
    check_finite(values)
    return values


def check_finite(potential: np.ndarray) -> None:
    if not np.isfinite(potential).all():
        bad = int((~np.isfinite(potential)).sum())
        raise InputError(
            f"the potential must be finite at every centre; NaN or infinity came in {bad} of {potential.size} cells"
        )
