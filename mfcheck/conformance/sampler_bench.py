"""The bench on which an update rule is measured: its runs, their sizes, and the time that they may take."""

from __future__ import annotations

import functools
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import torch
from jaxtyping import Float
from torch import Tensor

from mfcheck.conformance.sampler_rule import OPTIMIZER, FunctionChain, OptimizerChain, UpdateRule
from mfcheck.conformance.surroundings import least_seconds
from mfcheck.statistics.estimate import Estimate
from mfcheck.statistics.seeds import Stream
from mfcheck.statistics.verdict import Region

#: The step and the diffusion of every run that does not vary them.
ETA, BETA = 0.03, 0.005
#: What a whole suite asks of a rule at full size, rounded up: steps, and coordinates moved in all of them.
SUITE_STEPS, SUITE_COORDINATES = 500, 1e8
#: Fewer coordinates than this share of the full size decide nothing.
SMALLEST_SCALE = 1 / 4096


class TooSlow(Exception):
    """The time that the suite may take does not reach for the steps that a property needs: a sentence."""


class Inapplicable(Exception):
    """A property says nothing about this rule: a sentence on why."""


@dataclass(frozen=True)
class Check:
    """One number of a property: its name, an estimator level -> Estimate, and the region where the property holds."""

    name: str
    estimate: Callable[[float], Estimate]
    region: Region


@dataclass(frozen=True)
class Scenario:
    """What a counterexample sets up: theta [M, D] filled with `start`, gradients with `gradient` (a number, or
    "4 * theta"), steps of eta (times `factors`, one a step) at beta, and `shows`, an expression of theta, start, eta,
    beta, steps, factors and run(seed) -> theta. weight_decay: put in an optimiser's group; looks_at: an expression of
    parameter and optimizer, printed after the steps; resumes: goes on with and without a state_dict.
    """

    shows: str
    particles: int = 1
    coordinates: int = 100_000
    start: float = 0.0
    gradient: float | str = 0.0
    steps: int = 1
    eta: float = ETA
    beta: float = BETA
    factors: tuple[float, ...] = ()
    weight_decay: float = 0.0
    looks_at: str = ""
    resumes: bool = False


@dataclass(frozen=True)
class Answer:
    """What a property measured: its checks, words that go with them, numbers by name, and how to see it alone."""

    checks: tuple[Check, ...] = ()
    says: str = ""
    facts: Mapping[str, Any] = field(default_factory=dict)
    scenario: Scenario | None = None
    not_applicable: str | None = None
    #: A sentence where the rule failed outright, with nothing to estimate.
    violated: str | None = None


@dataclass
class Clock:
    """What the rule was asked so far: seconds and steps, and coordinates moved in all of them."""

    seconds: float = 0.0
    steps: int = 0
    coordinates: float = 0.0


