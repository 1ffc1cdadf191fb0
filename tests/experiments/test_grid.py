"""Family P's experiments: closed forms against the equation itself, and the pieces against independent formulas."""

import math
from dataclasses import replace

import numpy as np
import pytest
import torch

from mfcheck.dynamics.exact import ornstein_uhlenbeck
from mfcheck.dynamics.fokker_planck import Grid, dissipation, solve_fokker_planck
from mfcheck.dynamics.gaussian import gaussian
from mfcheck.dynamics.gaussian import relative_entropy as gaussian_relative_entropy
from mfcheck.experiments import grid, grid_bifurcation, grid_entropy, grid_reference
from mfcheck.experiments.closed_forms import (
    ClosedForm,
    benes_case,
    heat_on_circle_case,
    linear_mean_field_case,
    moment_feedback_case,
    ornstein_uhlenbeck_case,
    rotated,
)
from mfcheck.functional import velocity
from mfcheck.measure import Measure
from mfcheck.replicates import Replicates
from mfcheck.risks import desai_zwanzig
from mfcheck.statistics.seeds import stream
from paper_checks.claims_grid import BETA_C, P1, P8

PLANE = gaussian([0.5, -0.3], [0.3, 0.5])
LINE = gaussian(0.7, 0.4)
PROBLEMS = {
    "Ornstein-Uhlenbeck": ornstein_uhlenbeck_case(1.5, LINE, beta=0.4, times=(0.5,)),
    "expanding": ornstein_uhlenbeck_case(-0.4, LINE, beta=0.4, times=(0.5,)),
    "plane": ornstein_uhlenbeck_case(rotated(1.0, 3.0, 25.0), PLANE, beta=0.4, times=(0.5,)),
    "Benes": benes_case(0.8, 0.3, 0.4, beta=0.5, times=(0.5,)),
    "circle": heat_on_circle_case((0.4,), 0.01, beta=0.03, times=(0.5,)),
    "torus": heat_on_circle_case((0.4, 0.9), 0.02, beta=0.03, times=(0.5,), length=1.5),
    "linear mean-field": linear_mean_field_case(1.0, 2.0, LINE, beta=0.5, times=(0.5,)),
    "callable": linear_mean_field_case(1.0, 2.0, PLANE, beta=0.5, times=(0.5,), plain=True),
    "moment feedback": moment_feedback_case(0.3, 1.2, PLANE, beta=0.5, times=(0.5,)),
}


@pytest.mark.parametrize("problem", PROBLEMS.values(), ids=PROBLEMS.keys())
def test_closed_form_solves_its_fokker_planck_equation(problem: ClosedForm) -> None:
    """d/ds int f rho = int (f' v + beta f'') rho for a test function f, by quadrature and differences in time."""
    cells = 60 if len(problem.bounds) == 2 else 800
    quadrature = Grid(problem.bounds, cells, problem.periodic)
    points = quadrature.centres
    weights = {s: problem.density(s)(points) * quadrature.cell_volume for s in (0.499, 0.5, 0.501)}
    assert float(weights[0.5].sum()) == pytest.approx(1.0, abs=1e-10)
    drift = velocity(problem.risk, Measure(points, weights[0.5]))
    # f = sin: smooth, bounded, periodic where the box is
    length = problem.bounds[0][1] - problem.bounds[0][0]
    frequency = 2 * math.pi / length if problem.periodic else 0.9
    phase = frequency * points.sum(-1) + 0.4
    first = frequency * torch.cos(phase)[:, None]
    laplacian = -len(problem.bounds) * frequency**2 * torch.sin(phase)
    right = float(weights[0.5] @ ((first * drift).sum(-1) + problem.beta * laplacian))
    left = float((weights[0.501] - weights[0.499]) @ torch.sin(phase)) / 0.002
    # central differences: 0.001^2 / 6 times a third derivative of order ten
    assert left == pytest.approx(right, abs=2e-5)


@pytest.mark.parametrize("problem", PROBLEMS.values(), ids=PROBLEMS.keys())
def test_box_holds_the_mass_at_every_time(problem: ClosedForm) -> None:
    (time,) = problem.times
    wide = Grid(problem.bounds, 100, problem.periodic)
    for s in (0.0, 0.5 * time, time):
        assert float(problem.density(s)(wide.centres).sum()) * wide.cell_volume == pytest.approx(1.0, abs=1e-10)


def test_rotated_has_the_eigenvalues_asked_for() -> None:
    assert np.linalg.eigvalsh(rotated(1.0, 4.0, 30.0)) == pytest.approx([1.0, 4.0], abs=1e-14)


def test_true_error_is_zero_for_the_closed_form_itself() -> None:
    problem = PROBLEMS["Ornstein-Uhlenbeck"]
    solution = grid_reference.solve(grid_reference.Trial(problem, 1e-3, 64))
    exact = problem.density(0.5)(solution.grid.centres) * solution.grid.cell_volume
    assert grid_reference.true_errors(problem, replace(solution, masses=exact[None])) == [0.0]
    shifted = torch.roll(exact, 1)
    found = grid_reference.true_errors(problem, replace(solution, masses=shifted[None]))
    assert found == [pytest.approx(float((shifted - exact).abs().sum()))]


