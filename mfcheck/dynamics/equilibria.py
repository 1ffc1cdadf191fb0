"""Gibbs laws on the line by adaptive quadrature, and the equilibria of the Desai-Zwanzig model."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
import torch
from jaxtyping import Float
from scipy.integrate import quad
from scipy.optimize import brentq
from torch import Tensor

from mfcheck.errors import InputError

# exp(-60) = 1e-26 of the peak: what lies beyond is far below rounding, also in moments
_DEPTH = 60.0


@dataclass(frozen=True)
class LineGibbs:
    """The law exp(-U / beta) / Z on the line: from `gibbs_on_line`, which fills in the window and log Z.

    potential: points [n, 1] -> [n], as a risk's; window: where the density exceeds e^-60 of its maximum.
    """

    potential: Callable[[Tensor], Tensor]
    beta: float
    window: tuple[float, float]
    breaks: tuple[float, ...]
    minimum: float
    log_partition: float

    def log_density(self, points: Float[Tensor, "*batch n 1"]) -> Float[Tensor, "*batch n"]:
        """log density at points [..., n, 1]."""
        return -self.potential(points) / self.beta - self.log_partition

    def density(self, points: Float[Tensor, "*batch n 1"]) -> Float[Tensor, "*batch n"]:
        """The density at points [..., n, 1]; fits a solver's `initial`."""
        return self.log_density(points).exp()

    def expectation(self, observable: Callable[[float], float]) -> float:
        """E observable(theta) by adaptive Gauss-Kronrod quadrature (relative tolerance 1e-12)."""
        shift = self.minimum / self.beta + self.log_partition
        value: float = _integral(
            lambda x: observable(x) * math.exp(-(self._energy(x) - self.minimum) / self.beta - shift),
            self.window,
            self.breaks,
        )
        return value

    def _energy(self, x: float) -> float:
        return float(self.potential(torch.tensor([[x]], dtype=torch.float64)))


def gibbs_on_line(
    potential: Callable[[Tensor], Tensor], *, beta: float, bounds: tuple[float, float] | None = None
) -> LineGibbs:
    """The Gibbs law exp(-U / beta) / Z of a confining potential on the line, or on the interval `bounds`.

    potential: points [n, 1] -> [n], for instance a risk's. Z by adaptive quadrature between the wells.
    Raises InputError for beta <= 0 and where U does not confine (U - min U stays below 60 beta up to |theta| = 1e6).
    """
    if not beta > 0:
        raise InputError(f"a Gibbs law needs beta > 0; it came as {beta}")
    low, high = bounds if bounds is not None else _confined(potential, beta)
    grid = torch.linspace(low, high, 4001, dtype=torch.float64)
    values = potential(grid[:, None])
    if not bool(torch.isfinite(values).all()):
        raise InputError(f"the potential is finite on [{low:g}, {high:g}]; it came with NaN or infinite values")
    minimum = float(values.min())
    inside = (values - minimum < _DEPTH * beta).nonzero().flatten()
    first, last = max(int(inside[0]) - 1, 0), min(int(inside[-1]) + 1, len(grid) - 1)
    window = (float(grid[first]), float(grid[last]))
    # the wells are handed to the adaptive quadrature, which could otherwise miss a narrow one
    bottom = (values[1:-1] <= values[:-2]) & (values[1:-1] <= values[2:]) & (values[1:-1] - minimum < _DEPTH * beta)
    breaks = tuple(float(x) for x in grid[1:-1][bottom])[:40]
    law = LineGibbs(potential, beta, window, breaks, minimum, -minimum / beta)
    log_partition = math.log(law.expectation(lambda x: 1.0)) - minimum / beta
    return LineGibbs(potential, beta, window, breaks, minimum, log_partition)


def bakry_emery(curvature: float, *, beta: float) -> float:
    """The log-Sobolev constant alpha = a / beta of exp(-U / beta) / Z where U'' >= a > 0.

    alpha as in KL(rho | pi) <= I(rho | pi) / (2 alpha): relative entropy then decays at least like e^{-2 alpha beta s}.
    Tight on the quadratic; theta^2/2 + theta^4/4 has a = 1. Source: Bakry and Emery 1985; claims P6.
    """
    if not (curvature > 0 and beta > 0):
        raise InputError(f"Bakry-Emery needs a curvature and a beta above 0; they came as {curvature} and {beta}")
    return curvature / beta


def desai_zwanzig_gibbs(
    mean: float, *, beta: float, kappa: float = 1.0, quartic: float = 1.0, quadratic: float = -1.0
) -> LineGibbs:
    """The law exp(-(U + kappa theta^2 / 2 - kappa m theta) / beta) / Z that a frozen mean m selects.

    U = quartic/4 theta^4 + quadratic/2 theta^2. An equilibrium where m is its own mean. Source: [DZ], [Da].
    """

    def potential(points: Tensor) -> Tensor:
        x = points[..., 0]
        return x * (x * (0.5 * (quadratic + kappa) + 0.25 * quartic * x * x) - kappa * mean)

    return gibbs_on_line(potential, beta=beta)


def desai_zwanzig_map(
    mean: float, *, beta: float, kappa: float = 1.0, quartic: float = 1.0, quadratic: float = -1.0
) -> float:
    """The self-consistency map m -> E[theta] under `desai_zwanzig_gibbs`(m); its fixed points are the equilibria.

    By symmetry a ratio of integrals over theta > 0, of theta sinh and cosh of kappa m theta / beta, so that no
    digits are lost for small m. Source: [DZ] equation for the order parameter; [Da].
    """
    if mean == 0.0:
        return 0.0
    return math.copysign(_half_line_ratio(abs(mean), beta, kappa, quartic, quadratic), mean)


