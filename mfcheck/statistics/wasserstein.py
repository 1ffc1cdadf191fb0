"""Exact Wasserstein distances between particles and a law on a grid: W1 and W2^2 on the line, sliced W1 in the plane.

The law is uniform in each cell, so its distribution function F is piecewise linear and nothing is sampled from it.
Everything is vectorised over replicates: one sort of the particles, then table look-ups.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import ArrayLike, NDArray

from mfcheck.errors import InputError

Array = NDArray[np.float64]


@dataclass(frozen=True, eq=False)
class LineLaw:
    """A probability law on [lo, hi], uniform in each of n equal cells: masses [n], non-negative, of sum 1.

    Raises InputError on an empty interval or on masses that are not such.
    """

    lo: float
    hi: float
    masses: Array

    def __post_init__(self) -> None:
        masses = np.ascontiguousarray(self.masses, dtype=np.float64)
        if not (np.isfinite([self.lo, self.hi]).all() and self.lo < self.hi):
            raise InputError(
                f"a law's interval runs from lo to a greater hi, both finite; it came as ({self.lo}, {self.hi})"
            )
        if masses.ndim != 1 or not len(masses) or not (masses >= 0).all() or abs(masses.sum() - 1) > 1e-9:
            raise InputError(
                f"masses are [n], non-negative and of sum 1; they came with shape {masses.shape}, "
                f"minimum {masses.min(initial=0.0):.3g} and sum {masses.sum():.12g}"
            )
        object.__setattr__(self, "masses", masses / masses.sum())

    @property
    def width(self) -> float:
        """The width of a cell."""
        return (self.hi - self.lo) / len(self.masses)

    @cached_property
    def edges(self) -> Array:
        """The cells' edges [n + 1]."""
        return np.linspace(self.lo, self.hi, len(self.masses) + 1)

    @cached_property
    def at_edges(self) -> Array:
        """F at the edges [n + 1], from 0 to 1."""
        values = np.concatenate([[0.0], np.cumsum(self.masses)])
        return values / values[-1]

    @cached_property
    def _areas(self) -> Array:
        """int_lo^x F at the edges [n + 1]: the trapezoid rule is exact for a piecewise linear F."""
        return np.concatenate([[0.0], np.cumsum(0.5 * self.width * (self.at_edges[1:] + self.at_edges[:-1]))])

    def cdf(self, x: ArrayLike) -> Array:
        """F(x), any shape; 0 and 1 outside the interval."""
        return np.interp(np.asarray(x, dtype=np.float64), self.edges, self.at_edges)

    def cdf_integral(self, x: ArrayLike) -> Array:
        """int_{-inf}^x F, any shape: quadratic in a cell, 0 to the left of lo, of slope 1 to the right of hi."""
        x = np.asarray(x, dtype=np.float64)
        inside = np.clip(x, self.lo, self.hi)
        cell = np.minimum(((inside - self.lo) / self.width).astype(np.intp), len(self.masses) - 1)
        into = inside - self.edges[cell]
        slope = self.masses / self.width
        return (
            self._areas[cell] + into * (self.at_edges[cell] + 0.5 * into * slope[cell]) + np.maximum(x - self.hi, 0.0)
        )

    def quantile(self, u: ArrayLike) -> Array:
        """The smallest x with F(x) >= u, for u in [0, 1], any shape."""
        u = np.asarray(u, dtype=np.float64)
        # the first edge at or beyond u: empty cells are jumped over from their left end
        right = np.clip(np.searchsorted(self.at_edges, u, side="left"), 1, len(self.masses))
        below, above = self.at_edges[right - 1], self.at_edges[right]
        share = np.divide(u - below, above - below, out=np.zeros_like(u), where=above > below)
        return self.edges[right - 1] + np.clip(share, 0.0, 1.0) * self.width

    def quantile_cells(self, count: int) -> tuple[Array, float]:
        """Averages of the quantile function over ((i - 1)/M, i/M), [M], and the mean of its variances in them.

        With both, W2^2 to M sorted particles x is mean_i (x_i - average_i)^2 + that variance.
        """
        levels = np.arange(count + 1) / count
        cuts = self.quantile(levels)
        # the quantile function is linear between these levels, and so is integrated exactly piece by piece
        all_levels = np.union1d(levels, self.at_edges)
        left, right = self._ends_of_pieces(all_levels)
        lengths = np.diff(all_levels)
        owner = np.clip(
            np.searchsorted(levels, 0.5 * (all_levels[1:] + all_levels[:-1]), side="right") - 1, 0, count - 1
        )
        # measured from the piece's own quantile, so that no digits cancel
        centre = 0.5 * (cuts[owner] + cuts[owner + 1])
        first = np.bincount(owner, lengths * (0.5 * (left + right) - centre), minlength=count)
        offsets = first * count
        a, b = left - centre - offsets[owner], right - centre - offsets[owner]
        variance = float((lengths * (a * a + a * b + b * b) / 3.0).sum())
        return 0.5 * (cuts[:-1] + cuts[1:]) + offsets, variance

    def _ends_of_pieces(self, levels: Array) -> tuple[Array, Array]:
        """The quantile function at both ends of each piece between sorted levels, from inside the piece."""
        middle = 0.5 * (levels[1:] + levels[:-1])
        cell = np.clip(np.searchsorted(self.at_edges, middle, side="right") - 1, 0, len(self.masses) - 1)
        mass = np.diff(self.at_edges)[cell]
        scale = np.divide(self.width, mass, out=np.zeros_like(mass), where=mass > 0)
        base = self.edges[cell]
        return base + (levels[:-1] - self.at_edges[cell]) * scale, base + (levels[1:] - self.at_edges[cell]) * scale


