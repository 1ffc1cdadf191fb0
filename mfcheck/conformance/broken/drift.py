"""A drift that is not the gradient's, another temperature, and factors of M."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

import torch
from torch import Tensor

from mfcheck.conformance.broken.base import TEMPERATURE, Langevin, breaks


@breaks("drift", {"stationary_temperature": "a rule that ascends does not settle"})
class WrongSign(Langevin):
    """+ eta g."""

    def gradient(self, theta: Tensor, g: Tensor, k: int) -> Tensor:
        return -g


@breaks("drift", TEMPERATURE)
class LrTwice(Langevin):
    """The drift is eta^2 g."""

    def add(self, theta: Tensor, drift: Tensor, noise: Tensor, group: Mapping[str, Any]) -> None:
        super().add(theta, group["lr"] * drift, noise, group)


@breaks("drift", TEMPERATURE)
class SumOverData(Langevin):
    """The drift is N g with N = 50, a sum over the data in place of the mean."""

    def add(self, theta: Tensor, drift: Tensor, noise: Tensor, group: Mapping[str, Any]) -> None:
        super().add(theta, 50 * drift, noise, group)


@breaks("drift", TEMPERATURE)
class Momentum(Langevin):
    """Momentum 0.9 on the drift, isotropic noise on theta."""

    def gradient(self, theta: Tensor, g: Tensor, k: int) -> Tensor:
        state = self.state[theta]
        state["momentum"] = 0.9 * state["momentum"] + g if "momentum" in state else g.clone()
        return state["momentum"]


@breaks("drift", {"stationary_temperature": "isotropic noise against a preconditioned drift samples no temperature"})
class AdamDrift(Langevin):
    """Adam's drift (no momentum, beta2 = 0.99) with isotropic noise."""

    def gradient(self, theta: Tensor, g: Tensor, k: int) -> Tensor:
        state = self.state[theta]
        state["square"] = 0.99 * state.get("square", torch.zeros_like(g)) + 0.01 * g * g
        return g / (state["square"] / (1 - 0.99 ** (k + 1))).sqrt().add(1e-8)


@breaks("drift")
class GradientClipped(Langevin):
    """The gradient is clipped to [-5, 5] inside."""

    def gradient(self, theta: Tensor, g: Tensor, k: int) -> Tensor:
        return g.clamp(-5, 5)


@breaks("drift")
class GradientSquashed(Langevin):
    """The gradient is squashed to g / (1 + |g| / 50)."""

    def gradient(self, theta: Tensor, g: Tensor, k: int) -> Tensor:
        return g / (1 + g.abs() / 50)


@breaks("stationary_temperature")
class DeadZone(Langevin):
    """Gradients below 0.05 are taken for none."""

    def gradient(self, theta: Tensor, g: Tensor, k: int) -> Tensor:
        return torch.where(g.abs() < 0.05, 0.0 * g, g)


@breaks("stationary_temperature")
class NoiseFadesOut(Langevin):
    """From step 16 on the noise's variance is halved."""

    def shape(self, noise: Tensor, theta: Tensor, g: Tensor, group: Mapping[str, Any], k: int) -> Tensor:
        return noise * math.sqrt(0.5) if k >= 16 else noise


@breaks("scaling")
class DriftOverM(Langevin):
    """The drift is g / M."""

    def gradient(self, theta: Tensor, g: Tensor, k: int) -> Tensor:
        return g / theta.shape[0]


@breaks("scaling")
class NoiseTimesRootM(Langevin):
    """The noise's variance is M times too large."""

    def shape(self, noise: Tensor, theta: Tensor, g: Tensor, group: Mapping[str, Any], k: int) -> Tensor:
        return noise * math.sqrt(theta.shape[0])


@breaks("scaling")
class NoiseOverRootM(Langevin):
    """The noise's variance is M times too small."""

    def shape(self, noise: Tensor, theta: Tensor, g: Tensor, group: Mapping[str, Any], k: int) -> Tensor:
        return noise / math.sqrt(theta.shape[0])
