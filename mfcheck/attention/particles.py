"""ParticleAttention: M particles, each one head with its own W_Q, W_K, W_V, W_O; the output is their mean."""

from __future__ import annotations

import copy
from collections.abc import Sequence
from typing import Any

import torch
import torch.nn.functional as F
from jaxtyping import Float
from torch import Tensor, nn
from torch.nn import Parameter

from mfcheck.attention.attend import attend, joined_mask
from mfcheck.attention.multihead import from_multihead, to_multihead
from mfcheck.errors import InputError


class ParticleAttention(nn.Module):
    """V_M(x) = (1/M) sum_i v_{theta_i}(x; mu), with signature and conventions of torch.nn.MultiheadAttention.

    Particle i is theta_i = (W_Q, W_K, W_V, W_O)_i and the biases of the first three; v_i(x) = softmax(q k' / sqrt(h))
    v W_O. Every particle parameter has the particles as its leading axis: qkv_weight [M, 3, h, d] (or q_weight,
    k_weight, v_weight [M, h, width] where keys or values have another width than queries), qkv_bias [M, 3, h] and
    out_weight [M, h, d]. out_bias [d] belongs to the layer and to no particle. Residual and normalisation are the
    block's around it.

    embed_dim: d. num_heads: M. head_dim: h, d / M unless given. Otherwise as nn.MultiheadAttention, but for
    add_bias_kv and add_zero_attn, which are refused (an added token belongs to no law mu). The initial law of a
    particle does not depend on M: W_Q, W_K, W_V ~ N(0, 1 / width of their input), W_O ~ N(0, 1/h), biases 0.
    Raises InputError where sizes do not fit.
    """

    # nn.TransformerEncoderLayer, in evaluation, hands the weights of an nn.MultiheadAttention to a fused kernel that
    # knows nothing of particles; what it asks first is these two, which send it to forward
    in_proj_bias = None
    _qkv_same_embed_dim = False

    qkv_weight: Parameter | None
    q_weight: Parameter | None
    k_weight: Parameter | None
    v_weight: Parameter | None
    qkv_bias: Parameter | None
    out_weight: Parameter
    out_bias: Parameter | None

    def __init__(
        self,
        embed_dim: int,
        num_heads: int,
        dropout: float = 0.0,
        bias: bool = True,
        add_bias_kv: bool = False,
        add_zero_attn: bool = False,
        kdim: int | None = None,
        vdim: int | None = None,
        batch_first: bool = False,
        device: torch.device | str | None = None,
        dtype: torch.dtype | None = None,
        *,
        head_dim: int | None = None,
    ) -> None:
        super().__init__()
        if add_bias_kv or add_zero_attn:
            raise InputError("particles attend to the tokens of mu alone; add_bias_kv and add_zero_attn must be False")
        if embed_dim < 1 or num_heads < 1 or (head_dim is not None and head_dim < 1):
            raise InputError(
                f"embed_dim, num_heads and head_dim are >= 1; they came as {embed_dim}, {num_heads}, {head_dim}"
            )
        if head_dim is None and embed_dim % num_heads:
            raise InputError(
                f"without a head_dim, embed_dim is a multiple of num_heads; they came as {embed_dim} and {num_heads}"
            )
        if not 0 <= dropout < 1:
            raise InputError(f"dropout is a probability in [0, 1); it came as {dropout}")
        self.embed_dim = embed_dim
        self.num_heads = num_heads
        self.head_dim = head_dim if head_dim is not None else embed_dim // num_heads
        self.kdim = kdim if kdim is not None else embed_dim
        self.vdim = vdim if vdim is not None else embed_dim
        self.dropout = float(dropout)
        self.batch_first = batch_first
        made: dict[str, Any] = {"device": device, "dtype": dtype}
        m, h, d = num_heads, self.head_dim, embed_dim
        packed = self.kdim == self.vdim == d
        self.qkv_weight = Parameter(torch.empty(m, 3, h, d, **made)) if packed else None
        for name, width in (("q_weight", d), ("k_weight", self.kdim), ("v_weight", self.vdim)):
            setattr(self, name, None if packed else Parameter(torch.empty(m, h, width, **made)))
        self.qkv_bias = Parameter(torch.empty(m, 3, h, **made)) if bias else None
        self.out_weight = Parameter(torch.empty(m, h, d, **made))
        self.out_bias = Parameter(torch.empty(d, **made)) if bias else None
        self.reset_parameters()

    @torch.no_grad()
    def reset_parameters(self) -> None:
        """Draws every particle afresh from the initial law, by torch's global generator."""
        for weight in (self.qkv_weight, self.q_weight, self.k_weight, self.v_weight):
            if weight is not None:
                weight.normal_(0.0, weight.shape[-1] ** -0.5)
        self.out_weight.normal_(0.0, self.head_dim**-0.5)
        for bias in (self.qkv_bias, self.out_bias):
            if bias is not None:
                bias.zero_()

    def forward(
        self,
        query: Tensor,
        key: Tensor,
        value: Tensor,
        key_padding_mask: Tensor | None = None,
        need_weights: bool = True,
        attn_mask: Tensor | None = None,
        average_attn_weights: bool = True,
        is_causal: bool = False,
    ) -> tuple[Tensor, Tensor | None]:
        """The mean over particles, and with need_weights the attention maps; arguments as nn.MultiheadAttention's.

        query [L, B, d], key [S, B, kdim], value [S, B, vdim]; [B, L, d] and so on with batch_first, [L, d] unbatched.
        Returns the output in query's layout and the maps [B, L, S], averaged over the particles, or [B, M, L, S] with
        average_attn_weights=False ([L, S], [M, L, S] unbatched), or None. is_causal says that attn_mask is the causal
        one; without attn_mask it applies it. A query that may look nowhere gets the output bias alone.
        """
        context, maps = self._attend(
            query, key, value, key_padding_mask, attn_mask, is_causal=is_causal, need_weights=need_weights
        )
        batched = query.ndim == 3
        # [B, M, L, h] -> the layout of query with all particles' contexts side by side
        order = (0, 2, 1, 3) if self.batch_first or not batched else (2, 0, 1, 3)
        beside = context.permute(order).flatten(-2)
        # one product sums over particles and h; the mean's 1/M goes into the smallest of the factors
        output = F.linear(beside, (self.out_weight / self.num_heads).flatten(0, 1).t(), self.out_bias)
        if maps is not None and average_attn_weights:
            maps = maps.mean(1)
        if not batched:
            output, maps = output.squeeze(0), None if maps is None else maps.squeeze(0)
        return output, maps

    def particle_outputs(
        self,
        query: Tensor,
        key: Tensor,
        value: Tensor,
        key_padding_mask: Tensor | None = None,
        attn_mask: Tensor | None = None,
        is_causal: bool = False,
    ) -> tuple[Float[Tensor, "B M L d"], Float[Tensor, "B M L S"]]:
        """v_i(x) of every particle [B, M, L, d] and its maps [B, M, L, S]; forward is the first's mean plus out_bias.

        Arguments as forward's; batch and particles come first whatever the layout of query, with B = 1 unbatched.
        """
        context, maps = self._attend(query, key, value, key_padding_mask, attn_mask, is_causal, need_weights=True)
        assert maps is not None
        return torch.einsum("bmlh,mhd->bmld", context, self.out_weight), maps

    def particle_parameters(self) -> list[Parameter]:
        """The parameters that make up the particles, each [M, ...]: what Langevin moves."""
        named = (self.qkv_weight, self.q_weight, self.k_weight, self.v_weight, self.qkv_bias, self.out_weight)
        return [parameter for parameter in named if parameter is not None]

    @property
    def query_weight(self) -> Float[Tensor, "M h d"]:
        """W_Q of every particle, transposed: a view of the parameter."""
        return self._weight(0)

    @property
    def key_weight(self) -> Float[Tensor, "M h kdim"]:
        """W_K of every particle, transposed: a view of the parameter."""
        return self._weight(1)

    @property
    def value_weight(self) -> Float[Tensor, "M h vdim"]:
        """W_V of every particle, transposed: a view of the parameter."""
        return self._weight(2)

    def keep(self, indices: Sequence[int] | Tensor) -> ParticleAttention:
        """A new layer of the particles at these indices, in this order: the mean over them alone.

        Raises InputError where an index is out of range or twice there, or none is left.
        """
        chosen = self._indices(indices)
        if not chosen:
            raise InputError(f"at least one of the {self.num_heads} particles must be kept; none was")
        kept = copy.deepcopy(self)
        kept.num_heads = len(chosen)
        for name, parameter in self.named_parameters(recurse=False):
            if name != "out_bias":
                part = parameter.detach()[torch.tensor(chosen, device=parameter.device)]
                setattr(kept, name, Parameter(part, parameter.requires_grad))
        return kept

    def prune(self, indices: Sequence[int] | Tensor) -> ParticleAttention:
        """A new layer without the particles at these indices. Raises InputError as `keep` does.

        `mfcheck.attention.pruning` names them: by random choice, by contribution, by redundancy.
        """
        dropped = set(self._indices(indices))
        return self.keep([i for i in range(self.num_heads) if i not in dropped])

    def subsample(self, m: int, generator: torch.Generator | None = None) -> ParticleAttention:
        """A new layer of m particles drawn without replacement. Raises InputError unless 1 <= m <= M."""
        if isinstance(m, bool) or not isinstance(m, int) or not 1 <= m <= self.num_heads:
            raise InputError(f"a subsample keeps m in [1, {self.num_heads}] particles; m came as {m!r}")
        device = None if generator is None else generator.device
        drawn = torch.randperm(self.num_heads, generator=generator, device=device)[:m]
        return self.keep(drawn.sort().values)

    @classmethod
    def from_multihead(cls, module: nn.MultiheadAttention) -> ParticleAttention:
        """The particle layer that computes what an nn.MultiheadAttention does, to rounding: W_O takes the factor M.

        Keeps dtype, device, dropout, layout, requires_grad and mode. Raises InputError where tokens are added.
        """
        return from_multihead(cls, module)

    def to_multihead(self) -> nn.MultiheadAttention:
        """The nn.MultiheadAttention that computes the same, to rounding: W_O takes the mean's 1/M.

        Raises InputError unless M h = d, which nn.MultiheadAttention asks for.
        """
        return to_multihead(self)

    def extra_repr(self) -> str:
        return (
            f"embed_dim={self.embed_dim}, num_heads={self.num_heads}, head_dim={self.head_dim}, "
            f"dropout={self.dropout}, batch_first={self.batch_first}"
        )

    def _attend(
        self,
        query: Tensor,
        key: Tensor,
        value: Tensor,
        key_padding_mask: Tensor | None,
        attn_mask: Tensor | None,
        is_causal: bool,
        need_weights: bool,
    ) -> tuple[Float[Tensor, "B M L h"], Float[Tensor, "B M L S"] | None]:
        """Every particle's softmax-weighted values, before W_O."""
        q, k, v = self._project(query, key, value)
        batch, heads, tokens, _ = q.shape
        if query.ndim == 2 and key_padding_mask is not None:
            key_padding_mask = key_padding_mask[None]
        causal = is_causal and key_padding_mask is None and not need_weights
        if is_causal and not causal and attn_mask is None:
            attn_mask = torch.ones(tokens, k.shape[2], dtype=torch.bool, device=q.device).triu(1)
        mask = joined_mask(
            None if causal else attn_mask,
            key_padding_mask,
            batch=batch,
            heads=heads,
            tokens=tokens,
            keys=k.shape[2],
            dtype=q.dtype,
        )
        dropout = self.dropout if self.training else 0.0
        return attend(q, k, v, mask, causal=causal, dropout=dropout, need_weights=need_weights)

    def _project(self, query: Tensor, key: Tensor, value: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        """q [B, M, L, h], k, v [B, M, S, h]: in one product where query, key and value are one tensor."""
        self._check(query, key, value)
        if self.qkv_weight is None:
            q, k, v = (self._linear(x, j, j + 1)[0] for j, x in enumerate((query, key, value)))
        elif query is key and key is value:
            q, k, v = self._linear(query, 0, 3)
        elif key is value:
            (q,), (k, v) = self._linear(query, 0, 1), self._linear(key, 1, 3)
        else:
            q, k, v = (self._linear(x, j, j + 1)[0] for j, x in enumerate((query, key, value)))
        return q, k, v

    def _linear(self, x: Tensor, first: int, last: int) -> tuple[Tensor, ...]:
        """The projections first to last - 1 of query, key, value, each [B, M, L, h]."""
        h, count = self.head_dim, last - first
        whole = self.qkv_weight[:, first:last] if self.qkv_weight is not None else self._weight(first)
        bias = None if self.qkv_bias is None else self.qkv_bias[:, first:last].reshape(-1)
        together = F.linear(x, whole.reshape(-1, x.shape[-1]), bias)
        parts = together.unflatten(-1, (self.num_heads, count, h)).unbind(-2)
        if x.ndim == 2:
            return tuple(part.transpose(0, 1)[None] for part in parts)
        order = (0, 2, 1, 3) if self.batch_first else (1, 2, 0, 3)
        return tuple(part.permute(order) for part in parts)

    def _weight(self, j: int) -> Tensor:
        if self.qkv_weight is not None:
            return self.qkv_weight[:, j]
        weight = (self.q_weight, self.k_weight, self.v_weight)[j]
        assert weight is not None
        return weight

    def _check(self, query: Tensor, key: Tensor, value: Tensor) -> None:
        widths = (self.embed_dim, self.kdim, self.vdim)
        shapes = [tuple(x.shape) for x in (query, key, value)]
        token = 0 if query.ndim == 2 or not self.batch_first else 1
        fits = query.ndim in (2, 3) and key.ndim == value.ndim == query.ndim
        fits = fits and tuple(shape[-1] for shape in shapes) == widths and shapes[1][:-1] == shapes[2][:-1]
        if not fits or (query.ndim == 3 and shapes[0][1 - token] != shapes[1][1 - token]):
            layout = "[B, L, width]" if self.batch_first else "[L, B, width]"
            raise InputError(
                f"query, key and value are {layout}, or [L, width] unbatched, of widths {widths}, key and value of the "
                f"same tokens; they came as {shapes}"
            )

    def _indices(self, indices: Sequence[int] | Tensor) -> list[int]:
        chosen = [int(i) for i in indices]
        if len(set(chosen)) < len(chosen) or any(not 0 <= i < self.num_heads for i in chosen):
            raise InputError(f"indices of particles are in [0, {self.num_heads}), each once; they came as {chosen}")
        return chosen
