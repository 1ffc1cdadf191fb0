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
    """
    places = measure.points if at is None else at
    if isinstance(risk, FeatureRisk):
        field = None if risk.is_linear else risk.field(measure)
        with torch.no_grad():
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
    places = measure.points if at is None else at
    if isinstance(risk, FeatureRisk):
        field = None if risk.is_linear else risk.field(measure)
        return -risk.gradient(places, field)
    if at is not None:
        return _velocity_at(risk, measure, at)
    weights = measure.weights.detach()
    with torch.enable_grad():
        points = measure.points.detach().requires_grad_(True)
        gradient = _gradient(evaluate(risk, Measure(points, weights)), points, risk)
    empty = weights == 0
    if not bool(empty.any()):
        return -gradient / weights[..., None]
    through = _velocity_at(risk, measure, measure.points)
    safe = torch.where(empty, torch.ones_like(weights), weights)
    return torch.where(empty[..., None], through, -gradient / safe[..., None])


def _velocity_at(risk: Risk, measure: Measure, at: Tensor) -> Tensor:
    """-grad_theta of the first variation at appended atoms of weight 0: a mixed second derivative."""
    with torch.enable_grad():
        places = at.detach().requires_grad_(True)
        points = torch.cat([measure.points.detach(), places], -2)
        zeros = at.new_zeros(at.shape[:-1])
        weights = torch.cat([measure.weights.detach(), zeros], -1).requires_grad_(True)
        value = evaluate(risk, Measure(points, weights))
        by_weight = _gradient(value, weights, risk, create_graph=True)
        # at weight 0 the atoms do not see each other, so the sum's gradient is each atom's own
        total = by_weight[..., -at.shape[-2] :].sum()
        if not total.requires_grad:
            return torch.zeros_like(at)
        (gradient,) = torch.autograd.grad(total, places, allow_unused=True)
    return torch.zeros_like(at) if gradient is None else -gradient


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
