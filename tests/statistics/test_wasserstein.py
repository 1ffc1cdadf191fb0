"""Wasserstein distances to a grid law, against SciPy, POT and closed forms."""

import numpy as np
import ot
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import integrate, stats

from mfcheck.errors import InputError
from mfcheck.statistics.wasserstein import (
    LineLaw,
    projected,
    sliced_squared_wasserstein_2,
    sliced_wasserstein_1,
    squared_wasserstein_2,
    wasserstein_1,
)

PIECES = 4000


def uniform(lo: float = 0.0, hi: float = 1.0, cells: int = 1) -> LineLaw:
    return LineLaw(lo, hi, np.full(cells, 1.0 / cells))


def as_atoms(law: LineLaw, pieces: int = PIECES) -> tuple[np.ndarray, np.ndarray]:
    """Each cell cut into equal atoms: W1 differs by at most a quarter of an atom's spacing."""
    per_cell = pieces // len(law.masses)
    h = law.width / per_cell
    return law.lo + h * (np.arange(per_cell * len(law.masses)) + 0.5), np.repeat(law.masses / per_cell, per_cell)


@st.composite
def line_laws(draw: st.DrawFn) -> LineLaw:
    weights = np.array(draw(st.lists(st.integers(0, 5), min_size=1, max_size=12).filter(any)), dtype=float)
    lo = draw(st.floats(-3, 3))
    return LineLaw(lo, lo + draw(st.floats(0.1, 5)), weights / weights.sum())


places = st.lists(st.floats(-5, 10), min_size=1, max_size=9).map(np.array)


@given(line_laws(), places)
@settings(max_examples=150, deadline=None)
def test_w1_equals_scipys_to_a_fine_discretisation(law: LineLaw, x: np.ndarray) -> None:
    atoms, weights = as_atoms(law)
    expected = stats.wasserstein_distance(x, atoms, None, weights)
    # an atom stands for an interval of its spacing, moved by at most spacing / 4 on average
    assert wasserstein_1(x, law) == pytest.approx(expected, abs=law.width * len(law.masses) / PIECES * 1.1)


@given(line_laws(), places)
@settings(max_examples=100, deadline=None)
def test_w2_equals_pots_to_a_fine_discretisation(law: LineLaw, x: np.ndarray) -> None:
    atoms, weights = as_atoms(law)
    expected = ot.wasserstein_1d(x, atoms, None, weights, p=2)
    distance = np.sqrt(squared_wasserstein_2(x, law))
    assert distance == pytest.approx(float(expected) ** 0.5, abs=(law.hi - law.lo) / PIECES * 1.1)


def test_closed_forms_on_the_uniform_law() -> None:
    # one particle at 1/2: E|U - 1/2| = 1/4, Var U = 1/12; at 2: 3/2 and 9/4 + 1/12
    for cells in (1, 7):
        law = uniform(cells=cells)
        assert wasserstein_1([[0.5], [2.0]], law) == pytest.approx([0.25, 1.5], abs=1e-15)
        assert squared_wasserstein_2([[0.5], [2.0]], law) == pytest.approx([1 / 12, 9 / 4 + 1 / 12], abs=1e-14)


def test_the_best_points_reach_the_quantisation_error() -> None:
    law = uniform(cells=3)
    points = (np.arange(10) + 0.5) / 10
    assert squared_wasserstein_2(points, law) == pytest.approx(1 / (12 * 100), abs=1e-15)
    assert wasserstein_1(points, law) == pytest.approx(1 / 40, abs=1e-15)


def test_expected_w1_of_independent_particles_is_the_binomial_formula() -> None:
    # E int |F_M - F| = int E|Bin(M, F)/M - F| dx, here for the uniform law by quadrature
    count, replicates = 5, 40_000
    exact, _ = integrate.quad(lambda u: stats.binom(count, u).expect(lambda k: abs(k / count - u)), 0, 1, limit=200)
    sample = wasserstein_1(np.random.default_rng(1).random((replicates, count)), uniform(cells=4))
    assert abs(sample.mean() - exact) < 5 * sample.std() / np.sqrt(replicates)


def test_a_shift_beyond_the_box_is_seen_in_full() -> None:
    law = LineLaw(-1.0, 1.0, np.array([0.25, 0.25, 0.25, 0.25]))
    x = np.linspace(-1, 1, 9)
    assert wasserstein_1(x + 50, law) == pytest.approx(50.0, abs=1e-12)
    assert wasserstein_1(x - 50, law) == pytest.approx(50.0, abs=1e-12)


