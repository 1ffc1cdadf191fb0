"""More update rules that break one property each: what touches the noise, the drift, and what is kept."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping
from types import SimpleNamespace
from typing import Any

import torch
from torch import Tensor

from mfcheck.conformance.broken_samplers import TEMPERATURE, Langevin, breaks
from mfcheck.dynamics.schedules import Schedule

# what must not touch the noise


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


# the limits


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


# the drift


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


# schedules


@breaks("schedules")
class LrOfTheStart(Langevin):
    """The noise goes by the lr that the optimiser was made with."""

    def eta(self, group: Mapping[str, Any], k: int) -> float:
        return float(self.defaults["lr"])


@breaks("schedules")
class LrOfStepBefore(Langevin):
    """The noise goes by the lr of the step before."""

    def __init__(
        self,
        params: Iterable[Tensor],
        lr: float,
        beta: float | Schedule | Callable[[int], float],
        generator: torch.Generator,
    ) -> None:
        super().__init__(params, lr, beta, generator)
        for group in self.param_groups:
            group["seen"] = {}

    def eta(self, group: Mapping[str, Any], k: int) -> float:
        seen: dict[int, float] = group["seen"]
        seen[k] = float(group["lr"])
        return seen[max(k - 1, 0)]


@breaks("schedules")
class BetaOfTheStart(Langevin):
    """A schedule of beta is read once."""

    def beta(self, k: int) -> float:
        return self.schedule(0)


# what is kept


@breaks("reproducible")
class GlobalGenerator(Langevin):
    """The noise comes from torch's global generator."""

    def draw(self, theta: Tensor, k: int) -> Tensor:
        return torch.randn_like(theta)


@breaks("reproducible")
class SeedOfItsOwn(Langevin):
    """The noise of step k comes from seed k, whatever generator was handed over."""

    def draw(self, theta: Tensor, k: int) -> Tensor:
        places = [p for group in self.param_groups for p in group["params"]]
        place = next(i for i, p in enumerate(places) if p is theta)
        own = torch.Generator(theta.device).manual_seed(1000 * (k + 1) + place)
        return torch.randn(theta.shape, generator=own, dtype=theta.dtype, device=theta.device)


@breaks("records")
class RecordsTheDraw(Langevin):
    """The noise on record is xi, before it was scaled."""

    def record(self, state: dict[str, Any], noise: Tensor, drawn: Tensor) -> None:
        state["noise"] = drawn


@breaks("records")
class RecordsStepBefore(Langevin):
    """The noise on record is that of the step before."""

    def record(self, state: dict[str, Any], noise: Tensor, drawn: Tensor) -> None:
        state["noise"] = state.get("last", torch.zeros_like(noise))
        state["last"] = noise.clone()


@breaks("records")
class RecordsHalfTheStep(Langevin):
    """The records say half the step that was made."""

    def __init__(
        self,
        params: Iterable[Tensor],
        lr: float,
        beta: float | Schedule | Callable[[int], float],
        generator: torch.Generator,
    ) -> None:
        super().__init__(params, lr, beta, generator)
        self.records = [SimpleNamespace(beta=self.schedule(0), eta=lr / 2)]


@breaks("state_dict")
class CountsOutsideOfState(Langevin):
    """The noise comes from the generator's seed and a count of steps that is not in the state."""

    def draw(self, theta: Tensor, k: int) -> Tensor:
        self.made = getattr(self, "made", 0) + 1
        own = torch.Generator(theta.device).manual_seed((self.generator.initial_seed() + 7919 * self.made) % 2**63)
        return torch.randn(theta.shape, generator=own, dtype=theta.dtype, device=theta.device)


@breaks("state_dict")
class DrawsAhead(Langevin):
    """Noise is drawn for two steps at a time, and kept outside of the state."""

    def draw(self, theta: Tensor, k: int) -> Tensor:
        ahead = self.__dict__.setdefault("ahead", {})
        if id(theta) in ahead:
            return ahead.pop(id(theta))
        ahead[id(theta)] = super().draw(theta, k)
        return super().draw(theta, k)


@breaks("state_dict")
class EmptyState(Langevin):
    """state_dict() is empty."""

    def state_dict(self) -> dict[str, Any]:
        return {}
