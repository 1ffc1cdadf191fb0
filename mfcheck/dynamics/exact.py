"""Exact solutions: Ornstein-Uhlenbeck, the schemes' own chains on a quadratic, the linear mean-field model."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

import torch
from jaxtyping import Float
from torch import Tensor

from mfcheck.dynamics.gaussian import Gaussian, gaussian, symmetric_matrix
from mfcheck.errors import InputError

Numbers = float | Sequence[float] | Tensor
Matrix = float | Sequence[float] | Sequence[Sequence[float]] | Tensor
Scheme = Literal["euler_maruyama", "heun", "leimkuhler_matthews"]


def ornstein_uhlenbeck(
    curvature: Matrix, initial: Gaussian, *, beta: float, time: float, centre: Numbers = 0.0
) -> Gaussian:
    """The law at time s of d theta = -A (theta - c) ds + sqrt(2 beta) dW from a Gaussian start.

    Mean c + e^{-As} (m_0 - c), covariance e^{-As} S_0 e^{-As} + 2 beta int_0^s e^{-2Au} du, in the eigenbasis of the
    symmetric A (a number, p numbers or [p, p]; any sign). Source: Risken, The Fokker-Planck Equation, section 6.5.
    """
    _check_nonnegative(beta=beta, time=time)
    rates, basis, c = _eigenbasis(curvature, centre, initial.dimension)
    decay = torch.exp(-rates * time)
    spread = _noise_integral(rates, time) * (2 * beta)
    return _in_basis(initial, basis, c, decay, spread)


def ornstein_uhlenbeck_stationary(curvature: Matrix, *, beta: float, centre: Numbers = 0.0, p: int = 1) -> Gaussian:
    """N(c, beta A^-1) in R^p, the Gibbs law of the quadratic. Raises InputError unless A is positive definite."""
    shape = torch.as_tensor(curvature, dtype=torch.float64).shape
    p = shape[0] if shape else max(p, torch.as_tensor(centre).numel())
    rates, basis, c = _eigenbasis(curvature, centre, p)
    if not bool((rates > 0).all()):
        raise InputError(f"a stationary law needs positive curvatures; they came as {rates.tolist()}")
    return Gaussian(c, basis @ torch.diag(beta / rates) @ basis.T)


def chain_law(
    curvature: Matrix,
    initial: Gaussian,
    *,
    beta: float | Sequence[float],
    step: float,
    steps: int,
    centre: Numbers = 0.0,
    scheme: Scheme = "euler_maruyama",
) -> Gaussian:
    """The law of a scheme's own chain on the quadratic after `steps` steps of size eta, exact for any eta.

    Per eigenvalue, z = a eta: euler_maruyama x' = (1 - z) x + xi, heun x' = (1 - z + z^2/2) x + (1 - z/2) xi,
    leimkuhler_matthews x' = (1 - z) x + (xi_k + xi_{k+1}) / 2 (xi_0 independent of the start), xi ~ N(0, 2 beta eta).
    beta may be one number a step, the schedule; Leimkuhler-Matthews takes a constant. Source: claims D5, D8; [LM].
    """
    schedule = [float(beta)] * steps if isinstance(beta, int | float) else [float(b) for b in beta]
    _check_nonnegative(step=step, steps=steps, beta=min(schedule, default=0.0))
    if len(schedule) != steps:
        raise InputError(f"a schedule gives one beta a step: {steps} steps, {len(schedule)} values")
    if scheme == "leimkuhler_matthews" and len(set(schedule)) > 1:
        raise InputError("the Leimkuhler-Matthews chain is given in closed form for a constant beta only")
    rates, basis, c = _eigenbasis(curvature, centre, initial.dimension)
    factor, noise = _one_step(rates * step, scheme)
    spread = torch.zeros_like(rates)
    for k, b in enumerate(schedule):
        spread = factor * factor * spread + 2 * b * step * noise
        if scheme == "leimkuhler_matthews" and k > 0:
            # x_k and the half of xi_k that the next step uses again: 2 * factor * Cov = factor / 2 of 2 beta eta
            spread = spread + b * step * factor
    return _in_basis(initial, basis, c, factor**steps, spread)


def chain_stationary_variance(a: float, *, beta: float, step: float, scheme: Scheme = "euler_maruyama") -> float:
    """The stationary variance of a scheme's chain on the quadratic of curvature a, z = a eta.

    euler_maruyama: beta / (a (1 - z/2)); heun: beta (1 - z/2) / (a (1 - z/2 + z^2/4)); leimkuhler_matthews: beta / a,
    exactly the Gibbs value. Raises InputError unless 0 < z < 2, where all three chains contract.
    Source: claims D5, [LM].
    """
    z = a * step
    if not 0 < z < 2:
        raise InputError(f"the chain has a stationary law for 0 < a eta < 2; a eta came as {z}")
    if scheme == "euler_maruyama":
        return beta / (a * (1 - z / 2))
    if scheme == "heun":
        return beta * (1 - z / 2) / (a * (1 - z / 2 + z * z / 4))
    _check_scheme(scheme)
    return beta / a


def linear_mean_field(a: float, kappa: float, initial: Gaussian, *, beta: float, time: float) -> Gaussian:
    """The law at time s of d theta = -(a theta + kappa (theta - E theta)) ds + sqrt(2 beta) dW (M = infinity).

    The mean decays at rate a, the covariance is Ornstein-Uhlenbeck's at rate b = a + kappa:
    e^{-2bs} S_0 + (beta / b)(1 - e^{-2bs}) I. time = inf gives the stationary law. Source: claims C3; Sznitman 1991.
    """
    _check_nonnegative(beta=beta, time=time)
    centred = Gaussian(torch.zeros_like(initial.mean), initial.covariance)
    if time == float("inf"):
        if not (a > 0 and a + kappa > 0):
            raise InputError(f"a stationary law needs a > 0 and a + kappa > 0; they came as {a} and {a + kappa}")
        return gaussian(centred.mean, beta / (a + kappa))
    spread = ornstein_uhlenbeck(a + kappa, centred, beta=beta, time=time).covariance
    return Gaussian(initial.mean * float(torch.exp(torch.tensor(-a * time, dtype=torch.float64))), spread)


@dataclass(frozen=True)
class ExchangeablePair:
    """Second moments of M exchangeable particles, per coordinate: all that a Gaussian system of them is.

    mean: E theta_1; variance: Var theta_1; covariance: Cov(theta_1, theta_2); mean_variance: Var of the average.
    """

    mean: float
    variance: float
    covariance: float
    mean_variance: float

    @property
    def second_moment(self) -> float:
        """E theta_1^2."""
        return self.variance + self.mean**2


def linear_mean_field_particles(
    a: float, kappa: float, particles: int, *, beta: float, time: float, mean: float = 0.0, variance: float = 0.0
) -> ExchangeablePair:
    """The M-particle linear mean-field system at time s from i.i.d. N(mean, variance), one coordinate, exact for any M.

    The average is Ornstein-Uhlenbeck at rate a with noise beta / M; each deviation from it at rate b = a + kappa with
    share 1 - 1/M. time = inf: M Var(average) = beta/a, M (E theta^2 - beta/b) = M Cov(theta_1, theta_2)
    = beta kappa / (a b). Source: claims C3, C4, C7.
    """
    _check_nonnegative(beta=beta, time=time)
    _check_particles(particles)
    slow = _scalar_spread(a, variance, beta, time)
    fast = _scalar_spread(a + kappa, variance, beta, time)
    decay = 0.0 if time == float("inf") else float(torch.exp(torch.tensor(-a * time, dtype=torch.float64)))
    return _exchangeable(decay * mean, slow, fast, particles)


def linear_mean_field_chain(
    a: float, kappa: float, particles: int, *, beta: float, step: float, scheme: Scheme = "euler_maruyama"
) -> ExchangeablePair:
    """The stationary law of a scheme's chain for the M-particle linear mean-field model, one coordinate.

    Average and deviations are chains of curvature a and a + kappa; leimkuhler_matthews has no bias at all, so that
    C3's constants hold for it at any eta. Source: claims C3, C7, [LM].
    """
    _check_particles(particles)
    slow = chain_stationary_variance(a, beta=beta, step=step, scheme=scheme)
    fast = chain_stationary_variance(a + kappa, beta=beta, step=step, scheme=scheme)
    return _exchangeable(0.0, slow, fast, particles)


def pair_constant(a: float, kappa: float, *, beta: float) -> float:
    """beta kappa / (a (a + kappa)): M Cov(theta_1, theta_2), and M times the bias of E theta^2. Source: C3, C4, C7."""
    return beta * kappa / (a * (a + kappa))


def _exchangeable(mean: float, slow: float, fast: float, particles: int) -> ExchangeablePair:
    """slow / M: variance of the average; fast (1 - 1/M): variance of a deviation, -fast / M: covariance of two."""
    share = 1.0 / particles
    return ExchangeablePair(mean, share * slow + (1.0 - share) * fast, share * (slow - fast), share * slow)


def _scalar_spread(rate: float, variance: float, beta: float, time: float) -> float:
    if time == float("inf"):
        if rate <= 0:
            raise InputError(f"a stationary law needs positive rates a and a + kappa; one came as {rate}")
        return beta / rate
    return float(ornstein_uhlenbeck(rate, gaussian(0.0, variance), beta=beta, time=time).covariance)


def _one_step(z: Float[Tensor, " p"], scheme: Scheme) -> tuple[Tensor, Tensor]:
    """Contraction factor and squared noise amplitude (in 2 beta eta) of one step, per eigenvalue."""
    _check_scheme(scheme)
    if scheme == "heun":
        return 1 - z + 0.5 * z * z, (1 - 0.5 * z).square()
    return 1 - z, torch.full_like(z, 1.0 if scheme == "euler_maruyama" else 0.5)


def _noise_integral(rates: Float[Tensor, " p"], time: float) -> Float[Tensor, " p"]:
    """int_0^s e^{-2 a u} du = s (1 - e^{-y}) / y, y = 2 a s, without cancellation near a = 0."""
    y = 2 * rates * time
    safe = torch.where(y == 0, torch.ones_like(y), y)
    return time * torch.where(y == 0, torch.ones_like(y), -torch.expm1(-safe) / safe)


def _eigenbasis(curvature: Matrix, centre: Numbers, p: int) -> tuple[Tensor, Tensor, Tensor]:
    """Eigenvalues [p] and eigenvectors [p, p] of A, and the centre [p]."""
    rates, basis = torch.linalg.eigh(symmetric_matrix(curvature, p, "curvature"))
    c = torch.as_tensor(centre, dtype=torch.float64).cpu()
    if c.ndim and c.shape != (p,):
        raise InputError(f"the centre in R^{p} is a number or {p} numbers; it came with shape {tuple(c.shape)}")
    return rates, basis, c.expand(p).clone()


def _in_basis(initial: Gaussian, basis: Tensor, c: Tensor, decay: Tensor, spread: Tensor) -> Gaussian:
    """Contracts the start by `decay` and adds `spread` along each eigenvector."""
    flow = basis @ torch.diag(decay) @ basis.T
    covariance = flow @ initial.covariance @ flow + basis @ torch.diag(spread) @ basis.T
    return Gaussian(c + flow @ (initial.mean - c), 0.5 * (covariance + covariance.T))


def _check_scheme(scheme: str) -> None:
    if scheme not in ("euler_maruyama", "heun", "leimkuhler_matthews"):
        raise InputError(f"schemes are euler_maruyama, heun and leimkuhler_matthews; it came as {scheme!r}")


def _check_particles(particles: int) -> None:
    if particles < 1:
        raise InputError(f"a system has at least one particle; it came with {particles}")


def _check_nonnegative(**values: float) -> None:
    for name, value in values.items():
        if not value >= 0:
            raise InputError(f"{name} is a number >= 0; it came as {value}")
