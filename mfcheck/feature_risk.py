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
#: cotangent [..., K] -> [..., n, p]: the gradient of h(theta) . cotangent at the points it was made for.
Pullback = Callable[[Tensor], Tensor]


@dataclass(frozen=True)
class FeatureRisk:
    """R(mu) = int U dmu + loss(int h dmu), one differentiable torch function of a Measure.

    potential U: [..., n, p] -> [..., n]; features h: [..., n, p] -> [..., n, K]; loss: [..., K] -> [...].
    Its first variation is U + h . loss'(V) with V = int h dmu, so that the interaction between particles passes
    through K numbers: ONE vector-Jacobian product gives the drift of all particles. Leading axes are batches.

    Closed forms are optional and only make things faster (tests hold them to automatic differentiation):
    potential_gradient: [..., n, p] -> [..., n, p]; loss_gradient: [..., K] -> [..., K];
    features_with_pullback: points -> (h [..., n, K], pull), pull(cotangent [..., K]) -> [..., n, p] the gradient of
    h(theta) . cotangent, so that what features and their gradient have in common is computed once.
    width: numbers of working memory a point that features take, K unless said; work is cut into pieces by it.
    `convex` says that the risk is convex along mixtures, (1 - t) mu + t nu.
    """

    name: str
    potential: Callable[[Tensor], Tensor] | None = None
    features: Callable[[Tensor], Tensor] | None = None
    loss: Callable[[Tensor], Tensor] | None = None
    potential_gradient: Callable[[Tensor], Tensor] | None = None
    loss_gradient: Callable[[Tensor], Tensor] | None = None
    features_with_pullback: Callable[[Tensor], tuple[Tensor, Pullback]] | None = None
    width: int | None = None
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
            total = total + self.loss(self.moments(measure))
        return total

    def moments(self, measure: Measure) -> Float[Tensor, "*batch K"]:
        """V = int h dmu, shape [..., K]."""
        if self.features is None:
            raise InputError(f"risk {self.name!r} is linear: it has no features")
        values = self.features(measure.points)
        expected = "K values a point, [..., n, K]"
        _check_shape(values, (*measure.points.shape[:-1], *values.shape[-1:]), self.name, "features", expected)
        return measure.integrate(values)

    def field(self, measure: Measure) -> Float[Tensor, "*batch K"]:
        """loss'(V) at V = int h dmu, shape [..., K]: all that a particle feels of the others."""
        if self.features is None:
            raise InputError(f"risk {self.name!r} is linear: it has no interaction field")
        with torch.no_grad():
            return self.field_at(self.moments(measure))

    def field_at(self, moments: Float[Tensor, "*batch K"]) -> Float[Tensor, "*batch K"]:
        """loss'(V) at given moments V, shape [..., K] -> [..., K]."""
        if self.loss_gradient is not None:
            return self.loss_gradient(moments)
        assert self.loss is not None
        with torch.enable_grad():
            leaf = moments.detach().requires_grad_(True)
            value = self.loss(leaf)
            _check_shape(value, moments.shape[:-1], self.name, "loss", "a scalar for the K moments, [..., K] -> [...]")
            return _gradient_in(leaf, value, self.name, "loss")

    def first_variation(self, points: Points, field: Tensor | None) -> Float[Tensor, "*batch n"]:
        """U(theta) + h(theta) . field at points [..., n, p]; field [..., K] is None for a linear risk."""
        value = torch.zeros(points.shape[:-1], dtype=points.dtype, device=points.device)
        if self.potential is not None:
            potential = self.potential(points)
            _check_shape(potential, points.shape[:-1], self.name, "potential", "one value a point, [..., n]")
            value = value + potential
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
                else _gradient_of_sum(self.potential, points, self.name, "potential")
            )
        if self.features is not None and field is not None:
            _, pull = self.pullback(points)
            part = pull(field)
            total = part if total is None else total + part
        assert total is not None
        return total

    def pullback(self, points: Points) -> tuple[Float[Tensor, "*batch n K"], Pullback]:
        """(h at points [..., n, p], its pullback: field [..., K] -> [..., n, p]); the pullback is called once."""
        if self.features_with_pullback is not None:
            return self.features_with_pullback(points)
        if self.features is None:
            raise InputError(f"risk {self.name!r} is linear: it has no features")
        with torch.enable_grad():
            leaf = points.detach().requires_grad_(True)
            features = self.features(leaf)
        expected = "K values a point, [..., n, K]"
        _check_shape(features, (*points.shape[:-1], *features.shape[-1:]), self.name, "features", expected)

        def pull(field: Tensor) -> Tensor:
            return _gradient_in(leaf, features, self.name, "features", field[..., None, :].expand_as(features))

        return features.detach(), pull


def _gradient_of_sum(f: Callable[[Tensor], Tensor], points: Tensor, risk: str, part: str) -> Tensor:
    """The gradient of f at each point, one backward pass: f acts on points one by one."""
    with torch.enable_grad():
        leaf = points.detach().requires_grad_(True)
        value = f(leaf)
        _check_shape(value, points.shape[:-1], risk, part, "one value a point, [..., n]")
        return _gradient_in(leaf, value, risk, part)


def _gradient_in(leaf: Tensor, value: Tensor, risk: str, part: str, cotangent: Tensor | None = None) -> Tensor:
    if not value.requires_grad:
        raise InputError(
            f"risk {risk!r}: its {part} came without a gradient (was it detached, or computed in NumPy?); "
            "where it is constant, leave it out"
        )
    # ones in memory: the gradient of a sum comes as one number expanded, and backward kernels are slower on that
    (gradient,) = torch.autograd.grad(value, leaf, torch.ones_like(value) if cotangent is None else cotangent)
    return gradient


def _check_shape(value: Tensor, shape: tuple[int, ...], risk: str, part: str, expected: str) -> None:
    # a trailing axis of 1 would broadcast to n x n values without a word
    if tuple(value.shape) != tuple(shape):
        raise InputError(
            f"risk {risk!r}: its {part} gives {expected}; expected {tuple(shape)}, got {tuple(value.shape)}"
        )
