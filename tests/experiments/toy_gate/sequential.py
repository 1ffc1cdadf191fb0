"""The toy gate as anybody would write it: one model at a time, torch modules, autograd."""

from __future__ import annotations

import math

import torch
from torch import Tensor, nn

from mfcheck.experiments.toy_gate.arms import Arm, Recipe
from mfcheck.experiments.toy_gate.layer import Models, Shape
from mfcheck.experiments.toy_gate.task import Task
from mfcheck.experiments.toy_gate.training import Seed, batches, initial, shape_of


class Classifier(nn.Module):
    """Heads, residual, layer norm, mean over tokens, linear; built from parameters in the batched layout."""

    def __init__(self, models: Models, shape: Shape, at: int = 0) -> None:
        super().__init__()
        self.shape = shape
        self.theta = nn.Parameter(models.theta[:, at].clone())
        norm_weight, norm_bias, weight, bias = (part[at].clone() for part in models.split(shape))
        self.norm = nn.LayerNorm(shape.width, dtype=norm_weight.dtype)
        self.linear = nn.Linear(shape.width, shape.classes, dtype=weight.dtype)
        with torch.no_grad():
            self.norm.weight.copy_(norm_weight)
            self.norm.bias.copy_(norm_bias)
            self.linear.weight.copy_(weight.T)
            self.linear.bias.copy_(bias)

    def heads(self, x: Tensor) -> Tensor:
        """Each particle's update of the tokens: [B, N, d] -> [M, B, N, d]."""
        query, key, value = (torch.einsum("bnd,mdh->mbnh", x, w) for w in self.theta[:3])
        maps = torch.softmax(query @ key.mT / math.sqrt(self.shape.head_width), -1)
        return torch.einsum("mbnh,mdh->mbnd", maps @ value, self.theta[3])

    def forward(self, x: Tensor) -> Tensor:
        update = self.heads(x).sum(0) * self.shape.scale
        return self.linear(self.norm(x + update).mean(1))


def train_one(task: Task, recipe: Recipe, one: Seed, arm: Arm) -> tuple[Classifier, list[float]]:
    """One arm of one seed: torch.optim, then sqrt(2 beta_k eta) xi_k on the particles."""
    like = one.training.tokens
    start = initial(task, recipe, arm.heads, one.source)
    model = Classifier(Models(start.theta.to(like), start.rest.to(like)), shape_of(task, recipe, arm.heads))
    optimizer: torch.optim.Optimizer
    if arm.optimizer == "adam":
        optimizer = torch.optim.Adam(model.parameters(), lr=recipe.adam_step)
    else:
        optimizer = torch.optim.SGD(model.parameters(), lr=recipe.sgd_step)
    generator, losses = one.source.child("noise").torch(), []
    steps, betas, eta = arm.steps(recipe), arm.betas(recipe), arm.time_step(recipe)
    for chosen, beta in zip(batches(task, recipe, steps, one.source), betas, strict=True):
        loss = nn.functional.cross_entropy(model(one.training.tokens[chosen]), one.training.labels[chosen])
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        xi = torch.empty_like(model.theta).normal_(generator=generator)
        with torch.no_grad():
            model.theta += math.sqrt(2 * beta * eta) * xi
        losses.append(float(loss.detach()))
    return model, losses
