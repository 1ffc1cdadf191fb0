"""Training many arms of many seeds at once. What is random belongs to a seed, never to its place in a batch."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import torch
from jaxtyping import Float, Int
from torch import Tensor

from mfcheck.experiments.toy_gate.arms import Arm, Recipe
from mfcheck.experiments.toy_gate.layer import Memory, Models, Shape, loss_and_gradient
from mfcheck.experiments.toy_gate.task import Sample, Task, draw
from mfcheck.statistics.seeds import Stream

#: Steps whose noise is drawn at a time: as long as its numbers are a multiple of 16, torch draws the same ones.
NOISE_STEPS = 16
#: Steps between two looks at Adam's effective step.
LOOK_EVERY = 10
#: Adam's constants (torch.optim.Adam's defaults), and the quantiles of its effective step that are recorded.
BETAS, ADAM_EPSILON = (0.9, 0.999), 1e-8
QUANTILES = (0.05, 0.25, 0.5, 0.75, 0.95)


@dataclass(frozen=True)
class Seed:
    """All that the arms of one seed share: its samples and the streams of batches, initial values and noise."""

    source: Stream
    training: Sample
    validation: Sample


@dataclass(frozen=True)
class Trained:
    """G trained models, the training loss at each step, Adam's effective steps (None under SGD)."""

    shape: Shape
    models: Models
    losses: Float[Tensor, "T G"]
    effective: Float[Tensor, "looks G 1+quantiles"] | None


def seed(task: Task, source: Stream, dtype: torch.dtype, device: str = "cpu") -> Seed:
    """The samples of a seed; drawn in float64 on the CPU, so that precision and device change no token."""

    def sample(n: int, name: str) -> Sample:
        drawn = draw(task, n, source.child(name))
        return Sample(drawn.tokens.to(device, dtype), drawn.labels.to(device))

    return Seed(source, sample(task.training, "training"), sample(task.validation, "validation"))


