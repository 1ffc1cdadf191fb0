"""The risk against beta and annealing: their pieces against independent computation."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from scipy.optimize import minimize_scalar

from mfcheck.experiments.training_noise import FUNCTIONALS, annealing_against_constant, risk_against_beta
from mfcheck.replicates import Replicates
from mfcheck.statistics.seeds import stream

CURVE: dict[str, Any] = {
    "data": 6,
    "tokens": 3,
    "token_scale": 1.3,
    "query_scale": 1.5,
    "teacher": 2.0,
    "weight_decays": (0.2,),
    "betas": (0.2, 0.4),
    "cells": 48,
    "particles": 32,
    "systems": 4,
    "step": 0.1,
    "time": 1.0,
    "functional": "L_lambda",
}
ANNEALING: dict[str, Any] = {
    "potential": "tilted",
    "tilt": 0.3,
    "start": 1.0,
    "beta_start": 0.5,
    "beta": 0.05,
    "step": 0.01,
    "time": 2.0,
    "annealed": 0.8,
    "particles": 16,
}


def replicates(count: int) -> Replicates:
    return Replicates(stream(5, "noise"), 0, count, "cpu")


def test_the_derivative_of_the_free_energy_in_beta_is_the_entropy_term() -> None:
    """F(beta) = min over rho of L_lambda + beta int rho log rho: dF/dbeta = (F - L_lambda) / beta at the minimiser."""
    betas = (0.399, 0.4, 0.401)
    curve = risk_against_beta(CURVE | {"betas": betas}, replicates(2))["curve"][0, 0]
    energy, risk = curve[:, FUNCTIONALS.index("free energy")], curve[:, FUNCTIONALS.index("L_lambda")]
    slope = (energy[2] - energy[0]) / (betas[2] - betas[0])
    # central difference of width 1e-3: its square times a third derivative of order 10
    assert slope == pytest.approx((energy[1] - risk[1]) / betas[1], rel=1e-4)


def test_particles_have_the_grids_risk_and_no_free_energy() -> None:
    measured = risk_against_beta(CURVE | {"systems": 16}, replicates(16))
    risk = measured["risk"]
    error = risk.std(0, ddof=1) / 4
    # M = 32 heads add a bias of order 1/M to a quadratic loss
    assert (np.abs(risk.mean(0) - measured["curve"][0, 0, :, 0]) < 5 * error + 1 / 32).all()
    assert np.isnan(risk_against_beta(CURVE | {"functional": "free energy"}, replicates(2))["risk"]).all()


def test_the_landscape_knows_wells_barrier_and_relaxation() -> None:
    measured = annealing_against_constant(ANNEALING, replicates(2))

    def u(x: float) -> float:
        return float((x * x - 1) ** 2 + 0.3 * x)

    deep = minimize_scalar(u, bounds=(-1.5, -0.5), method="bounded")
    shallow = minimize_scalar(u, bounds=(0.5, 1.5), method="bounded")
    top = minimize_scalar(lambda x: -u(x), bounds=(-0.5, 0.5), method="bounded")
    # the mesh is 2.5e-4 wide and the extrema are flat: errors of its square
    assert measured["minimum"][0] == pytest.approx(deep.fun, abs=1e-6)
    assert measured["barrier"][0] == pytest.approx(-top.fun - shallow.fun, abs=1e-6)
    assert measured["relaxation"][0] == pytest.approx(1 / (12 * deep.x**2 - 4), rel=1e-3)
    assert measured["hold"][0] == pytest.approx(0.4)
    convex = annealing_against_constant(ANNEALING | {"potential": "convex"}, replicates(2))
    assert convex["barrier"][0] == 0 and convex["relaxation"][0] == pytest.approx(0.25, rel=1e-6)


def test_the_two_schedules_share_their_noise() -> None:
    same = annealing_against_constant(ANNEALING | {"beta_start": 0.05}, replicates(3))
    np.testing.assert_array_equal(same["annealed"], same["constant"])