def desai_zwanzig_equilibria(
    *, beta: float, kappa: float = 1.0, quartic: float = 1.0, quadratic: float = -1.0
) -> tuple[float, ...]:
    """The means of all equilibria, increasing: (0,) at or above beta_c, (-m, 0, m) below.

    On m > 0 the map is concave (GHS inequality), so that there is at most one positive root, and there is one exactly
    where the slope at 0, kappa Var_0 / beta, exceeds 1. Needs kappa >= 0. Source: [Da].
    """
    _check_even_quartic(beta, kappa, quartic)

    def excess(mean: float) -> float:
        return _half_line_ratio(mean, beta, kappa, quartic, quadratic) / mean - 1.0

    if kappa == 0.0 or kappa * _variance_at_zero(beta, kappa, quartic, quadratic) <= beta:
        return (0.0,)
    high = math.sqrt(max(-quadratic, 0.0) / quartic + beta)
    while excess(high) > 0:
        high *= 2.0
    low = 0.5 * high
    while excess(low) < 0:
        low *= 0.5
        if low < 1e-7 * high:  # the slope exceeds 1 by less than rounding: beta is beta_c to all digits
            return (0.0,)
    root = float(brentq(excess, low, high, xtol=1e-14 * high, rtol=1e-14))
    return (-root, 0.0, root)


def desai_zwanzig_critical_beta(*, kappa: float = 1.0, quartic: float = 1.0, quadratic: float = -1.0) -> float:
    """beta_c, the root of kappa Var_0(beta) = beta: magnetised equilibria exist exactly below it.

    Var_0 is the variance of exp(-(U + kappa theta^2 / 2) / beta). For U = theta^4/4 - theta^2/2 and kappa = 1 it is
    (2 Gamma(3/4) / Gamma(1/4))^2 = 0.45695. Raises InputError for quadratic >= 0: a convex U has no transition
    (Var_0 <= beta / (quadratic + kappa)). Source: [Da]; claims P8.
    """
    _check_even_quartic(1.0, kappa, quartic)
    if quadratic >= 0:
        raise InputError(f"a convex U has no transition: the quadratic coefficient is below 0; it came as {quadratic}")
    if kappa == 0:
        raise InputError("without attraction there is no transition: kappa is above 0; it came as 0")

    def excess(beta: float) -> float:
        return kappa * _variance_at_zero(beta, kappa, quartic, quadratic) / beta - 1.0

    high = low = quadratic * quadratic / quartic
    while excess(high) > 0:
        high *= 2.0
    while excess(low) < 0:
        low *= 0.5
    return float(brentq(excess, low, high, rtol=1e-13))


def _variance_at_zero(beta: float, kappa: float, quartic: float, quadratic: float) -> float:
    """E theta^2 at m = 0, by the same half-line integrals."""
    return _half_line_ratio(0.0, beta, kappa, quartic, quadratic)


def _half_line_ratio(mean: float, beta: float, kappa: float, quartic: float, quadratic: float) -> float:
    """E theta at m > 0; at m = 0 E theta^2, which is the limit of beta / (kappa m) times it."""
    field = kappa * mean
    fourth, second = 0.25 * quartic, 0.5 * (quadratic + kappa)
    confinement = np.array([fourth, 0.0, second, -field, 0.0])

    def energy(x: float) -> float:
        return x * (x * (second + fourth * x * x) - field)

    wells = [float(r.real) for r in np.roots(np.polyder(confinement)) if abs(r.imag) < 1e-9 and r.real > 0]
    bottom = min([0.0, *(energy(x) for x in wells)])
    lifted = confinement - np.array([0.0, 0.0, 0.0, 0.0, bottom + _DEPTH * beta])
    end = max(float(r.real) for r in np.roots(lifted) if abs(r.imag) < 1e-9)

    def weight(x: float) -> float:
        return math.exp((bottom - energy(x)) / beta)

    def odd(x: float) -> float:
        return x * weight(x) * (x if mean == 0.0 else -math.expm1(-2.0 * field * x / beta))

    def even(x: float) -> float:
        return weight(x) * (1.0 if mean == 0.0 else 1.0 + math.exp(-2.0 * field * x / beta))

    return _integral(odd, (0.0, end), tuple(wells)) / _integral(even, (0.0, end), tuple(wells))


def _integral(f: Callable[[float], float], window: tuple[float, float], breaks: tuple[float, ...]) -> float:
    inner = [x for x in breaks if window[0] < x < window[1]]
    # an integral that vanishes by symmetry has no relative accuracy: rounding of its size is asked for instead
    size = max(abs(f(float(x))) for x in (*np.linspace(*window, 65), *inner)) * (window[1] - window[0])
    value, _ = quad(f, *window, points=inner or None, epsabs=1e-14 * size, epsrel=1e-12, limit=500)
    return float(value)


def _confined(potential: Callable[[Tensor], Tensor], beta: float) -> tuple[float, float]:
    """A box [-L, L], L a power of two, at whose ends U exceeds its minimum inside by 60 beta."""
    half = 1.0
    while half < 1e6:
        values = potential(torch.linspace(-half, half, 4001, dtype=torch.float64)[:, None])
        if min(float(values[0]), float(values[-1])) - float(values.min()) > _DEPTH * beta:
            return -half, half
        half *= 2.0
    raise InputError(f"a Gibbs law on the line needs a potential that confines; U stays within 60 beta = {60 * beta:g}")


def _check_even_quartic(beta: float, kappa: float, quartic: float) -> None:
    if not (beta > 0 and kappa >= 0 and quartic > 0):
        raise InputError(
            "Desai-Zwanzig takes beta > 0, kappa >= 0 and a quartic coefficient > 0; "
            f"they came as {beta}, {kappa} and {quartic}"
        )
