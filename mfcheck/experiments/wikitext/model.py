"""A plain pre-norm Transformer language model whose attention is nn.MultiheadAttention or ParticleAttention."""

from __future__ import annotations

import math
from dataclasses import dataclass

import torch
import torch.nn.functional as F
from jaxtyping import Float, Int
from torch import Tensor, nn
from torch.nn.utils import parametrize

from mfcheck.attention.particles import ParticleAttention
from mfcheck.errors import InputError
from mfcheck.statistics.seeds import Stream

#: multihead_mean is nn.MultiheadAttention whose parameters hold W_O times the number of heads, as those of a mean do.
ATTENTIONS = ("multihead", "multihead_mean", "particles")
#: Standard deviation of embeddings and weights at the start, times sqrt(d): GPT-2's 0.02 at its d = 768 (Radford et
#: al. 2019). Of those that write into the residual stream it is divided by sqrt(2 layers), so that it does not grow.
INITIAL_SCALE = 0.5


@dataclass(frozen=True)
class Shape:
    """The sizes of a model: vocabulary, context (tokens), width d, layers, hidden width of the MLP, dropout,
    attention (one of ATTENTIONS), heads M and head width h. Raises InputError where they do not fit."""

    vocabulary: int
    context: int
    width: int
    layers: int
    hidden: int
    attention: str
    heads: int
    head_width: int
    dropout: float = 0.0

    def __post_init__(self) -> None:
        sizes = (self.vocabulary, self.context, self.width, self.layers, self.hidden, self.heads, self.head_width)
        if min(sizes) < 1:
            raise InputError(f"a model's sizes are whole numbers >= 1; they came as {self}")
        if self.attention not in ATTENTIONS:
            raise InputError(f"attention is one of {', '.join(ATTENTIONS)}; it came as {self.attention!r}")
        if self.attention != "particles" and self.heads * self.head_width != self.width:
            raise InputError(
                f"nn.MultiheadAttention has heads of width d / heads; {self.heads} heads of {self.head_width} do not "
                f"make {self.width}"
            )
        if not 0 <= self.dropout < 1:
            raise InputError(f"dropout is a probability in [0, 1); it came as {self.dropout}")


class Block(nn.Module):
    """x + attention(norm x), then x + MLP(norm x)."""

    def __init__(self, shape: Shape) -> None:
        super().__init__()
        self.norm_1 = nn.LayerNorm(shape.width)
        if shape.attention != "particles":
            self.attention: nn.Module = nn.MultiheadAttention(shape.width, shape.heads, batch_first=True)
        else:
            self.attention = ParticleAttention(shape.width, shape.heads, batch_first=True, head_dim=shape.head_width)
        self.norm_2 = nn.LayerNorm(shape.width)
        self.up = nn.Linear(shape.width, shape.hidden)
        self.down = nn.Linear(shape.hidden, shape.width)
        self.dropout = nn.Dropout(shape.dropout)

    def forward(self, x: Float[Tensor, "B N d"], mask: Tensor) -> Float[Tensor, "B N d"]:
        y = self.norm_1(x)
        attended, _ = self.attention(y, y, y, attn_mask=mask, is_causal=True, need_weights=False)
        # a mask of dropout is drawn in the order of memory, which nn.MultiheadAttention turns round
        x = x + self.dropout(attended.contiguous())
        return x + self.dropout(self.down(F.gelu(self.up(self.norm_2(x)))))


