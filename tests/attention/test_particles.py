"""ParticleAttention is nn.MultiheadAttention with a mean over its heads, and every particle stays its own."""

from __future__ import annotations

import copy
from typing import Any

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor, nn

import mfcheck
from mfcheck.attention.attend import attend
from mfcheck.attention.particles import ParticleAttention
from mfcheck.errors import InputError

needs_cuda = pytest.mark.skipif(not torch.cuda.is_available(), reason="torch sees no CUDA device here")
#: Both sides compute in float64: sums of at most 100 products of numbers of order 1, a few of them after another.
TOLERANCE = 1e-12


def generator(seed: int = 0) -> torch.Generator:
    return torch.Generator().manual_seed(seed)


def multihead(d: int, heads: int, seed: int = 0, **options: Any) -> nn.MultiheadAttention:
    """An nn.MultiheadAttention in float64 whose parameters, biases too, are all normal: no zero hides a fault."""
    module = nn.MultiheadAttention(d, heads, dtype=torch.float64, **options)
    draws = generator(seed)
    with torch.no_grad():
        for parameter in module.parameters():
            parameter.copy_(torch.randn(parameter.shape, generator=draws, dtype=torch.float64) / d**0.5)
    return module


def normal(*shape: int, seed: int = 1) -> Tensor:
    return torch.randn(*shape, generator=generator(seed), dtype=torch.float64)


def close(left: Tensor | None, right: Tensor | None) -> None:
    if left is None or right is None:
        assert left is right
        return
    torch.testing.assert_close(left, right, rtol=TOLERANCE, atol=TOLERANCE)


def masks(kind: str, batch: int, heads: int, tokens: int, keys: int) -> dict[str, Tensor]:
    """attn_mask and key_padding_mask of one kind; key 0 is always open, so that no row is empty."""
    padded = torch.rand(batch, keys, generator=generator(2)) < 0.3
    shape = (batch * heads, tokens, keys) if "per head" in kind else (tokens, keys)
    blocked = torch.rand(shape, generator=generator(3)) < 0.3
    padded[:, 0] = False
    blocked[..., 0] = False
    added = {"attn_mask": normal(*shape, seed=4), "key_padding_mask": normal(batch, keys, seed=5)}
    boolean = {"attn_mask": blocked, "key_padding_mask": padded}
    chosen = added if "float" in kind else boolean
    if "float infinite" in kind:
        chosen = {
            name: torch.zeros(mask.shape, dtype=torch.float64).masked_fill(mask, -torch.inf)
            for name, mask in boolean.items()
        }
    return {name: mask for name, mask in chosen.items() if name in kind or "both" in kind}


KINDS = [
    "none",
    "bool attn_mask",
    "bool key_padding_mask",
    "bool both",
    "bool per head both",
    "float attn_mask",
    "float key_padding_mask",
    "float both",
    "float per head attn_mask",
    "float infinite both",
]


@settings(deadline=None, max_examples=60)
@given(
    kind=st.sampled_from(KINDS),
    heads=st.sampled_from([1, 2, 3, 4]),
    width=st.sampled_from([1, 4, 20]),
    # on both sides of the written-out softmax
    tokens=st.sampled_from([1, 5, 33]),
    keys=st.sampled_from([2, 7, 40]),
    crossed=st.sampled_from(["self", "cross", "cross with other widths", "values apart"]),
    batch_first=st.booleans(),
    bias=st.booleans(),
    need_weights=st.booleans(),
    average=st.booleans(),
)
def test_it_computes_what_multihead_attention_does(
    kind: str,
    heads: int,
    width: int,
    tokens: int,
    keys: int,
    crossed: str,
    batch_first: bool,
    bias: bool,
    need_weights: bool,
    average: bool,
) -> None:
    d, batch = heads * width, 2
    other = {"kdim": d + 1, "vdim": d + 2} if "widths" in crossed else {}
    theirs = multihead(d, heads, bias=bias, batch_first=batch_first, **other)
    ours = ParticleAttention.from_multihead(theirs)
    if crossed == "self":
        keys = tokens = max(tokens, 2)

    def tensor(count: int, size: int, seed: int) -> Tensor:
        made = normal(batch, count, size, seed=seed)
        return (made if batch_first else made.transpose(0, 1)).requires_grad_()

    query = tensor(tokens, d, 6)
    if crossed == "self":
        key = value = query
    elif crossed == "cross":
        key = value = tensor(keys, d, 7)
    else:
        key, value = tensor(keys, theirs.kdim, 7), tensor(keys, theirs.vdim, 8)
    options: dict[str, Any] = masks(kind, batch, heads, tokens, keys)
    options |= {"need_weights": need_weights, "average_attn_weights": average}
    outputs, gradients = [], []
    for module in (theirs, ours, ours.to_multihead()):
        query.grad = None
        output, maps = module(query, key, value, **options)
        (output * normal(*output.shape, seed=9)).sum().backward()
        outputs.append((output.detach(), None if maps is None else maps.detach()))
        gradients.append(query.grad)
    for (output, maps), gradient in zip(outputs[1:], gradients[1:], strict=True):
        close(output, outputs[0][0])
        close(maps, outputs[0][1])
        close(gradient, gradients[0])


