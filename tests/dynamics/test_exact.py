"""Exact solutions against independent linear algebra: matrix exponentials and Lyapunov equations of SciPy."""

from __future__ import annotations

import math

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.linalg import expm, solve_continuous_lyapunov, solve_discrete_lyapunov

from mfcheck.dynamics.exact import (
    Scheme,
    chain_law,
    chain_stationary_variance,
    linear_mean_field,
    linear_mean_field_chain,
    linear_mean_field_particles,
    ornstein_uhlenbeck,
    ornstein_uhlenbeck_stationary,
    pair_constant,
)
from mfcheck.dynamics.gaussian import Gaussian, gaussian
from mfcheck.errors import InputError

SCHEMES: tuple[Scheme, ...] = ("euler_maruyama", "heun", "leimkuhler_matthews")

# expm and the Lyapunov solvers are backward stable; the matrices below are at most 10 x 10 with entries and
# conditions below 1e2, so that n * condition * eps = 10 * 1e2 * 2.2e-16 = 2e-13 relative
ROUNDING = 1e-12


def symmetric(seed: int, p: int, low: float, high: float) -> np.ndarray:
    """A random symmetric matrix with eigenvalues in [low, high]."""
    rng = np.random.default_rng(seed)
    basis, _ = np.linalg.qr(rng.normal(size=(p, p)))
    return (basis * rng.uniform(low, high, p)) @ basis.T


def close(actual: torch.Tensor | float, expected: np.ndarray | float, tolerance: float = ROUNDING) -> None:
    a, e = np.asarray(actual), np.asarray(expected)
    bound = tolerance * max(1.0, float(np.abs(e).max()))
    assert a.shape == e.shape
    assert np.abs(a - e).max() <= bound, f"largest difference {np.abs(a - e).max():.3g} above {bound:.3g}"


@settings(deadline=None, max_examples=40)
@given(st.integers(0, 2**32 - 1), st.integers(1, 5), st.floats(0.0, 3.0), st.floats(0.0, 2.0))
def test_ornstein_uhlenbeck_is_expm_and_lyapunov(seed: int, p: int, time: float, beta: float) -> None:
    a = symmetric(seed, p, 0.2, 4.0)
    start = gaussian(np.linspace(-1, 2, p), torch.as_tensor(symmetric(seed + 1, p, 0.1, 1.0)))
    centre = torch.linspace(0.5, -0.5, p, dtype=torch.float64)
    law = ornstein_uhlenbeck(torch.as_tensor(a), start, beta=beta, time=time, centre=centre)
    flow = expm(-a * time)
    stationary = solve_continuous_lyapunov(a, 2 * beta * np.eye(p))
    close(law.mean, centre.numpy() + flow @ (start.mean - centre).numpy())
    close(law.covariance, stationary + flow @ (start.covariance.numpy() - stationary) @ flow.T)
    if beta > 0:
        gibbs = ornstein_uhlenbeck_stationary(torch.as_tensor(a), beta=beta, centre=centre)
        close(gibbs.covariance, stationary)
        close(gibbs.mean, centre.numpy())


def test_ornstein_uhlenbeck_includes_flat_and_unstable_directions() -> None:
    # a = 0: Brownian motion, variance v + 2 beta s; a < 0: beta (e^{2|a|s} - 1) / |a| by hand
    law = ornstein_uhlenbeck([0.0, -1.0, 1e-13], gaussian([1.0, 1.0, 1.0], 0.25), beta=0.5, time=2.0)
    grown = 0.25 * math.exp(4) + 0.5 * (math.exp(4) - 1)
    close(law.covariance, np.diag([0.25 + 2.0, grown, 0.25 + 2.0]))
    close(law.mean, np.array([1.0, math.exp(2), 1.0]))


def test_ornstein_uhlenbeck_is_a_semigroup() -> None:
    a = torch.as_tensor(symmetric(7, 3, -0.5, 2.0))
    start = gaussian([1.0, 0.0, -1.0], [0.2, 0.3, 0.4])
    half = ornstein_uhlenbeck(a, start, beta=0.3, time=0.7)
    twice = ornstein_uhlenbeck(a, half, beta=0.3, time=0.7)
    once = ornstein_uhlenbeck(a, start, beta=0.3, time=1.4)
    close(twice.covariance, once.covariance.numpy())
    close(twice.mean, once.mean.numpy())


