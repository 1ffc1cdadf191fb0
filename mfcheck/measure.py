"""A Measure: points and weights. Particles have weights 1/M, grid cells have their masses."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import torch
from jaxtyping import Float
from torch import Tensor

from mfcheck.errors import InputError


@dataclass(frozen=True, eq=False)
class Measure:
    """A weighted point measure sum_j w_j delta(theta_j), with any leading batch axes.

    points [..., n, p] and weights [..., n] are floating tensors of one dtype on one device; weights may be zero (a
    place where a first variation is asked for) and need not sum to one. Raises InputError on any mismatch.

    >>> heads = Measure.uniform(torch.tensor([[0.0], [1.0], [5.0]]))
    >>> heads.mean().tolist()
    [2.0]
    """

    points: Float[Tensor, "*batch n p"]
    weights: Float[Tensor, "*batch n"]

    def __post_init__(self) -> None:
        if not isinstance(self.points, Tensor) or not isinstance(self.weights, Tensor):
            raise InputError(
                f"a Measure takes torch tensors; points came as {type(self.points).__name__}, "
                f"weights as {type(self.weights).__name__}"
            )
        if self.points.ndim < 2 or self.points.shape[:-1] != self.weights.shape:
            raise InputError(
                "points must be [..., n, p] and weights [..., n]; "
                f"points came as {tuple(self.points.shape)}, weights as {tuple(self.weights.shape)}"
            )
        if not (self.points.is_floating_point() and self.weights.is_floating_point()):
            raise InputError(
                f"points and weights must be floating point; they came as {self.points.dtype} and {self.weights.dtype}"
            )
        if self.points.dtype != self.weights.dtype or self.points.device != self.weights.device:
            raise InputError(
                f"points and weights share a dtype and a device; points came as {self.points.dtype} on "
                f"{self.points.device}, weights as {self.weights.dtype} on {self.weights.device}"
            )

    @classmethod
    def uniform(cls, points: Float[Tensor, "*batch n p"]) -> Measure:
        """The empirical measure of particles: weight 1/n each. points [..., n, p], n >= 1."""
        if not isinstance(points, Tensor) or points.ndim < 2 or points.shape[-2] == 0:
            came = tuple(points.shape) if isinstance(points, Tensor) else type(points).__name__
            raise InputError(f"particles are a tensor [..., n, p] with n >= 1; they came as {came}")
        return cls(points, points.new_full(points.shape[:-1], 1.0 / points.shape[-2]))

    @property
    def mass(self) -> Float[Tensor, "*batch"]:
        """Total weight, shape [...]."""
        return self.weights.sum(-1)

    def integrate(self, f: Callable[[Tensor], Tensor] | Tensor) -> Tensor:
        """sum_j w_j f(theta_j), for f: [..., n, p] -> [..., n] or [..., n, k], or a tensor of such values."""
        values = f(self.points) if callable(f) else f
        if values.shape == self.weights.shape:
            return (self.weights * values).sum(-1)
        if values.shape[:-1] != self.weights.shape:
            raise InputError(
                f"a function to integrate gives one value or k values a point, {tuple(self.weights.shape)} or "
                f"{(*self.weights.shape, 'k')}; it gave shape {tuple(values.shape)}"
            )
        return torch.einsum("...n,...nk->...k", self.weights, values)

    def mean(self) -> Float[Tensor, "*batch p"]:
        """First moment sum_j w_j theta_j, shape [..., p]."""
        return self.integrate(self.points)

    def covariance(self) -> Float[Tensor, "*batch p p"]:
        """Covariance of the measure (divided by its mass), shape [..., p, p]."""
        weights = self.weights / self.mass[..., None]
        centred = self.points - torch.einsum("...n,...np->...p", weights, self.points)[..., None, :]
        return torch.einsum("...n,...np,...nq->...pq", weights, centred, centred)

    def mix(self, other: Measure, share: float) -> Measure:
        """The mixture (1 - share) self + share other: atoms of both, weights scaled. 0 <= share <= 1."""
        if not 0.0 <= share <= 1.0:
            raise InputError(f"a mixture's share lies in [0, 1]; it came as {share}")
        return Measure(
            torch.cat([self.points, other.points], -2),
            torch.cat([(1.0 - share) * self.weights, share * other.weights], -1),
        )

    def split(self, index: int, share: float) -> Measure:
        """The same measure with atom `index` split in two: `share` of its weight goes to a twin at the end."""
        weights = self.weights.clone()
        moved = share * weights[..., index]
        weights[..., index] = weights[..., index] - moved
        return Measure(
            torch.cat([self.points, self.points[..., index, None, :]], -2),
            torch.cat([weights, moved[..., None]], -1),
        )

    def append(self, points: Float[Tensor, "*batch m p"], weight: float = 0.0) -> Measure:
        """The measure with atoms added at points [..., m, p], each of the given weight (0: places to look at).

        Points without batch axes, [m, p], are added to every measure of a batch.
        """
        places = self.places(points)
        return Measure(
            torch.cat([self.points, places], -2),
            torch.cat([self.weights, places.new_full(places.shape[:-1], weight)], -1),
        )

    def places(self, points: Float[Tensor, "*batch m p"]) -> Float[Tensor, "*batch m p"]:
        """points [..., m, p] with this measure's batch axes, expanded where they had none. Raises InputError."""
        batch, p = self.weights.shape[:-1], self.points.shape[-1]
        if points.ndim < 2 or points.shape[-1] != p or points.shape[:-2] not in (batch, ()):
            raise InputError(
                f"places in the space of this measure are [m, {p}], or {[*batch, 'm', p]} with its batch axes; "
                f"they came as {tuple(points.shape)}"
            )
        return points.expand(*batch, *points.shape[-2:])

    def push(self, transport: Callable[[Tensor], Tensor]) -> Measure:
        """The image measure under a map of points [..., n, p] -> [..., n, q]; weights stay."""
        return Measure(transport(self.points), self.weights)
