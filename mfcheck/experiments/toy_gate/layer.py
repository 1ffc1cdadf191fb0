"""Many small attention classifiers at once: loss and gradient by hand, a leading axis of models, in reused memory.

Why by hand: at these sizes a step is bounded by the number of calls and by memory that is asked for anew at each of
them. With W_Q W_K' and W_V W_O merged, a step is eight batched matrix products, none of whose operands is ever moved:
keys lead in the attention maps, [keys, queries particles], so that a softmax is a vectorised sum over rows.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
from jaxtyping import Float, Int
from torch import Tensor

EPSILON = 1e-5  # torch.nn.LayerNorm's default


@dataclass(frozen=True)
class Shape:
    """Sizes of a model: particles M, head width h, token width d, classes, and what the heads' sum is multiplied with.

    scale: 1/M for the mean over particles, 1 for ordinary heads (concatenation and output projection are a sum).
    """

    particles: int
    head_width: int
    width: int
    classes: int
    scale: float

    @property
    def theta(self) -> tuple[int, int, int, int]:
        """Shape of the particles of one model: W_Q, W_K, W_V, W_O', each [M, d, h]."""
        return 4, self.particles, self.width, self.head_width

    @property
    def rest(self) -> tuple[int, int, int, int]:
        """Numbers in the layer norm's weight and bias, the classifier's weight and bias."""
        return self.width, self.width, self.width * self.classes, self.classes


@dataclass(frozen=True)
class Models:
    """Parameters of G models, or their gradient: the particles' four matrices (W_O transposed) and all the rest."""

    theta: Float[Tensor, "4 G M d h"]
    rest: Float[Tensor, "G r"]

    def split(self, shape: Shape) -> tuple[Tensor, Tensor, Tensor, Tensor]:
        """Views of the rest: layer norm's weight and bias [G, d], the classifier's [G, d, classes], [G, classes]."""
        norm_weight, norm_bias, weight, bias = self.rest.split(shape.rest, dim=1)
        return norm_weight, norm_bias, weight.view(-1, shape.width, shape.classes), bias


class Memory:
    """Memory for steps of G models on B sequences of N tokens, asked for once: fresh pages cost as much as the work."""

    def __init__(self, shape: Shape, models: int, batch: int, tokens: int, like: Tensor) -> None:
        m, d = shape.particles, shape.width

        def empty(*sizes: int) -> Tensor:
            return torch.empty(sizes, dtype=like.dtype, device=like.device)

        self.wide, self.mixed = (empty(models, batch * tokens, m * d) for _ in range(2))
        self.maps, self.back, self.product = (empty(models * batch, tokens, tokens * m) for _ in range(3))
        self.sums = empty(models * batch, 1, tokens * m)
        self.out = empty(models, batch * tokens, d)
        self.through = empty(models, batch, tokens, d)
        self.minus_one = torch.full((models, batch, 1), -1.0, dtype=like.dtype, device=like.device)
        # the gradient of the merged matrices and its transpose, in the order in which W_K, W_Q, W_O', W_V meet them
        self.merged = empty(4, models, m, d, d)
        self.grad = Models(empty(4, models, m, d, shape.head_width), empty(models, sum(shape.rest)))
        self.rest = self.grad.split(shape)


@dataclass(frozen=True)
class Merged:
    """What tokens meet of the particles: W_Q W_K' / sqrt(h) side by side, scale W_V W_O one above the other."""

    logits: Float[Tensor, "G d Md"]
    values: Float[Tensor, "G Md d"]


def merge(models: Models, shape: Shape) -> Merged:
    """Merged matrices of all particles."""
    _, g, m, d, h = models.theta.shape
    left, right = models.theta[0::2].reshape(-1, d, h), models.theta[1::2].reshape(-1, d, h)
    tilt, values = torch.bmm(left, right.mT).view(2, g, m, d, d)
    return Merged(tilt.mul_(h**-0.5).transpose(1, 2).reshape(g, d, m * d), values.mul_(shape.scale).view(g, m * d, d))


