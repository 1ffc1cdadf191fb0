"""FeatureRisk: a loss of integrals of features, the form that every shipped risk has."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import torch
from jaxtyping import Float
from torch import Tensor

from mfcheck.errors import InputError
from mfcheck.measure import Measure

Points = Float[Tensor, "*batch n p"]


@dataclass(frozen=True)
class FeatureRisk:
    """R(mu) = int U dmu + loss(int h dmu), one differentiable torch function of a Measure.

    potential U: [..., n, p] -> [..., n]; features h: [..., n, p] -> [..., n, K]; loss: [..., K] -> [...].
    Its first variation is U + h . loss'(V) with V = int h dmu, so that the interaction between particles passes
    through K numbers: ONE vector-Jacobian product gives the drift of all particles. Leading axes are batches.

    Closed forms are optional and only make things faster (tests hold them to automatic differentiation):
    potential_gradient: [..., n, p] -> [..., n, p]; loss_gradient: [..., K] -> [..., K];
    features_vjp: (points, cotangent [..., K]) -> [..., n, p], the gradient of h(theta) . cotangent.
    `convex` says that the risk is convex along mixtures, (1 - t) mu + t nu.
    """

    name: str
    potential: Callable[[Tensor], Tensor] | None = None
    features: Callable[[Tensor], Tensor] | None = None
    loss: Callable[[Tensor], Tensor] | None = None
    potential_gradient: Callable[[Tensor], Tensor] | None = None
    loss_gradient: Callable[[Tensor], Tensor] | None = None
    features_vjp: Callable[[Tensor, Tensor], Tensor] | None = None
    convex: bool = True

    def __post_init__(self) -> None:
        if (self.features is None) != (self.loss is None):
            raise InputError(f"risk {self.name!r}: features and loss come together; only one of them was given")
        if self.potential is None and self.features is None:
            raise InputError(f"risk {self.name!r}: neither a potential nor features with a loss were given")

    @property
    def is_linear(self) -> bool:
        """True where the risk is an integral of a potential alone: the drift does not see the measure."""
        return self.features is None

    def __call__(self, measure: Measure) -> Float[Tensor, "*batch"]:
        total = torch.zeros((), dtype=measure.points.dtype, device=measure.points.device)
        if self.potential is not None:
            total = total + measure.integrate(self.potential)
        if self.features is not None and self.loss is not None:
            total = total + self.loss(measure.integrate(self.features))
        return total

    def field(self, measure: Measure) -> Float[Tensor, "*batch K"]:
        """loss'(V) at V = int h dmu, shape [..., K]: all that a particle feels of the others."""
        if self.features is None:
            raise InputError(f"risk {self.name!r} is linear: it has no interaction field")
        with torch.no_grad():
            return self.field_at(measure.integrate(self.features))

    def field_at(self, moments: Float[Tensor, "*batch K"]) -> Float[Tensor, "*batch K"]:
        """loss'(V) at given moments V, shape [..., K] -> [..., K]."""
        if self.loss_gradient is not None:
            return self.loss_gradient(moments)
        assert self.loss is not None
        with torch.enable_grad():
            leaf = moments.detach().requires_grad_(True)
            (gradient,) = torch.autograd.grad(self.loss(leaf).sum(), leaf)
        return gradient

    def first_variation(self, points: Points, field: Tensor | None) -> Float[Tensor, "*batch n"]:
        """U(theta) + h(theta) . field at points [..., n, p]; field [..., K] is None for a linear risk."""
        value = torch.zeros(points.shape[:-1], dtype=points.dtype, device=points.device)
        if self.potential is not None:
            value = value + self.potential(points)
        if self.features is not None and field is not None:
            value = value + torch.einsum("...nk,...k->...n", self.features(points), field)
        return value

    def gradient(self, points: Points, field: Tensor | None) -> Points:
        """grad_theta of the first variation at points [..., n, p], by closed forms where they were given."""
        total: Tensor | None = None
        if self.potential is not None:
            total = (
                self.potential_gradient(points)
                if self.potential_gradient is not None
                else _gradient_of_sum(self.potential, points)
            )
        if self.features is not None and field is not None:
            if self.features_vjp is not None:
                part = self.features_vjp(points, field)
            else:
                features = self.features
                part = _gradient_of_sum(lambda x: torch.einsum("...nk,...k->...n", features(x), field), points)
            total = part if total is None else total + part
        assert total is not None
        return total


def _gradient_of_sum(f: Callable[[Tensor], Tensor], points: Tensor) -> Tensor:
    """The gradient of f at each point, one backward pass: f acts on points one by one."""
    with torch.enable_grad():
        leaf = points.detach().requires_grad_(True)
        (gradient,) = torch.autograd.grad(f(leaf).sum(), leaf)
    return gradient
