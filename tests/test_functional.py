"""First variation and velocity: gradients in the weights and in the points of one and the same function (claims K1)."""

from __future__ import annotations

from collections.abc import Callable

import pytest
import torch
from hypothesis import assume, given, settings
from hypothesis import strategies as st
from torch import Tensor

from mfcheck.errors import InputError
from mfcheck.feature_risk import FeatureRisk
from mfcheck.functional import Risk, derivative_on_appending, evaluate, first_variation, velocity
from mfcheck.measure import Measure
from mfcheck.risks import double_well
from tests.subjects import BOX, EPS, SUBJECTS, Subject, every_feature_risk, every_subject, measures, places

quick = settings(deadline=None, max_examples=15)


def generic(risk: Risk) -> Risk:
    """The same risk with its structure hidden: a plain callable, as a user brings it."""
    return lambda measure: risk(measure)


def largest(difference: Tensor) -> float:
    return float(difference.abs().max())


def invariance(subject: Subject, first: Measure, second: Measure, at: Tensor) -> float:
    """How far apart two descriptions of one law come out, over the risk, its first variation and its velocity."""
    return max(
        largest(evaluate(subject.risk, first) - evaluate(subject.risk, second)),
        largest(first_variation(subject.risk, first, at) - first_variation(subject.risk, second, at)),
        largest(velocity(subject.risk, first, at) - velocity(subject.risk, second, at)),
    )


@every_subject
@quick
@given(st.data(), st.floats(0.0, 1.0))
def test_splitting_an_atom_changes_nothing(subject: Subject, data: st.DataObject, share: float) -> None:
    measure, at = data.draw(measures(subject.p)), data.draw(places(subject.p))
    index = data.draw(st.integers(0, len(measure.weights) - 1))
    twin = measure.split(index, share)
    assert invariance(subject, measure, twin, at) <= subject.rounding(len(twin.weights))


@every_subject
@quick
@given(st.data())
def test_permuting_atoms_changes_nothing(subject: Subject, data: st.DataObject) -> None:
    measure, at = data.draw(measures(subject.p)), data.draw(places(subject.p))
    order = torch.tensor(data.draw(st.permutations(range(len(measure.weights)))))
    shuffled = Measure(measure.points[order], measure.weights[order])
    bound = subject.rounding(len(order))
    assert invariance(subject, measure, shuffled, at) <= bound
    # at the atoms themselves the values move along
    assert largest(velocity(subject.risk, measure)[order] - velocity(subject.risk, shuffled)) <= bound
    assert largest(first_variation(subject.risk, measure)[order] - first_variation(subject.risk, shuffled)) <= bound


@every_subject
@quick
@given(st.data())
def test_adding_atoms_of_weight_zero_changes_nothing(subject: Subject, data: st.DataObject) -> None:
    measure, at = data.draw(measures(subject.p)), data.draw(places(subject.p))
    more = measure.append(data.draw(places(subject.p)))
    assert invariance(subject, measure, more, at) <= subject.rounding(len(more.weights))


def test_a_risk_that_counts_atoms_is_caught_by_splitting() -> None:
    """The mutant: an average over atoms instead of an integral."""
    mutant = Subject("average", lambda measure: measure.points.mean((-1, -2)) * measure.mass, 1, 2.0)
    measure = Measure.uniform(torch.tensor([[0.0], [1.0]], dtype=torch.float64))
    twin = measure.split(1, 0.5)
    difference = largest(evaluate(mutant.risk, measure) - evaluate(mutant.risk, twin))
    assert difference > 1e6 * mutant.rounding(3)


@every_feature_risk
@quick
@given(st.data())
def test_a_plain_callable_and_a_feature_risk_agree(subject: Subject, data: st.DataObject) -> None:
    measure, at = data.draw(measures(subject.p)), data.draw(places(subject.p))
    plain, bound = generic(subject.risk), subject.rounding(len(measure.weights) + len(at))
    for where in (None, at):
        assert largest(first_variation(subject.risk, measure, where) - first_variation(plain, measure, where)) <= bound
        assert largest(velocity(subject.risk, measure, where) - velocity(plain, measure, where)) <= bound


def appending_bound(subject: Subject, count: int, eps: float) -> float:
    """Truncation eps^2 |third derivative| / 6 of the central difference, and the rounding of two risks over 2 eps."""
    # the atom of weight +-eps lifts the mass, and with it every number, by at most 1 + eps
    return eps**2 * subject.third_in_weight / 6 + 2 * subject.rounding(count + 1) / eps


@every_subject
@quick
@given(st.data())
def test_gradient_in_the_weights_is_the_derivative_on_appending(subject: Subject, data: st.DataObject) -> None:
    measure, at, eps = data.draw(measures(subject.p)), data.draw(places(subject.p)), 1e-4
    bound = appending_bound(subject, len(measure.weights), eps)
    assert bound < 2e-6  # the precision that K1 speaks of
    for where in (measure.points, at):
        difference = derivative_on_appending(subject.risk, measure, where, eps)
        assert largest(difference - first_variation(generic(subject.risk), measure, where)) <= bound
        assert largest(difference - first_variation(subject.risk, measure, where)) <= bound
    assert largest(first_variation(generic(subject.risk), measure) - difference_at(subject, measure, eps)) <= bound


