"""What an update rule does with the gradient: the size and sign of its drift, and how that depends on M."""

from __future__ import annotations

import math
from functools import partial

import torch
from torch import Tensor

from mfcheck.conformance.sampler_bench import ETA, Answer, Bench, Check, Scenario, spread
from mfcheck.conformance.sampler_settle import settle
from mfcheck.statistics.estimate import Estimate, mean
from mfcheck.statistics.quotient import variance_quotient
from mfcheck.statistics.verdict import Region

#: Gradients, two blocks of coordinates each, of either sign, and how many coordinates keep the noise below 5 % of the
#: smallest drift.
GRADIENTS, EACH = (0.2, 1.0, 10.0), 2**18
SMALL_STEP, STEPS = 0.003, 8
PARTICLES = (1, 8, 64)
#: The gradient on M particles: large, so that a drift a hundred times too small still stands out from the noise.
PULL = 10.0
#: The curvature and the step of the run that says at which temperature M particles sample.
CURVATURE, SETTLING_STEP, MANY = 4.0, 0.05, 8


def drift(bench: Bench) -> Answer:
    """A particle moves by -eta g on average: over a factor of 50 in g, at two eta, and over T steps.

    Half the difference of what g and -g do: noise that is off its centre is another property's.
    """
    checks = _sizes(bench, ("drift",), GRADIENTS, ETA)
    # the noise shrinks as sqrt(eta), the drift as eta: only the larger gradients stand out at a small step
    checks += _sizes(bench, ("drift", "small step"), GRADIENTS[1:], SMALL_STEP, said=f", eta {SMALL_STEP:g}")
    steps = bench.steps(STEPS, 4)
    checks += _sizes(bench, ("drift", "steps"), GRADIENTS[1:], ETA, steps, said=f", over {steps} steps")
    return Answer(tuple(checks), scenario=Scenario("(theta - start).mean() / -eta", gradient=1.0))


def _sizes(
    bench: Bench, names: tuple[str, ...], values: tuple[float, ...], eta: float, steps: int = 1, said: str = ""
) -> list[Check]:
    gradients = bench.blocks([sign * g for g in values for sign in (1, -1)], bench.count(EACH // steps))
    moved = bench.increments(names, [torch.zeros_like(gradients)], [gradients], steps=steps, eta=eta)
    total = torch.stack([step[0] for step in moved]).sum(0).view(len(values), 2, -1)
    return [
        Check(
            f"drift / (-eta g) at gradient {g:g}{said}",
            partial(_mean_of, (down - up) / (-2 * eta * steps * g)),
            Region.around(1.0, absolute=0.05),
        )
        for g, (down, up) in zip(values, total, strict=True)
    ]


def scaling(bench: Bench) -> Answer:
    """The drift is g whatever M (raw) or M g (mean_field), and the noise is the same whatever M."""
    moved = {}
    for particles in PARTICLES:
        shape = (particles, max(1, bench.count(2**18) // particles))
        pull = bench.full(shape, PULL)
        ((moved[particles],),) = bench.increments(("scaling", particles), [bench.full(shape)], [pull])
    factor = {particles: -float(x.mean()) / (ETA * PULL) for particles, x in moved.items()}
    convention = bench.scaling or _nearest(factor)
    checks = []
    for particles in PARTICLES[1:]:
        expected = particles if convention == "mean_field" else 1
        checks.append(
            Check(
                f"drift at M = {particles} / drift at M = 1, over {'M' if convention == 'mean_field' else '1'}",
                partial(_quotient_of_means, moved[particles] / expected, moved[1]),
                Region.around(1.0, relative=0.05),
            )
        )
        checks.append(
            Check(
                f"noise variance at M = {particles} / that at M = 1",
                partial(variance_quotient, spread(moved[particles]), spread(moved[1]), 1.0),
                Region.around(1.0, relative=0.05),
            )
        )
    says = f"the drift is {'M g (mean_field)' if convention == 'mean_field' else 'g whatever M (raw)'}"
    facts: dict[str, float | str] = {"convention": convention}
    if bench.steps(1, 0):
        # the risk of a mean over particles, whose gradient by theta_i is U'(theta_i) / M
        run = settle(
            bench,
            ("scaling", "settle"),
            (CURVATURE,),
            SETTLING_STEP,
            2**13,
            MANY,
            share=1 / MANY,
            contraction=factor[MANY] / MANY,
        )
        measured = run.estimates(1e-3)[0]
        if measured.problem is None and measured.point > 0 and math.isfinite(measured.point):
            says += (
                f"; on a risk averaged over M = {MANY} particles it samples at {measured.point:.3g} beta "
                f"[{measured.lower:.3g}, {measured.upper:.3g}]"
            )
            facts["temperature at M = 8"] = measured.point
    return Answer(tuple(checks), says, facts, Scenario("(theta - start).mean() / -eta", particles=MANY, gradient=1.0))


def _nearest(factor: dict[int, float]) -> str:
    """The convention whose power of M, 0 or 1, is nearer to the drift's at M = 8."""
    quotient = factor[8] / factor[1] if factor[1] else 1.0
    return "mean_field" if quotient > math.sqrt(8.0) else "raw"


def _mean_of(row: Tensor, level: float) -> Estimate:
    return mean(row.cpu().numpy(), level)


def _quotient_of_means(above: Tensor, below: Tensor, level: float) -> Estimate:
    """mean(above) / mean(below), samples apart from one another, by Fieller's theorem's outer bounds."""
    half = 1 - (1 - level) / 2
    a, b = _mean_of(above.flatten(), half), _mean_of(below.flatten(), half)
    if a.problem or b.problem or b.lower <= 0 <= b.upper:
        problem = a.problem or b.problem or "the drift at M = 1 is not told from none"
        return Estimate(math.nan, -math.inf, math.inf, level, a.n, problem=problem)
    ends = [x / y for x in (a.lower, a.upper) for y in (b.lower, b.upper)]
    return Estimate(a.point / b.point, min(ends), max(ends), level, min(a.n, b.n))
