"""Tokens in depth against closed forms: passive places, masses of a quantile flow, Gaussian moments, stability."""

import math

import numpy as np
import pytest
import torch

from mfcheck.dynamics.gaussian_tokens import moment_flow, moment_steps
from mfcheck.dynamics.stability import stability_constant, stability_exponent
from mfcheck.dynamics.tokens import quantile_flow, residual_flow
from mfcheck.errors import InputError
from mfcheck.heads import matrix_softmax, scalar_softmax
from mfcheck.measure import Measure

HEADS = Measure.uniform(torch.tensor([[1.0, 0.8], [-0.5, 0.6]], dtype=torch.float64))


def test_without_logits_tokens_are_translated_by_their_mean() -> None:
    tokens = torch.randn(3, 5, 1, dtype=torch.float64, generator=torch.Generator().manual_seed(0))
    heads = Measure.uniform(torch.tensor([[0.0, 0.7]], dtype=torch.float64))
    end, _ = residual_flow(scalar_softmax(), heads, tokens, depth_step=0.1, layers=10)
    shift = tokens.mean(1, keepdim=True) * ((1 + 0.07) ** 10 - 1)
    torch.testing.assert_close(end, tokens + shift)


def test_passive_places_move_as_tokens_of_weight_zero() -> None:
    tokens, places = torch.linspace(-1, 1, 6, dtype=torch.float64)[:, None], torch.tensor([[0.3], [2.0]]).double()
    end, carried = residual_flow(scalar_softmax(), HEADS, tokens, depth_step=0.2, layers=5, passive=places)
    weights = torch.cat([torch.full((6,), 1 / 6), torch.zeros(2)]).double()
    weights = weights / weights.sum()
    both, _ = residual_flow(
        scalar_softmax(), HEADS, torch.cat([tokens, places]), depth_step=0.2, layers=5, weights=weights
    )
    torch.testing.assert_close(torch.cat([end, carried]), both)


def test_tokens_stay_on_the_sphere() -> None:
    generator = torch.Generator().manual_seed(1)
    tokens = torch.nn.functional.normalize(torch.randn(4, 7, 2, dtype=torch.float64, generator=generator), dim=-1)
    heads = Measure.uniform(torch.randn(3, 8, dtype=torch.float64, generator=generator))
    end, _ = residual_flow(matrix_softmax(2), heads, tokens, depth_step=0.1, layers=10, sphere=True)
    torch.testing.assert_close(end.norm(dim=-1), torch.ones(4, 7, dtype=torch.float64))


def test_the_quantile_flow_conserves_mass_and_stays_positive() -> None:
    flow = quantile_flow(scalar_softmax(), HEADS, lambda u: 2 * u - 1, depth_step=0.1, layers=10, nodes=128)
    finer = quantile_flow(scalar_softmax(), HEADS, lambda u: 2 * u - 1, depth_step=0.1, layers=10, nodes=512)
    masses = flow.masses(np.linspace(-6, 6, 38))
    assert masses.min() >= 0
    assert abs(masses.sum() - 1) < 1e-14
    assert (np.diff(flow.edges) > 0).all()
    # the bar holds the error, of second order in the nodes
    assert np.abs(flow.edges - finer.edges[::4]).max() < 2 * flow.error
    assert flow.error / finer.error == pytest.approx(16, rel=0.1)


def test_gaussian_moments_without_logits_and_their_steps() -> None:
    mean, covariance, value = np.array([1.0, 2.0]), np.eye(2), np.diag([0.5, -0.3])
    m, s = moment_flow(mean, covariance, np.zeros((2, 2)), value)
    np.testing.assert_allclose(m, mean * np.exp([0.5, -0.3]), rtol=1e-9)
    np.testing.assert_allclose(s, covariance, atol=1e-12)
    stepped, _, tilt = moment_steps(mean, covariance, 0.2 * np.eye(2), value, depth_step=1e-4, layers=1)
    slope = value @ (mean + 0.2 * mean)
    np.testing.assert_allclose((stepped - mean) / 1e-4, slope, rtol=1e-9)
    # the tilt grows with S, by 1e-4 of itself in this step
    assert tilt == pytest.approx(0.2, rel=1e-3)


def test_stability_constant_without_logits_is_the_value() -> None:
    assert stability_constant(0.0, 0.7, 5.0) == pytest.approx(0.7)
    assert stability_exponent(0.0, 0.7, 5.0, time=2.0) == pytest.approx(1.4)
    assert stability_constant(0.1, 1.0, 1.0) == pytest.approx(0.1 + math.exp(0.2) * 1.2)


@pytest.mark.parametrize("change", [{"depth_step": 0.0}, {"layers": -1}, {"tokens": torch.zeros(0, 1).double()}])
def test_bad_input_is_refused(change: dict[str, object]) -> None:
    settings: dict[str, object] = {"tokens": torch.zeros(3, 1).double(), "depth_step": 0.1, "layers": 2} | change
    with pytest.raises(InputError):
        residual_flow(scalar_softmax(), HEADS, **settings)
