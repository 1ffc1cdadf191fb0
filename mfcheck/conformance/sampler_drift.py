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

#: Gradients, a block of coordinates each, and how many coordinates keep the noise below 5 % of the smallest drift.
GRADIENTS, EACH = (0.1, -0.1, 1.0, -1.0, 10.0, -10.0), 2**20
SMALL_STEP, STEPS = 0.003, 8
PARTICLES = (1, 8, 64)
#: The curvature and the step of the run that says at which temperature M particles sample.
CURVATURE, SETTLING_STEP, MANY = 4.0, 0.05, 8


def drift(bench: Bench) -> Answer:
    """A particle moves by -eta g on average: in both signs, over two orders of g, at two eta, and over T steps."""
    gradients = bench.blocks(GRADIENTS, bench.count(EACH))
    zero = torch.zeros_like(gradients)
    ((moved,),) = bench.increments(("drift",), [zero], [gradients])
    checks = [
        _check(f"gradient {g:g}", row, g, ETA)
        for g, row in zip(GRADIENTS, moved.view(len(GRADIENTS), -1), strict=True)
    ]
    # the noise shrinks as sqrt(eta), the drift as eta: only the larger gradients stand out at a small step
    large = bench.blocks(GRADIENTS[2:], bench.count(EACH // 4))
    ((moved,),) = bench.increments(("drift", "small step"), [torch.zeros_like(large)], [large], eta=SMALL_STEP)
    checks += [
        _check(f"gradient {g:g}, eta {SMALL_STEP:g}", row, g, SMALL_STEP)
        for g, row in zip(GRADIENTS[2:], moved.view(len(GRADIENTS) - 2, -1), strict=True)
    ]
    steps = bench.steps(STEPS, 4)
    many = bench.increments(("drift", "steps"), [torch.zeros_like(large)], [large], steps=steps)
    total = torch.stack([step[0] for step in many]).sum(0).view(len(GRADIENTS) - 2, -1)
    checks += [
        _check(f"gradient {g:g}, over {steps} steps", row, g, ETA * steps)
        for g, row in zip(GRADIENTS[2:], total, strict=True)
    ]
    return Answer(tuple(checks), scenario=Scenario("(theta - start).mean() / -eta", gradient=1.0))


def scaling(bench: Bench) -> Answer:
    """The drift is g whatever M (raw) or M g (mean_field), and the noise is the same whatever M."""
    moved = {}
    for particles in PARTICLES:
        shape = (particles, bench.count(2**18) // particles)
        if shape[1] < 1:
            raise ValueError("a run has a coordinate for every particle")
        ((moved[particles],),) = bench.increments(("scaling", particles), [bench.full(shape)], [bench.full(shape, 1.0)])
    factor = {particles: -float(x.mean()) / ETA for particles, x in moved.items()}
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
        run = settle(bench, ("scaling", "settle"), (CURVATURE,), SETTLING_STEP, 2**13, MANY, share=1 / MANY)
        measured = run.estimates(1e-3)[0]
        if measured.problem is None and measured.point > 0 and math.isfinite(measured.point):
            says += (
                f"; on a risk averaged over M = {MANY} particles it samples at {measured.point:.3g} beta "
                f"[{measured.lower:.3g}, {measured.upper:.3g}]"
            )
            facts["temperature at M = 8"] = measured.point
    return Answer(tuple(checks), says, facts, Scenario("(theta - start).mean() / -eta", particles=8, gradient=1.0))


def _nearest(factor: dict[int, float]) -> str:
    """The convention whose power of M, 0 or 1, is nearer to the drift's at M = 8."""
    quotient = factor[8] / factor[1] if factor[1] else 1.0
    return "mean_field" if quotient > math.sqrt(8.0) else "raw"


def _check(name: str, moved: Tensor, gradient: float, eta: float) -> Check:
    return Check(
        f"drift / (-eta g) at {name}", partial(_mean_of, moved / (-eta * gradient)), Region.around(1.0, absolute=0.05)
    )


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
