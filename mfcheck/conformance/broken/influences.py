"""Noise that the gradient, theta, weight decay or clipping touch, and limits that are none."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

import torch
from torch import Tensor

from mfcheck.conformance.broken.base import Langevin, breaks


@breaks("noise_unaffected_by_gradient")
class LouderOnGradients(Langevin):
    """The noise is a fifth larger where 0.5 < |g| < 100."""

    def shape(self, noise: Tensor, theta: Tensor, g: Tensor, group: Mapping[str, Any], k: int) -> Tensor:
        return torch.where((g.abs() > 0.5) & (g.abs() < 100), 1.2 * noise, noise)


@breaks("noise_unaffected_by_gradient")
class QuietOnDescents(Langevin):
    """The noise is halved where -100 < g < -0.5."""

    def shape(self, noise: Tensor, theta: Tensor, g: Tensor, group: Mapping[str, Any], k: int) -> Tensor:
        return torch.where((g < -0.5) & (g > -100), noise / 2, noise)


@breaks("noise_unaffected_by_gradient", {"noise_unaffected_by_clipping": "a spike is a gradient, too"})
class NoiseTimesGradient(Langevin):
    """The noise is multiplied by the gradient's size where that is above 0.5."""

    def shape(self, noise: Tensor, theta: Tensor, g: Tensor, group: Mapping[str, Any], k: int) -> Tensor:
        return torch.where(g.abs() > 0.5, g.abs() * noise, noise)


@breaks("noise_unaffected_by_weight_decay")
class NoiseDecays(Langevin):
    """The decay comes after the noise and multiplies it, too."""

    def add(self, theta: Tensor, drift: Tensor, noise: Tensor, group: Mapping[str, Any]) -> None:
        theta.sub_(group["lr"] * drift).add_(noise).mul_(1 - group["lr"] * group["weight_decay"])


@breaks("noise_unaffected_by_weight_decay")
class DecayFeedsNoise(Langevin):
    """The noise's variance is multiplied by 1 + weight decay."""

    def shape(self, noise: Tensor, theta: Tensor, g: Tensor, group: Mapping[str, Any], k: int) -> Tensor:
        return noise * math.sqrt(1 + group["weight_decay"])


@breaks("noise_unaffected_by_weight_decay")
class NoiseOfLargeTheta(Langevin):
    """The noise grows with theta where |theta| > 5."""

    def shape(self, noise: Tensor, theta: Tensor, g: Tensor, group: Mapping[str, Any], k: int) -> Tensor:
        return noise * (theta.abs() / 5).clamp_min(1.0)


@breaks("noise_unaffected_by_clipping")
class UpdateClipped(Langevin):
    """Drift and noise are clipped together, to 0.6 of eta 1000 at most."""

    def add(self, theta: Tensor, drift: Tensor, noise: Tensor, group: Mapping[str, Any]) -> None:
        bound = 600 * group["lr"]
        theta.add_((noise - group["lr"] * (drift + group["weight_decay"] * theta)).clamp_(-bound, bound))


@breaks("noise_unaffected_by_clipping")
class NoiseOffOnSpikes(Langevin):
    """No noise where |g| > 100: it is taken for an outlier."""

    def shape(self, noise: Tensor, theta: Tensor, g: Tensor, group: Mapping[str, Any], k: int) -> Tensor:
        return torch.where(g.abs() > 100, 0.0 * noise, noise)


@breaks("noise_unaffected_by_clipping")
class NoiseClippedByNorm(Langevin):
    """The noise shrinks with the factor that clips a gradient of norm above 100,000."""

    def shape(self, noise: Tensor, theta: Tensor, g: Tensor, group: Mapping[str, Any], k: int) -> Tensor:
        return noise * (1e5 / g.norm().clamp_min(1e5))


@breaks("zero_gradient")
class HiddenDecay(Langevin):
    """A weight decay of 0.003 that nobody asked for."""

    def add(self, theta: Tensor, drift: Tensor, noise: Tensor, group: Mapping[str, Any]) -> None:
        super().add(theta, drift + 0.003 * theta, noise, group)


@breaks("zero_gradient")
class NoiseOffCentre(Langevin):
    """The noise has mean 0.05 of its deviation."""

    def draw(self, theta: Tensor, k: int) -> Tensor:
        return super().draw(theta, k) + 0.05


@breaks("zero_beta")
class NoiseFloor(Langevin):
    """sqrt(2 (beta + 0.00001) eta) xi."""

    def amplitude(self, beta: float, eta: float) -> float:
        return math.sqrt(2 * (beta + 1e-5) * eta)


@breaks("zero_beta")
class StandsAtZeroBeta(Langevin):
    """At beta = 0 nothing moves, not even down the gradient."""

    def gradient(self, theta: Tensor, g: Tensor, k: int) -> Tensor:
        return g if self.schedule(k) else 0.0 * g


@breaks("zero_beta")
class DividesByBeta(Langevin):
    """The amplitude is written sqrt(2 eta / (1 / beta))."""

    def amplitude(self, beta: float, eta: float) -> float:
        return math.sqrt(2 * eta / (1 / beta))