def wasserstein_1(particles: ArrayLike, law: LineLaw) -> Array:
    """W1 = int |F_M - F| of the uniform law on particles [..., M] to a law on the line, exact: [...].

    Between two neighbouring particles F_M is i/M, and F crosses it at most once, at its quantile; the integrals to
    both sides come from F's antiderivative. Source: Vallender 1974; claims C1.
    """
    x = _sorted(particles)
    count = x.shape[-1]
    area = law.cdf_integral(x)
    # the tails: F_M is 0 to the left of all particles and 1 to their right
    end = np.maximum(x[..., -1], law.hi)
    total = area[..., 0] + (end - x[..., -1]) - (law.cdf_integral(end) - area[..., -1])
    if count == 1:
        return total
    level = np.arange(1, count) / count
    crossing = law.quantile(level)
    area_there = law.cdf_integral(crossing)
    left, right = x[..., :-1], x[..., 1:]
    # int (level - F) up to the crossing minus int (level - F) beyond it, the crossing clipped to the gap
    gap = area[..., 1:] + area[..., :-1] - level * (left + right)
    at_crossing = np.where(
        crossing <= left,
        level * left - area[..., :-1],
        np.where(crossing >= right, level * right - area[..., 1:], level * crossing - area_there),
    )
    return total + (gap + 2.0 * at_crossing).sum(-1)


def squared_wasserstein_2(particles: ArrayLike, law: LineLaw) -> Array:
    """W2^2 of the uniform law on particles [..., M] to a law on the line, exact: [...].

    int_0^1 (F_M^-1 - F^-1)^2 = mean_i (x_i - average of F^-1 over its i-th cell)^2 + the mean variance of F^-1 in
    the cells, which is the distance of the best M points. Source: claims C1.
    """
    x = _sorted(particles)
    averages, variance = law.quantile_cells(x.shape[-1])
    return np.square(x - averages).mean(-1) + variance


