"""Pieces of family T against closed forms, finite differences and Monte Carlo."""

from __future__ import annotations

from typing import Any

import numpy as np
import ot
import pytest
import torch

from mfcheck.dynamics.tokens import residual_flow
from mfcheck.experiments import depth, depth_coupled, depth_gaussian, depth_rates, depth_stability
from mfcheck.heads import matrix_softmax, scalar_softmax
from mfcheck.measure import Measure
from mfcheck.replicates import Replicates
from mfcheck.statistics.seeds import stream

STEPS: dict[str, Any] = {"depth_step": 0.2, "layers": 4}


def replicates(count: int, start: int = 0) -> Replicates:
    return Replicates(stream(5, "depth"), start, start + count, "cpu")


def test_residual_errors_halve_with_the_step_and_stay_where_it_is_not_scaled() -> None:
    settings = {"layers": (16, 32), "heads": 3, "tokens": 4, "scaled": True}
    measured = depth.residual_order(settings, replicates(1))
    coarse, fine = measured["errors"][0]
    assert coarse / fine == pytest.approx(2, rel=0.1)
    assert measured["reference"][0] < 1e-6 * fine
    # 32 steps of 1/16 go on to depth 2
    assert depth.residual_order(settings | {"scaled": False}, replicates(1))["errors"][0][1] > 10 * coarse


def test_the_starts_density_is_that_of_its_quantiles() -> None:
    u = np.linspace(0.05, 0.95, 19)
    slope = (depth.start_quantile(u + 1e-6) - depth.start_quantile(u - 1e-6)) / 2e-6
    np.testing.assert_allclose(slope, depth.start_density_quantile(u), rtol=1e-8)


def test_quantiles_move_with_the_start_as_differences_say() -> None:
    heads, quantiles, change = np.array(depth.SCALAR_HEADS), np.linspace(-1, 1.5, 6), 1e-6

    def end(x: np.ndarray) -> np.ndarray:
        rho, tokens = Measure.uniform(torch.from_numpy(heads)), torch.from_numpy(x)[:, None]
        moved, _ = residual_flow(scalar_softmax(), rho, tokens, **STEPS)
        return moved.numpy()[:, 0]

    jacobian = depth_rates.linearised_quantiles(heads, quantiles, **STEPS)
    columns = [(end(quantiles + change * e) - end(quantiles - change * e)) / (2 * change) for e in np.eye(6)]
    np.testing.assert_allclose(jacobian, np.stack(columns, -1), atol=1e-9)


def test_the_constant_without_a_flow_is_bobkov_and_ledoux_s() -> None:
    # uniform on an interval of length 3: int u (1 - u) 9 du = 3/2; the midpoint rule is of second order
    assert depth_rates.wasserstein_constant(np.eye(400), np.full(400, 3.0)) == pytest.approx(1.5, rel=1e-4)


def test_moment_constants_without_a_flow_are_those_of_a_gaussian_sample() -> None:
    covariance = np.array([[0.6, 0.1], [0.1, 0.5]])
    law = depth_rates.hermite_law(np.array([0.5, -0.3]), covariance, 6)
    constants = depth_rates.moment_constants(law, torch.zeros(8, dtype=torch.float64), **STEPS)
    trace, square = np.trace(covariance), np.trace(covariance @ covariance)
    np.testing.assert_allclose(constants, [trace, trace**2 + square], rtol=1e-10)


def test_first_order_errors_are_the_errors_where_nothing_moves() -> None:
    problem = depth_gaussian.PROBLEMS["contracting"]
    still = depth_gaussian.GaussianProblem(problem.logits, np.zeros((2, 2)), problem.mean, problem.covariance)
    factor = np.linalg.cholesky(problem.covariance)
    starts = problem.mean + np.random.default_rng(0).standard_normal((2000, 20, 2)) @ factor.T
    first, known = depth_gaussian.first_order_errors(starts, still, problem.logits, 4)
    mean, covariance = depth_gaussian.sample_moments(starts)
    np.testing.assert_allclose(first[0], np.square(mean - problem.mean).sum(-1), rtol=1e-9)
    np.testing.assert_allclose(first[1], np.square(covariance - problem.covariance).sum((-2, -1)), rtol=1e-9)
    for square, expected in zip(first, known, strict=True):
        assert abs(square.mean() - expected) < 5 * square.std(ddof=1) / len(square) ** 0.5


