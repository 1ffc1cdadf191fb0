"""Pieces of family C's experiments against independent computations."""

from dataclasses import replace

import numpy as np
import pytest
import torch
from scipy import integrate, stats
from scipy.linalg import solve_continuous_lyapunov

from mfcheck.dynamics.exact import linear_mean_field_chain, linear_mean_field_particles, pair_constant
from mfcheck.dynamics.fokker_planck import Grid
from mfcheck.dynamics.gaussian import gaussian
from mfcheck.experiments import chaos, chaos_linear, chaos_wasserstein
from mfcheck.experiments.chaos_limits import (
    LimitDrift,
    apart,
    limit,
    limit_of,
    line_law,
    model,
    slices,
    start,
)
from mfcheck.experiments.fluctuations import expected_w1_factor, fluctuation_covariance, independent_w1
from mfcheck.functional import velocity
from mfcheck.replicates import Replicates
from mfcheck.risks import linear_attraction
from mfcheck.statistics.seeds import stream
from mfcheck.statistics.wasserstein import LineLaw
from paper_checks.claims_chaos import C7, LINEAR

SETTINGS = {"model": "quartic", "beta": 0.5, "start_mean": 0.8, "start_variance": 0.25, "step": 0.05}


def some(count: int = 2, first: int = 0) -> Replicates:
    return Replicates(stream(7, "test"), first, first + count)


# --- the models -------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("name", "p"), [("quartic", 1), ("coupled quartic", 2), ("convex along mixtures", 1)])
def test_closed_forms_of_the_models_equal_automatic_differentiation(name: str, p: int) -> None:
    risk = model(name)
    plain = replace(risk, potential_gradient=None, loss_gradient=None, features_with_pullback=None)
    points = torch.randn(3, 5, p, generator=torch.Generator().manual_seed(0), dtype=torch.float64)
    moments = risk.features(points).mean(1)
    field = plain.field_at(moments)
    assert torch.allclose(risk.field_at(moments), field, atol=1e-13)
    assert torch.allclose(risk.gradient(points.clone(), field), plain.gradient(points, field), atol=1e-13)


def test_the_drift_of_the_limit_is_the_velocity_at_other_points() -> None:
    steps = 4
    drift = LimitDrift.of(SETTINGS, steps, "cpu")
    solution = limit_of(SETTINGS, [k * 0.05 for k in range(steps + 1)])
    points = torch.linspace(-2, 2, 9, dtype=torch.float64)[None, :, None]
    for k in (0, 3):
        expected = velocity(model("quartic"), solution.measure(k), at=points[0])
        assert torch.allclose(drift(points, k * 0.05)[0], expected, atol=1e-12)


# --- starts and batches -----------------------------------------------------------------------------------------


def test_a_start_belongs_to_its_replicate() -> None:
    law = gaussian([0.5, -1.0], [0.25, 4.0])
    together = start(law, some(4), "x", 50, 30)
    assert together.shape == (200, 30, 2)
    assert torch.equal(start(law, some(2, 1), "x", 50, 30), together[50:150])
    flat = together.reshape(-1, 2)
    # 6,000 draws: five standard errors
    assert torch.all((flat.mean(0) - law.mean).abs() < 5 * (law.covariance.diagonal() / 6000).sqrt())
    assert torch.all((flat.var(0) / law.covariance.diagonal() - 1).abs() < 5 * np.sqrt(2 / 6000))


def test_batches_change_nothing() -> None:
    settings = {**LINEAR, "step": 0.1, "time": 0.5, "particles": (2, 4), "particles_each": 8}
    settings |= {"interaction": True, "shared_noise": False}
    together = chaos_linear.stationary_moments(settings, some(40))
    alone = chaos_linear.stationary_moments(settings, some(2, 35))
    for name, values in alone.items():
        np.testing.assert_allclose(together[name][35:37], values, rtol=1e-12)


# --- laws on the grid -------------------------------------------------------------------------------------------


