"""Whether the noise follows the step and the diffusion while they change under way."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

import torch
from torch.optim import Optimizer
from torch.optim.lr_scheduler import LambdaLR

from mfcheck.conformance.sampler_bench import BETA, ETA, Answer, Bench, Check, Scenario, spread
from mfcheck.conformance.sampler_rule import FunctionChain, OptimizerChain, RuleFailure
from mfcheck.dynamics.schedules import Schedule
from mfcheck.statistics.quotient import variance_quotient
from mfcheck.statistics.verdict import Region

#: What multiplies eta, or beta, at each step: no two neighbours alike, so that a schedule shifted by a step is seen.
FACTORS = (1.0, 0.25, 4.0, 0.5, 2.0, 0.3)
COORDINATES = 2**17
FOLLOWS = Region.around(1.0, relative=0.05)


def schedules(bench: Bench) -> Answer:
    """With eta_k, or beta_k, the noise of step k has variance proportional to beta_k eta_k at that very step.

    Over the variance of the same step at constant settings. An optimiser's lr follows torch's LambdaLR; its beta is a
    schedule k -> beta_k where it takes one, and a group's entry "beta" where it has one. A function is handed both.
    """
    factors = FACTORS[: bench.steps(len(FACTORS), 3)]
    theta = bench.full((1, bench.count(COORDINATES)))
    constant = bench.increments(("schedules", "constant"), [theta], steps=len(factors))
    quiet = [spread(step[0]) for step in constant]
    checks = _follows(bench, "eta", "lr", factors, quiet)
    said = []
    if bench.rule.kind == "update":
        checks += _follows(bench, "beta", "beta", factors, quiet)
    else:
        trial = bench.start(("schedules", "trial"), [theta[:, :8]])
        assert isinstance(trial, OptimizerChain)
        if all(isinstance(group.get("beta"), (int, float)) for group in trial.optimizer.param_groups):
            checks += _follows(bench, "beta", "beta", factors, quiet)
        if _takes_schedule(bench):
            checks += _follows(bench, "schedule", "", factors, quiet)
        else:
            said.append("its beta is a number, no schedule k -> beta_k")
    return Answer(
        tuple(checks),
        "; ".join(said),
        scenario=Scenario(
            "(theta - start).var() / (2 * beta * eta * sum(factors))", steps=len(factors), factors=factors
        ),
    )


def _follows(bench: Bench, what: str, entry: str, factors: tuple[float, ...], quiet: list[Any]) -> list[Check]:
    theta = bench.full((1, bench.count(COORDINATES)))
    changed: Callable[[OptimizerChain | FunctionChain, int], None] | None = _change(entry, factors) if entry else None
    beta: Any = Schedule("of the suite", lambda k: BETA * factors[k] if k < len(factors) else BETA)
    moved = bench.increments(
        ("schedules", what),
        [theta],
        steps=len(factors),
        beta=beta if what == "schedule" else BETA,
        change=changed,
    )
    shown = {"eta": "eta_k", "beta": "beta_k", "schedule": "beta_k of a schedule"}[what]
    return [
        Check(
            f"variance at step {k} under {shown} = {factor:g} of the first, over that",
            partial(variance_quotient, spread(step[0]), quiet[k], factor),
            FOLLOWS,
        )
        for k, (factor, step) in enumerate(zip(factors, moved, strict=True))
    ]


def _change(entry: str, factors: tuple[float, ...]) -> Callable[[OptimizerChain | FunctionChain, int], None]:
    """Sets lr or beta before step k, an optimiser's lr through torch's own scheduler."""
    kept: list[LambdaLR] = []

    def change(chain: OptimizerChain | FunctionChain, k: int) -> None:
        if isinstance(chain, FunctionChain):
            if entry == "lr":
                chain.step = ETA * factors[k]
            else:
                chain.beta = BETA * factors[k]
        elif entry == "lr":
            if not kept:
                kept.append(LambdaLR(chain.optimizer, lambda step: factors[min(step, len(factors) - 1)]))
            else:
                kept[0].step()
        else:
            _set(chain.optimizer, entry, BETA * factors[k])

    return change


def _set(optimizer: Optimizer, entry: str, value: float) -> None:
    for group in optimizer.param_groups:
        group[entry] = value


def _takes_schedule(bench: Bench) -> bool:
    """Whether an optimiser can be made with a schedule for beta, and steps."""
    theta = bench.full((1, 8))
    try:
        chain = bench.start(("schedules", "accepts"), [theta], beta=Schedule("of the suite", lambda k: BETA))
        bench.move(chain, [torch.zeros_like(theta)])
    except RuleFailure:
        return False
    return True