@pytest.mark.parametrize("heads", [1, 2, 3, 5, 8])
@pytest.mark.parametrize("other", [{}, {"kdim": 7, "vdim": 9}])
@pytest.mark.parametrize("bias", [True, False])
def test_there_and_back_is_the_same_parameters(heads: int, other: dict[str, int], bias: bool) -> None:
    theirs = multihead(heads * 4, heads, bias=bias, **other)
    back = ParticleAttention.from_multihead(theirs).to_multihead()
    for (name, before), (same, after) in zip(theirs.named_parameters(), back.named_parameters(), strict=True):
        assert name == same
        # (w M) / M rounds twice, and not at all where M is a power of 2
        few = 0.0 if heads & (heads - 1) == 0 else 2.0**-52
        torch.testing.assert_close(after, before, rtol=few, atol=0.0)


def test_conversion_keeps_mode_dtype_layout_dropout_and_what_is_frozen() -> None:
    theirs = nn.MultiheadAttention(8, 2, dropout=0.25, batch_first=True, dtype=torch.bfloat16).eval()
    theirs.in_proj_weight.requires_grad_(False)
    ours = ParticleAttention.from_multihead(theirs)
    assert ours.qkv_weight is not None
    assert not ours.training and not ours.qkv_weight.requires_grad and ours.out_weight.requires_grad
    back = ours.to_multihead()
    assert (back.dropout, back.batch_first, back.training) == (0.25, True, False)
    assert back.in_proj_weight.dtype == torch.bfloat16 and not back.in_proj_weight.requires_grad


@pytest.mark.parametrize("tokens", [6, 40])
@pytest.mark.parametrize("need_weights", [True, False])
@pytest.mark.parametrize("padded", [True, False])
def test_causal_attention_needs_no_mask_and_takes_one_as_multihead_attention_does(
    tokens: int, need_weights: bool, padded: bool
) -> None:
    theirs = multihead(12, 3, batch_first=True)
    ours = ParticleAttention.from_multihead(theirs)
    x, triangle = normal(2, tokens, 12), torch.ones(tokens, tokens, dtype=torch.bool).triu(1)
    padding = {"key_padding_mask": torch.arange(tokens).expand(2, -1) == 3} if padded else {}
    options: dict[str, Any] = {"need_weights": need_weights, "is_causal": True, **padding}
    expected, _ = theirs(x, x, x, attn_mask=triangle, **options)
    close(ours(x, x, x, attn_mask=triangle, **options)[0], expected)
    close(ours(x, x, x, **options)[0], expected)


@pytest.mark.parametrize("batch_first", [True, False])
@pytest.mark.parametrize("average", [True, False])
def test_unbatched_tokens_go_through_as_in_multihead_attention(batch_first: bool, average: bool) -> None:
    theirs = multihead(6, 2, batch_first=batch_first)
    ours = ParticleAttention.from_multihead(theirs)
    query, key = normal(5, 6), normal(4, 6, seed=2)
    padding = torch.tensor([False, True, False, False])
    for left, right in zip(
        theirs(query, key, key, key_padding_mask=padding, average_attn_weights=average),
        ours(query, key, key, key_padding_mask=padding, average_attn_weights=average),
        strict=True,
    ):
        close(left, right)


