"""The shipped risks: values by hand, closed forms against automatic differentiation, convexity along mixtures."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor

from mfcheck.errors import InputError
from mfcheck.feature_risk import FeatureRisk
from mfcheck.functional import velocity
from mfcheck.measure import Measure
from mfcheck.risks import attraction, desai_zwanzig, double_well, linear_attraction, quadratic, two_layer_network
from tests.subjects import INPUTS, SUBJECTS, TARGETS, Subject, every_feature_risk, kernel_energy, measures

quick = settings(deadline=None, max_examples=30)


def atoms(*values: float) -> Measure:
    return Measure.uniform(torch.tensor(values, dtype=torch.float64)[:, None])


def closed_forms_error(risk: FeatureRisk, measure: Measure) -> float:
    """The largest difference between a risk's closed forms and automatic differentiation of the same risk."""
    bare = replace(risk, potential_gradient=None, loss_gradient=None, features_with_pullback=None)
    errors = [0.0]
    if not risk.is_linear:
        errors.append(float((risk.field(measure) - bare.field(measure)).abs().max()))
    field = None if risk.is_linear else risk.field(measure)
    errors.append(float((risk.gradient(measure.points, field) - bare.gradient(measure.points, field)).abs().max()))
    return max(errors)


@every_feature_risk
@quick
@given(st.data())
def test_closed_forms_equal_automatic_differentiation(subject: Subject, data: st.DataObject) -> None:
    measure = data.draw(measures(subject.p))
    assert isinstance(subject.risk, FeatureRisk)
    assert closed_forms_error(subject.risk, measure) <= subject.rounding(len(measure.weights))


@pytest.mark.parametrize(
    "wrong",
    [
        {"potential_gradient": lambda points: points**3 + points},
        {"loss_gradient": lambda mean: mean},
        {"features_with_pullback": lambda points: (points, lambda field: 2 * field[..., None, :].expand_as(points))},
    ],
    ids=lambda wrong: next(iter(wrong)),
)
def test_a_wrong_closed_form_is_caught(wrong: dict[str, Callable[..., Tensor]]) -> None:
    assert closed_forms_error(replace(desai_zwanzig(), **wrong), atoms(0.5, 1.0)) > 0.1  # type: ignore[arg-type]


def gap(risk: Callable[[Measure], Tensor], first: Measure, second: Measure, share: float) -> float:
    """(1 - t) R(mu) + t R(nu) - R((1 - t) mu + t nu): non-negative for all mu, nu, t where R is convex."""
    chord = (1 - share) * risk(first) + share * risk(second)
    return float(chord - risk(first.mix(second, share)))


CONVEX = [s for s in SUBJECTS if (isinstance(s.risk, FeatureRisk) and s.risk.convex) or s.risk is kernel_energy]


@pytest.mark.parametrize("subject", CONVEX, ids=lambda subject: subject.name)
@quick
@given(st.data(), st.floats(0.0, 1.0))
def test_a_risk_that_declares_it_is_convex_along_mixtures(subject: Subject, data: st.DataObject, share: float) -> None:
    first, second = data.draw(measures(subject.p)), data.draw(measures(subject.p))
    bound = subject.rounding(len(first.weights) + len(second.weights))
    assert gap(subject.risk, first, second, share) >= -bound
    if isinstance(subject.risk, FeatureRisk) and subject.risk.is_linear:
        assert gap(subject.risk, first, second, share) <= bound


@pytest.mark.parametrize("risk", [desai_zwanzig(), linear_attraction(1.0, 3.0), attraction(quadratic(), 0.1)])
def test_attraction_is_not_convex_and_does_not_declare_it(risk: FeatureRisk) -> None:
    # the mean enters as -kappa |m|^2 / 2: two points at +-1 leave a gap of -kappa / 2 at half share
    kappa = {"Desai-Zwanzig": 1.0, "linear attraction": 3.0, "attraction": 0.1}[risk.name]
    assert not risk.convex
    assert gap(risk, atoms(1.0), atoms(-1.0), 0.5) == pytest.approx(-kappa / 2, rel=1e-14)


def test_repulsion_is_convex_and_declares_it() -> None:
    assert attraction(quadratic(2.0), -1.0).convex


def test_quadratic_is_half_the_curvature_times_the_squared_distance() -> None:
    measure = Measure.uniform(torch.tensor([[1.0, 2.0], [3.0, -1.0]], dtype=torch.float64))
    assert float(quadratic(2.0)(measure)) == 0.5 * (5 + 10)
    assert float(quadratic([1.0, 4.0])(measure)) == 0.25 * ((1 + 16) + (9 + 4))
    # (theta - c) = (0, 1), (2, -2) with A = [[2, 1], [1, 3]]: (3 + 12) / 2, halved over the atoms
    assert float(quadratic([[2.0, 1.0], [1.0, 3.0]], [1.0, 1.0])(measure)) == 0.25 * (3 + (8 - 8 + 12))


def test_a_rotated_curvature_is_symmetric_enough() -> None:
    # R D R' is symmetric to rounding only
    angle = torch.tensor(torch.pi / 6, dtype=torch.float64)
    rotation = torch.stack([torch.stack([angle.cos(), -angle.sin()]), torch.stack([angle.sin(), angle.cos()])])
    for shift in (0.0, 1e-15):
        matrix = rotation @ torch.diag(torch.tensor([1.0, 4.0], dtype=torch.float64)) @ rotation.T
        matrix[0, 1] += shift
        measure = Measure.uniform(rotation[:, 1:].T)
        assert float(quadratic(matrix)(measure)) == pytest.approx(2.0, rel=1e-14)


