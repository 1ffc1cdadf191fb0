"""Deep training's pieces: the merged heads, the tangent kernel, the rate, the stall."""

from __future__ import annotations

from typing import Any

import numpy as np
import torch

from mfcheck.dynamics.tokens import token_velocity
from mfcheck.experiments.training_deep import _networks, _tail_rate, deep_training
from mfcheck.heads import matrix_softmax
from mfcheck.measure import Measure
from mfcheck.replicates import Replicates
from mfcheck.statistics.seeds import stream

SMALL: dict[str, Any] = {
    "inputs": 3,
    "tokens": 4,
    "dimension": 2,
    "layers": 2,
    "heads": 5,
    "step": 0.1,
    "steps": 20,
    "target_scale": 1.0,
    "equal_inputs": False,
    "kernel": "end",
}


def replicates(count: int) -> Replicates:
    return Replicates(stream(3, "deep"), 0, count, "cpu")


def test_heads_side_by_side_are_the_mean_of_the_softmax_heads() -> None:
    networks = _networks(SMALL, replicates(3))
    theta = networks.theta[:, 0]
    expected = token_velocity(matrix_softmax(2), Measure.uniform(theta[:, None]), networks.tokens)
    torch.testing.assert_close(
        networks.velocity(theta, networks.tokens, networks.tokens), expected, rtol=1e-12, atol=1e-13
    )


def test_the_drift_is_the_gradient_in_the_mean_field_scaling() -> None:
    networks = _networks(SMALL, replicates(1))
    drift, _ = networks.drift(networks.theta)
    direction = torch.randn(networks.theta.shape, generator=torch.Generator().manual_seed(0), dtype=torch.float64)
    eps = 1e-6
    slope = (networks.loss(networks.theta + eps * direction) - networks.loss(networks.theta - eps * direction)) / (
        2 * eps
    )
    # central differences: eps^2 of truncation, 1e-16 / eps of rounding
    torch.testing.assert_close(-(drift * direction).sum()[None] / networks.scale, slope, rtol=1e-7, atol=1e-9)


def test_the_tangent_kernel_says_how_outputs_move_under_the_drift() -> None:
    networks = _networks(SMALL, replicates(2))
    kernel = networks.tangent_kernel(networks.theta)
    residual = networks.outputs(networks.theta) - networks.targets
    expected = -(kernel @ residual[..., None])[..., 0] / SMALL["inputs"]
    drift, _ = networks.drift(networks.theta)
    eps = 1e-6
    moved = (networks.outputs(networks.theta + eps * drift) - networks.outputs(networks.theta - eps * drift)) / (
        2 * eps
    )
    torch.testing.assert_close(moved, expected, rtol=1e-6, atol=1e-8)


def test_equal_inputs_make_the_kernel_singular_and_hold_the_loss_at_its_level() -> None:
    settings = SMALL | {"equal_inputs": True, "steps": 600}
    measured = deep_training(settings, replicates(2))
    # targets +-1: (y_0 - y_1)^2 / (4 n) is what equal outputs cannot undercut
    np.testing.assert_allclose(measured["stall"], 1.0, rtol=1e-3)
    assert (measured["stall"] >= 1 - 1e-12).all()
    kernel = _networks(settings, replicates(2)).tangent_kernel(_networks(settings, replicates(2)).theta)
    eigenvalues = torch.linalg.eigvalsh(kernel)
    assert bool((eigenvalues[:, 0].abs() < 1e-12 * eigenvalues[:, -1]).all())


def test_the_rate_is_read_at_the_end_and_above_rounding() -> None:
    s = 0.1 * np.arange(2000)
    losses = np.stack([np.exp(-0.5 * s) + np.exp(-2.0 * s), np.exp(-0.2 * s)]) + 1e-30
    # the second mode has died out where the loss is between 1e-20 and 1e-17 of its start
    np.testing.assert_allclose(_tail_rate(losses, 0.1), [0.5, 0.2], rtol=1e-9)


def test_a_replicate_is_the_same_network_alone_and_in_a_batch() -> None:
    whole = deep_training(SMALL, replicates(3))
    alone = deep_training(SMALL, Replicates(stream(3, "deep"), 2, 3, "cpu"))
    np.testing.assert_allclose(alone["loss"][0], whole["loss"][2], rtol=1e-10)