def test_line_law_and_slices_keep_the_limits_moments() -> None:
    solution = limit("quartic", 0.5, 0.8, 0.25, (1.0,))
    law = line_law(solution)
    x = 0.5 * (law.edges[1:] + law.edges[:-1])
    measure = solution.measure(-1)
    assert law.masses @ x == pytest.approx(float(measure.mean()), abs=1e-6)
    # a law uniform in cells of width h is wider by h^2 / 12, and by as much again through the grouping
    assert law.masses @ x**2 == pytest.approx(float(measure.integrate(lambda t: t[:, 0] ** 2)), abs=law.width**2 / 3)
    plane = limit("coupled quartic", 0.5, 0.8, 0.25, (0.5,), 48, 2)
    mean = plane.measure(-1).mean().numpy()
    for angle, projection in slices(plane, 3).items():
        middles = 0.5 * (projection.edges[1:] + projection.edges[:-1])
        assert projection.masses @ middles == pytest.approx(mean @ [np.cos(angle), np.sin(angle)], abs=1e-4)


def test_distance_between_laws() -> None:
    law, moved = LineLaw(0.0, 1.0, np.full(4, 0.25)), LineLaw(0.3, 1.3, np.full(5, 0.2))
    assert apart(law, moved) == pytest.approx((0.3, 0.3), abs=1e-12)


# --- constants --------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("time", [0.3, 2.0])
def test_linear_coupling_constant_solves_the_moment_equations(time: float) -> None:
    a, kappa, beta, variance = 1.0, 2.0, 0.5, 0.25
    # means x of the particles and y of the copies on one noise: dx = -a x, dy = -(a + kappa) y, each + sqrt(2 beta) dW
    drift, ones = np.diag([-a, -(a + kappa)]), np.ones((2, 2))

    def slope(_: float, flat: np.ndarray) -> np.ndarray:
        s = flat.reshape(2, 2)
        return (drift @ s + s @ drift.T + 2 * beta * ones).ravel()

    s = integrate.solve_ivp(slope, (0, time), (variance * ones).ravel(), rtol=1e-11, atol=1e-13).y[:, -1].reshape(2, 2)
    expected = s[0, 0] - 2 * s[0, 1] + s[1, 1]
    measured = chaos.linear_coupling_constant(a, kappa, beta=beta, variance=variance, time=time)
    assert measured == pytest.approx(expected, rel=1e-8)
    at_rest = solve_continuous_lyapunov(drift, -2 * beta * ones)
    late = chaos.linear_coupling_constant(a, kappa, beta=beta, variance=variance, time=60.0)
    assert late == pytest.approx(at_rest[0, 0] - 2 * at_rest[0, 1] + at_rest[1, 1], rel=1e-12)


def test_fluctuations_of_the_linear_model_are_the_exact_ones() -> None:
    a, kappa, beta, time = 1.0, 3.0, 0.5, 0.6
    grid = Grid([(-4.0, 4.0)], [80])
    masses, covariance = fluctuation_covariance(
        linear_attraction(a, kappa), gaussian(0.8, 0.25), grid, beta=beta, time=time, step=0.05
    )
    x = grid.axes[0]
    exact = (
        1000 * linear_mean_field_particles(a, kappa, 1000, beta=beta, time=time, mean=0.8, variance=0.25).mean_variance
    )
    # second order in h and in the step: a h^2 / (6 beta) = 0.3 %, (b step)^2 / 6 = 0.7 %
    assert x @ covariance @ x == pytest.approx(exact, rel=0.01)
    assert np.abs(covariance.sum(0)).max() < 1e-10
    without = fluctuation_covariance(
        linear_attraction(a, 0.0), gaussian(0.8, 0.25), grid, beta=beta, time=0.1, step=0.05
    )
    np.testing.assert_allclose(without[1], np.diag(without[0]) - np.outer(without[0], without[0]), atol=1e-14)
    assert masses.sum() == pytest.approx(1.0, abs=1e-12)