def one_step_matrices(a: np.ndarray, eta: float, scheme: Scheme) -> tuple[np.ndarray, np.ndarray]:
    """The scheme as x' = F x + G xi on the state (x, last noise), written from its definition, matrices of A."""
    p = len(a)
    eye, zero = np.eye(p), np.zeros((p, p))
    if scheme == "euler_maruyama":
        factor, noise = eye - eta * a, eye
    elif scheme == "heun":  # predictor y = x - eta A x + xi; x' = x - eta/2 (A x + A y) + xi
        predictor = eye - eta * a
        factor, noise = eye - eta / 2 * (a + a @ predictor), eye - eta / 2 * a
    else:
        return np.block([[eye - eta * a, eye / 2], [zero, zero]]), np.vstack([eye / 2, eye])
    return np.block([[factor, zero], [zero, zero]]), np.vstack([noise, eye])


@pytest.mark.parametrize("scheme", SCHEMES)
@pytest.mark.parametrize("steps", [0, 1, 2, 17])
def test_chain_law_is_the_recursion_of_the_scheme(scheme: Scheme, steps: int) -> None:
    a, beta, eta, p = symmetric(3, 3, 0.5, 4.0), 0.4, 0.3, 3
    start = gaussian([1.0, -1.0, 0.5], torch.as_tensor(symmetric(4, 3, 0.1, 1.0)))
    law = chain_law(torch.as_tensor(a), start, beta=beta, step=eta, steps=steps, scheme=scheme)
    factor, noise = one_step_matrices(a, eta, scheme)
    mean = np.concatenate([start.mean.numpy(), np.zeros(p)])
    covariance = np.zeros((2 * p, 2 * p))
    covariance[:p, :p] = start.covariance.numpy()
    covariance[p:, p:] = 2 * beta * eta * np.eye(p)  # the noise that Leimkuhler-Matthews carries in
    for _ in range(steps):
        mean = factor @ mean
        covariance = factor @ covariance @ factor.T + 2 * beta * eta * noise @ noise.T
    close(law.mean, mean[:p])
    close(law.covariance, covariance[:p, :p])


@pytest.mark.parametrize("scheme", SCHEMES)
@pytest.mark.parametrize("z", [0.1, 0.6, 1.0, 1.5, 1.9])
def test_stationary_variance_solves_the_discrete_lyapunov_equation(scheme: Scheme, z: float) -> None:
    a, beta = 1.7, 0.3
    factor, noise = one_step_matrices(np.array([[a]]), z / a, scheme)
    exact = solve_discrete_lyapunov(factor, 2 * beta * z / a * noise @ noise.T)[0, 0]
    # 1 - r^2 loses a digit at z near 2: condition 1 / (1 - 0.9^2) = 5
    close(chain_stationary_variance(a, beta=beta, step=z / a, scheme=scheme), exact)


def test_euler_maruyama_misses_the_gibbs_variance_and_leimkuhler_matthews_does_not() -> None:
    assert chain_stationary_variance(1.0, beta=1.0, step=1.0) == 2.0
    assert chain_stationary_variance(1.0, beta=1.0, step=1.0, scheme="leimkuhler_matthews") == 1.0


def test_a_schedule_adds_up_the_noise_of_each_step() -> None:
    # without drift the variance is sum_k 2 beta_k eta (claims D2)
    betas = [0.5, 0.25, 0.0, 1.0]
    law = chain_law(0.0, gaussian(0.0, 0.0), beta=betas, step=0.1, steps=4)
    assert float(law.covariance) == pytest.approx(2 * 0.1 * sum(betas), rel=1e-15)


def particle_system(a: float, kappa: float, count: int) -> np.ndarray:
    """The M x M drift matrix of the linear mean-field model: a I + kappa (I - 11'/M)."""
    return a * np.eye(count) + kappa * (np.eye(count) - np.full((count, count), 1 / count))


@settings(deadline=None, max_examples=40)
@given(st.integers(2, 10), st.floats(0.2, 3.0), st.floats(0.0, 3.0), st.floats(0.01, 3.0))
def test_particles_of_the_linear_model_are_one_large_ornstein_uhlenbeck(
    count: int, a: float, kappa: float, time: float
) -> None:
    beta, variance, mean = 0.4, 0.3, 1.5
    drift = particle_system(a, kappa, count)
    flow, stationary = expm(-drift * time), solve_continuous_lyapunov(drift, 2 * beta * np.eye(count))
    exact = stationary + flow @ (variance * np.eye(count) - stationary) @ flow.T
    law = linear_mean_field_particles(a, kappa, count, beta=beta, time=time, mean=mean, variance=variance)
    close(law.variance, exact[0, 0])
    close(law.covariance, exact[0, 1])
    close(law.mean_variance, exact.mean())
    close(law.mean, (flow @ np.full(count, mean))[0])
    limit = linear_mean_field_particles(a, kappa, count, beta=beta, time=math.inf)
    close(limit.variance, stationary[0, 0])
    # claims C3, C4: the constants hold at every M
    close(count * limit.mean_variance, beta / a)
    close(count * (limit.second_moment - beta / (a + kappa)), pair_constant(a, kappa, beta=beta), count * ROUNDING)
    close(count * limit.covariance, pair_constant(a, kappa, beta=beta), count * ROUNDING)


