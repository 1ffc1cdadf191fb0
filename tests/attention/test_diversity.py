"""Measures of diversity against formulas written out, and hooks that see what a model's heads really did."""

from __future__ import annotations

import copy
import itertools
import math
from typing import Any

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor, nn

from mfcheck.attention import diversity, pruning
from mfcheck.attention.observe import head_gradients, observe
from mfcheck.attention.particles import ParticleAttention
from mfcheck.errors import InputError
from mfcheck.statistics.seeds import stream


def normal(*shape: int, seed: int = 0) -> Tensor:
    return torch.randn(*shape, generator=torch.Generator().manual_seed(seed), dtype=torch.float64)


def layer(kind: str, d: int = 8, heads: int = 4, **options: Any) -> ParticleAttention | nn.MultiheadAttention:
    torch.manual_seed(3)
    made = nn.MultiheadAttention(d, heads, batch_first=True, dtype=torch.float64, **options)
    with torch.no_grad():
        for parameter in made.parameters():
            parameter.normal_(0.0, 0.5)
    return made if kind == "multihead" else ParticleAttention.from_multihead(made)


def model(kind: str) -> nn.TransformerEncoder:
    torch.manual_seed(4)
    block = nn.TransformerEncoderLayer(8, 4, 16, 0.0, batch_first=True, dtype=torch.float64)
    stack = nn.TransformerEncoder(block, 2, enable_nested_tensor=False)
    for one in stack.layers:
        assert isinstance(one, nn.TransformerEncoderLayer)
        one.self_attn = layer(kind)  # type: ignore[assignment]
    return stack


KINDS = ["particles", "multihead"]


@settings(deadline=None, max_examples=50)
@given(heads=st.integers(1, 5), batch=st.integers(1, 4), scale=st.floats(1e-3, 1e3), seed=st.integers(0, 99))
def test_cosine_is_the_formula_and_does_not_see_a_heads_scale(heads: int, batch: int, scale: float, seed: int) -> None:
    maps = normal(batch, heads, 3, 4, seed=seed).softmax(-1)
    cosine = diversity.pairwise_cosine(maps)
    for i, j in itertools.product(range(heads), repeat=2):
        each = [torch.cosine_similarity(sample[i].flatten(), sample[j].flatten(), dim=0) for sample in maps]
        assert float(cosine[i, j]) == pytest.approx(float(torch.stack(each).mean()), rel=1e-12)
    scaled = maps.clone()
    scaled[:, 0] *= scale
    torch.testing.assert_close(diversity.pairwise_cosine(scaled), cosine)
    if heads > 1:
        pairs = [float(cosine[i, j]) for i, j in itertools.permutations(range(heads), 2)]
        assert diversity.mean_cosine(maps) == pytest.approx(sum(pairs) / len(pairs))


def test_cosine_of_equal_orthogonal_and_empty_heads() -> None:
    maps = torch.zeros(2, 3, 1, 4)
    maps[:, 0, 0, 0] = maps[:, 1, 0, 1] = 1.0
    expected = torch.diag(torch.tensor([1.0, 1.0, 0.0], dtype=torch.float64))
    assert torch.equal(diversity.pairwise_cosine(maps), expected)
    assert diversity.mean_cosine(maps[:, :1].expand(2, 5, 1, 4)) == pytest.approx(1.0)


def test_output_covariance_is_that_of_the_vectors_and_its_mean_is_the_means_variance() -> None:
    outputs = normal(3, 4, 5, 2, seed=1) + normal(4, 1, 2, seed=2)
    covariance = diversity.output_covariance(outputs)
    vectors = outputs.transpose(0, 1).reshape(4, 15, 2)
    expected = sum(torch.cov(vectors[..., c], correction=0) for c in range(2))
    torch.testing.assert_close(covariance, expected)
    mean = outputs.mean(1).reshape(15, 2)
    assert float(covariance.mean()) == pytest.approx(float(mean.var(0, correction=0).sum()))


@settings(deadline=None, max_examples=50)
@given(rank=st.integers(1, 6), scale=st.floats(1e-6, 1e6), seed=st.integers(0, 99))
def test_effective_rank_counts_equal_singular_values_and_no_scale(rank: int, scale: float, seed: int) -> None:
    left, right = (torch.linalg.qr(normal(7, 6, seed=seed + k)).Q[:, :rank] for k in range(2))
    assert diversity.effective_rank(scale * left @ right.t()) == pytest.approx(rank, rel=1e-6)
    values = normal(6, seed=seed).abs() + 0.01
    shares = (values / values.sum()).tolist()
    matrix = torch.linalg.qr(normal(7, 6, seed=seed)).Q * values
    entropy = -sum(p * math.log(p) for p in shares)
    assert diversity.effective_rank(scale * matrix) == pytest.approx(math.exp(entropy), rel=1e-9)