def difference_at(subject: Subject, measure: Measure, eps: float) -> Tensor:
    return derivative_on_appending(subject.risk, measure, measure.points, eps)


def by_index(measure: Measure) -> Tensor:
    """The mutant of K1: atom j counts (1 + j) times."""
    rank = 1.0 + torch.arange(measure.weights.shape[-1], dtype=measure.weights.dtype)
    return (rank * measure.weights * measure.points[..., 0]).sum(-1)


def test_a_risk_that_depends_on_the_index_is_caught_on_appending_and_only_there() -> None:
    measure = Measure.uniform(torch.tensor([[1.0], [2.0], [-1.0]], dtype=torch.float64))
    eps, tolerance = 1e-4, 1e-6
    claimed = first_variation(by_index, measure)
    appended = derivative_on_appending(by_index, measure, measure.points, eps)
    assert bool(((claimed - appended).abs() > tolerance).all())
    # a finite difference in the existing weight agrees, and would have let it pass
    lifted = [by_index(Measure(measure.points, measure.weights + eps * row)) for row in torch.eye(3).double()]
    existing = (torch.stack(lifted) - by_index(measure)) / eps
    assert largest(claimed - existing) < tolerance
    # nor does the velocity at the atoms agree with the one at an appended atom of weight 0
    assert largest(velocity(by_index, measure) - velocity(by_index, measure, measure.points)) > tolerance


@every_subject
@quick
@given(st.data())
def test_gradient_in_the_points_over_the_weight_is_the_velocity_at_an_appended_atom(
    subject: Subject, data: st.DataObject
) -> None:
    measure = data.draw(measures(subject.p))
    plain, bound = generic(subject.risk), subject.rounding(2 * len(measure.weights))
    assert largest(velocity(plain, measure) - velocity(plain, measure, measure.points)) <= bound


@every_subject
@quick
@given(st.data())
def test_gradient_of_the_first_variation_is_minus_the_velocity(subject: Subject, data: st.DataObject) -> None:
    measure, at = data.draw(measures(subject.p)), data.draw(places(subject.p))
    h = 1e-4
    # points stay in the box of the bounds
    at = at * (1 - h / BOX)
    drift = velocity(subject.risk, measure, at)
    # central difference: h^2 |f'''| / 6, and two roundings over 2 h
    bound = h**2 * subject.third / 6 + 2 * subject.rounding(len(measure.weights) + len(at)) / h
    for axis in range(subject.p):
        shift = torch.zeros(subject.p, dtype=torch.float64)
        shift[axis] = h
        up, down = (first_variation(subject.risk, measure, at + sign * shift) for sign in (1, -1))
        assert largest((up - down) / (2 * h) + drift[..., axis]) <= bound


@every_feature_risk
@quick
@given(st.data())
def test_velocity_is_automatic_differentiation_of_the_first_variation_with_the_field_held(
    subject: Subject, data: st.DataObject
) -> None:
    risk, measure = subject.risk, data.draw(measures(subject.p))
    assert isinstance(risk, FeatureRisk)
    field = None if risk.is_linear else risk.field(measure)
    leaf = measure.points.clone().requires_grad_(True)
    (gradient,) = torch.autograd.grad(risk.first_variation(leaf, field).sum(), leaf)
    assert largest(gradient + velocity(risk, measure)) <= subject.rounding(len(measure.weights))


@every_subject
@quick
@given(st.data())
def test_an_atom_of_weight_zero_moves_as_a_visitor_does(subject: Subject, data: st.DataObject) -> None:
    measure, at = data.draw(measures(subject.p)), data.draw(places(subject.p))
    plain, bound = generic(subject.risk), subject.rounding(len(measure.weights) + len(at))
    full = measure.append(at)
    moved = velocity(plain, full)
    assert largest(moved[-len(at) :] - velocity(plain, measure, at)) <= bound
    assert largest(moved[: len(measure.weights)] - velocity(plain, measure)) <= bound


@every_subject
@pytest.mark.parametrize("weight", [1e-290, 1e-300, 1e-310, 5e-324])
def test_velocity_keeps_its_digits_where_weights_underflow(subject: Subject, weight: float) -> None:
    # cell masses in a far tail: the gradient in the points is itself subnormal there
    points = torch.linspace(-1.5, 1.5, 4 * subject.p, dtype=torch.float64).reshape(4, subject.p)
    measure = Measure(points, torch.tensor([0.5, 0.5, weight, 0.0], dtype=torch.float64))
    plain = generic(subject.risk)
    assert largest(velocity(plain, measure) - velocity(plain, measure, points)) <= subject.rounding(8)


