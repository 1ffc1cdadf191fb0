"""Problems with a known solution at every time, against which the grid solver's error bar is held.

Linear and mean-field, confining, expanding and bistable, on the line, in the plane, on the circle and on the torus.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
import torch
from scipy.integrate import solve_ivp
from torch import Tensor

from mfcheck.dynamics.exact import linear_mean_field, ornstein_uhlenbeck
from mfcheck.dynamics.gaussian import Density, Gaussian, gaussian
from mfcheck.feature_risk import FeatureRisk
from mfcheck.functional import Risk
from mfcheck.measure import Measure
from mfcheck.risks import attraction, quadratic

Bounds = tuple[tuple[float, float], ...]

#: Standard deviations between a Gaussian's mean and the side of its box: 1e-14 of the mass lies beyond.
REACH = 8.0


@dataclass(frozen=True, eq=False)
class ClosedForm:
    """A Fokker-Planck problem and its solution: density(time) is a callable, points [n, p] -> [n].

    bounds: a box that holds all but 1e-14 of the mass at every one of the times.
    """

    name: str
    risk: Risk
    density: Callable[[float], Density]
    beta: float
    times: tuple[float, ...]
    bounds: Bounds
    periodic: bool = False


def ornstein_uhlenbeck_case(
    curvature: float | Sequence[Sequence[float]], start: Gaussian, *, beta: float, times: Sequence[float]
) -> ClosedForm:
    """Ornstein-Uhlenbeck in R^p; a negative curvature expands."""

    def law(time: float) -> Gaussian:
        return ornstein_uhlenbeck(curvature, start, beta=beta, time=time)

    return _gaussian_case(f"Ornstein-Uhlenbeck {start.dimension}-D", quadratic(curvature), law, beta, times)  # type: ignore[arg-type]


def linear_mean_field_case(
    a: float, kappa: float, start: Gaussian, *, beta: float, times: Sequence[float], plain: bool = False
) -> ClosedForm:
    """Drift -a theta - kappa (theta - mean). plain: written as a user would, a callable of the measure."""

    def law(time: float) -> Gaussian:
        return linear_mean_field(a, kappa, start, beta=beta, time=time)

    def callable_risk(measure: Measure) -> Tensor:
        second = measure.integrate(lambda points: points.square().sum(-1))
        return 0.5 * (a + kappa) * second - 0.5 * kappa * measure.mean().square().sum(-1)

    risk: Risk = callable_risk if plain else attraction(quadratic(a), kappa)
    word = ", callable risk" if plain else ""
    return _gaussian_case(f"linear mean-field {start.dimension}-D{word}", risk, law, beta, times)


def moment_feedback_case(
    a: float, feedback: float, start: Gaussian, *, beta: float, times: Sequence[float]
) -> ClosedForm:
    """Drift -(a + c E|theta|^2) theta, risk a/2 E|theta|^2 + c/4 (E|theta|^2)^2: a loss that is not quadratic.

    Gaussians stay Gaussian; m' = -r m and S' = -2 r S + 2 beta I with r = a + c (tr S + |m|^2), which is
    integrated to 1e-13 (diagonal S).
    """
    p = start.dimension
    first = np.concatenate([start.mean.numpy(), start.covariance.diagonal().numpy()])

    def slope(_: float, state: np.ndarray) -> np.ndarray:
        mean, variance = state[:p], state[p:]
        rate = a + feedback * (variance.sum() + mean @ mean)
        return np.concatenate([-rate * mean, -2.0 * rate * variance + 2.0 * beta])

    path = solve_ivp(slope, (0.0, max(times)), first, method="DOP853", rtol=1e-13, atol=1e-14, dense_output=True)

    def law(time: float) -> Gaussian:
        state = path.sol(time)
        return gaussian(state[:p].tolist(), state[p:].tolist())

    risk = FeatureRisk(
        "moment feedback",
        potential=lambda points: 0.5 * a * points.square().sum(-1),
        features=lambda points: points.square().sum(-1, keepdim=True),
        loss=lambda moments: 0.25 * feedback * moments.square().sum(-1),
    )
    return _gaussian_case(f"moment feedback {p}-D", risk, law, beta, times)


def benes_case(k: float, mean: float, variance: float, *, beta: float, times: Sequence[float]) -> ClosedForm:
    """Drift 2 beta k tanh(k theta), U = -2 beta log cosh(k theta): one hump splits into two that part.

    From rho_0 proportional to cosh(k theta) N(m, v), the law is the same with v + 2 beta s: Doob's transform of
    Brownian motion by its positive eigenfunction cosh. Source: Benes 1981.
    """

    def potential(points: Tensor) -> Tensor:
        y = k * points[..., 0]
        return -2.0 * beta * (torch.logaddexp(y, -y) - math.log(2.0))

    def density(time: float) -> Density:
        spread = variance + 2.0 * beta * time
        # cosh(kx) N(x; m, V) = e^{k^2 V / 2} sum over signs of e^{+-km} N(x; m +- kV, V) / 2
        share = 1.0 / (1.0 + math.exp(-2.0 * k * mean))
        right, left = gaussian(mean + k * spread, spread), gaussian(mean - k * spread, spread)
        return lambda points: share * right.density(points) + (1.0 - share) * left.density(points)

    last = variance + 2.0 * beta * max(times)
    half = k * last + REACH * math.sqrt(last)
    risk = FeatureRisk("log cosh", potential=potential)
    return ClosedForm("Benes", risk, density, beta, tuple(times), ((mean - half, mean + half),))


def heat_on_circle_case(
    mean: Sequence[float], variance: float, *, beta: float, times: Sequence[float], length: float = 1.0
) -> ClosedForm:
    """Diffusion alone on a circle of the given length, or on a torus: the wrapped Gaussian of variance v + 2 beta s."""
    p = len(mean)

    def density(time: float) -> Density:
        deviation = math.sqrt(variance + 2.0 * beta * time)
        turns = math.ceil(REACH * deviation / length) + 1
        shifts = torch.arange(-turns, turns + 1, dtype=torch.float64) * length

        def value(points: Tensor) -> Tensor:
            z = (points[..., None] - torch.tensor(mean, dtype=torch.float64)[:, None] - shifts) / deviation
            return (torch.exp(-0.5 * z.square()).sum(-1) / (deviation * math.sqrt(2.0 * math.pi))).prod(-1)

        return value

    risk = FeatureRisk("flat", potential=lambda points: 0.0 * points.sum(-1))
    name = "diffusion on the circle" if p == 1 else "diffusion on the torus"
    return ClosedForm(name, risk, density, beta, tuple(times), ((0.0, length),) * p, periodic=True)


def rotated(first: float, second: float, degrees: float) -> list[list[float]]:
    """The symmetric matrix with these eigenvalues, its axes turned by an angle."""
    c, s = math.cos(math.radians(degrees)), math.sin(math.radians(degrees))
    turn = torch.tensor([[c, -s], [s, c]], dtype=torch.float64)
    matrix = turn @ torch.diag(torch.tensor([first, second], dtype=torch.float64)) @ turn.T
    return (0.5 * (matrix + matrix.T)).tolist()


def _gaussian_case(
    name: str, risk: Risk, law: Callable[[float], Gaussian], beta: float, times: Sequence[float]
) -> ClosedForm:
    # the law between the times too: a mean that returns, a variance that swells and shrinks again
    laws = [law(time) for time in np.linspace(0.0, max(times), 41)]
    means = torch.stack([one.mean for one in laws])
    reach = REACH * torch.stack([one.covariance.diagonal().sqrt() for one in laws])
    low, high = (means - reach).amin(0).tolist(), (means + reach).amax(0).tolist()
    return ClosedForm(
        name, risk, lambda time: law(time).density, beta, tuple(times), tuple(zip(low, high, strict=True))
    )
