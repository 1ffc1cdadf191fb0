"""Pieces of family G: the rigorous rates, and the threshold of the undamped iteration."""

import numpy as np
import torch

from mfcheck.dynamics.fokker_planck import Grid
from mfcheck.experiments import training
from mfcheck.experiments.attention_data import layer, layer_data
from mfcheck.functional import first_variation
from mfcheck.measure import Measure
from mfcheck.risks import linear_attraction

SMALL = {
    "data": 32,
    "tokens": 8,
    "token_scale": 0.3,
    "query_scale": 1.0,
    "teacher": 2.0,
    "weight_decay": 0.5,
    "beta": 0.5,
}


def test_rigorous_rates_bound_what_many_laws_of_heads_show():
    holley_stroock, bakry_emery = training.rigorous_rates(SMALL)
    risk = layer(SMALL)
    generator = torch.Generator().manual_seed(0)
    places = torch.randn(4000, 2, generator=generator, dtype=torch.float64) * 3
    curvatures, oscillations = [], []
    for scale in (0.1, 1.0, 5.0):
        rho = Measure.uniform(torch.randn(3, 2, generator=generator, dtype=torch.float64) * scale)
        field = risk.field(rho)
        x = places.clone().requires_grad_(True)
        (slope,) = torch.autograd.grad(risk.first_variation(x, field).sum(), x, create_graph=True)
        rows = [torch.autograd.grad(slope[:, i].sum(), x, retain_graph=True)[0] for i in range(2)]
        curvatures.append(float(torch.linalg.eigvalsh(torch.stack(rows, 1)).min()))
        bounded = first_variation(risk, rho, at=places) - 0.25 * places.square().sum(-1)
        oscillations.append(float(bounded.max() - bounded.min()))
    assert 0 < bakry_emery <= 2 * min(curvatures)
    assert 0 < holley_stroock <= 2 * 0.5 * np.exp(-max(oscillations) / 0.5)


def test_rates_without_tokens_are_those_of_the_gaussian():
    rates = training.rigorous_rates({**SMALL, "token_scale": 1e-9})
    np.testing.assert_allclose(rates, 1.0, rtol=1e-6)


def test_iteration_ratio_of_the_linear_model():
    # Gibbs of a theta^2/2 + kappa (theta - m)^2/2 has variance beta / (a + kappa): the map's factor is kappa/(a+kappa)
    ratio = training.iteration_ratio(linear_attraction(1.0, 3.0), Grid([(-6.0, 6.0)], [200]), 0.5)
    np.testing.assert_allclose(ratio, 0.75, rtol=1e-8)


def test_data_are_the_same_whatever_runs_before():
    first = layer_data(SMALL)[1].clone()
    layer_data({**SMALL, "tokens": 5})
    torch.testing.assert_close(first, layer_data(SMALL)[1], rtol=0, atol=0)


def test_a_regime_has_its_own_values_and_the_others_from_the_tail():
    names = ("cells", "step", "query_scale", "metastable_beta")
    settings = SMALL | dict(zip(names, (20, 0.5, 1.0, 0.05), strict=True))
    tail, metastable = (dict(training._regime(settings, prefix)) for prefix in ("", "metastable_"))
    assert metastable == tail | {"beta": 0.05}


def test_tail_rates_are_those_of_curves_made_up_for_it(monkeypatch):
    def made_up(regime, times):
        at = np.array(times)
        return {"linearised gap": 0.1}, np.exp(-0.2 * at)[None], np.exp(-0.1 * at)[None]

    monkeypatch.setattr(training, "_relaxation", made_up)
    settings = SMALL | {"cells": 20, "step": 0.5, "window": (3.0, 7.0), "noise": True, "rate": "linearised gap"}
    found = training._tail(settings, "")
    np.testing.assert_allclose(found["energy_rates"], [[1.0, 1.0]])
    np.testing.assert_allclose(found["distance_rates"], [[1.0, 1.0]])
