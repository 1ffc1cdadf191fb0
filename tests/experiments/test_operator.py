"""Family V's pieces against what can be computed another way."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import torch
from scipy import stats
from scipy.stats import qmc

from mfcheck.experiments import operator, operator_sobol
from mfcheck.heads import scalar_softmax
from mfcheck.operator import head_values
from mfcheck.replicates import Measurements, Replicates
from mfcheck.statistics.seeds import stream
from paper_checks.claims_operator import largest_distance, largest_mean

SMALL: list[tuple[Callable[..., Measurements], dict[str, Any]]] = [
    (
        operator.convergence,
        {"particles": (4, 8), "heads": 64, "inputs": 2, "tokens": 3, "value_law": "normal", "subtracted": 0},
    ),
    (operator.gaussian_limit, {"particles": 4, "systems": 5, "inputs": 2, "tokens": 3, "value_law": "normal"}),
    (operator.subsets, {"pool": 5, "kept": (2,), "samples": 6, "inputs": 2, "tokens": 3, "replacement": False}),
    (operator_sobol.sobol_convergence, {"particles": (4, 8), "pairs": 1, "inputs": 2, "tokens": 3, "head": "softmax"}),
]


@pytest.mark.parametrize(("experiment", "settings"), SMALL)
def test_replicates_do_not_depend_on_how_they_were_bought(
    experiment: Callable[..., Measurements], settings: dict[str, Any]
) -> None:
    source = stream(3, "test")
    together = experiment(settings, Replicates(source, 0, 4))
    parts = [experiment(settings, Replicates(source, *bounds)) for bounds in ((0, 1), (1, 4))]
    for name, values in together.items():
        assert len(values) == 4
        np.testing.assert_array_equal(values, np.concatenate([part[name] for part in parts]))


def test_errors_of_the_ladder_are_those_of_plain_averages() -> None:
    settings = SMALL[0][1] | {"subtracted": 1}
    replicates = Replicates(stream(1, "test"), 0, 1)
    measured = operator.convergence(settings, replicates)
    inputs = operator.scalar_problem(2, 3)
    moments = operator.scalar_moments("normal", inputs)
    heads = operator.scalar_heads("normal", replicates.stream.child(0), 64)
    values = head_values(scalar_softmax(), heads, inputs)[..., 0].double()
    variance = moments.total_variance
    for rung, particles in enumerate((4, 8)):
        systems = values.reshape(-1, particles, 2).sum(1) / (particles - 1) - moments.mean[:, 0]
        square = systems.square().sum(1)
        assert measured["mean_square"][0, rung] == pytest.approx(float(square.mean()) / variance, rel=1e-12)
        assert measured["median"][0, rung] == pytest.approx(math.sqrt(square.median() / variance), rel=1e-12)


@pytest.mark.parametrize("law", ["normal", "exponential", "squared exponential"])
def test_the_rule_of_a_value_law_has_the_moments_of_its_draws(law: str) -> None:
    draws = operator.VALUE_LAWS[law].draw(stream(2, law), 2**18).double().numpy()
    rule = operator.VALUE_LAWS[law].rule
    for power in (1, 2):
        expected = float(rule.integrate(lambda v, k=power: v[:, 0] ** k))
        # five standard errors: one in two million
        assert abs((draws**power).mean() - expected) <= 5 * stats.sem(draws**power)


def test_student_values_have_the_tails_and_the_median_they_should() -> None:
    draws = operator.VALUE_LAWS["Student"].draw(stream(2, "Student"), 2**16).numpy()
    law = stats.t(operator.DEGREES_OF_FREEDOM, operator.MEAN_V, operator.SD_V)
    assert stats.kstest(draws, law.cdf).pvalue > 1e-6


def test_the_scalar_moments_are_those_of_many_heads() -> None:
    inputs = operator.scalar_problem(2, 3)
    moments = operator.scalar_moments("normal", inputs)
    heads = operator.scalar_heads("normal", stream(4, "test"), 2**17).double()
    values = head_values(scalar_softmax(), heads, inputs)[..., 0].numpy()
    assert (np.abs(values.mean(0) - moments.mean[:, 0].numpy()) <= 5 * stats.sem(values)).all()
    centred = values - moments.mean[:, 0].numpy()
    products = centred[:, :, None] * centred[:, None, :]
    assert (np.abs(products.mean(0) - moments.covariance.numpy()) <= 5 * stats.sem(products)).all()


def test_the_planar_moments_are_those_of_many_heads() -> None:
    inputs = operator_sobol.planar_problem(2, 3)
    mean, variance, error = operator_sobol.planar_moments(inputs)
    normal = torch.randn(2**17, 8, generator=stream(5, "test").torch(), dtype=torch.float64)
    centre = torch.tensor([*np.ravel(operator_sobol.MEAN_A), *np.ravel(operator_sobol.MEAN_V)])
    values = head_values(operator_sobol.HEADS["softmax"](2), centre + 0.5 * normal, inputs).flatten(1).numpy()
    assert error <= 1e-9
    assert (np.abs(values.mean(0) - mean.flatten().numpy()) <= 5 * stats.sem(values)).all()
    squares = np.square(values - mean.flatten().numpy()).sum(1)
    assert abs(squares.mean() - variance) <= 5 * stats.sem(squares)


def test_sobol_heads_follow_their_law() -> None:
    heads = operator_sobol.sobol_heads(qmc.Sobol(8, scramble=True, rng=stream(6, "test").numpy()), 2**12).numpy()
    centre = np.concatenate([np.ravel(operator_sobol.MEAN_A), np.ravel(operator_sobol.MEAN_V)])
    # a net's average is far nearer than 1 / sqrt(4096) = 1.6 %
    assert np.abs(heads.mean(0) - centre).max() <= 0.002
    assert np.abs(heads.std(0) - 0.5).max() <= 0.002


@pytest.mark.parametrize(
    ("pool", "m", "replacement", "count"), [(6, 2, False, 15), (8, 4, False, 70), (3, 4, True, 81)]
)
def test_every_subset_is_there_once(pool: int, m: int, replacement: bool, count: int) -> None:
    index = operator._every_index(pool, m, replacement)
    assert index.shape == (count, m) and len(np.unique(index, axis=0)) == count


def test_a_kept_subset_costs_what_sampling_without_replacement_says() -> None:
    settings = {"pool": 7, "kept": (1, 2, 3, 6), "samples": 10, "inputs": 3, "tokens": 4, "replacement": False}
    measured = operator.subsets(settings, Replicates(stream(7, "test"), 0, 3))
    assert np.abs(measured["all_subsets"] - 1).max() <= 1e-12
    # with replacement the variance is S^2 (M - 1) / M / m
    again = operator.subsets(settings | {"replacement": True}, Replicates(stream(7, "test"), 0, 3))
    expected = [(6 / 7 / m) / (1 / m - 1 / 7) for m in (1, 2, 3)]
    assert again["all_subsets"][:, :3] == pytest.approx(np.broadcast_to(expected, (3, 3)), rel=1e-12)


def test_the_largest_mean_covers_every_column() -> None:
    samples = np.array([[1.0, -4.0], [3.0, -2.0], [2.0, -3.0]])
    estimate = largest_mean(samples, 0.99, reference=0.5)
    # Bonferroni over two columns of standard error 1 / sqrt(3)
    half = stats.t.ppf(1 - 0.01 / 4, 2) / math.sqrt(3)
    assert estimate.point == 3.0 and estimate.reference_error == 0.5
    assert estimate.upper == pytest.approx(3 + half) and estimate.lower == pytest.approx(max(0.0, 3 - half))


def test_the_largest_distance_is_that_of_the_worst_input() -> None:
    normal = stats.norm.ppf((np.arange(1000) + 0.5) / 1000)
    estimate = largest_distance(np.stack([normal, normal + 0.5], -1)[None], 0.999)
    # shifting by 0.5 moves the distribution function by at most Phi(0.25) - Phi(-0.25)
    assert estimate.point == pytest.approx(stats.norm.cdf(0.25) - stats.norm.cdf(-0.25), abs=1e-3)
    assert estimate.upper - estimate.point == pytest.approx(math.sqrt(math.log(2 / 0.0005) / 2000))
