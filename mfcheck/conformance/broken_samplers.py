"""Update rules that break one property each, which the suite must find, and find nothing else wrong with them.

A class is a factory: pkg.module:Name for the command line, Name(params, lr, beta, generator). `BROKEN` has them all (once
broken_samplers_more is imported, too), with the property that each breaks and those that it cannot help breaking.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

import torch
from torch import Tensor
from torch.optim import Optimizer

from mfcheck.dynamics.schedules import Schedule, as_schedule

TEMPERATURE = {"stationary_temperature": "the noise over the drift is the temperature"}
FOLLOWING = {"schedules": "the wrong power of a setting is wrong while the setting changes, too"}


@dataclass(frozen=True)
class Broken:
    """A mutant: its factory, the property that it breaks, and those that fall with it, with the reason."""

    rule: type[Optimizer]
    breaks: str
    also: Mapping[str, str] = field(default_factory=dict)

    @property
    def name(self) -> str:
        """The class's name."""
        return self.rule.__name__

    @property
    def says(self) -> str:
        """What is wrong, in words."""
        return str(self.rule.__doc__).splitlines()[0]


BROKEN: list[Broken] = []


def breaks(name: str, also: Mapping[str, str] | None = None) -> Callable[[type[Optimizer]], type[Optimizer]]:
    """Puts a class among the broken rules."""

    def register(rule: type[Optimizer]) -> type[Optimizer]:
        BROKEN.append(Broken(rule, name, also or {}))
        return rule

    return register


class Langevin(Optimizer):
    """theta - eta (g + weight decay theta) + amplitude xi, right as it stands; the mutants change one method."""

    def __init__(
        self,
        params: Iterable[Tensor],
        lr: float,
        beta: float | Schedule | Callable[[int], float],
        generator: torch.Generator,
    ) -> None:
        super().__init__(params, {"lr": lr, "weight_decay": 0.0})
        self.schedule, self.generator = as_schedule(beta), generator

    def amplitude(self, beta: float, eta: float) -> float:
        """What multiplies a standard normal draw."""
        return math.sqrt(2 * beta * eta)

    def beta(self, k: int) -> float:
        """The diffusion of step k."""
        return self.schedule(k)

    def eta(self, group: Mapping[str, Any], k: int) -> float:
        """The step that the noise goes by."""
        return float(group["lr"])

    def draw(self, theta: Tensor, k: int) -> Tensor:
        """Standard normal noise of theta's shape."""
        return torch.randn(theta.shape, generator=self.generator, dtype=theta.dtype, device=theta.device)

    def gradient(self, theta: Tensor, g: Tensor, k: int) -> Tensor:
        """What the drift goes down."""
        return g

    def shape(self, noise: Tensor, theta: Tensor, g: Tensor, group: Mapping[str, Any], k: int) -> Tensor:
        """The noise as it is added."""
        return noise

    def add(self, theta: Tensor, drift: Tensor, noise: Tensor, group: Mapping[str, Any]) -> None:
        """Moves theta."""
        theta.sub_(group["lr"] * (drift + group["weight_decay"] * theta)).add_(noise)

    def record(self, state: dict[str, Any], noise: Tensor, drawn: Tensor) -> None:
        """Leaves something on record."""

    @torch.no_grad()
    def step(self, closure: Any = None) -> None:  # type: ignore[override]
        """One step of every parameter that has a gradient."""
        for group in self.param_groups:
            for theta in group["params"]:
                if theta.grad is None:
                    continue
                state = self.state[theta]
                k = state.get("step", 0)
                state["step"] = k + 1
                drawn = self.draw(theta, k)
                scaled = self.amplitude(self.beta(k), self.eta(group, k)) * drawn
                noise = self.shape(scaled, theta, theta.grad, group, k)
                self.record(state, noise, drawn)
                self.add(theta, self.gradient(theta, theta.grad, k), noise, group)


def _particles(theta: Tensor) -> int:
    return theta.shape[0]


# how much noise


@breaks("noise_variance", TEMPERATURE)
class FactorTwoMissing(Langevin):
    """sqrt(beta eta) xi."""

    def amplitude(self, beta: float, eta: float) -> float:
        return math.sqrt(beta * eta)


