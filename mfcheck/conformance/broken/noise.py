"""Too much noise, too little, or by the wrong power of eta or beta."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

from torch import Tensor

from mfcheck.conformance.broken.base import FOLLOWING, TEMPERATURE, Langevin, breaks


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
