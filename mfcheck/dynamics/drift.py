"""From a risk to the drift of all particles: the one place that knows which kind of risk came."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import torch
from jaxtyping import Float
from torch import Tensor

from mfcheck.errors import InputError
from mfcheck.feature_risk import FeatureRisk, Pullback
from mfcheck.functional import Risk, evaluate, velocity
from mfcheck.measure import Measure

FEATURES_AT_ONCE = 1 << 18  # feature values of one chunk of particles: a megabyte of float32, the outer cache's share
FEATURES_KEPT = 1 << 26  # more feature values than this are computed twice rather than kept between the passes


@dataclass(frozen=True)
class Drift:
    """A drift of your own in the place of a risk: function(theta [R, M, p], s) -> drift [R, M, p].

    s is the time k * step of the evaluation. So runs the PDE-driven process of synchronous coupling: its drift comes
    from a grid solution and not from the particles.
    """

    function: Callable[[Tensor, float], Tensor]

    def __call__(self, theta: Float[Tensor, "R M p"], s: float) -> Float[Tensor, "R M p"]:
        return self.function(theta, s)


@dataclass(frozen=True)
class Force:
    """factor * function(theta [R, M, p], s) is the mean-field drift.

    local: a particle's drift depends on this particle alone, so particles may be cut into tiles.
    rowwise: a replicate's drift depends on this replicate alone, so replicates may be cut into groups.
    width: numbers of working memory a particle.
    """

    function: Callable[[Tensor, float], Tensor]
    factor: float
    local: bool
    rowwise: bool
    width: int


def force_of(risk: Risk | Drift, theta: Float[Tensor, "R M p"]) -> Force:
    """The force of a risk or a drift, tried once at theta. Raises InputError where what it returns does not fit."""
    if isinstance(risk, Drift):
        _check_drift(risk(theta.clone(), 0.0), theta)
        return Force(risk, 1.0, local=False, rowwise=False, width=theta.shape[-1])
    if isinstance(risk, FeatureRisk):
        few = theta[:1, : min(theta.shape[1], 2)]
        evaluate(risk, Measure.uniform(few))
        if risk.is_linear:
            return Force(lambda x, s: risk.gradient(x, None), -1.0, local=True, rowwise=True, width=theta.shape[-1])
        assert risk.features is not None
        width = max(risk.width or risk.features(few).shape[-1], theta.shape[-1])
        return Force(lambda x, s: feature_gradient(risk, x, width), -1.0, local=False, rowwise=True, width=width)
    if not callable(risk):
        raise InputError(f"a risk is a FeatureRisk, a callable of a Measure or a Drift; it came as {risk!r}")
    batched = batched_risk(risk, theta)
    velocity(batched, Measure.uniform(theta))  # says what is wrong where the risk has no gradient
    weights = Measure.uniform(theta).weights

    def gradient(x: Tensor, s: float) -> Tensor:
        # velocity() without its passes over the weights: here all are 1/M, so that the drift is -M times the gradient
        with torch.enable_grad():
            points = x.detach().requires_grad_(True)
            (slope,) = torch.autograd.grad(batched(Measure(points, weights)).sum(), points)
        return slope

    return Force(gradient, -float(theta.shape[1]), local=False, rowwise=False, width=theta.shape[-1])


def batched_risk(risk: Risk, theta: Float[Tensor, "R M p"]) -> Risk:
    """The risk as a function of batched measures, one value a replicate: itself where it is one, else under vmap.

    A risk counts as batched where it answers the batch with shape [R] and the first and last replicate alone with
    the same values. Raises InputError where it returns no scalar for one replicate.
    """
    count = theta.shape[0]
    with torch.no_grad():
        together = _try(risk, theta)
        if isinstance(together, Tensor) and together.shape == (count,):
            alone = [_try(risk, theta[r]) for r in (0, count - 1)]
            pairs = zip(alone, (together[0], together[-1]), strict=True)
            if all(not isinstance(one, Tensor) or _same(one, both) for one, both in pairs):
                return risk
        evaluate(risk, Measure.uniform(theta[0]))
        if count == 1:
            return lambda measure: risk(Measure(measure.points[0], measure.weights[0]))[None]
        mapped = torch.vmap(lambda points, weights: risk(Measure(points, weights)))
        try:
            mapped(theta, Measure.uniform(theta).weights)
        except RuntimeError:
            # vmap refuses what looks at values (item, if, in-place random numbers): one by one is right, only slower
            return lambda measure: torch.stack(
                [risk(Measure(x, w)) for x, w in zip(measure.points, measure.weights, strict=True)]
            )
    return lambda measure: mapped(measure.points, measure.weights)


def feature_gradient(risk: FeatureRisk, theta: Float[Tensor, "R M p"], width: int) -> Float[Tensor, "R M p"]:
    """grad_theta of the first variation at the uniform measure on theta, for a risk with features.

    Two passes over chunks of particles, `width` numbers each: the moments int h drho, then one vector-Jacobian product
    a chunk with loss'(V), by the pullback that the first pass has kept. The chunk is a function of the width alone, so
    that a replicate's rounding does not depend on its batch.
    """
    particles = theta.shape[1]
    chunk = max(16, FEATURES_AT_ONCE // width)
    pieces = [theta[:, i : i + chunk] for i in range(0, particles, chunk)]
    keep = theta.shape[0] * particles * width <= FEATURES_KEPT
    pulls: list[Pullback] = []
    moments: Tensor | None = None
    for piece in pieces:
        features, pull = risk.pullback(piece)
        if keep:
            pulls.append(pull)
        part = features.sum(-2)
        moments = part if moments is None else moments + part
    assert moments is not None
    field = risk.field_at(moments / particles)
    parts = []
    for piece in pieces:
        # popping lets go of what a pullback holds as soon as it is used
        part = pulls.pop(0)(field) if keep else risk.pullback(piece)[1](field)
        parts.append(part if risk.potential is None else part + risk.gradient(piece, None))
    return parts[0] if len(parts) == 1 else torch.cat(parts, 1)


def _check_drift(drift: object, theta: Tensor) -> None:
    if not isinstance(drift, Tensor):
        raise InputError(f"a drift returns a torch tensor; it returned {type(drift).__name__}")
    if drift.shape != theta.shape:
        raise InputError(f"a drift returns the shape of theta, {tuple(theta.shape)}; it returned {tuple(drift.shape)}")
    if drift.dtype != theta.dtype or drift.device != theta.device:
        raise InputError(
            f"a drift returns theta's dtype and device, {theta.dtype} on {theta.device}; "
            f"it returned {drift.dtype} on {drift.device}"
        )


def _try(risk: Risk, points: Tensor) -> object:
    """What the risk says to the uniform measure on these points, or the exception that it raised."""
    try:
        return risk(Measure.uniform(points))
    except Exception as refusal:
        return refusal


def _same(one: Tensor, other: Tensor) -> bool:
    """Equal up to the rounding of a sum over particles done in another order."""
    tolerance = torch.finfo(other.dtype).eps ** 0.5
    return one.shape == other.shape and torch.allclose(one, other, rtol=tolerance, atol=tolerance, equal_nan=True)
