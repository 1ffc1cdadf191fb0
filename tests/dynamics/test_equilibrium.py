"""Gibbs densities, mean-field fixed points, spectral gaps and the dissipation identity on a grid."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from mfcheck import risks
from mfcheck.dynamics.equilibria import desai_zwanzig_equilibria
from mfcheck.dynamics.fokker_planck import (
    Grid,
    dissipation,
    free_energy,
    gibbs,
    gibbs_fixed_point,
    solve_on_grid,
    spectral_gap,
)
from mfcheck.errors import InputError

NET = risks.two_layer_network(torch.tensor([[-1.0], [0.5], [2.0]]), torch.tensor([1.0, -1.0, 2.0]), weight_decay=0.5)


def bump(grid: Grid, mean: float, variance: float = 0.1) -> torch.Tensor:
    return grid.masses_of(lambda x: torch.exp(-((x - mean) ** 2).sum(-1) / (2 * variance)))


def test_fixed_point_is_stationary_and_the_long_time_limit():
    grid, beta = Grid([(-6, 6)], [96]), 0.4
    rest = gibbs_fixed_point(NET, grid, beta)
    moved = solve_on_grid(NET, rest, grid, beta=beta, times=[1.0], step=0.25)[0]
    assert float((moved - rest).abs().sum()) < 1e-10
    gap = spectral_gap(NET, rest, grid, beta)
    late = solve_on_grid(NET, bump(grid, 1.0), grid, beta=beta, times=[20.0], step=0.25, scheme="commutator_free")[0]
    # L1 distance decays at the gap from at most 2; a factor 10 for the slow mode's share and its weight
    assert float((late - rest).abs().sum()) < 20 * np.exp(-20 * gap) + 1e-9


def test_newton_anderson_and_plain_iteration_agree():
    grid, beta = Grid([(-6, 6)], [96]), 0.4
    newton = gibbs_fixed_point(NET, grid, beta)
    for other in (
        gibbs_fixed_point(NET, grid, beta, initial=bump(grid, 2.0)),
        gibbs_fixed_point(NET, grid, beta, damping=0.2, tolerance=1e-11),
        gibbs_fixed_point(lambda measure: NET(measure), grid, beta, tolerance=1e-11),
    ):
        assert float((other - newton).abs().sum()) < 1e-9


def test_desai_zwanzig_has_two_limits_below_the_critical_beta_and_the_start_decides():
    grid, beta, risk = Grid([(-3.5, 3.5)], [140]), 0.3, risks.desai_zwanzig()
    exact = max(desai_zwanzig_equilibria(beta=beta, kappa=1.0))
    x = grid.centres[:, 0]
    up, down = (gibbs_fixed_point(risk, grid, beta, initial=bump(grid, sign * 0.8)) for sign in (1, -1))
    # sums over the centres are exact to rounding for this density, and so is the fixed point on the grid
    assert abs(float(up @ x) - exact) < 1e-8
    assert abs(float(down @ x) + exact) < 1e-8
    middle = gibbs_fixed_point(risk, grid, beta)
    assert abs(float(middle @ x)) < 1e-10
    assert spectral_gap(risk, up, grid, beta) > 0 > spectral_gap(risk, middle, grid, beta)


@pytest.mark.parametrize("cells", [60, 120, 480])
def test_gap_of_ornstein_uhlenbeck_with_its_discretisation(cells: int):
    a, beta = 1.3, 0.5
    grid = Grid([(-5, 5)], [cells])
    pi = gibbs(0.5 * a * grid.centres[:, 0] ** 2, grid, beta)
    h = grid.spacing[0]
    # a (1 - a h^2 / (6 beta)) is the energy's rate halved, next order (a h^2 / beta)^2 / 20 and less (claim P6)
    size = a * h**2 / beta
    # the discrete operator's first eigenvalue is a (1 - a h^2 / (6 beta)) up to that square
    assert abs(spectral_gap(risks.quadratic(a), pi, grid, beta) / a - (1 - size / 6)) < size**2 / 10 + 1e-9


def test_linearised_gap_sees_the_interaction():
    # linear mean-field: the mean returns at a, what surrounds it at a + kappa
    grid, beta = Grid([(-4, 4)], [320]), 0.5
    risk = risks.linear_attraction(1.0, 3.0)
    rest = gibbs_fixed_point(risk, grid, beta)
    size = 4.0 * grid.spacing[0] ** 2 / beta
    assert abs(spectral_gap(risk, rest, grid, beta) - 1.0) < size
    assert abs(spectral_gap(risk, rest, grid, beta, linearised=False) - 4.0) < 4 * size
    coarse = Grid([(-4, 4)], [80])
    rest = gibbs_fixed_point(risk, coarse, beta)
    general = spectral_gap(lambda measure: risk(measure), rest, coarse, beta)
    assert abs(general - spectral_gap(risk, rest, coarse, beta)) < 1e-9


def test_gap_is_the_rate_at_which_the_grid_returns():
    grid, beta = Grid([(-6, 6)], [96]), 0.4
    rest = gibbs_fixed_point(NET, grid, beta)
    gap = spectral_gap(NET, rest, grid, beta)
    path = solve_on_grid(NET, bump(grid, 1.0), grid, beta=beta, times=[16.0, 20.0], step=0.1, scheme="commutator_free")
    far, near = (path - rest).abs().sum(-1).tolist()
    # the next mode has died by a factor exp(-4 (gap_2 - gap)) more; the slow mode is alone to a per cent
    assert abs(np.log(far / near) / 4.0 / gap - 1.0) < 0.02


def test_dense_and_sparse_gaps_agree():
    risk, beta = risks.quadratic([1.0, 3.0]), 0.5
    for cells in ([16, 18], [40, 40]):
        grid = Grid([(-3.5, 3.5), (-2, 2)], cells)
        assert risk.potential is not None
        pi = gibbs(risk.potential(grid.centres), grid, beta)
        size = grid.spacing[0] ** 2 / beta
        assert abs(spectral_gap(risk, pi, grid, beta) - (1 - size / 6)) < size**2 / 5 + 1e-3


def test_dissipation_identity_is_second_order_and_needs_the_entropy():
    gaps, wrong = [], []
    for cells in (50, 100, 200):
        grid = Grid([(-5, 5)], [cells])
        m = bump(grid, 0.8, 0.3)
        both = dissipation(NET, m, grid, 0.4)
        gaps.append(abs(both.discrete / both.continuous - 1.0))
        bare = dissipation(NET, m, grid, 0.4, entropy=False)
        wrong.append(abs(bare.discrete / bare.continuous - 1.0))
        assert both.discrete < 0
    assert np.abs(-np.diff(np.log2(gaps)) - 2.0).max() < 0.2
    assert min(wrong) > 0.1


def test_dissipation_is_the_derivative_of_the_free_energy():
    grid, beta, risk = Grid([(-4, 4)], [64]), 0.4, risks.desai_zwanzig()
    m = bump(grid, 0.5, 0.3)
    step = 1e-3
    after = solve_on_grid(risk, m, grid, beta=beta, times=[step], step=step, scheme="commutator_free")[0]
    change = float(free_energy(risk, after, grid, beta) - free_energy(risk, m, grid, beta))
    ends = [dissipation(risk, masses, grid, beta).discrete for masses in (m, after)]
    # trapezoid: relative error step^2 rate^2 / 12, rates up to 30 here; and rounding 1e-16 / 1e-3
    assert abs(change / (step * sum(ends) / 2) - 1.0) < (30 * step) ** 2 / 12


def test_sentences():
    grid, risk = Grid([(-4, 4)], [64]), risks.desai_zwanzig()
    with pytest.raises(InputError, match="beta > 0"):
        gibbs(torch.zeros(64), grid, -1.0)
    with pytest.raises(InputError, match=r"was not reached: the L1 residual is .* damping=1.0"):
        gibbs_fixed_point(risk, grid, 0.3, initial=bump(grid, 0.5), damping=1.0, iterations=3)
    with pytest.raises(InputError, match="damping lies in"):
        gibbs_fixed_point(risk, grid, 0.3, damping=1.5)
    with pytest.raises(InputError, match="takes stationary masses"):
        spectral_gap(risk, bump(grid, 0.5), grid, 0.3)
    big = Grid([(-4, 4), (-4, 4)], [60, 60])
    pi = gibbs_fixed_point(risk, big, 0.6)
    with pytest.raises(InputError, match="at most 2500 cells; 3600 came"):
        spectral_gap(lambda measure: risk(measure), pi, big, 0.6)