def test_gaussian_tokens_replicates_do_not_depend_on_their_batch() -> None:
    settings = {"problem": "contracting", "logit_scale": 1.0, "tokens": (20, 40), "layers": 3, "nodes": 8}
    settings |= {"logits_in_ode": 1.0, "ode_layers": (10, 20)}
    whole = depth_gaussian.gaussian_moments(settings, replicates(4))
    late = depth_gaussian.gaussian_moments(settings, replicates(2, start=2))
    np.testing.assert_allclose(whole["mean_error"][2:], late["mean_error"], rtol=1e-9)
    assert whole["ode_error"][0][0] / whole["ode_error"][0][1] == pytest.approx(2, rel=0.1)


def test_tokens_on_the_line_are_at_the_constant_s_distance_and_the_grid_agrees() -> None:
    settings = {"tokens": (64, 128), "layers": 10, "nodes": 256, "cells": 128, "mask": "none"}
    measured = depth.number_of_tokens(settings, replicates(64))
    squares, (constant, error) = 128 * measured["w2_squared"][:, 1], measured["constant"][0]
    assert error < 0.02 * constant
    # the next order in 1/N adds a few per cent
    assert abs(squares.mean() / constant - 1) < 0.05 + 5 * squares.std(ddof=1) / 8 / constant
    assert measured["grid_gap"][0] <= 1
    np.testing.assert_allclose(measured["masses"][0].sum(), 1)
    # between the ends of the law lie all but the few tokens that get ahead of them
    shares = measured["histogram"].sum(-1)
    assert 0.95 < shares.mean() and shares.max() <= 1 + 1e-12


def test_sorted_tokens_are_matched_optimally_on_the_line() -> None:
    left, right = np.random.default_rng(1).standard_normal((2, 9, 1))
    uniform = np.full(9, 1 / 9)
    expected = ot.emd2(uniform, uniform, ot.dist(left, right))
    assert depth_stability.squared_wasserstein_2(left, right) == pytest.approx(expected)
    # the plane goes by optimal transport: the same points on a line in it
    zeros = np.zeros((9, 1))
    planar = depth_stability.squared_wasserstein_2(np.hstack([left, zeros]), np.hstack([right, zeros]))
    assert planar == pytest.approx(expected)


def test_translates_without_logits_grow_by_the_value_alone() -> None:
    zero, value = torch.zeros(1, 1, 1, dtype=torch.float64), torch.full((1, 1, 1), 0.7, dtype=torch.float64)
    line = torch.linspace(-1, 1, 5, dtype=torch.float64)[:, None]
    growth, exponent = depth_stability.growth_over_bound(matrix_softmax(1), zero, value, line, line + 0.3, 16)
    assert growth == pytest.approx(16 * np.log1p(0.7 / 16))
    assert exponent == pytest.approx(0.7)


def test_the_coupled_system_starts_at_its_laws() -> None:
    # uniform z on [0, 1]: E A = 0.8, E A^2 = 0.09 + 0.3 + 1/3; E V = 0.8 - 1/6, E V^2 = 0.64 - 0.8/3 + 0.05
    moments = depth_coupled.limit_moments(1e-12, 8, 4)
    np.testing.assert_allclose(moments[:4], [0.8, 0.8 - 1 / 6, 0.39 + 1 / 3, 0.69 - 0.8 / 3], atol=1e-9)


def test_the_coupled_limit_is_approached_by_particles() -> None:
    errors, bar = depth_coupled.refinement_errors((1, 2), (12, 4, 16, 0.125), 0.25, "nothing")
    assert errors[0] / errors[1] == pytest.approx(2, rel=0.15)
    assert bar < 1e-3 * errors[1]


def test_training_lowers_the_risk_of_the_flow() -> None:
    head, mu = matrix_softmax(1), Measure.uniform(depth_coupled.start_tokens(depth_coupled.midpoints(6)))
    heads = depth_coupled.start_heads(depth_coupled.midpoints(4))
    risk = depth_coupled.flow_risk(head, mu, 3)
    rho, end = depth_coupled.trained(head, mu, heads, 3, 0.2, 2.0)
    assert risk(rho) < risk(Measure.uniform(heads))
    torch.testing.assert_close(end.points, depth_coupled.tokens_at_the_end(head, rho, mu, 3).points)
