"""C6 and V5: shapes and identities of their pieces, on small problems."""

import numpy as np
import pytest
import torch

from mfcheck.experiments import attention_particles, trained_particles
from mfcheck.experiments.attention_data import draws, layer, plane
from mfcheck.experiments.training import iteration_ratio
from mfcheck.replicates import Replicates, concatenate
from mfcheck.statistics.seeds import stream
from paper_checks.claims_attention import C6, LAYER, V5

FEW_C6 = {**C6.settings, "particles": (8, 16), "particles_each": 32, "times": (0.0, 1.0), "directions": 2}
FEW_V5 = {**V5.settings, "particles": (4, 8), "systems": 3, "burn_in": 1.0, "snapshots": 2, "cells": 40}


def _parts(experiment, settings):
    """One look at four replicates, and the same in two looks."""
    at_once, *parts = [experiment(settings, Replicates(stream(3), *ends)) for ends in ((0, 4), (0, 1), (1, 4))]
    return at_once, concatenate(parts)


@pytest.mark.parametrize(
    ("experiment", "settings"),
    [
        (attention_particles.heads_against_grid, FEW_C6),
        (trained_particles.operator_of_trained_heads, FEW_V5),
    ],
)
def test_replicates_bought_in_two_looks_are_those_bought_in_one(experiment, settings):
    at_once, parts = _parts(experiment, settings)
    for name, values in parts.items():
        # the state is float32
        np.testing.assert_allclose(values, at_once[name], rtol=1e-4, atol=1e-5)


def test_heads_have_the_shapes_that_are_stated():
    measured = attention_particles.heads_against_grid(FEW_C6, Replicates(stream(3), 0, 2))
    assert measured["moments"].shape == (2, 2, 6)
    assert measured["heads"].shape == (2, 2, 16, 2)
    cells = measured["density"].shape[-1]
    assert measured["density"].shape == (2, 2, cells, cells)
    # densities integrate to one on the coarser cells that are shown
    np.testing.assert_allclose(measured["density"].sum((-2, -1)) * (10 / cells) ** 2, 1.0, rtol=1e-9)


def test_the_grid_starts_at_the_particles_law():
    start = attention_particles.reference({**FEW_C6, "times": (0.0,)})
    a, v, aa, av, vv, _ = start.moments
    np.testing.assert_allclose([a, v, av], [0.5, 0.5, 0.25], atol=1e-6)
    np.testing.assert_allclose([aa, vv], [0.5, 0.5], atol=1e-6)
    assert (start.bars >= 0).all() and start.bars.max() < 0.02
    assert start.w2_bar < 1e-3


def test_raw_scaling_is_not_where_the_grid_is():
    raw = attention_particles.heads_against_grid({**FEW_C6, "scaling": "raw"}, Replicates(stream(3), 0, 4))
    assert raw["moments"][:, -1, 5].mean() > 1.1 * raw["expected"][0, 5]


def test_linear_response_is_the_formula_and_survives_a_singular_covariance():
    generator = torch.Generator().manual_seed(0)
    root = torch.randn(4, 4, generator=generator, dtype=torch.float64)
    covariance = root @ root.T
    expected = torch.linalg.inv(torch.linalg.inv(covariance) + torch.eye(4, dtype=torch.float64) / (4 * 0.3))
    torch.testing.assert_close(trained_particles.linear_response(covariance, 0.3), expected)
    singular = torch.zeros(4, 4, dtype=torch.float64)
    torch.testing.assert_close(trained_particles.linear_response(singular, 0.3), singular)


def test_linear_response_is_that_of_two_gaussian_heads_of_one_number():
    # R = (V - y)^2 / 2 + lambda E theta^2 / 2 with h = theta: the Gibbs law of M heads is Gaussian, exactly so
    beta, decay, heads = 0.3, 0.5, 7
    precision = (heads * decay / heads * torch.eye(heads) + torch.ones(heads, heads) / heads).double() / beta
    exact = heads * torch.linalg.inv(precision).mean()
    covariance = torch.tensor([[beta / decay]], dtype=torch.float64)
    torch.testing.assert_close(trained_particles.linear_response(covariance, beta)[0, 0], exact)


def test_the_constants_differ_as_the_response_says():
    constants = [
        trained_particles.expected_covariance({**V5.settings, "constant": name})[0]
        for name in ("independent", "linear response")
    ]
    largest = np.linalg.eigvalsh(constants[0]).max()
    ratio = iteration_ratio(layer(LAYER), plane(V5.settings["cells"]), LAYER["beta"])
    np.testing.assert_allclose(largest / (6 * LAYER["beta"]), ratio, rtol=1e-8)
    np.testing.assert_allclose(np.linalg.eigvalsh(constants[1]).max(), largest / (1 + ratio), rtol=1e-8)


def test_draws_have_the_moments_of_the_stationary_law():
    law = trained_particles._stationary(trained_particles._regime(FEW_V5), FEW_V5["cells"])
    drawn = draws(law, plane(FEW_V5["cells"]), Replicates(stream(1), 0, 4), "heads", (500, 8)).double()
    # 16,000 draws of deviation 1: five standard errors, and the cells' own variance of h^2 / 12 = 0.005
    torch.testing.assert_close(drawn.mean((0, 1)), law.mean(), rtol=0, atol=0.04)
    torch.testing.assert_close(torch.cov(drawn.flatten(0, 1).T), law.covariance(), rtol=0, atol=0.08)


def test_independent_heads_have_the_independent_constant():
    # at the start, before anything is learnt of the others
    settings = {**FEW_V5, "constant": "independent", "systems": 400, "burn_in": 0.0, "step": 1e-4, "spacing": 1e-4}
    measured = trained_particles.operator_of_trained_heads(settings, Replicates(stream(1), 0, 8))
    ratio = np.trace(measured["covariance"].mean(0), axis1=-2, axis2=-1) / np.trace(measured["expected"][0])
    # a relative deviation of sqrt(2 / (1.9 x 3200)) = 1.8 %
    np.testing.assert_allclose(ratio, 1.0, atol=0.09)