def test_double_well_has_its_minima_at_plus_and_minus_one() -> None:
    assert float(double_well()(atoms(1.0, -1.0))) == -0.25
    assert torch.equal(velocity(double_well(), atoms(1.0, -1.0, 0.0)), torch.zeros(3, 1, dtype=torch.float64))
    assert float(double_well(2.0, 3.0, 0.5)(atoms(2.0))) == 2.0 / 4 * 16 + 1.5 * 4 + 0.5 * 2


@quick
@given(measures(2, least=2), st.floats(-2.0, 4.0))
def test_attraction_is_the_double_integral_of_squared_distances(measure: Measure, kappa: float) -> None:
    unit = Measure.uniform(measure.points)  # the two forms agree for unit mass
    pairs = (unit.points[:, None] - unit.points[None]).square().sum(-1).mean()
    expected = float(quadratic()(unit)) + kappa / 4 * float(pairs)
    # squared distances up to 32, kappa / 4 of them, n^2 of them in a mean
    assert float(attraction(quadratic(), kappa)(unit)) == pytest.approx(expected, abs=60 * 32 * 2.3e-16)


@quick
@given(measures(1), st.floats(0.0, 4.0))
def test_attraction_drifts_to_the_mean(measure: Measure, kappa: float) -> None:
    unit = Measure.uniform(measure.points)
    x, mean = unit.points, unit.points.mean()
    expected = -(x**3 - x) - kappa * (x - mean)
    drift = velocity(desai_zwanzig(kappa), unit)
    # numbers up to 2 (4 + 1) + 4 * 4, a chain of n + 8 roundings
    assert float((drift - expected).abs().max()) <= (len(x) + 8) * 2.3e-16 * 26


def test_two_layer_network_is_the_mean_of_its_neurons() -> None:
    theta = torch.tensor([[1.0, -0.5], [0.25, 2.0], [0.0, 1.0]], dtype=torch.float64)
    prediction = torch.stack([sum(torch.tanh(row @ x) for row in theta) / 3 for x in INPUTS])
    expected = 0.5 * (prediction - TARGETS).square().mean() + 0.05 * theta.square().sum(1).mean()
    risk = two_layer_network(INPUTS, TARGETS, weight_decay=0.1)
    assert float(risk(Measure.uniform(theta))) == pytest.approx(float(expected), rel=1e-14)
    linear = two_layer_network(INPUTS, TARGETS, activation=lambda x: x)
    straight = 0.5 * (theta.mean(0) @ INPUTS.T - TARGETS).square().mean()
    assert float(linear(Measure.uniform(theta))) == pytest.approx(float(straight), rel=1e-14)


@pytest.mark.parametrize(
    ("call", "sentence"),
    [
        (lambda: quadratic([[1.0, 0.5], [0.0, 1.0]]), "symmetric"),
        (lambda: quadratic([[1.0, 0.5]]), r"\[p, p\]"),
        (lambda: quadratic([1.0, 2.0], [0.0, 0.0, 0.0]), r"\(2,\) and \(3,\)"),
        (lambda: quadratic([1.0, 2.0])(atoms(1.0)), r"lives in R\^2"),
        (lambda: quadratic(1.0, [1.0, 2.0])(atoms(1.0)), r"lives in R\^2"),
        (lambda: double_well(0.0), "quartic coefficient must be positive"),
        (lambda: attraction(desai_zwanzig(), 1.0), "'Desai-Zwanzig' interacts"),
        (lambda: two_layer_network(INPUTS, TARGETS[:3]), r"\(4, 2\) and \(3,\)"),
        (lambda: two_layer_network(INPUTS, TARGETS[:, None]), r"\(4, 2\) and \(4, 1\)"),
        (lambda: two_layer_network(INPUTS, TARGETS)(atoms(1.0)), r"lives in R\^2"),
        (lambda: FeatureRisk("half", features=lambda points: points), "features and loss come together"),
        (lambda: FeatureRisk("empty"), "neither a potential nor features"),
        (lambda: double_well().field(atoms(1.0)), "is linear"),
    ],
)
def test_bad_input_is_a_sentence(call: Callable[[], object], sentence: str) -> None:
    with pytest.raises(InputError, match=sentence):
        call()


@pytest.mark.parametrize("activation", [torch.tanh, torch.sin], ids=["closed form", "differentiated"])
@pytest.mark.parametrize("batch", [(), (3,)])
def test_a_pullback_goes_with_the_features(batch: tuple[int, ...], activation: Callable[[Tensor], Tensor]) -> None:
    risk = two_layer_network(INPUTS, TARGETS, activation=activation)
    generator = torch.Generator().manual_seed(0)
    points = torch.randn(*batch, 5, 2, generator=generator, dtype=torch.float64)
    cotangent = torch.randn(*batch, 4, generator=generator, dtype=torch.float64)
    assert risk.features is not None
    leaf = points.clone().requires_grad_(True)
    plain = risk.features(leaf)
    (expected,) = torch.autograd.grad((plain * cotangent[..., None, :]).sum(), leaf)
    values, pull = risk.pullback(points)
    torch.testing.assert_close(values, plain.detach(), rtol=1e-14, atol=0)
    torch.testing.assert_close(pull(cotangent), expected, rtol=1e-13, atol=1e-14)


def test_a_linear_risk_has_no_pullback() -> None:
    with pytest.raises(InputError, match="it has no features"):
        quadratic().pullback(torch.ones(3, 1))