def shape_of(task: Task, recipe: Recipe, heads: str) -> Shape:
    """The shape of the particles, or of torch.nn.MultiheadAttention's heads, whose width is d over their number."""
    if heads == "ordinary":
        return Shape(recipe.particles, task.width // recipe.particles, task.width, task.classes, 1.0)
    return Shape(recipe.particles, recipe.head_width, task.width, task.classes, 1 / recipe.particles)


def initial(task: Task, recipe: Recipe, heads: str, source: Stream) -> Models:
    """Initial parameters of a seed, float64: Gaussian particles, or as torch.nn.MultiheadAttention's reset_parameters.

    The latter: the 3 d x d input projection uniform on +- sqrt(6 / (d + 3 d)) (Xavier), the output projection
    uniform on +- 1/sqrt(d). Layer norm is 1 and 0; the classifier Gaussian.
    """
    shape, generator, d = shape_of(task, recipe, heads), source.child("initial").torch(), task.width
    theta = torch.empty(4, 1, *shape.theta[1:], dtype=torch.float64)
    if heads == "ordinary":
        theta.uniform_(-1, 1, generator=generator)
        scales = [math.sqrt(6 / (d + 3 * d))] * 3 + [1 / math.sqrt(d)]
    else:
        theta.normal_(generator=generator)
        query, value = recipe.query_scale / math.sqrt(d), recipe.value_scale / math.sqrt(d)
        scales = [query, query, value, recipe.value_scale / math.sqrt(shape.head_width)]
    theta *= torch.tensor(scales, dtype=torch.float64).view(4, 1, 1, 1, 1)
    rest = torch.zeros(1, sum(shape.rest), dtype=torch.float64)
    norm_weight, _, weight, _ = Models(theta, rest).split(shape)
    norm_weight.fill_(1.0)
    weight.normal_(0.0, recipe.classifier_scale, generator=source.child("classifier").torch())
    return Models(theta, rest)


def batches(task: Task, recipe: Recipe, steps: int, source: Stream) -> Int[Tensor, "T B"]:
    """Which training samples each step sees: a fresh permutation an epoch, what is left of it dropped."""
    size = min(recipe.batch, task.training)
    each = task.training // size
    generator = source.child("batches").torch()
    epochs = [torch.randperm(task.training, generator=generator) for _ in range(math.ceil(steps / each))]
    return torch.stack([epoch[: each * size] for epoch in epochs]).view(-1, size)[:steps]


class Noise:
    """Standard normals for the particles, step by step: the same ones for every arm of a seed."""

    def __init__(self, seeds: Sequence[Seed], shape: Shape, like: Tensor) -> None:
        self.generators = [one.source.child("noise").torch() for one in seeds]
        self.block = torch.empty(len(seeds), NOISE_STEPS, *shape.theta, dtype=like.dtype)
        self.device = like.device

    def at(self, k: int) -> Float[Tensor, "S 4 M d h"]:
        """xi_k; asked for in the order k = 0, 1, ..."""
        if k % NOISE_STEPS == 0:
            for row, generator in zip(self.block, self.generators, strict=True):
                row.normal_(generator=generator)
        return self.block[:, k % NOISE_STEPS].to(self.device)


def train(
    task: Task,
    recipe: Recipe,
    seeds: Sequence[Seed],
    arms: Sequence[tuple[int, Arm]],
) -> Trained:
    """Trains models, each an (index among the seeds, arm), together; arms share optimiser, heads and number of steps.

    A step is the base step on all parameters, then sqrt(2 beta_k eta) xi_k on the particles alone.
    """
    first, like = arms[0][1], seeds[0].training.tokens
    steps, shape = first.steps(recipe), shape_of(task, recipe, first.heads)
    where = torch.tensor([index for index, _ in arms], device=like.device)
    starts = [initial(task, recipe, first.heads, one.source) for one in seeds]
    models = Models(
        torch.cat([start.theta for start in starts], 1).to(like).index_select(1, where),
        torch.cat([start.rest for start in starts]).to(like).index_select(0, where),
    )
    tokens = torch.cat([one.training.tokens for one in seeds])
    labels = torch.cat([one.training.labels for one in seeds])
    order = torch.stack([batches(task, recipe, steps, one.source) for one in seeds], 1).to(like.device)
    order = (order + task.training * torch.arange(len(seeds), device=like.device)[:, None]).index_select(1, where)
    size = order.shape[-1]

    amplitudes = torch.tensor([_amplitudes(arm, recipe) for _, arm in arms], dtype=like.dtype, device=like.device)
    noise = Noise(seeds, shape, like) if amplitudes.any() else None
    memory = Memory(shape, len(arms), size, task.tokens, like)
    losses = torch.empty(steps, len(arms), dtype=like.dtype, device=like.device)
    base = Adam(models, recipe.adam_step) if first.optimizer == "adam" else None
    for k in range(steps):
        chosen = order[k].flatten()
        seen = tokens.index_select(0, chosen).view(len(arms), size, *tokens.shape[1:])
        asked = labels.index_select(0, chosen).view(len(arms), size, 1)
        losses[k] = loss_and_gradient(models, shape, seen, asked, memory)
        if base is None:
            models.theta.add_(memory.grad.theta, alpha=-recipe.sgd_step)
            models.rest.add_(memory.grad.rest, alpha=-recipe.sgd_step)
        else:
            base.step(memory.grad, k)
        if noise is not None:
            xi = noise.at(k).index_select(0, where).transpose(0, 1)
            models.theta.addcmul_(xi, amplitudes[:, k].view(-1, 1, 1, 1))
    return Trained(shape, models, losses, None if base is None else torch.stack(base.effective))


def _amplitudes(arm: Arm, recipe: Recipe) -> list[float]:
    eta, sign = arm.time_step(recipe), -1 if arm.mirrored else 1
    return [sign * math.sqrt(2 * beta * eta) for beta in arm.betas(recipe)]


class Adam:
    """torch.optim.Adam on the parameters of many models, with its effective step on record.

    The effective step is eta / (1 - beta1^k) / (sqrt(v / (1 - beta2^k)) + epsilon) a coordinate: what the first moment
    is multiplied with. Every LOOK_EVERY steps its mean and quantiles over the particles' coordinates are kept.
    """

    def __init__(self, models: Models, step: float) -> None:
        self.models, self.eta, self.effective = models, step, list[Tensor]()
        tensors = (models.theta, models.rest)
        self.first, self.second = ([torch.zeros_like(x) for x in tensors] for _ in range(2))
        self.quantiles = torch.tensor(QUANTILES, dtype=models.rest.dtype, device=models.rest.device)

    def step(self, grad: Models, k: int) -> None:
        """theta <- theta - effective step * first moment; k = 0 is the first step."""
        b1, b2 = BETAS
        eta = self.eta / (1 - b1 ** (k + 1))
        for x, g, first, second in zip(
            (self.models.theta, self.models.rest), (grad.theta, grad.rest), self.first, self.second, strict=True
        ):
            first.lerp_(g, 1 - b1)
            second.mul_(b2).addcmul_(g, g, value=1 - b2)
            scale = second.sqrt().mul_((1 - b2 ** (k + 1)) ** -0.5).add_(ADAM_EPSILON)
            x.addcdiv_(first, scale, value=-eta)
            if k % LOOK_EVERY == 0 and x is self.models.theta:
                taken = (eta / scale).transpose(0, 1).flatten(1)
                spread = torch.quantile(taken, self.quantiles, 1).T
                self.effective.append(torch.cat([taken.mean(1, keepdim=True), spread], 1))
