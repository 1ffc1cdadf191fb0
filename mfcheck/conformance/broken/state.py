"""Schedules that are not followed, randomness from elsewhere, wrong records and a state that is not whole."""

from __future__ import annotations

from collections.abc import Mapping
from types import SimpleNamespace
from typing import Any

import torch
from torch import Tensor

from mfcheck.conformance.broken.base import Langevin, breaks


@breaks("schedules")
class LrOfTheStart(Langevin):
    """The noise goes by the lr that the optimiser was made with."""

    def eta(self, group: Mapping[str, Any], k: int) -> float:
        return float(self.defaults["lr"])


@breaks("schedules")
class LrOfStepBefore(Langevin):
    """The noise goes by the lr of the step before."""

    def prepare(self) -> None:
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

    def prepare(self) -> None:
        self.records = [SimpleNamespace(beta=self.schedule(0), eta=self.defaults["lr"] / 2)]


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