@pytest.mark.parametrize("tokens", [4, 40])
@pytest.mark.parametrize("need_weights", [True, False])
def test_a_query_that_may_look_nowhere_gets_the_bias_and_no_nan(tokens: int, need_weights: bool) -> None:
    ours = ParticleAttention.from_multihead(multihead(8, 2, batch_first=True))
    x, padding = normal(2, tokens, 8).requires_grad_(), torch.zeros(2, tokens, dtype=torch.bool)
    padding[0] = True
    output, _ = ours(x, x, x, key_padding_mask=padding, need_weights=need_weights)
    output.square().sum().backward()
    assert ours.out_bias is not None
    close(output[0], ours.out_bias.expand(tokens, 8))
    assert all(bool(p.grad.isfinite().all()) for p in [x, *ours.parameters()] if p.grad is not None)


@pytest.mark.parametrize(("tokens", "width"), [(32, 16), (33, 16), (32, 17)])
@pytest.mark.parametrize("kind", ["none", "causal", "bool", "float"])
def test_both_kernels_agree(tokens: int, width: int, kind: str) -> None:
    q, k, v = (normal(2, 3, tokens, width, seed=seed) for seed in range(3))
    mask = {"bool": normal(tokens, tokens) > -1.0, "float": normal(2, 1, tokens, tokens)}.get(kind)
    fused, nothing = attend(q, k, v, mask, causal=kind == "causal")
    written, maps = attend(q, k, v, mask, causal=kind == "causal", need_weights=True)
    assert nothing is None and maps is not None
    close(fused, written)
    close(maps @ v, written)


@pytest.mark.parametrize("other", [{}, {"kdim": 5, "vdim": 3}])
@pytest.mark.parametrize("batch_first", [True, False])
def test_the_output_is_the_mean_over_particles_each_alone(other: dict[str, int], batch_first: bool) -> None:
    ours = ParticleAttention(8, 3, head_dim=6, batch_first=batch_first, dtype=torch.float64, **other)
    with torch.no_grad():
        for parameter in ours.parameters():
            parameter.copy_(normal(*parameter.shape, seed=parameter.numel()))
    query, key, value = normal(4, 4, 8), normal(4, 4, ours.kdim, seed=2), normal(4, 4, ours.vdim, seed=3)
    outputs, maps = ours.particle_outputs(query, key, value)
    assert outputs.shape == (4, 3, 4, 8) and maps.shape == (4, 3, 4, 4)
    whole, _ = ours(query, key, value)
    mean = outputs.mean(1) + ours.out_bias
    close(whole, mean if batch_first else mean.transpose(0, 1))
    for i in range(3):
        alone, _ = ours.keep([i])(query, key, value)
        single = outputs[:, i] + ours.out_bias
        close(alone, single if batch_first else single.transpose(0, 1))


def test_keep_prune_and_subsample_choose_particles_and_leave_the_layer_alone() -> None:
    ours = ParticleAttention(8, 4, batch_first=True, dtype=torch.float64).eval()
    before = copy.deepcopy(ours.state_dict())
    x = normal(2, 5, 8)
    outputs, _ = ours.particle_outputs(x, x, x)
    close(ours.keep([3, 1])(x, x, x)[0], outputs[:, [1, 3]].mean(1) + ours.out_bias)
    close(ours.prune(torch.tensor([0, 2]))(x, x, x)[0], outputs[:, [1, 3]].mean(1) + ours.out_bias)
    half = ours.subsample(2, generator(4))
    again = ours.subsample(2, generator(4))
    assert half.num_heads == 2 and not half.training
    close(half(x, x, x)[0], again(x, x, x)[0])
    drawn = {tuple(ours.subsample(2, generator(seed)).out_weight[:, 0, 0].tolist()) for seed in range(60)}
    # each of the 6 pairs is missed by 60 draws with probability (5/6)^60 = 2e-5, and these seeds are fixed
    assert len(drawn) == 6
    half.out_weight.data.zero_()
    for name, value in ours.state_dict().items():
        assert torch.equal(value, before[name])


