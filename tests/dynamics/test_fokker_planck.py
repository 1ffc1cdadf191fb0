"""solve_fokker_planck against closed forms: error bars, orders, mass, sign; and its sentences."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest
import torch
from torch import Tensor

from mfcheck import risks
from mfcheck.dynamics.fokker_planck import Grid, Solution, gibbs, solve_fokker_planck, solve_on_grid
from mfcheck.errors import InputError
from mfcheck.feature_risk import FeatureRisk


def normal(mean: float, variance: float) -> Callable[[Tensor], Tensor]:
    """An unnormalised isotropic Gaussian density."""
    return lambda x: torch.exp(-((x - mean) ** 2).sum(-1) / (2 * variance))


def normal_masses(grid: Grid, mean: float, variance: float) -> np.ndarray:
    x = grid.nodes[:, 0]
    return np.exp(-((x - mean) ** 2) / (2 * variance)) / np.sqrt(2 * np.pi * variance) * grid.cell_volume


def distance(solution: Solution, k: int, exact: np.ndarray) -> float:
    return float(np.abs(solution.masses[k].numpy() - exact).sum())


def check_masses(solution: Solution) -> None:
    assert float((solution.masses.sum(-1) - 1.0).abs().max()) < 1e-12
    assert float(solution.masses.min()) >= 0.0


@pytest.mark.parametrize("cells", [None, 48, 64, 90, 200])
@pytest.mark.parametrize(("a", "beta", "mean"), [(1.0, 0.5, 1.5), (3.0, 0.1, 1.5), (0.5, 1.0, 0.0)])
def test_bar_covers_the_exact_ornstein_uhlenbeck(a: float, beta: float, mean: float, cells: int | None):
    times = [0.0, 0.1, 1.0, 3.0]
    variances = [0.09 * np.exp(-2 * a * t) + beta / a * (1 - np.exp(-2 * a * t)) for t in times]
    side = mean + 6.5 * np.sqrt(max(variances))
    grid = Grid([(-side, side)], None if cells is None else [cells])
    solution = solve_fokker_planck(risks.quadratic(a), normal(mean, 0.09), grid, beta=beta, times=times, tolerance=1e-4)
    check_masses(solution)
    for k, t in enumerate(times):
        exact = normal_masses(solution.grid, mean * np.exp(-a * t), variances[k])
        assert distance(solution, k, exact) <= float(solution.error[k])
    if cells is None:
        assert float(solution.error.max()) <= 1e-4


@pytest.mark.parametrize(("kappa", "tolerance"), [(1.0, 1e-3), (3.0, 1e-5), (10.0, 1e-2), (10.0, 1e-4)])
def test_bar_covers_the_exact_linear_mean_field(kappa: float, tolerance: float):
    a, beta, mean, variance = 1.0, 0.3, 1.2, 0.1
    times = [0.2, 1.0, 3.0]
    solution = solve_fokker_planck(
        risks.linear_attraction(a, kappa),
        normal(mean, variance),
        Grid([(-4.5, 4.5)]),
        beta=beta,
        times=times,
        tolerance=tolerance,
    )
    check_masses(solution)
    b = a + kappa
    for k, t in enumerate(times):
        width = variance * np.exp(-2 * b * t) + beta / b * (1 - np.exp(-2 * b * t))
        exact = normal_masses(solution.grid, mean * np.exp(-a * t), width)
        assert distance(solution, k, exact) <= float(solution.error[k]) <= tolerance


def test_bar_covers_the_rotated_quadratic_in_two_dimensions():
    c, s = np.cos(np.pi / 6), np.sin(np.pi / 6)
    turn = np.array([[c, -s], [s, c]])
    a = turn @ np.diag([1.0, 4.0]) @ turn.T
    decay = turn @ np.diag(np.exp([-1.0, -4.0])) @ turn.T
    mean = decay @ [1.0, 0.5]
    covariance = 0.16 * decay @ decay + 0.5 * np.linalg.inv(a) @ (np.eye(2) - decay @ decay)
    grid = Grid([(-3.8, 4.2), (-3.5, 3.5)])
    risk = risks.quadratic(torch.from_numpy((a + a.T) / 2))
    start = torch.tensor([1.0, 0.5], dtype=torch.float64)
    solution = solve_fokker_planck(
        risk, lambda x: torch.exp(-((x - start) ** 2).sum(-1) / 0.32), grid, beta=0.5, times=[1.0], tolerance=1e-3
    )
    check_masses(solution)
    d = solution.grid.nodes - mean
    exact = np.exp(-0.5 * np.einsum("ni,ij,nj->n", d, np.linalg.inv(covariance), d))
    exact *= solution.grid.cell_volume / (2 * np.pi * np.sqrt(np.linalg.det(covariance)))
    assert distance(solution, 0, exact) <= float(solution.error[0]) <= 1e-3


@pytest.mark.parametrize("cells", [None, 32])
def test_bar_covers_diffusion_on_the_circle(cells: int | None):
    flat = FeatureRisk("flat", potential=lambda x: 0.0 * x.sum(-1))
    grid = Grid([(0, 1)], None if cells is None else [cells], periodic=True)
    times = [0.1, 1.0]
    solution = solve_fokker_planck(
        flat, lambda x: 1 + 0.8 * torch.cos(2 * np.pi * x[:, 0]), grid, beta=0.05, times=times, tolerance=1e-6
    )
    check_masses(solution)
    x = solution.grid.nodes[:, 0]
    for k, t in enumerate(times):
        exact = 1 + 0.8 * np.exp(-4 * np.pi**2 * 0.05 * t) * np.cos(2 * np.pi * x)
        assert distance(solution, k, exact * solution.grid.cell_volume) <= float(solution.error[k])
    assert float(solution.boundary_mass.max()) == 0.0


def test_start_far_in_the_tail_of_gibbs_keeps_its_bar():
    # a rational exponential in one piece is off by 0.1 in L1 here, with the mass right to 1e-14
    a, beta, times = 3.0, 0.1, [0.2, 1.0]
    solution = solve_fokker_planck(
        risks.quadratic(a), normal(-4.0, 0.25), Grid([(-8, 1.46)], [1024]), beta=beta, times=times
    )
    for k, t in enumerate(times):
        variance = 0.25 * np.exp(-2 * a * t) + beta / a * (1 - np.exp(-2 * a * t))
        exact = normal_masses(solution.grid, -4.0 * np.exp(-a * t), variance)
        assert distance(solution, k, exact) <= float(solution.error[k]) < 0.02


def test_grids_that_all_miss_the_density_say_so():
    # sigma is half a cell of the finest grid: its differences alone would show little
    solution = solve_fokker_planck(
        risks.quadratic(30.0), normal(0.0, 0.0333), Grid([(-6, 6)], [32]), beta=1.0, times=[1.0]
    )
    assert float(solution.error[0]) > 0.1


@pytest.mark.parametrize(("flux", "order"), [("scharfetter_gummel", 2.0), ("upwind", 1.0)])
def test_order_in_space(flux: str, order: float):
    errors = []
    for cells in (80, 160, 320):
        grid = Grid([(-5, 5)], [cells])
        m = solve_on_grid(
            risks.quadratic(), grid.masses_of(normal(1.5, 0.09)), grid, beta=0.5, times=[1.0], step=1.0, flux=flux
        )
        variance = 0.09 * np.exp(-2) + 0.5 * (1 - np.exp(-2))
        errors.append(np.abs(m[0].numpy() - normal_masses(grid, 1.5 * np.exp(-1), variance)).sum())
    slopes = -np.diff(np.log2(errors))
    # the next term is two orders on for Scharfetter-Gummel, one for upwind: a tenth at these spacings
    assert np.abs(slopes - order).max() < 0.1


@pytest.mark.parametrize(("scheme", "order"), [("frozen", 1.0), ("midpoint", 2.0), ("commutator_free", 4.0)])
def test_order_in_time(scheme: str, order: float):
    grid = Grid([(-4, 4)], [100])
    risk, start = risks.desai_zwanzig(), grid.masses_of(normal(0.5, 0.16))

    def solve(scheme: str, steps: int) -> Tensor:
        return solve_on_grid(risk, start, grid, beta=0.6, times=[2.0], step=2.0 / steps, scheme=scheme)[0]  # type: ignore[arg-type]

    reference = solve("commutator_free", 256)
    errors = [float((solve(scheme, steps) - reference).abs().sum()) for steps in (16, 32, 64)]
    slopes = -np.diff(np.log2(errors))
    # claim P3's band at order 1 and 2; at order 4 the start bends the ladder, and more than 3.5 excludes 3
    assert np.abs(slopes - order).max() < 0.15 if order < 4 else slopes.min() > 3.5


@pytest.mark.parametrize("dim", [1, 2])
def test_gibbs_does_not_move(dim: int):
    grid = Grid([(-3, 3), (-2.5, 2.5)][:dim], [64, 48][:dim])
    risk = risks.double_well()
    assert risk.potential is not None
    pi = gibbs(risk.potential(grid.centres), grid, 0.3)
    solution = solve_fokker_planck(risk, pi, grid, beta=0.3, times=[1.0, 50.0], tolerance=1e-3)
    # exponentials are accurate to 1e-4 of the tolerance, and extrapolation leaves Gibbs alone to interpolation's error
    assert float((solution.masses - pi).abs().sum(-1).max()) < 1e-6
    still = solve_on_grid(risk, pi, grid, beta=0.3, times=[50.0], step=1.0)
    assert float((still[0] - pi).abs().sum()) < 1e-10


def test_user_callable_equals_feature_risk():
    risk = risks.desai_zwanzig()
    options = dict(beta=0.4, times=[0.5, 2.0], tolerance=1e-4)
    grid, start = Grid([(-4, 4)], [64]), normal(0.5, 0.16)
    fast = solve_fokker_planck(risk, start, grid, **options)
    general = solve_fokker_planck(lambda measure: risk(measure), start, grid, **options)
    # the same equations with other steps: each within its own time bar of the limit, the space error is shared
    assert float((fast.masses - general.masses).abs().sum(-1).max()) <= float(
        (fast.time_error + general.time_error).max()
    )
    same = [
        solve_on_grid(r, grid.masses_of(start), grid, beta=0.4, times=[1.0], step=0.1)
        for r in (risk, lambda m: risk(m))
    ]
    assert float((same[0] - same[1]).abs().sum()) < 1e-11


def test_solution_measures_and_distribution_function():
    solution = solve_fokker_planck(
        risks.quadratic(), normal(1.5, 0.09), Grid([(-4.3, 4.3)]), beta=0.5, times=[0.5, 1.0]
    )
    mean, variance = 1.5 * np.exp(-1.0), 0.09 * np.exp(-2) + 0.5 * (1 - np.exp(-2))
    measure = solution.measure(-1)
    # masses are quadrature weights at the centres, so moments are as good as the L1 bar times the box (squared)
    assert abs(float(measure.mean()) - mean) < 4.3 * float(solution.error[-1])
    assert abs(float(measure.covariance()) - variance) < 2 * 4.3**2 * float(solution.error[-1])
    law = torch.distributions.Normal(mean, np.sqrt(variance))
    x = torch.linspace(-2, 3, 41, dtype=torch.float64)
    # monotone cubics and fourth-order face values at h = 0.05, sigma = 0.67
    assert float((solution.cdf(x) - law.cdf(x)).abs().max()) < 1e-4
    u = torch.linspace(0.01, 0.99, 33, dtype=torch.float64)
    assert float((solution.quantile(u) - law.icdf(u)).abs().max()) < 1e-3
    entropy = -0.5 * np.log(2 * np.pi * np.e * variance)
    exact = 0.5 * (mean**2 + variance) + 0.5 * entropy
    assert abs(float(solution.free_energy[-1]) - exact) < 1e-4
    assert float(solution.free_energy[0]) > float(solution.free_energy[1])
    assert torch.allclose(solution.density.sum(-1) * solution.grid.cell_volume, torch.ones(2, dtype=torch.float64))


def solve_with(**changes: object) -> Solution:
    options: dict = dict(
        risk=risks.quadratic(), initial=normal(0.0, 0.3), grid=Grid([(-5, 5)], [64]), beta=0.5, times=[1.0]
    )
    options.update(changes)
    return solve_fokker_planck(options.pop("risk"), options.pop("initial"), options.pop("grid"), **options)


def test_sentences():
    nan = FeatureRisk("broken", potential=lambda x: torch.log(x.sum(-1)))
    cases: list[tuple[dict, str]] = [
        (dict(beta=0.0), "beta > 0; it came as 0.0.*particles"),
        (dict(beta=[0.1, 0.2]), "one constant beta"),
        (dict(times=[1.0, 0.5]), "times come sorted"),
        (dict(times=[-1.0]), ">= 0"),
        (dict(times=[]), "none came"),
        (dict(times=2.0), "sequence"),
        (dict(tolerance=0.0), "tolerance"),
        (dict(risk=nan), "NaN or infinity came in 56 of 112"),
        (dict(risk=lambda m: m.weights), "returns a scalar"),
        (dict(risk=lambda m: 1.0), "returns a torch tensor"),
        (dict(risk=3), "callable Measure"),
        (dict(initial=np.ones(63)), "one a cell, 64"),
        (dict(initial=-np.ones(64)), "non-negative"),
        (dict(initial=np.full(64, np.nan)), "NaN or infinity"),
        (dict(initial=np.zeros(64)), "no mass"),
        (dict(initial=lambda x: x), "non-negative"),
        (dict(initial=lambda x: torch.ones(3)), "values \\[n\\]"),
        (dict(initial=normal(4.5, 0.3)), "box is too small: a mass of .* outermost cells"),
        (dict(grid=Grid([(-1.5, 1.5)], [64]), initial=normal(0.0, 0.02)), "box is too small"),
        (dict(grid=Grid([(-5, 5)], [65])), "even number"),
        (dict(grid=Grid([(-5, 5)]), initial=np.ones(64)), "initial masses need a grid with cells"),
        (dict(grid=[(-5, 5)]), "mfcheck Grid"),
    ]
    for changes, words in cases:
        with pytest.raises(InputError, match=words):
            solve_with(**changes)


def test_a_tolerance_out_of_reach_is_said():
    # an indicator: not smooth, so differences fall at order one at the very start
    with pytest.raises(InputError, match="out of reach"):
        solve_with(
            grid=Grid([(-5, 5)]), initial=lambda x: (x[:, 0].abs() < 1).double(), times=[0.0, 1e-9], tolerance=1e-7
        )