def projected(
    masses: ArrayLike, bounds: tuple[tuple[float, float], tuple[float, float]], angle: float, cells: int = 512
) -> LineLaw:
    """The law of cos(angle) x + sin(angle) y where (x, y) is uniform in each cell of a plane grid of masses [n, m].

    A projected cell is a trapezium; its mass between the edges of `cells` intervals is exact. Raises InputError as
    LineLaw does.
    """
    weights = np.asarray(masses, dtype=np.float64)
    if weights.ndim != 2:
        raise InputError(f"masses of a plane grid are [n, m]; they came with shape {weights.shape}")
    direction = np.array([np.cos(angle), np.sin(angle)])
    corners = [sorted(component * end for end in side) for component, side in zip(direction, bounds, strict=True)]
    lo, hi = sum(corner[0] for corner in corners), sum(corner[1] for corner in corners)
    centres, widths = [], []
    for component, (a, b), n in zip(direction, bounds, weights.shape, strict=True):
        h = (b - a) / n
        centres.append(component * (a + h * (np.arange(n) + 0.5)))
        widths.append(abs(component) * h)
    place = (centres[0][:, None] + centres[1][None, :]).ravel()
    interval = (hi - lo) / cells
    reach = 0.5 * sum(widths)
    first = np.floor((place - reach - lo) / interval).astype(np.intp)
    total = np.zeros(cells)
    for offset in range(int(2 * reach / interval) + 2):  # a trapezium meets no more intervals than this
        index = np.clip(first + offset, 0, cells - 1)
        left = lo + interval * index - place
        share = _trapezium_cdf(left + interval, *widths) - _trapezium_cdf(left, *widths)
        inside = first + offset == index
        total += np.bincount(index[inside], (weights.ravel() * share)[inside], minlength=cells)
    return LineLaw(lo, hi, total / total.sum())


def sliced_wasserstein_1(particles: ArrayLike, laws: dict[float, LineLaw]) -> Array:
    """The mean over directions of W1 between projected particles [..., M, 2] and projected laws: [...].

    laws: angle -> `projected` law, for the directions to average over. Source: Bonneel et al. 2015; claims C1.
    """
    return _over_directions(wasserstein_1, particles, laws)


def sliced_squared_wasserstein_2(particles: ArrayLike, laws: dict[float, LineLaw]) -> Array:
    """The mean over directions of W2^2 between projected particles [..., M, 2] and projected laws: [...].

    As `sliced_wasserstein_1`; its root is the sliced W2. Source: Bonneel et al. 2015; claims C6.
    """
    return _over_directions(squared_wasserstein_2, particles, laws)


def _over_directions(
    distance: Callable[[ArrayLike, LineLaw], Array], particles: ArrayLike, laws: dict[float, LineLaw]
) -> Array:
    theta = np.asarray(particles, dtype=np.float64)
    if theta.ndim < 2 or theta.shape[-1] != 2 or not laws:
        raise InputError(
            "a sliced distance takes particles [..., M, 2] and at least one direction; "
            f"particles came as {theta.shape}, with {len(laws)} directions"
        )
    total = np.zeros(theta.shape[:-2])
    for angle, law in laws.items():
        total += distance(theta[..., 0] * np.cos(angle) + theta[..., 1] * np.sin(angle), law)
    return total / len(laws)


def _trapezium_cdf(x: Array, a: float, b: float) -> Array:
    """P(U + V <= x), U and V uniform on intervals of widths a and b about 0 (either may vanish)."""
    wide, narrow = max(a, b), min(a, b)
    if narrow < 1e-9 * wide:
        return np.clip(x / wide + 0.5, 0.0, 1.0)
    # second differences of the antiderivative of a ramp
    outer, inner = 0.5 * (wide + narrow), 0.5 * (wide - narrow)
    y = np.clip(x, -outer, outer)
    ramp = np.square(np.maximum(y + outer, 0.0)) - np.square(np.maximum(y + inner, 0.0))
    ramp -= np.square(np.maximum(y - inner, 0.0))
    return ramp / (2.0 * wide * narrow)


def _sorted(particles: ArrayLike) -> Array:
    x = np.asarray(particles, dtype=np.float64)
    if x.ndim < 1 or x.shape[-1] == 0:
        raise InputError(f"particles are [..., M] with M >= 1; they came with shape {x.shape}")
    if not np.isfinite(x).all():
        raise InputError("particles are finite numbers; they came with NaN or infinity")
    return np.sort(x, axis=-1)