def test_it_drops_into_transformer_layers_in_training_and_evaluation() -> None:
    options: dict[str, Any] = {"dim_feedforward": 24, "dropout": 0.0, "batch_first": True, "dtype": torch.float64}
    theirs = nn.TransformerEncoderLayer(12, 4, **options)
    ours = copy.deepcopy(theirs)
    ours.self_attn = ParticleAttention.from_multihead(theirs.self_attn)  # type: ignore[assignment]
    x, padding = normal(2, 7, 12), torch.arange(7).expand(2, -1) >= 5
    square = nn.Transformer.generate_square_subsequent_mask(7, dtype=torch.float64)
    for training in (True, False):
        theirs.train(training), ours.train(training)
        with torch.set_grad_enabled(training):
            close(ours(x), theirs(x))
            close(ours(x, src_mask=square, is_causal=True), theirs(x, src_mask=square, is_causal=True))
            close(ours(x, src_key_padding_mask=padding)[:, :5], theirs(x, src_key_padding_mask=padding)[:, :5])
    stack = nn.TransformerEncoder(ours, 2, enable_nested_tensor=False).eval()
    with torch.no_grad():
        close(stack(x), stack.layers[1](stack.layers[0](x)))
    decoder = nn.TransformerDecoderLayer(12, 4, **options)
    swapped = copy.deepcopy(decoder)
    for name in ("self_attn", "multihead_attn"):
        setattr(swapped, name, ParticleAttention.from_multihead(getattr(decoder, name)))
    close(swapped(x, normal(2, 4, 12)), decoder(x, normal(2, 4, 12)))


def test_the_initial_law_of_a_particle_does_not_depend_on_how_many_there_are() -> None:
    torch.manual_seed(0)
    for heads in (2, 16):
        ours = ParticleAttention(64, heads, head_dim=32)
        for weight, fan in ((ours.query_weight, 64), (ours.value_weight, 64), (ours.out_weight, 32)):
            # a variance from n normals errs by sqrt(2/n); 6 of those
            assert abs(float(weight.detach().var()) * fan - 1) < 6 * (2 / weight.numel()) ** 0.5
        assert ours.qkv_bias is not None and not ours.qkv_bias.any()


def test_every_parameter_gets_a_gradient_and_particles_lead_every_particle_parameter() -> None:
    for other in ({}, {"kdim": 5, "vdim": 3}):
        ours = ParticleAttention(8, 4, **other)
        output, _ = ours(torch.randn(3, 2, 8), torch.randn(3, 2, ours.kdim), torch.randn(3, 2, ours.vdim))
        output.sum().backward()
        assert all(parameter.grad is not None for parameter in ours.parameters())
        assert all(parameter.shape[0] == 4 for parameter in ours.particle_parameters())
        apart = {id(p) for p in ours.parameters()} - {id(p) for p in ours.particle_parameters()}
        assert apart == {id(ours.out_bias)}


def test_state_dict_deepcopy_and_device_options() -> None:
    ours, other = ParticleAttention(8, 2), ParticleAttention(8, 2)
    x = torch.randn(3, 1, 8)
    other.load_state_dict(ours.state_dict())
    assert torch.equal(ours(x, x, x)[0], other(x, x, x)[0])
    assert torch.equal(copy.deepcopy(ours)(x, x, x)[0], other(x, x, x)[0])
    meta = ParticleAttention(8, 2, device="meta", dtype=torch.float16)
    assert {(p.device.type, p.dtype) for p in meta.parameters()} == {("meta", torch.float16)}


@pytest.mark.parametrize("tokens", [8, 40])
@pytest.mark.parametrize("need_weights", [True, False])
def test_autocast_runs_in_bfloat16_and_stays_near(tokens: int, need_weights: bool) -> None:
    torch.manual_seed(1)
    ours = ParticleAttention(16, 4, batch_first=True)
    x, padding = torch.randn(2, tokens, 16), torch.zeros(2, tokens).masked_fill(torch.arange(tokens) > 5, -torch.inf)
    expected, _ = ours(x, x, x, key_padding_mask=padding)
    with torch.autocast("cpu", torch.bfloat16):
        output, _ = ours(x, x, x, key_padding_mask=padding, need_weights=need_weights)
    output.float().square().sum().backward()
    assert output.dtype == torch.bfloat16 and ours.out_weight.grad is not None
    # a few roundings of 2^-8 each of numbers of order the output's
    expected = expected.detach()
    assert float((output.detach() - expected).abs().max()) < 8 * 2.0**-8 * float(expected.abs().max())


def test_dropout_acts_in_training_alone_and_keeps_the_mean() -> None:
    torch.manual_seed(2)
    ours = ParticleAttention(8, 2, dropout=0.5, batch_first=True, dtype=torch.float64)
    x = normal(1, 6, 8)
    expected, _ = ours.eval()(x, x, x)
    assert torch.equal(expected, ours(x, x, x)[0])
    ours.train()
    with torch.no_grad():
        draws = torch.stack([ours(x, x, x, need_weights=need)[0] for need in (True, False) for _ in range(2000)])
    error = draws.std(0) / len(draws) ** 0.5
    assert bool(((draws.mean(0) - expected).abs() < 6 * error).all()) and bool((error > 0).all())