def test_roughness_is_zero_on_a_line_and_the_deviation_of_noise_on_it() -> None:
    line = 3.0 - 0.01 * torch.arange(4000, dtype=torch.float64)
    assert diversity.roughness(line) == pytest.approx(0.0, abs=1e-12)
    noise = 0.2 * normal(4000, seed=5)
    # the estimator's variance is 35 s^4 / (9 n) for normal noise: its root errs by s sqrt(35/36/n), 6 of those
    assert diversity.roughness(line + noise) == pytest.approx(0.2, abs=6 * 0.2 * (35 / 36 / 4000) ** 0.5)
    assert diversity.roughness([1.0, 0.0, 1.0]) == pytest.approx((4 / 6) ** 0.5)


def test_gradient_variance_is_the_trace_of_the_covariance() -> None:
    gradients = normal(6, 2, 3)
    expected = torch.cov(gradients.flatten(1).t()).trace()
    assert diversity.gradient_variance(gradients) == pytest.approx(float(expected))
    assert diversity.gradient_variance(torch.ones(4, 5)) == 0.0


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("training", [True, False])
def test_observing_changes_nothing_and_sees_what_the_heads_did(kind: str, training: bool) -> None:
    stack, x = model(kind).train(training), normal(3, 5, 8, seed=6)
    padding = torch.arange(5).expand(3, -1) >= torch.tensor([[5], [4], [3]])
    with torch.set_grad_enabled(training):
        plain = stack(x, src_key_padding_mask=padding)
        inputs: list[tuple[Tensor, Tensor]] = []
        attention: Any = stack.layers[1].self_attn
        handle = attention.register_forward_hook(lambda m, args, out: inputs.append((args[0], out[0])))
        with observe(stack) as seen:
            observed = stack(x, src_key_padding_mask=padding)
        handle.remove()
        torch.testing.assert_close(observed, plain)
        assert attention.training == training
        # the pass after it is unobserved
        before = dict(seen)
        stack(x)
    assert sorted(seen) == ["layers.0.self_attn", "layers.1.self_attn"] and seen == before
    one, (tokens, output) = seen["layers.1.self_attn"], inputs[0]
    bias = attention.out_bias if kind == "particles" else attention.out_proj.bias
    torch.testing.assert_close(one.outputs.mean(1) + bias, output)
    _, maps = attention(tokens, tokens, tokens, key_padding_mask=padding, average_attn_weights=False)
    torch.testing.assert_close(one.maps, maps.detach())
    assert not one.maps.requires_grad and not one.outputs.requires_grad


def test_observing_takes_arguments_in_any_way_and_ends_on_an_error() -> None:
    attention = layer("multihead")
    x, blocked = normal(2, 4, 8), torch.ones(4, 4, dtype=torch.bool).triu(1)
    holder = nn.ModuleDict({"a": attention})
    with observe(holder) as seen:
        attention(x, key=x, value=x, attn_mask=blocked, need_weights=False)
    assert float(seen["a"].maps.triu(1).abs().max()) == 0.0
    with pytest.raises(RuntimeError, match="stop"), observe(holder):
        raise RuntimeError("stop")
    assert not attention._forward_hooks
    with pytest.raises(InputError, match="Linear holds no ParticleAttention"), observe(nn.Linear(1, 1)):
        pass


@pytest.mark.parametrize("other", [{}, {"kdim": 5, "vdim": 3}])
def test_head_gradients_are_rows_of_one_head_each(other: dict[str, int]) -> None:
    particles, multihead = layer("particles", **other), layer("multihead", **other)
    assert isinstance(particles, ParticleAttention)
    query, key, value = normal(2, 3, 8), normal(2, 3, particles.kdim, seed=1), normal(2, 3, particles.vdim, seed=2)
    with pytest.raises(InputError, match="call backward first"):
        head_gradients(particles)
    for one in (particles, multihead):
        one(query, key, value)[0].square().sum().backward()
    rows, theirs = head_gradients(particles), head_gradients(multihead)
    assert rows.shape == theirs.shape == (4, sum(p[0].numel() for p in particles.particle_parameters()))
    # W_O of the particle is M times the head's, so that its gradient is 1/M of the head's
    own = 4 * rows[:, -2 * 8 :]
    torch.testing.assert_close(own, theirs[:, -2 * 8 :])
    assert float(rows.square().sum(1).sub(theirs.square().sum(1)).abs().max()) > 0
    # a head that is not heard has no gradient but in W_O
    with torch.no_grad():
        particles.out_weight[2] = 0.0
    particles.zero_grad()
    particles(query, key, value)[0].square().sum().backward()
    silent = head_gradients(particles)[:, : -2 * 8].abs().amax(1) == 0
    assert silent.tolist() == [False, False, True, False]


def test_gradients_over_batches_are_each_batchs_own() -> None:
    parameter, unused = nn.Parameter(normal(3)), nn.Parameter(normal(2))
    inputs = normal(5, 3, seed=8)
    rows = diversity.gradients_over_batches([lambda x=x: (x * parameter).sum() for x in inputs], [parameter, unused])
    torch.testing.assert_close(rows, torch.cat([inputs, torch.zeros(5, 2, dtype=torch.float64)], 1))
    assert parameter.grad is None