@every_subject
@quick
@given(st.data())
def test_velocity_is_the_wasserstein_gradient(subject: Subject, data: st.DataObject) -> None:
    """d/dt R((id + t xi)# mu) at t = 0 is -int velocity . xi dmu, here by automatic differentiation in t."""
    measure = data.draw(measures(subject.p))
    t = torch.zeros((), dtype=torch.float64, requires_grad=True)
    moved = measure.push(lambda points: points + t * torch.cos(points))
    (slope,) = torch.autograd.grad(subject.risk(moved), t)
    inner = (velocity(subject.risk, measure) * torch.cos(measure.points)).sum(-1)
    assert largest(slope + measure.integrate(inner)) <= subject.p * subject.rounding(len(measure.weights))


@every_subject
def test_a_batch_equals_its_members(subject: Subject) -> None:
    generator = torch.Generator().manual_seed(1)
    points = BOX * (2 * torch.rand(3, 5, subject.p, generator=generator, dtype=torch.float64) - 1)
    weights = torch.full((3, 5), 0.2, dtype=torch.float64)
    weights[1, 3] = 0.0
    at = points[0, :2]
    batch = Measure(points, weights)
    members = [Measure(x, w) for x, w in zip(points, weights, strict=True)]
    for risk in (subject.risk, generic(subject.risk)):
        for operation in (
            evaluate,
            first_variation,
            velocity,
            lambda r, m: first_variation(r, m, at),
            lambda r, m: velocity(r, m, at),
            lambda r, m: derivative_on_appending(r, m, at, 1.0),
        ):
            together, alone = operation(risk, batch), torch.stack([operation(risk, m) for m in members])
            assert together.shape == alone.shape
            # appending with weight 1 doubles the mass, which squares at most
            assert largest(together - alone) <= 4 * subject.rounding(7)


@every_subject
def test_results_carry_no_graph_even_where_the_points_do(subject: Subject) -> None:
    points = torch.ones(3, subject.p, dtype=torch.float64, requires_grad=True)
    measure = Measure.uniform(points)
    for risk in (subject.risk, generic(subject.risk)):
        for result in (first_variation(risk, measure), velocity(risk, measure), velocity(risk, measure, points)):
            assert not result.requires_grad


@every_subject
@quick
@given(st.data())
def test_single_precision_agrees_with_double(subject: Subject, data: st.DataObject) -> None:
    measure = data.draw(measures(subject.p))
    # weights below float32's smallest would be other weights; the law is what must be the same
    assume(bool(((measure.weights == 0) | (measure.weights > 1e-30)).all()))
    small = Measure(measure.points.float(), measure.weights.float())
    rounded = Measure(small.points.double(), small.weights.double())
    bound = subject.rounding(len(measure.weights)) * torch.finfo(torch.float32).eps / EPS
    for risk in (subject.risk, generic(subject.risk)):
        for operation in (evaluate, first_variation, velocity):
            result = operation(risk, small)
            assert result.dtype == torch.float32
            assert largest(result.double() - operation(risk, rounded)) <= bound


ATOMS = Measure.uniform(torch.ones(4, 2, dtype=torch.float64))


@pytest.mark.parametrize("operation", [first_variation, velocity])
@pytest.mark.parametrize(
    ("risk", "sentence"),
    [
        (lambda measure: measure.weights, r"a scalar; <lambda> returned shape \(4,\)"),
        (lambda measure: 1.0, "torch tensor; <lambda> returned float"),
        (lambda measure: measure.points.detach().sum(), "without a gradient"),
        (FeatureRisk("column", potential=lambda points: points[..., :1]), "its potential gives one value a point"),
        (FeatureRisk("vector", features=lambda points: points, loss=lambda v: v), "its loss gives a scalar"),
        (FeatureRisk("flat", features=lambda points: points[..., 0], loss=lambda v: v), "its features gives K values"),
    ],
)
def test_a_risk_of_the_wrong_shape_is_a_sentence(
    operation: Callable[[Risk, Measure], Tensor], risk: Risk, sentence: str
) -> None:
    with pytest.raises(InputError, match=sentence):
        operation(risk, ATOMS)


def test_a_constant_potential_is_a_sentence_not_a_drift() -> None:
    risk = FeatureRisk("numpy", potential=lambda points: torch.from_numpy(points.detach().numpy()[..., 0]))
    with pytest.raises(InputError, match="risk 'numpy': its potential came without a gradient"):
        velocity(risk, ATOMS)


def test_a_scalar_for_a_whole_batch_is_a_sentence() -> None:
    batch = Measure.uniform(torch.ones(3, 4, 1))
    with pytest.raises(InputError, match=r"one value a replicate, shape \(3,\)"):
        first_variation(lambda measure: measure.weights.sum(), batch)


def test_places_in_another_space_are_a_sentence() -> None:
    with pytest.raises(InputError, match=r"\[m, 2\]"):
        velocity(double_well(), ATOMS, torch.ones(2, 1))


def test_every_shipped_risk_is_among_the_subjects() -> None:
    # attraction is in linear attraction, repulsion and Desai-Zwanzig
    names = {subject.risk.name for subject in SUBJECTS if isinstance(subject.risk, FeatureRisk)}
    assert {
        "quadratic",
        "double well",
        "attraction",
        "linear attraction",
        "Desai-Zwanzig",
        "two-layer network",
    } <= names