@dataclass(eq=False)
class Bench:
    """A rule, its randomness, and how much of it may be used.

    stream: names the runs' randomness. scale: share of the full number of coordinates. budget: seconds for all
    steps; None for no limit. scaling: the convention that the rule declares, raw or mean_field, or None for either.
    """

    rule: UpdateRule
    stream: Stream
    scale: float = 1.0
    budget: float | None = None
    scaling: str | None = None
    n_train: int | None = None
    #: Seconds of a step whatever its size, and seconds for each coordinate more; what that did to the scale.
    fixed: float = 0.0
    each: float = 0.0
    slowed: float = 1.0
    clock: Clock = field(default_factory=Clock)
    kept: dict[tuple[Any, ...], list[Tensor]] = field(default_factory=dict)

    @property
    def tensors(self) -> int:
        """How many parameter tensors a run has: two for an optimiser, which draws for each of them."""
        return 2 if self.rule.kind == OPTIMIZER else 1

    def count(self, full: int) -> int:
        """The number of coordinates to take where `full` are wanted."""
        return max(64, round(full * self.scale))

    def steps(self, full: int, least: int) -> int:
        """The number of steps to take where `full` are wanted and `least` will do: fewer of a rule that is slow."""
        if self.budget is None or self.fixed * SUITE_STEPS < self.budget:
            return full
        return least

    def generator(self, *names: object) -> torch.Generator:
        """The generator of a run."""
        return self.stream.child(*names).torch(self.rule.device)

    def full(self, shape: tuple[int, int], value: float = 0.0) -> Float[Tensor, "M D"]:
        """A tensor of the rule's own dtype and device."""
        return torch.full(shape, value, dtype=self.rule.dtype, device=self.rule.device)

    def blocks(self, values: Sequence[float], each: int) -> Float[Tensor, "1 D"]:
        """One particle whose coordinates hold each value in turn, `each` of them in a row."""
        row = torch.tensor(values, dtype=self.rule.dtype, device=self.rule.device)
        return row.repeat_interleave(each)[None]

    def larger(self, factor: int, look: str) -> Bench:
        """A bench with `factor` times the samples and randomness of its own, on the same clock."""
        return replace(self, stream=self.stream.child(look), scale=self.scale * factor, kept={}, clock=self.clock)

    def start(
        self, names: Sequence[object], theta: Sequence[Tensor], eta: float = ETA, beta: Any = BETA
    ) -> OptimizerChain | FunctionChain:
        """Chains at theta, with the randomness of these names."""
        return self.rule.start(theta, eta, beta, self.generator(*names))

    def move(self, chain: OptimizerChain | FunctionChain, gradients: Sequence[Tensor] | None = None) -> None:
        """One step of a chain, on the clock. Raises TooSlow where the budget is spent, RuleFailure where it fails."""
        self.afford(1)
        began = time.perf_counter()
        chain.move(gradients)  # type: ignore[arg-type]
        self.clock.seconds += time.perf_counter() - began
        self.clock.steps += 1
        self.clock.coordinates += sum(part.numel() for part in chain.theta)

    def afford(self, steps: int) -> None:
        """Raises TooSlow where so many more steps would overrun the budget."""
        if self.budget is not None and self.clock.seconds + steps * self.fixed > self.budget:
            raise TooSlow(
                f"a step takes {self.fixed:.2g} s: {steps} more would overrun the budget of {self.budget:g} s; a "
                "larger budget (--budget) decides it"
            )

    def increments(
        self,
        names: Sequence[object],
        theta: Sequence[Tensor],
        gradients: Sequence[Tensor] | None = None,
        *,
        steps: int = 1,
        eta: float = ETA,
        beta: float = BETA,
        change: Callable[[OptimizerChain | FunctionChain, int], None] | None = None,
    ) -> list[list[Tensor]]:
        """theta_{k+1} - theta_k in double precision, [step][tensor], under constant gradients (zero if none).

        change(chain, k) is called before step k: a schedule, weight decay, clipping.
        """
        self.afford(steps)
        chain = self.start(names, theta, eta, beta)
        given = gradients if gradients is not None else [torch.zeros_like(part) for part in theta]
        found = []
        before = [part.clone() for part in chain.theta]
        for k in range(steps):
            if change is not None:
                if isinstance(chain, OptimizerChain):
                    chain.give(given)
                change(chain, k)
            put = change is not None and isinstance(chain, OptimizerChain)
            self.move(chain, None if put else given)
            after = [part.clone() for part in chain.theta]
            found.append([b.double() - a.double() for a, b in zip(before, after, strict=True)])
            before = after
        return found


def spread(x: Tensor) -> tuple[float, int]:
    """Sum of squares about the mean, and its degrees of freedom."""
    return float((x - x.mean()).square().sum()), x.numel() - 1


def spreads(x: Float[Tensor, "blocks n"]) -> list[tuple[float, int]]:
    """`spread` of every block."""
    centred = x - x.mean(-1, keepdim=True)
    return [(value, x.shape[-1] - 1) for value in centred.square().sum(-1).tolist()]


def measure_speed(bench: Bench) -> None:
    """Times a small step and a large one; scales samples down where the whole suite would overrun its budget."""
    small, large = bench.full((1, 64)), bench.full((1, 2**15))
    times = []
    for theta in (small, large):
        chain = bench.start(("speed",), [theta])
        zero = [torch.zeros_like(theta)]
        times.append(least_seconds(functools.partial(chain.move, zero)))
    bench.fixed = times[0]
    bench.each = max(0.0, times[1] - times[0]) / large.numel()
    wanted = bench.each * SUITE_COORDINATES * bench.scale
    if bench.budget is not None and wanted > bench.budget:
        bench.slowed = max(SMALLEST_SCALE, bench.budget / wanted)
        bench.scale *= bench.slowed