@breaks("noise_variance", TEMPERATURE)
class FactorTwoOutside(Langevin):
    """2 sqrt(beta eta) xi."""

    def amplitude(self, beta: float, eta: float) -> float:
        return 2 * math.sqrt(beta * eta)


@breaks("noise_variance")
class RootOfTwoRounded(Langevin):
    """1.4 sqrt(beta eta) xi: the root of two, cut short."""

    def amplitude(self, beta: float, eta: float) -> float:
        return 1.4 * math.sqrt(beta * eta)


@breaks("noise_variance")
class SafetyFactor(Langevin):
    """1.01 sqrt(2 beta eta) xi: a little more noise, to be safe."""

    def amplitude(self, beta: float, eta: float) -> float:
        return 1.01 * math.sqrt(2 * beta * eta)


@breaks("noise_accumulates")
class HalfAtThirdStep(Langevin):
    """The noise of the third step is half as large."""

    def shape(self, noise: Tensor, theta: Tensor, g: Tensor, group: Mapping[str, Any], k: int) -> Tensor:
        return noise / 2 if k == 2 else noise


@breaks("noise_accumulates")
class TwiceAtSecondStep(Langevin):
    """The noise of the second step is added twice."""

    def shape(self, noise: Tensor, theta: Tensor, g: Tensor, group: Mapping[str, Any], k: int) -> Tensor:
        return noise * 2 if k == 1 else noise


_SIZE = {"noise_variance": "at eta other than 1 a wrong power is a wrong size, too"}


@breaks("noise_power_of_eta", _SIZE | TEMPERATURE | FOLLOWING)
class EtaOutsideRoot(Langevin):
    """sqrt(2 beta) eta xi: noise put in the gradient, which the step multiplies by eta."""

    def amplitude(self, beta: float, eta: float) -> float:
        return math.sqrt(2 * beta) * eta


@breaks("noise_power_of_eta", _SIZE | TEMPERATURE | FOLLOWING)
class NoiseTimesLrTwice(Langevin):
    """sqrt(2 beta eta) eta xi: noise of the right size put in the gradient."""

    def amplitude(self, beta: float, eta: float) -> float:
        return math.sqrt(2 * beta * eta) * eta


@breaks(
    "noise_power_of_eta",
    _SIZE | TEMPERATURE | FOLLOWING | {"noise_power_of_beta": "the root of the product is missing for both"},
)
class RootMissing(Langevin):
    """2 beta eta xi."""

    def amplitude(self, beta: float, eta: float) -> float:
        return 2 * beta * eta


@breaks("noise_power_of_eta")
class EtaCapped(Langevin):
    """The noise goes by min(eta, 0.2)."""

    def eta(self, group: Mapping[str, Any], k: int) -> float:
        return min(float(group["lr"]), 0.2)


@breaks("noise_power_of_eta")
class EtaFloored(Langevin):
    """The noise goes by max(eta, 0.006)."""

    def eta(self, group: Mapping[str, Any], k: int) -> float:
        return max(float(group["lr"]), 0.006)


@breaks(
    "noise_power_of_beta",
    {"noise_variance": "at beta other than 1 a wrong power is a wrong size, too"} | TEMPERATURE | FOLLOWING,
)
class RootOfBetaMissing(Langevin):
    """beta sqrt(2 eta) xi."""

    def amplitude(self, beta: float, eta: float) -> float:
        return beta * math.sqrt(2 * eta)


@breaks("noise_power_of_beta")
class BetaCapped(Langevin):
    """The noise goes by min(beta, 0.03)."""

    def beta(self, k: int) -> float:
        return min(self.schedule(k), 0.03)


@breaks("noise_power_of_beta")
class BetaFloored(Langevin):
    """The noise goes by max(beta, 0.001) where there is any."""

    def beta(self, k: int) -> float:
        beta = self.schedule(k)
        return max(beta, 0.001) if beta else beta


# of what law


@breaks("noise_isotropic")
class HalfTheParticlesLouder(Langevin):
    """The first half of the particles gets noise of variance 1.3, the second of 0.7."""

    def shape(self, noise: Tensor, theta: Tensor, g: Tensor, group: Mapping[str, Any], k: int) -> Tensor:
        half = _particles(theta) // 2
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
        half = _particles(theta) // 2
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
