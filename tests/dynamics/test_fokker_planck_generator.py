"""The generator and the actions of its exponential."""

from __future__ import annotations

import numpy as np
import pytest
import scipy.linalg
import torch
from mpmath import mp

from mfcheck.dynamics.fokker_planck import Grid, bernoulli, generator, gibbs, propagate
from mfcheck.dynamics.fokker_planck.chebyshev import chebyshev_coefficients
from mfcheck.dynamics.fokker_planck.path import Path
from mfcheck.dynamics.fokker_planck.rational import APPROXIMATIONS, Approximation
from mfcheck.errors import InputError

EPS = np.finfo(float).eps
GRIDS = {
    "line": Grid([(-3, 3)], [40]),
    "circle": Grid([(0, 1)], [30], periodic=True),
    "box": Grid([(-2, 2), (-1, 2)], [12, 9]),
    "torus": Grid([(0, 1), (0, 2)], [8, 11], periodic=True),
}


def bumpy(grid: Grid) -> np.ndarray:
    """A potential that is smooth on every grid above, its sides glued or not."""
    x = grid.nodes
    return np.cos(2 * np.pi * x[:, 0]) + 0.7 * np.sin(np.pi * x[:, -1]) + 0.2 * np.cos(2 * np.pi * x.sum(1))


def masses(grid: Grid) -> np.ndarray:
    m = 1.0 + np.sin(np.arange(grid.size)) ** 2
    return m / m.sum()


def test_bernoulli_keeps_full_precision_near_zero_and_far_away():
    for x in (0.0, 1e-300, 1e-12, 1e-8, 1e-4, 0.3, 5.0, 60.0, 600.0):
        with mp.workdps(40):
            exact = float(mp.mpf(x) / mp.expm1(x)) if x else 1.0
        # expm1 and a division: a few roundings
        assert abs(float(bernoulli(np.array([x]))[0]) - exact) <= 4 * EPS * exact
    assert bernoulli(np.array([1e4]))[0] < 1e-300


@pytest.mark.parametrize("name", GRIDS)
@pytest.mark.parametrize("flux", ["scharfetter_gummel", "upwind", "centred"])
def test_columns_sum_to_zero(name: str, flux: str):
    q = generator(bumpy(GRIDS[name]), GRIDS[name], 0.3, flux)
    # at most five entries a column, each with relative error eps
    assert np.abs(q.sum(0)).max() <= 10 * EPS * np.abs(q.diagonal()).max()


@pytest.mark.parametrize("name", GRIDS)
def test_gibbs_is_stationary_for_scharfetter_gummel_only(name: str):
    grid, beta = GRIDS[name], 0.3
    potential = bumpy(grid)
    pi = gibbs(potential, grid, beta).numpy()

    def drift(flux: str) -> float:
        q = generator(potential, grid, beta, flux)
        return float(np.abs(q @ pi).sum() / (np.abs(q) @ pi).sum())

    # each rate ratio up/down = exp(-dU/beta) holds to a few roundings of the exponent, of size |U|/beta < 7
    assert drift("scharfetter_gummel") < 20 * EPS
    assert drift("centred") > 1e-4
    assert drift("upwind") > 1e-4


def test_generator_equals_the_fluxes_written_out():
    grid, beta = Grid([(0, 1), (0, 1)], [4, 5]), 0.7
    u = bumpy(grid).reshape(4, 5)
    expected = np.zeros((20, 20))
    for i in range(4):
        for j in range(5):
            for di, dj, h in ((1, 0, 0.25), (-1, 0, 0.25), (0, 1, 0.2), (0, -1, 0.2)):
                if 0 <= i + di < 4 and 0 <= j + dj < 5:
                    x = (u[i + di, j + dj] - u[i, j]) / beta
                    rate = beta / h**2 * x / np.expm1(x)
                    expected[(i + di) * 5 + j + dj, i * 5 + j] += rate
                    expected[i * 5 + j, i * 5 + j] -= rate
    np.testing.assert_allclose(generator(u.ravel(), grid, beta).toarray(), expected, rtol=1e-13, atol=1e-12)


@pytest.mark.parametrize("name", GRIDS)
@pytest.mark.parametrize("method", ["auto", "cram", "chebyshev", "uniformisation", "taylor"])
def test_exponentials_agree_with_scipy(name: str, method: str):
    grid = GRIDS[name]
    q, m = generator(bumpy(grid), grid, 0.3), masses(grid)
    if method == "cram" and name != "line":
        with pytest.raises(InputError, match="tridiagonal"):
            propagate(q, m, 1.0, method)
        return
    for t in (0.0, 0.01, 2.0):
        exact = scipy.linalg.expm(t * q.toarray()) @ m
        # scipy's own squaring and CRAM's rounding grow like t |Q| eps: t |Q| is up to 4e3 here
        assert np.abs(propagate(q, m, t, method).numpy() - exact).sum() < 2e-11


@pytest.mark.parametrize("beta", [0.01, 0.5])
@pytest.mark.parametrize("factor", [1.0, 1e2, 1e4])
@pytest.mark.parametrize("method", ["uniformisation", "taylor"])
def test_certified_path_keeps_mass_and_sign_for_any_step(beta: float, factor: float, method: str):
    grid = Grid([(-2, 2)], [100])
    x = grid.nodes[:, 0]
    q = generator(x**4 / 4 - x**2 / 2, grid, beta)
    start = np.zeros(100)
    start[7] = 1.0
    end = propagate(q, start, factor / -q.diagonal().min(), method)
    assert float(end.min()) >= 0.0
    assert abs(float(end.sum()) - 1.0) < 1e-12


