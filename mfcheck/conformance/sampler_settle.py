"""The temperature at which an update rule really samples: chains on quadratics, run until their variance settles."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial

import torch
from jaxtyping import Float
from torch import Tensor

from mfcheck.conformance.sampler_bench import BETA, Answer, Bench, Check, Scenario, spreads
from mfcheck.conformance.sampler_rule import RuleFailure
from mfcheck.statistics.estimate import Estimate, variance_ratio
from mfcheck.statistics.verdict import Region

#: a eta from 0.025 to 0.2: slow enough that the step's own bias is small, quick enough to relax in 184 steps.
CURVATURES, STEP, CHAINS = (0.5, 1.0, 2.0, 4.0), 0.05, 2**16
#: Relaxation times that a run lasts: exp(-2 x 4.6) of a wrong start is left in the variance, 1e-4.
RELAXATIONS = 4.6
#: The variance has settled where the second half of a run has changed it by less than this.
SETTLED = 0.05
#: A longer run of a rule that relaxes slowly: so many times longer, on so many times fewer chains.
LONGER, FEWER = 16, 16
#: A variance so many times the expected one is not waited for.
RUNAWAY = 1e6


@dataclass(frozen=True)
class Settled:
    """Variances over chains at the end of a run, by curvature, as temperatures over beta.

    expected: the variance at temperature beta; final, earlier: sums of squares and degrees at the end and half-way.
    """

    curvatures: tuple[float, ...]
    expected: tuple[float, ...]
    final: tuple[tuple[float, int], ...]
    earlier: tuple[tuple[float, int], ...]
    steps: int
    failure: str | None = None

    @property
    def settled(self) -> bool:
        """Whether the second half of the run left the variances as they were."""
        return all(
            a[0] > 0 and abs(a[0] / b[0] * b[1] / a[1] - 1) < _room(a[1]) if b[0] > 0 else a[0] == 0
            for a, b in zip(self.final, self.earlier, strict=True)
        )

    @property
    def runs_away(self) -> bool:
        """Whether some variance grew beyond all bounds."""
        return self.failure is not None or any(
            total / degrees > RUNAWAY * v for (total, degrees), v in zip(self.final, self.expected, strict=True)
        )

    def estimates(self, rate: float) -> list[Estimate]:
        """The temperature over beta at each curvature, intervals at level 1 - rate."""
        return [self.temperature(index, 1 - rate) for index in range(len(self.curvatures))]

    def temperature(self, index: int, level: float) -> Estimate:
        """The temperature over beta at one curvature: undecided while the variance still changes."""
        total, degrees = self.final[index]
        if not (self.settled or self.runs_away):
            return Estimate(
                math.nan,
                -math.inf,
                math.inf,
                level,
                degrees,
                problem=f"the variance has not settled after {self.steps} steps: it is {total / degrees:.3g}",
            )
        return variance_ratio([total], [degrees], self.expected[index], level)


def settle(
    bench: Bench,
    names: Sequence[object],
    curvatures: tuple[float, ...],
    eta: float,
    chains: int,
    particles: int = 1,
    share: float = 1.0,
    contraction: float = 1.0,
) -> Settled:
    """Runs chains of U = a theta^2 / 2 from Euler-Maruyama's own stationary law until their variance settles.

    chains: for each curvature and particle; the rule is handed share a theta. A rule that is right stays where it
    starts; another one relaxes to its own law, and is run on, with fewer chains, while it has not. contraction: how
    many times a theta the drift is, where that is known not to be once: it enters the step's own bias.
    """
    expected = tuple(BETA / (a * (1 - contraction * a * eta / 2)) for a in curvatures)
    width = max(8, bench.count(chains))
    steps = math.ceil(RELAXATIONS / (min(curvatures) * share * eta))
    run = _run(bench, (*names, "short"), curvatures, expected, eta, width, steps, particles, share)
    if run.settled or run.runs_away or bench.steps(1, 0) == 0:
        return run
    width = max(8, width // FEWER)
    return _run(bench, (*names, "long"), curvatures, expected, eta, width, LONGER * steps, particles, share)


def stationary_temperature(bench: Bench) -> Answer:
    """On quadratics of several curvatures the stationary variance is that of temperature beta.

    Euler-Maruyama's own is beta / (a (1 - a eta / 2)), which is what 1.0 beta means here; the region reaches down to
    beta / a, so that a scheme without that bias is not blamed.
    """
    run = settle(bench, ("settle",), CURVATURES, STEP, CHAINS)
    scenario = Scenario("theta.var() / (beta / (4 * (1 - 4 * eta / 2)))", gradient="4 * theta", steps=500, eta=STEP)
    if run.failure is not None:
        return Answer(violated=f"on a quadratic, after {run.steps} steps: {run.failure}", scenario=scenario)
    checks = tuple(
        Check(
            f"temperature / beta at curvature {a:g}",
            partial(run.temperature, index),
            Region(0.95 - a * STEP / 2, 1.05, 1.0),
        )
        for index, a in enumerate(CURVATURES)
    )
    facts = {"temperatures": [e.point for e in run.estimates(1e-3)], "curvatures": list(CURVATURES)}
    return Answer(checks, _said(run), facts, scenario)


def _said(run: Settled) -> str:
    """The temperature in words: one number where the curvatures agree, one for each where they do not."""
    if run.runs_away:
        return "the variance grows without bound: it does not sample at all"
    found = run.estimates(1e-3)
    if any(estimate.problem for estimate in found):
        return ""
    if max(e.lower for e in found) <= min(e.upper for e in found) * 1.05:
        total = sum(total / v for (total, _), v in zip(run.final, run.expected, strict=True))
        pooled = variance_ratio([total], [sum(degrees for _, degrees in run.final)], 1.0, 1 - 1e-3)
        return f"samples at {pooled.point:.3f} beta [{pooled.lower:.3f}, {pooled.upper:.3f}]"
    each = ", ".join(f"{e.point:.3g} beta at {a:g}" for e, a in zip(found, run.curvatures, strict=True))
    return f"samples at a temperature that depends on the curvature: {each}"


def _run(
    bench: Bench,
    names: Sequence[object],
    curvatures: tuple[float, ...],
    expected: tuple[float, ...],
    eta: float,
    width: int,
    steps: int,
    particles: int,
    share: float,
) -> Settled:
    row = torch.tensor(curvatures, dtype=bench.rule.dtype, device=bench.rule.device).repeat_interleave(width)[None]
    scale = torch.tensor(expected, dtype=bench.rule.dtype, device=bench.rule.device).sqrt().repeat_interleave(width)
    drawn = torch.randn(
        particles,
        len(row[0]),
        generator=bench.generator(*names, "start"),
        dtype=bench.rule.dtype,
        device=bench.rule.device,
    )
    bench.afford(steps)
    chain = bench.start(names, [drawn * scale], eta)
    force = row * share
    earlier = _spreads(chain.theta[0], len(curvatures))
    for k in range(1, steps + 1):
        try:
            bench.move(chain, [force * chain.theta[0]])
        except RuleFailure as failure:
            return Settled(curvatures, expected, tuple(earlier), tuple(earlier), k, str(failure))
        if k == steps // 2:
            earlier = _spreads(chain.theta[0], len(curvatures))
        if k % 16 == 0 and float(chain.theta[0].abs().max()) > math.sqrt(RUNAWAY * max(expected)) * 10:
            break
    return Settled(curvatures, expected, tuple(_spreads(chain.theta[0], len(curvatures))), tuple(earlier), k)


def _spreads(theta: Float[Tensor, "M D"], blocks: int) -> list[tuple[float, int]]:
    rows = theta.double().view(theta.shape[0], blocks, -1).movedim(1, 0).reshape(blocks, -1)
    return spreads(rows)


def _room(degrees: int) -> float:
    """SETTLED, or what sampling alone does to the quotient of two variances: four standard errors."""
    return max(SETTLED, 4 * 2 / math.sqrt(degrees))
