"""The risk of an attention layer: closed forms, identities, and what it refuses."""

import pytest
import torch

import mfcheck.dynamics.drift as drift_module
from mfcheck.attention_risk import attention_layer, scalar_attention_layer, scalar_teacher
from mfcheck.dynamics.langevin import simulate
from mfcheck.errors import InputError
from mfcheck.functional import derivative_on_appending, first_variation, velocity
from mfcheck.heads import matrix_softmax, scalar_softmax
from mfcheck.measure import Measure
from mfcheck.operator import Sequences, operator
from mfcheck.statistics.seeds import stream


def problem(data=5, tokens=4):
    source = stream(0, "tests", "attention risk")
    return scalar_teacher(data, tokens, token_scale=1.2, query_scale=1.1, teacher=2.0, source=source)


def particles(p, *batch, scale=2.0):
    generator = stream(1, "tests", "attention risk").torch()
    return scale * torch.randn(*batch, 9, p, generator=generator, dtype=torch.float64)


def test_risk_is_the_mean_squared_error_of_the_operator_and_weight_decay():
    sequences, targets = problem()
    risk = attention_layer(scalar_softmax("tanh"), sequences, targets[:, None], weight_decay=0.3)
    rho = Measure.uniform(particles(2))
    error = operator(scalar_softmax("tanh"), rho, sequences)[:, 0] - targets
    expected = 0.5 * error.square().mean() + 0.15 * rho.integrate(lambda x: x.square().sum(-1))
    torch.testing.assert_close(risk(rho), expected, rtol=1e-13, atol=0)


@pytest.mark.parametrize("batch", [(), (3,)])
def test_closed_forms_agree_with_the_differentiated_head(batch):
    sequences, targets = problem()
    fast = scalar_attention_layer(sequences, targets, weight_decay=0.3)
    plain = attention_layer(scalar_softmax("tanh"), sequences, targets[:, None], weight_decay=0.3)
    rho = Measure.uniform(particles(2, *batch))
    for of in (velocity, first_variation, lambda risk, measure: risk(measure)):
        torch.testing.assert_close(of(fast, rho), of(plain, rho), rtol=1e-12, atol=1e-13)


def test_uneven_weights_a_token_without_weight_and_logits_of_a_thousand():
    sequences, targets = problem()
    weights = sequences.weights.clone()
    weights[:, 0], weights[:, 1] = 0.0, 2 * weights[:, 1]
    sequences = Sequences(sequences.queries, sequences.tokens, weights)
    fast = scalar_attention_layer(sequences, targets)
    plain = attention_layer(scalar_softmax("tanh"), sequences, targets[:, None])
    for scale in (1.0, 300.0):
        rho = Measure.uniform(particles(2, scale=scale))
        torch.testing.assert_close(velocity(fast, rho), velocity(plain, rho), rtol=1e-10, atol=1e-12)


def test_vector_tokens_obey_the_identity_between_weights_and_appended_atoms():
    generator = stream(2, "tests", "attention risk").torch()
    tokens = torch.randn(4, 3, 2, generator=generator, dtype=torch.float64)
    targets = torch.randn(4, 2, generator=generator, dtype=torch.float64)
    risk = attention_layer(matrix_softmax(2), Sequences.of(tokens[:, 0], tokens), targets, weight_decay=0.1)
    rho = Measure.uniform(particles(8, scale=0.5))
    appended = derivative_on_appending(risk, rho, rho.points)
    torch.testing.assert_close(first_variation(risk, rho), appended, rtol=1e-7, atol=1e-8)


def test_the_teacher_fits_its_own_data():
    sequences, targets = problem()
    risk = scalar_attention_layer(sequences, targets)
    assert float(risk(Measure.uniform(torch.full((1, 2), 2.0, dtype=torch.float64)))) < 1e-30


def test_bad_input_is_a_sentence():
    sequences, targets = problem()
    with pytest.raises(InputError, match="targets are one token a datum"):
        scalar_attention_layer(sequences, targets[:-1])
    with pytest.raises(InputError, match="targets are finite"):
        scalar_attention_layer(sequences, targets * float("nan"))
    with pytest.raises(InputError, match="weight decay is a number >= 0"):
        scalar_attention_layer(sequences, targets, weight_decay=-1.0)
    with pytest.raises(InputError, match="theta = "):
        scalar_attention_layer(sequences, targets)(Measure.uniform(particles(3)))
    with pytest.raises(InputError, match="at least one sequence"):
        scalar_teacher(0, 3, token_scale=1.0, query_scale=1.0, teacher=1.0, source=stream(0))


def test_particles_cut_into_pieces_by_width_drift_as_they_do_at_once(monkeypatch):
    sequences, targets = problem()
    fast = scalar_attention_layer(sequences, targets, weight_decay=0.3)
    plain = attention_layer(scalar_softmax("tanh"), sequences, targets[:, None], weight_decay=0.3)
    assert fast.width == 5 * 4
    theta = particles(2, 40)
    monkeypatch.setattr(drift_module, "FEATURES_AT_ONCE", 64 * fast.width)
    runs = [simulate(risk, theta, beta=0.1, step=0.1, steps=3, seed=0).final for risk in (fast, plain)]
    torch.testing.assert_close(*runs, rtol=1e-12, atol=1e-13)