def test_centred_flux_goes_negative_above_cell_peclet_two():
    grid = Grid([(-2, 2)], [50])
    x = grid.nodes[:, 0]
    potential = x**4 / 4 - x**2 / 2
    start = np.zeros(50)
    start[4] = 1.0
    assert float(propagate(generator(potential, grid, 0.01, "centred"), start, 0.01).min()) < -0.1
    assert float(propagate(generator(potential, grid, 0.01), start, 0.01, "taylor").min()) >= 0.0


def test_chebyshev_coefficients_cut_where_they_promise():
    for tau in (0.0, 0.3, 20.0, 4e3):
        for accuracy in (1e-4, 1e-12):
            kept = chebyshev_coefficients(tau, accuracy)
            longer = chebyshev_coefficients(tau, 1e-15)
            assert longer[len(kept) :].sum() <= accuracy
            # at x = 1 the series sums to exp(0)
            assert abs(longer.sum() - 1.0) < 1e-13


@pytest.mark.parametrize("approximation", APPROXIMATIONS)
def test_rational_approximations_keep_their_error_on_the_half_line(approximation: Approximation):
    x = -np.concatenate([[0.0], np.logspace(-6, 8, 5000)])
    values = ((1.0 / (x[:, None] - approximation.poles)) @ approximation.twice_residues).real
    assert np.abs(values + approximation.at_infinity - np.exp(x)).max() <= approximation.error


def test_quintic_of_a_path_is_exact_for_degree_five_and_of_order_six():
    quintic = np.polynomial.Polynomial([0.3, -1.0, 0.5, 2.0, -0.7, 0.2])
    times, inside = np.array([0.0, 0.3, 0.5, 1.1, 1.2]), np.linspace(0.0, 1.2, 37)
    path = Path(times, quintic(times)[:, None, None], quintic.deriv()(times)[:, None, None], 1.0)
    # values of size 2, differences over gaps of 0.1 up to the fifth order: rounding grows by less than 1e4
    assert np.abs(path.at(inside)[:, 0, 0] - quintic(inside)).max() < 2e4 * EPS
    errors = []
    for count in (5, 9, 17):
        nodes = np.linspace(0.0, 2.0, count)
        sine = Path(nodes, np.sin(nodes)[:, None], np.cos(nodes)[:, None], 1.0)
        errors.append(np.abs(sine.at(np.linspace(0.0, 2.0, 301))[:, 0] - np.sin(np.linspace(0.0, 2.0, 301))).max())
    assert (-np.diff(np.log2(errors)) > 5.5).all()


def test_sentences():
    grid = GRIDS["line"]
    q = generator(bumpy(grid), grid, 0.3)
    with pytest.raises(InputError, match="beta > 0; it came as 0"):
        generator(bumpy(grid), grid, 0.0)
    with pytest.raises(InputError, match="NaN or infinity came in 1 of 40"):
        generator(np.where(np.arange(40) == 3, np.nan, 0.0), grid, 1.0)
    with pytest.raises(InputError, match="one value a cell, 40"):
        generator(np.zeros(39), grid, 1.0)
    with pytest.raises(InputError, match="flux is one of"):
        generator(np.zeros(40), grid, 1.0, "upward")  # type: ignore[arg-type]
    with pytest.raises(InputError, match="method is one of"):
        propagate(q, masses(grid), 1.0, "pade")  # type: ignore[arg-type]
    with pytest.raises(InputError, match="a time is finite"):
        propagate(q, masses(grid), -1.0)
    with pytest.raises(InputError, match="products"):
        propagate(q, masses(grid), 1e8, "uniformisation")
    with pytest.raises(InputError, match="off-diagonal rates >= 0"):
        propagate(generator(10 * bumpy(grid), grid, 0.01, "centred"), masses(grid), 1.0, "uniformisation")


def test_grid_sentences_and_layout():
    grid = Grid([(0, 1), (0, 3)], [4, 6])
    assert grid.shape == (4, 6) and grid.dim == 2 and grid.spacing == (0.25, 0.5)
    assert torch.equal(grid.centres[1] - grid.centres[0], torch.tensor([0.0, 0.5], dtype=torch.float64))
    fine = grid.refine()
    m = masses(fine)
    coarse = fine.aggregate(m)
    by_hand = m.reshape(4, 2, 6, 2).sum((1, 3)).ravel()
    np.testing.assert_allclose(coarse, by_hand, rtol=1e-15)
    assert torch.allclose(fine.aggregate(torch.from_numpy(m)[None]), torch.from_numpy(by_hand)[None])
    for bounds, cells, words in (
        ([(0, 1)] * 3, [4, 4, 4], "one or two axes"),
        ([(1, 1)], [4], "greater hi"),
        ([(0, np.inf)], [4], "finite"),
        ([(0, 1)], [3], "at least 4"),
        ([(0, 1)], [8, 8], "one number an axis"),
        ("ab", [8], "one \\(lo, hi\\) an axis"),
    ):
        with pytest.raises(InputError, match=words):
            Grid(bounds, cells)
    with pytest.raises(InputError, match="no cells yet"):
        _ = Grid([(0, 1)]).shape
    with pytest.raises(InputError, match="even number"):
        Grid([(0, 1)], [5]).coarsen()