class LanguageModel(nn.Module):
    """Tokens [B, N] to the logits of the next token [B, N, V]; the embedding is also the output layer (tied)."""

    mask: Tensor

    def __init__(self, shape: Shape) -> None:
        super().__init__()
        self.shape = shape
        self.token_embedding = nn.Embedding(shape.vocabulary, shape.width)
        self.position_embedding = nn.Embedding(shape.context, shape.width)
        self.dropout = nn.Dropout(shape.dropout)
        self.blocks = nn.ModuleList(Block(shape) for _ in range(shape.layers))
        self.norm = nn.LayerNorm(shape.width)
        # True where a query may not look: the tokens after it
        mask = torch.ones(shape.context, shape.context, dtype=torch.bool).triu(1)
        self.register_buffer("mask", mask, persistent=False)

    def forward(self, tokens: Int[Tensor, "B N"]) -> Float[Tensor, "B N V"]:
        count = tokens.shape[1]
        x = self.dropout(self.token_embedding(tokens) + self.position_embedding.weight[:count])
        mask = self.mask[:count, :count]
        for block in self.blocks:
            x = block(x, mask)
        return F.linear(self.norm(x), self.token_embedding.weight)

    def loss(self, tokens: Int[Tensor, "B N1"], reduction: str = "mean") -> Tensor:
        """Cross-entropy in nats of every token after the first given those before it, for windows [B, N + 1]."""
        logits = self(tokens[:, :-1])
        return F.cross_entropy(logits.flatten(0, 1), tokens[:, 1:].flatten(), reduction=reduction)


def initial_model(shape: Shape, source: Stream) -> LanguageModel:
    """The model at the start of training: every matrix drawn from a stream of its own name, biases 0, norms 1.

    Arms that share a seed start from the same numbers wherever their shapes agree. Attention with M h = d starts as
    the same function of the token in all arms of equal M: particles are made from an nn.MultiheadAttention, their W_O
    taking the factor M of the mean.
    """
    model = LanguageModel(shape)
    sd = INITIAL_SCALE / math.sqrt(shape.width)
    writes = sd / math.sqrt(2 * shape.layers)
    for name, parameter in model.named_parameters():
        if name.endswith("bias"):
            nn.init.zeros_(parameter)  # nn.Linear draws its own, from torch's global generator
        elif ".attention." not in name and parameter.ndim > 1:
            _draw(parameter, writes if name.endswith("down.weight") else sd, source.child(name))
    for index, block in enumerate(model.blocks):
        assert isinstance(block, Block)
        _draw_attention(block.attention, shape, sd, writes, source.child("attention", index))
        if isinstance(block.attention, nn.MultiheadAttention) and shape.attention == "multihead_mean":
            parametrize.register_parametrization(block.attention.out_proj, "weight", _MeanOf(shape.heads))
    return model


def as_applied(model: LanguageModel) -> None:
    """Ends a training: W_O that was held M-fold becomes what it is applied as, and the model an ordinary one."""
    for block in model.blocks:
        assert isinstance(block, Block)
        output = getattr(block.attention, "out_proj", None)
        if isinstance(output, nn.Module) and parametrize.is_parametrized(output):
            parametrize.remove_parametrizations(output, "weight", leave_parametrized=True)


class _MeanOf(nn.Module):
    """W_O as the mean's: what is trained is M times what is applied, so that an optimiser's step is M times smaller."""

    def __init__(self, heads: int) -> None:
        super().__init__()
        self.heads = heads

    def forward(self, trained: Tensor) -> Tensor:
        return trained / self.heads

    def right_inverse(self, applied: Tensor) -> Tensor:
        return applied * self.heads


@torch.no_grad()
def _draw_attention(attention: nn.Module, shape: Shape, sd: float, writes: float, source: Stream) -> None:
    if isinstance(attention, nn.MultiheadAttention):
        _draw(attention.in_proj_weight, sd, source.child("in"))
        _draw(attention.out_proj.weight, writes, source.child("out"))
        return
    assert isinstance(attention, ParticleAttention)
    if shape.heads * shape.head_width == shape.width:
        same = nn.MultiheadAttention(shape.width, shape.heads, batch_first=True)
        _draw_attention(same, shape, sd, writes, source)
        attention.load_state_dict(ParticleAttention.from_multihead(same).state_dict())
        return
    assert attention.qkv_weight is not None
    _draw(attention.qkv_weight, sd, source.child("in"))
    # the mean over M particles of M-fold outputs is a sum of M heads, as it is with nn.MultiheadAttention
    _draw(attention.out_weight, writes * shape.heads, source.child("out"))


@torch.no_grad()
def _draw(parameter: Tensor, sd: float, source: Stream) -> None:
    parameter.normal_(0.0, sd, generator=source.torch())