@pytest.mark.parametrize("kind", KINDS)
def test_keeping_some_heads_is_their_mean_and_leaves_no_trace(kind: str) -> None:
    attention, x = layer(kind), normal(2, 5, 8)
    before = copy.deepcopy(attention.state_dict())
    particles = attention if isinstance(attention, ParticleAttention) else ParticleAttention.from_multihead(attention)
    with pruning.kept_only(attention, [2, 0]):
        kept, _ = attention(x, x, x)
    torch.testing.assert_close(kept, particles.keep([0, 2])(x, x, x)[0])
    with pytest.raises(KeyError), pruning.kept_only(attention, [1]):
        raise KeyError
    assert all(torch.equal(value, before[name]) for name, value in attention.state_dict().items())


@pytest.mark.parametrize("kind", KINDS)
def test_the_loss_under_dropping_is_over_repeated_subsets_that_the_seed_names(kind: str) -> None:
    stack, x = model(kind), normal(3, 5, 8, seed=6)

    def loss() -> Tensor:
        return stack(x).square().mean()

    whole = float(loss().detach())
    some, all_ = diversity.loss_under_dropping(stack, loss, [0.5, 1.0], subsets=6, seed=stream(1, "drop"))
    assert some.heads == {"layers.0.self_attn": 2, "layers.1.self_attn": 2} and some.fraction == 0.5
    torch.testing.assert_close(all_.losses, torch.full((6,), whole, dtype=torch.float64))
    assert some.losses.unique().numel() > 1
    again = diversity.loss_under_dropping(stack, loss, [0.5], subsets=6, seed=stream(1, "drop"))
    assert torch.equal(again[0].losses, some.losses)
    other = diversity.loss_under_dropping(stack, loss, [0.5], subsets=6, seed=stream(2, "drop"))
    assert not torch.equal(other[0].losses, some.losses)
    twin = model("particles" if kind == "multihead" else "multihead")
    same = diversity.loss_under_dropping(
        twin, lambda: twin(x).square().mean(), [0.5], subsets=6, seed=stream(1, "drop")
    )
    torch.testing.assert_close(same[0].losses, some.losses)


def test_particles_are_dropped_by_contribution_by_redundancy_and_at_random() -> None:
    sizes = torch.tensor([3.0, 0.1, 2.0, 0.2], dtype=torch.float64)
    outputs = normal(2, 4, 3, 5) * sizes[:, None, None]
    assert pruning.by_contribution(outputs, 2) == [1, 3]
    assert pruning.by_contribution(outputs, 0) == []
    # heads 1 and 2 are nearly the same, and 2 is nearer to the rest
    cosine = torch.tensor([[1.0, 0.1, 0.5, 0.0], [0.1, 1.0, 0.95, 0.2], [0.5, 0.95, 1.0, 0.4], [0.0, 0.2, 0.4, 1.0]])
    assert pruning.by_redundancy(cosine, 1) == [2]
    # of those left the pair (1, 3) is nearest, and 1 is nearer to 0
    assert pruning.by_redundancy(cosine, 2) == [1, 2]
    twins = normal(2, 3, 4, 5).repeat_interleave(2, 1)
    dropped = pruning.by_redundancy(diversity.pairwise_cosine(twins), 3)
    assert [i // 2 for i in dropped] == [0, 1, 2]
    draws = [pruning.by_random_choice(4, 2, torch.Generator().manual_seed(s)) for s in range(60)]
    assert len({tuple(d) for d in draws}) == 6 and draws[0] == pruning.by_random_choice(
        4, 2, torch.Generator().manual_seed(0)
    )
    attention, x = layer("particles"), normal(2, 5, 8)
    assert isinstance(attention, ParticleAttention)
    seen, maps = attention.particle_outputs(x, x, x)
    for drop in (pruning.by_contribution(seen, 2), pruning.by_redundancy(diversity.pairwise_cosine(maps), 2)):
        assert attention.prune(drop).num_heads == 2


@pytest.mark.parametrize(
    ("call", "sentence"),
    [
        (lambda: diversity.pairwise_cosine(torch.ones(3, 4)), "they came as \\(3, 4\\)"),
        (lambda: diversity.mean_cosine(torch.ones(2, 1, 3)), "two heads and more; there is one"),
        (lambda: diversity.effective_rank(torch.zeros(2, 2)), "matrix of zeros"),
        (lambda: diversity.effective_rank(torch.ones(2)), "it came with shape \\(2,\\)"),
        (lambda: diversity.gradient_variance(torch.ones(1, 2)), "it came with 1"),
        (lambda: diversity.roughness([1.0, 2.0]), "three losses and more"),
        (
            lambda: diversity.loss_under_dropping(model("particles"), lambda: 0.0, [1.5], seed=stream(0)),
            "in \\(0, 1\\] and subsets at least 1; they came as \\[1.5\\]",
        ),
        (lambda: pruning.by_random_choice(3, 3), "of 3 particles, 0 to 2 can be dropped"),
        (lambda: pruning.kept_only(layer("particles"), []).__enter__(), "at least one; they came as \\[\\]"),
        (lambda: pruning.kept_only(layer("particles"), [4]).__enter__(), "in \\[0, 4\\)"),
    ],
)
def test_bad_input_is_a_sentence(call: Any, sentence: str) -> None:
    with pytest.raises(InputError, match=sentence):
        call()
