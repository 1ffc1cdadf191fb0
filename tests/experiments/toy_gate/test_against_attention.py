"""The batched gate against the library that people use: ParticleAttention in a block, trained by Langevin."""

from __future__ import annotations

import pytest
import torch
from torch import Tensor, nn

from mfcheck.attention.optim import Langevin
from mfcheck.attention.particles import ParticleAttention
from mfcheck.experiments.toy_gate import training
from mfcheck.experiments.toy_gate.arms import Arm, Recipe
from mfcheck.experiments.toy_gate.task import Task
from mfcheck.experiments.toy_gate.training import batches, initial, seed, shape_of, train
from mfcheck.statistics.seeds import stream

TASK, SHORT = Task(training=96, validation=32), Recipe(batch=32, steps=25)
SOURCE = stream(0, "gate against attention")
M, H, D = SHORT.particles, SHORT.head_width, TASK.width


class Block(nn.Module):
    """x + V_M(x), layer norm, mean over tokens, linear."""

    def __init__(self) -> None:
        super().__init__()
        made = {"dtype": torch.float64}
        self.attention = ParticleAttention(D, M, bias=False, batch_first=True, head_dim=H, **made)  # type: ignore[arg-type]
        self.norm, self.linear = nn.LayerNorm(D, **made), nn.Linear(D, TASK.classes, **made)  # type: ignore[arg-type]
        start = initial(TASK, SHORT, "particles", SOURCE)
        norm_weight, norm_bias, weight, bias = (part[0] for part in start.split(shape_of(TASK, SHORT, "particles")))
        theta = start.theta[:, 0].mT  # [4, M, h, d]
        assert self.attention.qkv_weight is not None
        with torch.no_grad():
            self.attention.qkv_weight.copy_(theta[:3].transpose(0, 1))
            self.attention.out_weight.copy_(theta[3])
            for parameter, value in (
                (self.norm.weight, norm_weight),
                (self.norm.bias, norm_bias),
                (self.linear.weight, weight.T),
                (self.linear.bias, bias),
            ):
                parameter.copy_(value)

    def forward(self, x: Tensor) -> Tensor:
        return self.linear(self.norm(x + self.attention(x, x, x, need_weights=False)[0]).mean(1))


def theta_of(qkv: Tensor, out: Tensor) -> Tensor:
    """ParticleAttention's layout [M, 3, h, d], [M, h, d] in the gate's, [4, M, d, h]."""
    return torch.cat([qkv.transpose(0, 1), out[None]]).mT


@pytest.mark.parametrize(
    "arm",
    [Arm(), Arm(0.005), Arm(0.04, scaling="mean_field"), Arm(0.005, annealed=True), Arm(0.3, optimizer="adam")],
    ids=["plain", "raw", "mean field", "annealed", "adam"],
)
def test_the_batched_run_is_particle_attention_trained_by_langevin(arm: Arm, monkeypatch: pytest.MonkeyPatch) -> None:
    model = Block()
    mean_field = arm.scaling == "mean_field"
    particles = model.attention.particle_parameters()
    rest = [*model.norm.parameters(), *model.linear.parameters()]
    eta = SHORT.adam_step if arm.optimizer == "adam" else SHORT.sgd_step
    groups = [{"params": particles, "lr": arm.time_step(SHORT)}, {"params": rest, "lr": eta}]
    base = torch.optim.Adam(groups) if arm.optimizer == "adam" else torch.optim.SGD(groups)
    betas = arm.betas(SHORT)
    optimizer = Langevin(
        base, model.attention, lambda k: betas[k], scaling=arm.scaling, generator=SOURCE.child("noise").torch()
    )
    one = seed(TASK, SOURCE, torch.float64)
    for chosen in batches(TASK, SHORT, SHORT.steps, SOURCE):
        loss = nn.functional.cross_entropy(model(one.training.tokens[chosen]), one.training.labels[chosen])
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()

    # Langevin draws its noise in its own layout, all particles' numbers at once
    def at(self: training.Noise, k: int) -> Tensor:
        drawn = torch.empty(4 * M * H * D, dtype=torch.float64).normal_(generator=self.generators[0])
        return theta_of(drawn[: 3 * M * H * D].view(M, 3, H, D), drawn[3 * M * H * D :].view(M, H, D))[None]

    monkeypatch.setattr(training.Noise, "at", at)
    made = train(TASK, SHORT, [one], [(0, arm)])
    assert model.attention.qkv_weight is not None
    theirs = theta_of(model.attention.qkv_weight.detach(), model.attention.out_weight.detach())
    assert float((made.models.theta[:, 0] - theirs).abs().max()) <= 1e-12 * float(theirs.abs().max())
    assert optimizer.exposure[0] == pytest.approx(arm.exposure(SHORT), rel=1e-12)
    assert mean_field == (arm.time_step(SHORT) < eta)