@pytest.mark.parametrize("scheme", SCHEMES)
def test_chain_of_the_linear_model_solves_the_discrete_lyapunov_equation(scheme: Scheme) -> None:
    a, kappa, count, beta, eta = 1.0, 3.0, 8, 0.5, 0.1
    factor, noise = one_step_matrices(particle_system(a, kappa, count), eta, scheme)
    exact = solve_discrete_lyapunov(factor, 2 * beta * eta * noise @ noise.T)[:count, :count]
    law = linear_mean_field_chain(a, kappa, count, beta=beta, step=eta, scheme=scheme)
    close(law.variance, exact[0, 0])
    close(law.covariance, exact[0, 1])
    close(law.mean_variance, exact.mean())
    unbiased = math.isclose(count * law.covariance, pair_constant(a, kappa, beta=beta), rel_tol=1e-12)
    assert unbiased == (scheme == "leimkuhler_matthews")


def test_mean_field_law_is_the_limit_of_many_particles() -> None:
    a, kappa, beta, time = 1.0, 3.0, 0.5, 0.8
    limit = linear_mean_field(a, kappa, gaussian(1.5, 0.3), beta=beta, time=time)
    for count in (10, 1000, 100_000):
        law = linear_mean_field_particles(a, kappa, count, beta=beta, time=time, mean=1.5, variance=0.3)
        assert law.mean == pytest.approx(float(limit.mean), rel=1e-14)
        # Var theta_1 - limit = (slow - fast) / M exactly, and both spreads are below 0.6
        assert abs(law.variance - float(limit.covariance)) <= 0.6 / count
    stationary = linear_mean_field(a, kappa, gaussian(1.5, 0.3), beta=beta, time=math.inf)
    assert float(stationary.covariance) == beta / (a + kappa) and float(stationary.mean) == 0.0


def test_mean_field_law_solves_its_own_moment_equations() -> None:
    # d m = -a m, d S = -2 (a + kappa) S + 2 beta I, by central differences: error h^2 |third derivative| / 6,
    # at most (2 * 4)^3 e^0 * 1 * h^2 / 6 = 9e-7 at h = 1e-4, plus rounding 1e-16 / 1e-4
    a, kappa, beta, h = 1.0, 3.0, 0.5, 1e-4
    start = Gaussian(torch.tensor([1.0, -0.5]).double(), torch.tensor([[0.4, 0.1], [0.1, 0.3]]).double())
    before, now, after = (linear_mean_field(a, kappa, start, beta=beta, time=0.3 + k * h) for k in (-1, 0, 1))
    rate = (after.covariance - before.covariance) / (2 * h)
    close(rate, (-2 * (a + kappa) * now.covariance + 2 * beta * torch.eye(2)).numpy(), 1e-6)
    close((after.mean - before.mean) / (2 * h), (-a * now.mean).numpy(), 1e-6)


@pytest.mark.parametrize(
    ("call", "sentence"),
    [
        (lambda: ornstein_uhlenbeck(1.0, gaussian(0.0, 1.0), beta=-1.0, time=1.0), "beta is a number >= 0"),
        (lambda: ornstein_uhlenbeck([1.0, 2.0], gaussian(0.0, 1.0), beta=1.0, time=1.0), "curvature in R\\^1"),
        (lambda: ornstein_uhlenbeck([[1.0, 0.5], [0.0, 1.0]], gaussian([0.0, 0.0], 1.0), beta=1.0, time=1.0), "symm"),
        (lambda: ornstein_uhlenbeck_stationary(-1.0, beta=1.0), "positive curvatures"),
        (lambda: chain_stationary_variance(1.0, beta=1.0, step=2.0), "0 < a eta < 2"),
        (lambda: chain_stationary_variance(1.0, beta=1.0, step=1.0, scheme="milstein"), "milstein"),  # type: ignore[arg-type]
        (lambda: chain_law(1.0, gaussian(0.0, 1.0), beta=[1.0], step=0.1, steps=2), "one beta a step"),
        (lambda: linear_mean_field_particles(1.0, 1.0, 0, beta=1.0, time=1.0), "at least one particle"),
        (lambda: linear_mean_field(-1.0, 2.0, gaussian(0.0, 1.0), beta=1.0, time=math.inf), "a > 0"),
    ],
)
def test_bad_input_is_a_sentence(call: object, sentence: str) -> None:
    with pytest.raises(InputError, match=sentence):
        call()  # type: ignore[operator]