def test_drawn_trials_depend_on_their_name_alone() -> None:
    def draw(count: int) -> list[tuple[str, float, int | None]]:
        trials = grid_reference.drawn_trials(stream(3, "P7"), count)
        return [(trial.problem.name, trial.tolerance, trial.cells) for trial in trials]

    assert draw(12)[:5] == draw(5)
    assert {name for name, _, _ in draw(60)} <= set(grid_reference.KINDS)


def test_battery_reaches_every_kind_with_fixed_and_chosen_cells() -> None:
    trials = list(grid_reference.fixed_trials())
    names = {trial.problem.name.removesuffix(", callable risk") for trial in trials}
    assert names == set(grid_reference.KINDS)
    for kind in grid_reference.KINDS:
        ways = {trial.cells is None for trial in trials if trial.problem.name == kind}
        assert ways == {True, False}
    assert sum(len(trial.problem.times) for trial in trials) >= 60


def test_relative_entropy_of_gaussian_masses() -> None:
    """The grid sums a smooth integrand, so that the closed form is met to rounding."""
    line = Grid([(-9.0, 9.0)], 400)
    law, beta, a = gaussian(0.8, 0.3), 0.5, 1.0
    found = grid_entropy.relative_entropy(line.masses_of(law.density), 0.5 * a * line.centres[:, 0] ** 2, beta)
    assert found == pytest.approx(gaussian_relative_entropy(law, gaussian(0.0, beta / a)), rel=1e-12)


def test_relative_entropy_is_finite_where_the_gibbs_masses_underflow() -> None:
    line = Grid([(-7.0, 7.0)], 200)
    potential = 100.0 * line.centres[:, 0] ** 2
    found = grid_entropy.relative_entropy(line.masses_of(gaussian(4.0, 0.1).density), potential, 1.0)
    assert math.isfinite(found) and found > 1000


def test_gradient_norm_by_another_quadrature() -> None:
    law, beta = gaussian(0.8, 0.04), 0.3
    x = np.linspace(-1.0, 2.6, 200_001)
    rho = np.exp(-((x - 0.8) ** 2) / 0.08) / math.sqrt(2 * math.pi * 0.04)
    psi = x**4 / 4 - x**2 / 2 + grid_entropy.KAPPA * (x - 0.8) ** 2 / 2 + beta * np.log(rho)
    expected = np.trapezoid(rho * np.gradient(psi, x) ** 2, x)
    assert grid_entropy.gradient_norm(law, beta) == pytest.approx(float(expected), rel=1e-6)


def test_discrete_dissipation_is_near_the_gradient_norm() -> None:
    fine = Grid([(-3.0, 3.0)], 800)
    law = gaussian(0.8, 0.04)
    found = dissipation(desai_zwanzig(grid_entropy.KAPPA), fine.masses_of(law.density), fine, 0.3)
    assert -found.discrete == pytest.approx(grid_entropy.gradient_norm(law, 0.3), rel=1e-3)


def test_log_sobolev_forgets_the_temperature_only_in_the_control() -> None:
    assert grid_entropy.log_sobolev(2.0, 0.5, "curvature over beta") == 4.0
    assert grid_entropy.log_sobolev(2.0, 0.5, "curvature") == 2.0


def test_conservation_looks_at_every_path() -> None:
    few = {**P1.settings, "cells": (40,), "betas": (0.1,), "multiples": (1.0, 1000.0), "steps": 3}
    measured = grid.conservation(few, Replicates(stream(1), 0, 1))
    # two linear and one mean-field path a multiple, and one in the plane
    assert measured["mass_error"].shape == measured["smallest"].shape == (1, 8)
    assert measured["mass_error"].max() < 1e-13 and measured["smallest"].min() >= 0.0


def test_space_error_is_the_solver_s_own() -> None:
    settings = {"cells_on_line": (64,), "cells_in_plane": (16,), "flux": "scharfetter_gummel"}
    plain = grid.space_order(settings, Replicates(stream(1), 0, 1))["line"][0, 0]
    start = gaussian(1.0, 0.25)
    problem = ornstein_uhlenbeck_case(1.0, start, beta=0.5, times=(1.0,))
    solution = solve_fokker_planck(problem.risk, start.density, Grid(grid.LINE, 64), beta=0.5, times=[1.0])
    law = ornstein_uhlenbeck(1.0, start, beta=0.5, time=1.0)
    extrapolated = float(
        (solution.masses[0] - law.density(solution.grid.centres) * solution.grid.cell_volume).abs().sum()
    )
    assert extrapolated < 0.2 * plain < 0.01


def test_bisection_moves_towards_beta_c() -> None:
    quick = {**P8.settings, "beta_low": 0.42, "beta_high": 0.5, "width": 0.05, "betas": (0.2,), "step": 0.5}
    measured = grid_bifurcation.transition(quick, Replicates(stream(1), 0, 1))
    assert measured["low"][0] < BETA_C < measured["high"][0]
    assert measured["means"][0] == pytest.approx(measured["roots"][0], abs=1e-3)
