"""Heads made of torch modules."""

from __future__ import annotations

import pytest
import torch
from torch import Tensor, nn

from mfcheck.errors import InputError
from mfcheck.heads import flat_parameters, matrix_softmax, module_head, multihead_attention

EPS = torch.finfo(torch.float64).eps


class Matrices(nn.Module):
    """The matrix head, written as a module that knows nothing of batches."""

    def __init__(self) -> None:
        super().__init__()
        self.logits = nn.Parameter(torch.randn(2, 2).double())
        self.value = nn.Parameter(torch.randn(2, 2).double())

    def forward(self, x: Tensor, tokens: Tensor, weights: Tensor) -> Tensor:
        shares = torch.softmax(tokens @ self.logits.T @ x + weights.log(), 0)
        return self.value @ (shares @ tokens)


def draws(*shapes: tuple[int, ...]) -> list[Tensor]:
    generator = torch.Generator().manual_seed(1)
    return [torch.randn(shape, generator=generator).double() for shape in shapes]


def test_a_module_is_the_head_that_it_writes_out() -> None:
    x, tokens, theta = draws((5, 2), (5, 3, 2), (4, 1, 8))
    head = module_head(Matrices(), 2)
    assert head.parameter_dimension == 8
    assert (head(theta, x, tokens) - matrix_softmax(2)(theta, x, tokens)).abs().max() <= 1e3 * EPS


def test_flat_parameters_are_the_module() -> None:
    module = Matrices()
    x, tokens = draws((2,), (3, 2))
    weights = torch.full((3,), 1 / 3).double()
    expected = module(x, tokens, weights)
    assert torch.allclose(module_head(module, 2)(flat_parameters(module), x, tokens), expected, atol=1e2 * EPS)


@pytest.mark.parametrize("heads", [1, 2])
def test_multihead_attention_is_torchs_own_call(heads: int) -> None:
    layer = nn.MultiheadAttention(4, heads, dtype=torch.float64)
    x, tokens = draws((5, 4), (5, 3, 4))
    head = multihead_attention(layer)
    # queries and sequences as a batch, in torch's order [length, batch, width]
    expected, _ = layer(x[None], tokens.movedim(1, 0), tokens.movedim(1, 0))
    assert (head(flat_parameters(layer), x, tokens) - expected[0]).abs().max() <= 1e3 * EPS


def test_multihead_attention_reads_a_law() -> None:
    layer = nn.MultiheadAttention(4, 2, dtype=torch.float64)
    x, tokens = draws((4,), (3, 4))
    head, theta = multihead_attention(layer), flat_parameters(layer)
    weights = torch.tensor([0.5, 0.25, 0.25]).double()
    listed = tokens[torch.tensor([0, 0, 1, 2])]
    assert (head(theta, x, tokens, weights) - head(theta, x, listed)).abs().max() <= 1e3 * EPS
    ignored = head(theta, x, torch.cat([tokens, 1e2 * tokens[:1]]), torch.cat([weights, torch.zeros(1).double()]))
    assert (head(theta, x, tokens, weights) - ignored).abs().max() <= 1e3 * EPS


def test_gradients_reach_theta_through_the_module() -> None:
    layer = nn.MultiheadAttention(2, 1, dtype=torch.float64)
    x, tokens, theta = draws((2,), (3, 2), (2, flat_parameters(layer).numel()))
    head = multihead_attention(layer)
    weights = torch.full((3,), 1 / 3).double()
    assert torch.autograd.gradcheck(lambda t: head.function(t, x, tokens, weights), theta.requires_grad_(True))


def test_what_is_no_head_is_a_sentence() -> None:
    with pytest.raises(InputError, match="Identity has no parameters"):
        module_head(nn.Identity(), 2)
    with pytest.raises(InputError, match="of one width and no added tokens; it came with embed_dim 4, kdim 3"):
        multihead_attention(nn.MultiheadAttention(4, 1, kdim=3))
    with pytest.raises(InputError, match="add_zero_attn True"):
        multihead_attention(nn.MultiheadAttention(4, 1, add_zero_attn=True))