def test_independent_w1_is_the_binomial_sum_and_tends_to_its_limit() -> None:
    masses, spacing = np.array([0.2, 0.0, 0.5, 0.3]), 0.5
    below = np.cumsum(masses)
    expected = spacing * sum(stats.binom(7, u).expect(lambda k, u=u: abs(k / 7 - u)) for u in below[:-1])
    assert independent_w1(masses, spacing, 7) == pytest.approx(expected, rel=1e-12)
    fine = np.full(4000, 1 / 4000)
    covariance = np.diag(fine) - np.outer(fine, fine)
    interacting, independent = expected_w1_factor(fine, covariance, 1 / 4000)
    # int sqrt(u (1 - u)) du = pi / 8
    assert independent == pytest.approx(np.sqrt(2 / np.pi) * np.pi / 8, rel=1e-5)
    assert interacting == pytest.approx(independent, rel=1e-9)
    assert independent_w1(fine, 1 / 4000, 4096) * 64 == pytest.approx(independent, rel=2e-3)


def test_the_regression_of_c7_recovers_the_chains_expansion() -> None:
    a, kappa, beta = LINEAR["a"], LINEAR["kappa"], LINEAR["beta"]
    cells = C7.settings["cells"]
    total = [
        linear_mean_field_chain(a, kappa, m, beta=beta, step=eta).second_moment - beta / (a + kappa) for eta, m in cells
    ]
    regression = np.linalg.pinv(np.array([(1.0, eta, 1.0 / m) for eta, m in cells]))
    # beyond A eta a chain of curvature b has (beta/b) z^2 / (1 - z), z = b eta / 2, which the regression passes on
    z = np.array([0.5 * (a + kappa) * eta for eta, _ in cells])
    allowed = np.abs(regression) @ (beta / (a + kappa) * z**2 / (1 - z))
    deviation = np.abs(regression @ total - [0.0, beta / 2, pair_constant(a, kappa, beta=beta)])
    assert (deviation <= allowed).all()
    # small beside the regions of c0 and B, so that the expansion's next order decides nothing
    regions = {criterion.name: criterion.region.half_width for criterion in C7.criteria}
    assert deviation[0] < 0.1 * regions["c0"] and deviation[2] < 0.1 * regions["B"]


# --- small runs of whole experiments ----------------------------------------------------------------------------


def test_small_runs_have_the_shapes_that_are_stated() -> None:
    line = {**SETTINGS, "plane_model": "coupled quartic", "beta_factor": 1.0, "density_times": (0.0, 0.1)}
    line |= {"particles": (4, 8), "particles_each": 16, "plane_particles": (4,), "plane_particles_each": 8}
    measured = chaos_wasserstein.rates_with_particles(line | {"directions": 2}, some(3))
    assert measured["w1"].shape == measured["w2_squared"].shape == measured["w1_over_theory"].shape == (3, 2)
    assert measured["sliced_w1"].shape == (3, 1)
    assert measured["histogram"].shape[:2] == measured["density"].shape[:2] == (3, 2)
    width = (chaos_wasserstein.BOX[1] - chaos_wasserstein.BOX[0]) / measured["histogram"].shape[2]
    np.testing.assert_allclose(measured["histogram"].sum(2) * width, 1.0)
    # on the line the squared distance is at least the square of W1, system by system and so on average
    assert (measured["w2_squared"] >= measured["w1"] ** 2).all()


def test_one_noise_keeps_particles_nearer_to_their_copies_than_two() -> None:
    settings = SETTINGS | {"time": 0.5, "particles": (32,), "particles_each": 64, "same_noise": True}
    settings |= {"linear_a": 1.0, "linear_kappa": 2.0, "linear_step": 0.05, "linear_particles": 2, "linear_systems": 2}
    near = chaos.coupling(settings, some(4))["squared_distance"]
    far = chaos.coupling(settings | {"same_noise": False}, some(4))["squared_distance"]
    assert (near < 0.1 * far).all()