@pytest.mark.parametrize("tokens", [8, 40])
def test_it_compiles_without_a_graph_break(tokens: int) -> None:
    ours = ParticleAttention(8, 2, batch_first=True, dtype=torch.float64)
    # the eager backend traces as any other does and needs no compiler on the machine
    compiled = torch.compile(ours, backend="eager", fullgraph=True)
    x, blocked = normal(2, tokens, 8), torch.ones(tokens, tokens, dtype=torch.bool).triu(1)
    close(compiled(x, x, x, need_weights=False)[0], ours(x, x, x)[0])
    close(compiled(x, x, x, attn_mask=blocked)[0], ours(x, x, x, attn_mask=blocked)[0])


@pytest.mark.parametrize(
    ("make", "sentence"),
    [
        (lambda: ParticleAttention(8, 3), "multiple of num_heads; they came as 8 and 3"),
        (lambda: ParticleAttention(8, 0), "num_heads and head_dim are >= 1"),
        (lambda: ParticleAttention(8, 2, dropout=1.0), "probability in \\[0, 1\\); it came as 1"),
        (lambda: ParticleAttention(8, 2, add_bias_kv=True), "add_bias_kv and add_zero_attn must be False"),
        (lambda: ParticleAttention(8, 2, head_dim=3).to_multihead(), "2 particles of width 3 make 6"),
        (
            lambda: ParticleAttention.from_multihead(nn.MultiheadAttention(8, 2, add_bias_kv=True)),
            "tokens that no law mu has",
        ),
        (lambda: ParticleAttention(8, 2).keep([]), "at least one of the 2 particles"),
        (lambda: ParticleAttention(8, 2).prune([0, 0]), "each once; they came as \\[0, 0\\]"),
        (lambda: ParticleAttention(8, 2).prune([2]), "in \\[0, 2\\)"),
        (lambda: ParticleAttention(8, 2).prune([0, 1]), "at least one"),
        (lambda: ParticleAttention(8, 2).subsample(3), "m in \\[1, 2\\]"),
        (lambda: ParticleAttention(8, 2)(*[torch.ones(2, 3, 7)] * 3), "of widths \\(8, 8, 8\\)"),
        (lambda: ParticleAttention(8, 2)(torch.ones(2, 3, 8), *[torch.ones(2, 4, 8)] * 2), "they came as"),
        (
            lambda: ParticleAttention(8, 2)(*[torch.ones(3, 1, 8)] * 3, attn_mask=torch.ones(2, 3)),
            "attn_mask is .* it came as \\(2, 3\\)",
        ),
        (
            lambda: ParticleAttention(8, 2)(*[torch.ones(3, 1, 8)] * 3, key_padding_mask=torch.ones(3, 1)),
            "key_padding_mask is",
        ),
        (
            lambda: ParticleAttention(8, 2)(*[torch.ones(3, 1, 8)] * 3, attn_mask=torch.ones(3, 3, dtype=torch.int)),
            "it came as torch.int32",
        ),
    ],
)
def test_bad_input_is_a_sentence(make: Any, sentence: str) -> None:
    with pytest.raises(InputError, match=sentence):
        make()


def test_it_is_a_public_name() -> None:
    assert mfcheck.ParticleAttention is ParticleAttention


@pytest.mark.gpu
@needs_cuda
@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
@pytest.mark.parametrize("tokens", [8, 64])
def test_on_the_gpu_it_is_multihead_attention_too(dtype: torch.dtype, tokens: int) -> None:
    theirs = nn.MultiheadAttention(32, 4, batch_first=True, device="cuda")
    ours = ParticleAttention.from_multihead(theirs)
    x = torch.randn(2, tokens, 32, device="cuda")
    padding = (torch.arange(tokens, device="cuda") > 5).expand(2, -1)
    with torch.autocast("cuda", dtype, enabled=dtype != torch.float32):
        expected, output = (m(x, x, x, key_padding_mask=padding, need_weights=False)[0] for m in (theirs, ours))
    few = 1e-4 if dtype == torch.float32 else 8 * 2.0**-8
    torch.testing.assert_close(output.float(), expected.float(), rtol=few, atol=few)
    assert ours.keep([0]).out_weight.is_cuda and ours.subsample(2).num_heads == 2
