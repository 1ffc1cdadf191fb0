"""What every shipped head has, and what the controls among them break: exactly one thing each."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from mfcheck.heads import causal, hardmax_attention, matrix_softmax
from tests.heads.subjects import ALL, CAUSAL, INVARIANT, SMOOTH, Call, Subject, calls, each, random_call

quick = settings(deadline=None, max_examples=20)


def agree(subject: Subject, first: Call, second: Call) -> None:
    count = first.tokens.shape[-2] + second.tokens.shape[-2]
    a, b = subject.head(*first.arguments), subject.head(*second.arguments)
    assert (a - b).abs().max() <= subject.rounding(count), f"{a.tolist()} against {b.tolist()}"


@each(INVARIANT)
@quick
@given(data=st.data())
def test_permuting_the_tokens_changes_nothing(subject: Subject, data: st.DataObject) -> None:
    call = data.draw(calls(subject, least=2))
    order = data.draw(st.permutations(range(len(call.weights))))
    agree(subject, call, call.with_law(call.tokens[order], call.weights[order]))


@each(ALL)
@quick
@given(data=st.data())
def test_splitting_a_token_between_neighbours_changes_nothing(subject: Subject, data: st.DataObject) -> None:
    call = data.draw(calls(subject))
    index = data.draw(st.integers(0, len(call.weights) - 1))
    share = data.draw(st.floats(0.0, 1.0))
    twice = torch.ones(len(call.weights), dtype=torch.long)
    twice[index] = 2
    weights = call.weights.repeat_interleave(twice)
    weights[index], weights[index + 1] = share * call.weights[index], call.weights[index] - share * call.weights[index]
    agree(subject, call, call.with_law(call.tokens.repeat_interleave(twice, 0), weights))


@each(ALL)
@quick
@given(data=st.data())
def test_repeating_every_token_changes_nothing(subject: Subject, data: st.DataObject) -> None:
    call = data.draw(calls(subject))
    agree(subject, call, call.with_law(call.tokens.repeat_interleave(2, 0), call.weights.repeat_interleave(2) / 2))


@each(ALL)
@quick
@given(data=st.data())
def test_a_token_of_weight_zero_is_ignored(subject: Subject, data: st.DataObject) -> None:
    call = data.draw(calls(subject))
    place = data.draw(st.integers(0, len(call.weights)))
    # far outside the box: its logit is the largest of all
    far = torch.full_like(call.tokens[:1], 50.0)
    zero = torch.zeros(1, dtype=call.weights.dtype)
    tokens = torch.cat([call.tokens[:place], far, call.tokens[place:]])
    agree(subject, call, call.with_law(tokens, torch.cat([call.weights[:place], zero, call.weights[place:]])))


@each(tuple(subject for subject in ALL if subject.head.values is not None))
@quick
@given(data=st.data())
def test_the_output_is_in_the_convex_hull_of_the_values(subject: Subject, data: st.DataObject) -> None:
    call = data.draw(calls(subject))
    assert subject.head.values is not None
    values = subject.head.values(call.theta, call.tokens)
    # a point is in a hull exactly where no direction puts it beyond every vertex; one angle in d = 1 and 2 says it all
    angles = torch.linspace(0, 2 * np.pi, 37, dtype=torch.float64)
    directions = torch.stack([angles.cos(), angles.sin()], -1)[:, : subject.head.token_dimension]
    beyond = directions @ subject.head(*call.arguments) - (directions @ values.T).amax(-1)
    assert beyond.max() <= 2 * subject.rounding(len(values))


@each(ALL)
def test_batches_agree_with_single_calls(subject: Subject) -> None:
    heads, inputs = random_call(subject, 1, 3), random_call(subject, 2, 5)
    together = subject.head(heads.theta[:, None], *inputs.arguments[1:])
    assert together.shape == (3, 5, subject.head.token_dimension)
    for m in range(3):
        for k in range(5):
            single = subject.head(heads.theta[m], inputs.x[k], inputs.tokens[k], inputs.weights[k])
            assert (together[m, k] - single).abs().max() <= subject.rounding(4)


@each(SMOOTH)
def test_gradients_are_those_of_finite_differences(subject: Subject) -> None:
    call = random_call(subject, 3)
    leaves = [argument.requires_grad_(True) for argument in call.arguments]
    assert torch.autograd.gradcheck(subject.head.function, leaves)


@each(ALL)
def test_single_precision_agrees_with_double(subject: Subject) -> None:
    call = random_call(subject, 4, 20, dtype=torch.float32)
    double = [argument.double() for argument in call.arguments[:3]]
    # rounded weights need not sum to one in double precision: straight to the function, which normalises or is linear
    precise = subject.head.function(*double, call.weights.double())
    single = subject.head(*call.arguments)
    assert single.dtype == torch.float32
    assert (single - precise).abs().max() <= subject.rounding(4, torch.float32)


@each(ALL)
def test_the_declared_growth_in_theta_is_not_exceeded(subject: Subject) -> None:
    power = subject.head.hypotheses.growth_power
    assert power is not None
    call = random_call(subject, 5, 50)
    sizes = [
        float(subject.head(scale * call.theta, *call.arguments[1:]).norm(dim=-1).mean()) for scale in (1e2, 1e3, 1e4)
    ]
    growth = np.diff(np.log10(np.maximum(sizes, 1e-300)))
    assert (growth <= power + 0.02).all()


@each(ALL)
def test_two_calls_agree_and_inputs_stay(subject: Subject) -> None:
    call = random_call(subject, 6, 7)
    before = [argument.clone() for argument in call.arguments]
    assert torch.equal(subject.head(*call.arguments), subject.head(*call.arguments))
    assert all(torch.equal(a, b) for a, b in zip(before, call.arguments, strict=True))


def test_the_causal_control_breaks_permutation_invariance_on_sorted_tokens() -> None:
    head = CAUSAL.head
    assert not head.hypotheses.permutation_invariant
    theta = torch.tensor([0.5, 0.0, 0.0, 0.5, 1.0, 0.0, 0.0, 1.0], dtype=torch.float64)
    tokens = torch.linspace(-1, 1, 5, dtype=torch.float64)[:, None].expand(5, 2)
    forward, backward = head(theta, tokens[1], tokens), head(theta, tokens[1], tokens.flip(0))
    plain = matrix_softmax(2)(theta, tokens[1], tokens)
    assert (forward - backward).abs().max() > 0.5
    # the last token in the list sees all of them
    assert torch.allclose(head(theta, tokens[-1], tokens), matrix_softmax(2)(theta, tokens[-1], tokens), atol=1e-15)
    assert (forward - plain).abs().max() > 0.1


def test_a_causal_token_sees_the_tokens_before_it_and_itself() -> None:
    generator = torch.Generator().manual_seed(7)
    theta, tokens = torch.randn(8, generator=generator), torch.randn(6, 2, generator=generator)
    for place in range(6):
        seen = tokens[: place + 1]
        expected = matrix_softmax(2)(theta, tokens[place], seen)
        assert torch.allclose(causal(matrix_softmax(2))(theta, tokens[place], tokens), expected, atol=1e-5)


@pytest.mark.parametrize("eps", [1e-2, 1e-6, 1e-12])
def test_the_hardmax_control_jumps_at_a_tie_where_softmax_does_not(eps: float) -> None:
    assert not hardmax_attention(2).hypotheses.lipschitz_in_law
    theta = torch.tensor([1.0, 0.0, 0.0, 1.0, 1.0, 0.0, 0.0, 1.0], dtype=torch.float64)
    x = torch.tensor([1.0, 0.0], dtype=torch.float64)
    tokens = torch.tensor([[1.0, 1.0], [1.0, -1.0]], dtype=torch.float64)
    nudge = torch.tensor([[eps, 0.0], [0.0, 0.0]], dtype=torch.float64)
    jumps = [
        (head(theta, x, tokens + nudge) - head(theta, x, tokens)).abs().max() / eps
        for head in (hardmax_attention(2), matrix_softmax(2))
    ]
    assert jumps[0] >= 0.5 / eps
    # rounding of numbers near 1 over eps
    assert jumps[1] <= 2 + 1e-15 / eps
