"""The shipped risks. Each is a FeatureRisk: a potential, and a loss of integrals of features."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import torch
from jaxtyping import Float
from torch import Tensor

from mfcheck.errors import InputError
from mfcheck.feature_risk import FeatureRisk, Pullback


def quadratic(
    curvature: float | Sequence[float] | Float[Tensor, "p p"] = 1.0, centre: float | Sequence[float] = 0.0
) -> FeatureRisk:
    """U(theta) = (theta - c)' A (theta - c) / 2: Ornstein-Uhlenbeck.

    curvature: a number a (A = a I), one number a coordinate, or a symmetric matrix A [p, p]; centre c [p] or a number.
    """
    a = torch.as_tensor(curvature, dtype=torch.float64)
    c = torch.as_tensor(centre, dtype=torch.float64)
    if a.ndim == 2:
        # to rounding: a rotated diagonal, R D R', is symmetric only to the last digit
        if a.shape[0] != a.shape[1] or not torch.allclose(a, a.T, rtol=1e-12, atol=1e-15 * float(a.abs().max())):
            raise InputError(f"a quadratic's curvature matrix is symmetric [p, p]; it came as {a.tolist()}")
        a = 0.5 * (a + a.T)
    sizes = {t.shape[-1] for t in (a, c) if t.ndim}
    if a.ndim > 2 or c.ndim > 1 or len(sizes) > 1:
        raise InputError(
            "a quadratic's curvature is a number, [p] or [p, p] and its centre a number or [p]; "
            f"they came as {tuple(a.shape)} and {tuple(c.shape)}"
        )
    plain = a.ndim == 0 and bool((c == 0).all())

    def gradient(points: Tensor) -> Tensor:
        if plain:
            return points * a  # a tensor without axes keeps the points' dtype and is faster than a Python number
        if sizes and points.shape[-1] not in sizes:
            raise InputError(f"this quadratic lives in R^{min(sizes)}; points came as {tuple(points.shape)}")
        aa, cc = a.to(points), c.to(points)
        return (points - cc) @ aa if aa.ndim == 2 else (points - cc) * aa

    def potential(points: Tensor) -> Tensor:
        return 0.5 * (gradient(points) * (points - c.to(points))).sum(-1)

    return FeatureRisk("quadratic", potential=potential, potential_gradient=gradient)


def double_well(quartic: float = 1.0, quadratic: float = -1.0, tilt: float = 0.0) -> FeatureRisk:
    """U(theta) = sum over coordinates of quartic/4 theta^4 + quadratic/2 theta^2 + tilt theta.

    The default is the double well theta^4/4 - theta^2/2; quadratic > 0 gives a strictly convex quartic.
    """
    if quartic <= 0:
        raise InputError(f"the quartic coefficient must be positive for U to confine; it came as {quartic}")

    def potential(points: Tensor) -> Tensor:
        squares = points * points
        value = squares * (squares * (0.25 * quartic) + 0.5 * quadratic)
        return (value + points * tilt).sum(-1) if tilt else value.sum(-1)

    linear = torch.tensor(quadratic, dtype=torch.float64)  # without axes: keeps the points' dtype, and is the faster

    def gradient(points: Tensor) -> Tensor:
        value = points * points
        if quartic != 1.0:
            value.mul_(quartic)
        value.add_(linear).mul_(points)
        return value.add_(tilt) if tilt else value

    return FeatureRisk("double well", potential=potential, potential_gradient=gradient)


def attraction(confinement: FeatureRisk, kappa: float, name: str = "attraction") -> FeatureRisk:
    """int U drho + (kappa/4) iint |theta - theta'|^2: each particle is pulled to the mean with rate kappa.

    Written with features h = theta as int (U + kappa |theta|^2 / 2) drho - kappa |int theta drho|^2 / 2 (equal for
    unit mass); the drift is -grad U - kappa (theta - mean). Concave along mixtures in the mean for kappa > 0.
    """
    if not confinement.is_linear:
        raise InputError(f"attraction takes a linear risk as its confinement; {confinement.name!r} interacts")
    u = confinement.potential
    assert u is not None
    base = confinement.potential_gradient

    def potential(points: Tensor) -> Tensor:
        return u(points) + 0.5 * kappa * (points * points).sum(-1)

    def gradient(points: Tensor) -> Tensor:
        assert base is not None
        return base(points).add(points, alpha=kappa)

    return FeatureRisk(
        name,
        potential=potential,
        features=lambda points: points,
        loss=lambda mean: -0.5 * kappa * (mean * mean).sum(-1),
        potential_gradient=gradient if base is not None else None,
        loss_gradient=lambda mean: -kappa * mean,
        features_with_pullback=lambda points: (points, lambda field: field[..., None, :].expand_as(points)),
        convex=kappa <= 0,
    )


def linear_attraction(a: float, kappa: float) -> FeatureRisk:
    """Drift -a theta - kappa (theta - mean): the linear mean-field model, exactly solvable for every M."""
    return attraction(quadratic(a), kappa, name="linear attraction")


def desai_zwanzig(kappa: float = 1.0) -> FeatureRisk:
    """The double well theta^4/4 - theta^2/2 with attraction kappa to the mean. Source: [DZ], [Da]."""
    return attraction(double_well(), kappa, name="Desai-Zwanzig")


def squared_error(
    targets: Float[Tensor, " K"],
) -> tuple[Callable[[Tensor], Tensor], Callable[[Tensor], Tensor]]:
    """The loss mean_k (V_k - y_k)^2 / 2 and its gradient, for predictions V [..., K] and targets y [K]."""
    y = torch.as_tensor(targets, dtype=torch.float64)
    count = y.shape[-1]

    def loss(prediction: Tensor) -> Tensor:
        return 0.5 * (prediction - y.to(prediction)).square().mean(-1)

    def gradient(prediction: Tensor) -> Tensor:
        return (prediction - y.to(prediction)) / count

    return loss, gradient


def two_layer_network(
    inputs: Float[Tensor, "K d"],
    targets: Float[Tensor, " K"],
    *,
    activation: Callable[[Tensor], Tensor] = torch.tanh,
    loss: Callable[[Tensor], Tensor] | None = None,
    weight_decay: float = 0.0,
) -> FeatureRisk:
    """A mean-field two-layer network f(x) = E activation(theta . x) on K data points, theta in R^d.

    inputs [K, d]; targets [K]; loss: a convex function of the K predictions [..., K] -> [...] (default: half the
    mean squared error); weight_decay lambda adds lambda/2 E|theta|^2. Source: [HRSS], [NWS].
    """
    x = torch.as_tensor(inputs, dtype=torch.float64)
    y = torch.as_tensor(targets, dtype=torch.float64)
    if x.ndim != 2 or y.shape != x.shape[:1]:
        raise InputError(f"inputs are [K, d] and targets [K]; they came as {tuple(x.shape)} and {tuple(y.shape)}")
    own_loss, own_gradient = squared_error(y)

    def scores(points: Tensor) -> Tensor:
        # [K, n]: particles last, the long axis that the sums over them run along
        if points.shape[-1] != x.shape[1]:
            raise InputError(f"theta lives in R^{x.shape[1]}, as the inputs; points came as {tuple(points.shape)}")
        return x.to(points) @ points.mT

    def tanh_with_pullback(points: Tensor) -> tuple[Tensor, Pullback]:
        values = torch.tanh(scores(points))

        def pull(field: Tensor) -> Tensor:
            # sum_k f_k x_k (1 - tanh^2): one matrix product with the squares
            weighted = field[..., None] * x.to(field)
            return (weighted.sum(-2)[..., None] - weighted.mT @ values.square()).mT

        return values.mT, pull

    return FeatureRisk(
        "two-layer network",
        potential=(lambda points: 0.5 * weight_decay * points.square().sum(-1)) if weight_decay else None,
        features=lambda points: activation(scores(points)).mT,
        loss=loss or own_loss,
        potential_gradient=(lambda points: weight_decay * points) if weight_decay else None,
        loss_gradient=own_gradient if loss is None else None,
        features_with_pullback=tanh_with_pullback if activation is torch.tanh else None,
    )