def attend(merged: Merged, tokens: Float[Tensor, "G B N d"], memory: Memory) -> None:
    """memory.maps [G B, keys, queries M]: the attention maps; memory.mixed [G, B N, M d]: tokens averaged by them."""
    g, b, n, d = tokens.shape
    each = tokens.view(g * b, n, d)
    torch.bmm(tokens.view(g, b * n, d), merged.logits, out=memory.wide)
    torch.bmm(each, memory.wide.view(g * b, -1, d).mT, out=memory.back)
    torch._softmax(memory.back, 1, False, out=memory.maps)
    torch.bmm(memory.maps.mT, each, out=memory.mixed.view(g * b, -1, d))


def loss_and_gradient(
    models: Models,
    shape: Shape,
    tokens: Float[Tensor, "G B N d"],
    labels: Int[Tensor, "G B 1"],
    memory: Memory,
) -> Float[Tensor, " G"]:
    """Mean cross-entropy of each model on its own batch; the gradient in all parameters is left in memory.grad."""
    g, b, n, d = tokens.shape
    norm_weight, norm_bias, weight, bias = models.split(shape)
    to_norm_weight, to_norm_bias, to_weight, to_bias = memory.rest
    rows, each = tokens.view(g, b * n, d), tokens.view(g * b, n, d)
    merged = merge(models, shape)
    attend(merged, tokens, memory)
    torch.baddbmm(rows, memory.mixed, merged.values, out=memory.out)
    normal, mean, rstd = torch.native_layer_norm(memory.out, [d], None, None, EPSILON)
    # the affine part of a layer norm and the mean over tokens commute
    pooled = normal.view(g, b, n, d).sum(2).mul_(1 / n)
    features = torch.addcmul(norm_bias[:, None], pooled, norm_weight[:, None])
    scores = torch.log_softmax(torch.baddbmm(bias[:, None], features, weight), -1)
    loss = scores.gather(-1, labels).sum((1, 2)).mul_(-1 / b)

    surprise = scores.exp_().scatter_add_(-1, labels, memory.minus_one).mul_(1 / b)
    to_weight.copy_(torch.bmm(features.mT, surprise))
    torch.sum(surprise, 1, out=to_bias)
    surprise = torch.bmm(surprise, weight.mT)
    torch.sum(surprise, 1, out=to_norm_bias)
    torch.sum(pooled.mul_(surprise), 1, out=to_norm_weight)
    memory.through.copy_(surprise.mul_(norm_weight[:, None] / n)[:, :, None])
    through = torch.ops.aten.native_layer_norm_backward(
        memory.through.view(g, b * n, d), memory.out, [d], mean, rstd, None, None, [True, False, False]
    )[0]

    torch.bmm(memory.mixed.mT, through, out=memory.merged[2].view(g, -1, d))
    torch.bmm(through, merged.values.mT, out=memory.wide)
    torch.bmm(each, memory.wide.view(g * b, -1, d).mT, out=memory.back)
    # the softmax's Jacobian: p (v - sum p v)
    torch.mul(memory.back, memory.maps, out=memory.product)
    torch.sum(memory.product, 1, keepdim=True, out=memory.sums)
    memory.back.sub_(memory.sums).mul_(memory.maps)
    torch.bmm(memory.back.mT, each, out=memory.mixed.view(g * b, -1, d))
    memory.merged[0] = torch.bmm(rows.mT, memory.mixed).view(g, d, -1, d).transpose(1, 2)
    _unmerge(models, shape, memory)
    return loss


def _unmerge(models: Models, shape: Shape, memory: Memory) -> None:
    """The chain rule through W_Q W_K' / sqrt(h) and scale W_V W_O, from memory.merged[0] and [2] into memory.grad."""
    _, _, _, d, h = models.theta.shape
    memory.merged[0].mul_(h**-0.5)
    memory.merged[2].mul_(shape.scale)
    memory.merged[1::2] = memory.merged[0::2].mT
    # W_Q meets W_K and W_V meets W_O, and the other way round
    partners = models.theta.view(2, 2, -1, d, h).flip(1).reshape(-1, d, h)
    torch.bmm(memory.merged.view(-1, d, d), partners, out=memory.grad.theta.view(-1, d, h))
