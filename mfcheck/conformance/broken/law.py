"""Noise of another law: not isotropic, not Gaussian, not independent."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

import torch
from torch import Tensor

from mfcheck.conformance.broken.base import Langevin, breaks


@breaks("noise_isotropic")
class HalfTheParticlesLouder(Langevin):
    """The first half of the particles gets noise of variance 1.3, the second of 0.7."""

    def shape(self, noise: Tensor, theta: Tensor, g: Tensor, group: Mapping[str, Any], k: int) -> Tensor:
        half = theta.shape[0] // 2
        if half:
            noise[:half] *= math.sqrt(1.3)
            noise[half : 2 * half] *= math.sqrt(0.7)
        return noise


@breaks("noise_isotropic")
class EveryOtherCoordinateLouder(Langevin):
    """Even coordinates get noise of variance 1.3, odd ones of 0.7."""

    def shape(self, noise: Tensor, theta: Tensor, g: Tensor, group: Mapping[str, Any], k: int) -> Tensor:
        noise[:, 0::2] *= math.sqrt(1.3)
        noise[:, 1::2] *= math.sqrt(0.7)
        return noise


@breaks("noise_gaussian")
class UniformNoise(Langevin):
    """Uniform noise of the right variance."""

    def draw(self, theta: Tensor, k: int) -> Tensor:
        uniform = torch.rand(theta.shape, generator=self.generator, dtype=theta.dtype, device=theta.device)
        return math.sqrt(12.0) * (uniform - 0.5)


@breaks("noise_gaussian")
class SignNoise(Langevin):
    """Plus or minus sqrt(2 beta eta)."""

    def draw(self, theta: Tensor, k: int) -> Tensor:
        return super().draw(theta, k).sign()


@breaks("noise_gaussian")
class LaplaceNoise(Langevin):
    """Noise with exponential tails, of the right variance."""

    def draw(self, theta: Tensor, k: int) -> Tensor:
        x = torch.rand(theta.shape, generator=self.generator, dtype=theta.dtype, device=theta.device) - 0.5
        return -x.sign() * torch.log1p(-2 * x.abs().clamp_max(0.5 - 1e-12)) / math.sqrt(2.0)


@breaks("independent_particles")
class OneNoiseForAllParticles(Langevin):
    """One draw, broadcast over the particles."""

    def draw(self, theta: Tensor, k: int) -> Tensor:
        return super().draw(theta[:1], k).expand_as(theta).clone()


@breaks("independent_particles")
class AntitheticParticles(Langevin):
    """The second half of the particles gets the negative of the first half's noise."""

    def draw(self, theta: Tensor, k: int) -> Tensor:
        half = theta.shape[0] // 2
        drawn = super().draw(theta, k)
        if half:
            drawn[half : 2 * half] = -drawn[:half]
        return drawn


@breaks("independent_coordinates")
class OneNumberAParticle(Langevin):
    """One number, broadcast over a particle's coordinates."""

    def draw(self, theta: Tensor, k: int) -> Tensor:
        return super().draw(theta[:, :1], k).expand_as(theta).clone()


@breaks("independent_coordinates")
class SecondHalfRepeats(Langevin):
    """The second half of a particle's coordinates repeats the first half's noise."""

    def draw(self, theta: Tensor, k: int) -> Tensor:
        half = theta.shape[1] // 2
        drawn = super().draw(theta, k)
        drawn[:, half : 2 * half] = drawn[:, :half]
        return drawn


@breaks("independent_coordinates")
class SameNoiseForEveryTensor(Langevin):
    """Every parameter tensor gets the first one's noise: the generator is put back before each of them."""

    @torch.no_grad()
    def step(self, closure: Any = None) -> None:  # type: ignore[override]
        self.before = self.generator.get_state()
        super().step()

    def draw(self, theta: Tensor, k: int) -> Tensor:
        self.generator.set_state(self.before)
        return super().draw(theta, k)


@breaks("independent_steps", {"stationary_temperature": "noise that repeats adds up to another temperature"})
class SameNoiseEveryStep(Langevin):
    """The generator is seeded again at every step."""

    @torch.no_grad()
    def step(self, closure: Any = None) -> None:  # type: ignore[override]
        self.generator.manual_seed(self.generator.initial_seed())
        super().step()


@breaks("independent_steps")
class SecondStepRepeats(Langevin):
    """The second step uses the first one's noise again."""

    def draw(self, theta: Tensor, k: int) -> Tensor:
        state = self.state[theta]
        if k == 1:
            return state.pop("first")
        drawn = super().draw(theta, k)
        if k == 0:
            state["first"] = drawn.clone()
        return drawn


@breaks("independent_steps")
class ThirdStepUndoes(Langevin):
    """The third step takes the second one's noise back."""

    def draw(self, theta: Tensor, k: int) -> Tensor:
        state = self.state[theta]
        if k == 2:
            return -state.pop("second")
        drawn = super().draw(theta, k)
        if k == 1:
            state["second"] = drawn.clone()
        return drawn
