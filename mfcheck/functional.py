"""First variation and Wasserstein velocity of any risk: gradients in the weights and in the points."""

from __future__ import annotations

from collections.abc import Callable

import torch
from jaxtyping import Float
from torch import Tensor

from mfcheck.errors import InputError
from mfcheck.feature_risk import FeatureRisk
from mfcheck.measure import Measure

Risk = Callable[[Measure], Tensor]


def evaluate(risk: Risk, measure: Measure) -> Float[Tensor, "*batch"]:
    """risk(measure), shape [...] (a scalar without batch axes). Raises InputError on any other type or shape."""
    value = risk(measure)
    batch = measure.weights.shape[:-1]
    if not isinstance(value, Tensor):
        raise InputError(f"a risk returns a torch tensor; {_name(risk)} returned {type(value).__name__}")
    if value.shape != batch:
        expected = "a scalar" if not batch else f"one value a replicate, shape {tuple(batch)}"
        raise InputError(f"a risk returns {expected}; {_name(risk)} returned shape {tuple(value.shape)}")
    return value


def first_variation(
    risk: Risk, measure: Measure, at: Float[Tensor, "*batch m p"] | None = None
) -> Float[Tensor, "*batch n"]:
    """dL/drho at the atoms [..., n], or at other points [..., m, p]: the gradient in the weights.

    Up to a constant in theta, as every first variation. Elsewhere than at atoms it is the gradient in the weights
    of atoms of weight 0 added there. Raises InputError where the risk does not return a scalar. Source: claims K1.

    >>> heads = Measure.uniform(torch.tensor([[0.0], [2.0]]))
    >>> first_variation(lambda rho: rho.integrate(lambda theta: theta[..., 0] ** 2), heads).tolist()
    [0.0, 4.0]
    """
    places = measure.points if at is None else measure.places(at)
    if isinstance(risk, FeatureRisk):
        with torch.no_grad():
            field = None if risk.is_linear else risk.field(measure)
            return risk.first_variation(places, field)
    full = measure if at is None else measure.append(at)
    count = places.shape[-2]
    with torch.enable_grad():
        weights = full.weights.detach().requires_grad_(True)
        value = evaluate(risk, Measure(full.points.detach(), weights))
        gradient = _gradient(value, weights, risk)
    return gradient[..., -count:]


def velocity(
    risk: Risk, measure: Measure, at: Float[Tensor, "*batch m p"] | None = None
) -> Float[Tensor, "*batch n p"]:
    """-grad (dL/drho) at the atoms [..., n, p], or at other points: the drift of the mean-field dynamics.

    Minus the gradient in the points over the weight; where an atom's weight is 0 (and at other points) it goes
    through the first variation, which a second differentiation makes a gradient in theta. Source: claims K1.
    """
    places = measure.points if at is None else measure.places(at)
    if isinstance(risk, FeatureRisk):
        with torch.no_grad():  # the closed forms work in place; those by differentiation switch it on themselves
            field = None if risk.is_linear else risk.field(measure)
            return -risk.gradient(places, field)
    if at is not None:
        return _mixed_velocity(risk, measure.append(at))[..., -places.shape[-2] :, :]
    weights = measure.weights.detach()
    with torch.enable_grad():
        points = measure.points.detach().requires_grad_(True)
        gradient = _gradient(evaluate(risk, Measure(points, weights)), points, risk)
    # below this the products w * (...) of a backward pass lose digits to underflow
    empty = weights.abs() < torch.finfo(weights.dtype).tiny / torch.finfo(weights.dtype).eps
    if not bool(empty.any()):
        return -gradient / weights[..., None]
    safe = torch.where(empty, torch.ones_like(weights), weights)
    return torch.where(empty[..., None], _mixed_velocity(risk, measure), -gradient / safe[..., None])


def derivative_on_appending(
    risk: Risk, measure: Measure, at: Float[Tensor, "*batch m p"], eps: float = 1e-4
) -> Float[Tensor, "*batch m"]:
    """(R(mu + eps delta_theta) - R(mu - eps delta_theta)) / (2 eps) at each place, [..., m]: K1's independent check.

    Each atom is appended alone, behind all others, so that a risk that depends on an atom's index is seen. Exact for
    risks quadratic in the measure, else up to eps^2 |third derivative| / 6; rounding adds about |R| 1e-16 / eps.
    """
    places = measure.places(at)
    with torch.no_grad():
        differences = [
            evaluate(risk, measure.append(place, eps)) - evaluate(risk, measure.append(place, -eps))
            for place in places.split(1, dim=-2)
        ]
    return torch.stack(differences, -1) / (2 * eps)


def _mixed_velocity(risk: Risk, measure: Measure) -> Tensor:
    """-d/dtheta_j sum_i dR/dw_i, [..., n, p]: the velocity of the atoms of weight 0 (and of these only).

    No other atom sees one of weight 0, so that of the sum only its own term, i = j, depends on theta_j.
    """
    with torch.enable_grad():
        points = measure.points.detach().requires_grad_(True)
        weights = measure.weights.detach().requires_grad_(True)
        by_weight = _gradient(evaluate(risk, Measure(points, weights)), weights, risk, create_graph=True)
        return -_gradient(by_weight, points, risk)


def _gradient(value: Tensor, leaf: Tensor, risk: Risk, create_graph: bool = False) -> Tensor:
    if not value.requires_grad:
        raise InputError(
            f"a risk is differentiable in the points and the weights; {_name(risk)} returned a value without a "
            "gradient (was it detached, or computed in NumPy?)"
        )
    (gradient,) = torch.autograd.grad(value.sum(), leaf, create_graph=create_graph, allow_unused=True)
    return torch.zeros_like(leaf) if gradient is None else gradient


def _name(risk: Risk) -> str:
    return getattr(risk, "name", None) or getattr(risk, "__name__", None) or type(risk).__name__