def test_a_gap_in_the_law_is_jumped_over() -> None:
    law = LineLaw(0.0, 3.0, np.array([0.5, 0.0, 0.5]))
    assert law.quantile([0.0, 0.25, 0.5, 0.75, 1.0]) == pytest.approx([0, 0.5, 1, 2.5, 3])
    # each half of the mass sits within 1/4 of its particle, on average
    assert wasserstein_1([0.5, 2.5], law) == pytest.approx(0.25)
    assert squared_wasserstein_2([0.5, 2.5], law) == pytest.approx(1 / 12)


def test_replicates_are_independent_of_their_batch() -> None:
    law = LineLaw(-2.0, 2.0, np.array([0.1, 0.4, 0.3, 0.2]))
    x = np.random.default_rng(0).normal(size=(3, 4, 50))
    for distance in (wasserstein_1, squared_wasserstein_2):
        together = distance(x, law)
        assert together.shape == (3, 4)
        assert together[2, 1] == distance(x[2, 1], law)


@pytest.mark.parametrize("angle", [0.0, 0.4, np.pi / 2, 2.5])
def test_a_projected_law_is_that_of_projected_samples(angle: float) -> None:
    rng = np.random.default_rng(3)
    masses = rng.random((5, 4))
    masses /= masses.sum()
    law = projected(masses, ((-1.0, 2.0), (0.0, 2.0)), angle, cells=400)
    cell = rng.choice(20, 200_000, p=masses.ravel())
    x = -1.0 + (cell // 4 + rng.random(len(cell))) * 0.6
    y = (cell % 4 + rng.random(len(cell))) * 0.5
    sample = np.cos(angle) * x + np.sin(angle) * y
    # Kolmogorov distance: 1.95 / sqrt(n) is exceeded once in a thousand times
    assert stats.kstest(sample, law.cdf).statistic < 1.95 / np.sqrt(len(cell))


def test_sliced_distance_equals_pots() -> None:
    rng = np.random.default_rng(5)
    masses = rng.random((6, 6))
    masses /= masses.sum()
    bounds = ((-1.0, 1.0), (-2.0, 1.0))
    angles = (np.arange(4) + 0.5) * np.pi / 4
    particles = rng.normal(size=(20, 2))
    cells = 40
    fine = np.kron(masses, np.full((cells, cells), 1 / cells**2))
    axes = [lo + (hi - lo) / (6 * cells) * (np.arange(6 * cells) + 0.5) for lo, hi in bounds]
    centres = np.stack([grid.ravel() for grid in np.meshgrid(*axes, indexing="ij")], -1)
    directions = np.stack([np.cos(angles), np.sin(angles)])
    expected = np.mean(
        [stats.wasserstein_distance(particles @ d, centres @ d, None, fine.ravel()) for d in directions.T]
    )
    laws = {float(angle): projected(masses, bounds, angle, cells=2000) for angle in angles}
    assert sliced_wasserstein_1(particles, laws) == pytest.approx(expected, abs=2e-3)
    pot = ot.sliced_wasserstein_distance(particles, centres, None, fine.ravel(), projections=directions, p=1)
    assert sliced_wasserstein_1(particles, laws) == pytest.approx(float(pot), abs=2e-3)
    pot = ot.sliced_wasserstein_distance(particles, centres, None, fine.ravel(), projections=directions, p=2)
    # both laws' cells are 0.0125 and 0.0025 wide, and W2 is 0.5 to 1
    assert sliced_squared_wasserstein_2(particles, laws) == pytest.approx(float(pot) ** 2, rel=5e-3)


def test_bad_input_is_a_sentence() -> None:
    with pytest.raises(InputError, match="greater hi"):
        LineLaw(1.0, 1.0, np.ones(1))
    with pytest.raises(InputError, match="non-negative"):
        LineLaw(0.0, 1.0, np.array([1.5, -0.5]))
    with pytest.raises(InputError, match="sum 2"):
        LineLaw(0.0, 1.0, np.ones(2))
    with pytest.raises(InputError, match="NaN"):
        wasserstein_1([0.0, np.nan], uniform())
    with pytest.raises(InputError, match="M >= 1"):
        wasserstein_1(np.empty((3, 0)), uniform())
    with pytest.raises(InputError, match="at least one direction"):
        sliced_wasserstein_1(np.zeros((4, 2)), {})
