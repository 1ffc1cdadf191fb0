"""Adam's stationary law: the formulas against exact recursions, and replicates that do not depend on their company."""

from __future__ import annotations

import math

import numpy as np
import pytest
import torch
from torch import optim
from torch.nn import Parameter

from mfcheck.attention.optim import Langevin
from mfcheck.experiments import adam
from mfcheck.replicates import Replicates
from mfcheck.statistics.seeds import stream

FEW = {
    "curvatures": (0.5, 4.0),
    "beta": 0.5,
    "step": 0.1,
    "beta2": 0.999,
    "base": "Adam",
    "noise": "isotropic",
    "chains": 4,
    "steps": 60,
    "forgotten": 20,
    "every": 10,
}


def some(start: int, stop: int) -> Replicates:
    return Replicates(stream(0, "D7"), start, stop)


@pytest.mark.parametrize(("beta", "eta"), [(0.5, 0.1), (0.02, 0.3), (2.0, 0.01)])
def test_the_spreads_are_fixed_points_of_their_recursions(beta: float, eta: float) -> None:
    s = adam.adam_spread(beta, eta)
    assert (1 - eta / s) ** 2 * s**2 + 2 * beta * eta == pytest.approx(s**2, rel=1e-12)
    for a in (0.5, 3.0):
        s = adam.gradient_spread(a, beta, eta)
        assert (1 - eta * a) ** 2 * s**2 + 2 * beta * eta == pytest.approx(s**2, rel=1e-12)


def test_replicates_are_the_same_alone_and_across_blocks() -> None:
    together = adam.stationary_spread(FEW, some(0, 2 * adam.TOGETHER))
    part = adam.stationary_spread(FEW, some(adam.TOGETHER - 2, adam.TOGETHER + 3))
    for name, values in part.items():
        assert values.shape[0] == 5
        np.testing.assert_array_equal(values, together[name][adam.TOGETHER - 2 : adam.TOGETHER + 3])
    blocks = np.split(together["mean_square"], 2)
    assert not np.array_equal(*blocks)
    assert together["record_error"].max() < 1e-12


def test_the_plain_gradient_has_the_controls_ratio_and_one_effective_step() -> None:
    many = FEW | {"base": "SGD", "chains": 2000, "curvatures": (4.0, 0.5), "steps": 221, "forgotten": 200}
    seen = adam.stationary_spread(many, some(0, adam.TOGETHER))
    expected = [adam.gradient_spread(a, 0.5, 0.1) for a in (4.0, 0.5)]
    assert expected[1] / expected[0] == pytest.approx(math.sqrt(4 * (1 - 0.2) / (0.5 * (1 - 0.025))))
    # 128,000 chains and three looks: 6 standard errors sqrt(1 / (2 n)) of a standard deviation of n normals
    np.testing.assert_allclose(np.sqrt(seen["mean_square"].mean(0)), expected, rtol=6 * (1 / 2 / 128_000) ** 0.5)
    np.testing.assert_allclose(seen["effective_step"], 0.1, rtol=1e-12)


def test_adam_does_not_see_the_curvature_at_all() -> None:
    paths = []
    for a in (0.5, 4.0):
        theta = Parameter(torch.zeros(50, dtype=torch.float64))
        langevin = Langevin(optim.Adam([theta], lr=0.1, betas=(0.0, 0.99), eps=0.0), theta, 0.5, seed=1)
        theta.data.fill_(1.0)
        for _ in range(30):
            theta.grad = a * theta.detach()
            langevin.step()
        paths.append((theta.detach(), langevin.records[-1].effective_mean))
    # 8 is a power of 2: the same path to the bit, at effective steps 8 apart
    assert torch.equal(paths[0][0], paths[1][0])
    assert paths[0][1] / paths[1][1] == pytest.approx(8.0, rel=1e-12)
