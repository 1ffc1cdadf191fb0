"""How much noise an update rule injects: 2 beta eta a step, T times that in T steps, and by which powers it grows."""

from __future__ import annotations

from functools import partial

import torch

from mfcheck.conformance.sampler_bench import BETA, ETA, Answer, Bench, Check, Scenario, spread
from mfcheck.statistics.estimate import variance_ratio
from mfcheck.statistics.quotient import power_between, variance_quotient
from mfcheck.statistics.verdict import Region

#: Coordinates: 2^21 give a variance a standard error of 0.1 %, so that its
#: interval (3.7 of them each way at the share of a suite's alpha) lies inside 1 %.
COORDINATES = 2**21
#: Steps that are added up. The quotient of the variances of 2^19 and 2^20 has a standard error of 0.24 %.
STEPS, ADDED_UP = 8, 2**19
#: Values of eta, and of beta, a factor of ten apart: an exponent within 0.03 is a factor within 7 %.
STEP_SIZES, DIFFUSIONS, RATIO = (0.003, 0.03, 0.3), (0.0005, 0.005, 0.05), 10.0
POWER_COORDINATES = 2**18


def noise_variance(bench: Bench) -> Answer:
    """One step of one particle without a gradient adds noise of variance 2 beta eta."""
    theta = bench.full((1, bench.count(COORDINATES)))
    ((moved,),) = bench.increments(("variance",), [theta])
    total, degrees = spread(moved)
    return Answer(
        (
            Check(
                "variance / (2 beta eta)",
                lambda level: variance_ratio([total], [degrees], 2 * BETA * ETA, level),
                Region.around(1.0, relative=0.01),
            ),
        ),
        f"one step at eta {ETA:g}, beta {BETA:g}",
        scenario=Scenario("(theta - start).var() / (2 * beta * eta)"),
    )


def noise_accumulates(bench: Bench) -> Answer:
    """T steps without a gradient add T times the variance of the first.

    Over the first step's own variance and not 2 beta eta, so that a wrong size is one finding and not two.
    """
    steps = bench.steps(STEPS, 4)
    theta = bench.full((1, bench.count(ADDED_UP)))
    zero = torch.zeros_like(theta)
    chain = bench.start(("accumulates",), [theta])
    bench.afford(steps + 1)
    for _ in range(steps):
        bench.move(chain, [zero])
    end = spread(chain.theta[0].double() - theta.double())
    ((first,),) = bench.increments(("accumulates", "first"), [bench.full((1, bench.count(2 * ADDED_UP)))])
    once = spread(first)
    return Answer(
        (
            Check(
                f"variance of {steps} steps / ({steps} x that of one)",
                lambda level: variance_quotient(end, once, float(steps), level),
                Region.around(1.0, relative=0.02),
            ),
        ),
        scenario=Scenario("(theta - start).var() / (2 * beta * eta * steps)", steps=steps),
    )


def noise_power_of_eta(bench: Bench) -> Answer:
    """The noise's variance grows as the first power of eta."""
    return _power(bench, "eta", STEP_SIZES)


def noise_power_of_beta(bench: Bench) -> Answer:
    """The noise's variance grows as the first power of beta."""
    return _power(bench, "beta", DIFFUSIONS)


def _power(bench: Bench, setting: str, values: tuple[float, ...]) -> Answer:
    theta = bench.full((1, bench.count(POWER_COORDINATES)))
    found = []
    for value in values:
        ((moved,),) = bench.increments((setting, value), [theta], **{setting: value})  # type: ignore[arg-type]
        found.append(spread(moved))
    checks = tuple(
        Check(
            f"power of {setting} from {low:g} to {high:g}",
            partial(power_between, above, below, RATIO),
            Region.around(1.0, absolute=0.03),
        )
        for low, high, below, above in zip(values, values[1:], found, found[1:], strict=False)
    )
    scenario = Scenario(
        f"(theta - start).var() / (2 * beta * eta)  # at {setting} = {values[-1]:g}; compare {setting} = {values[0]:g}",
        eta=values[-1] if setting == "eta" else ETA,
        beta=values[-1] if setting == "beta" else BETA,
    )
    return Answer(checks, f"variance ~ {setting}^p over a factor of {RATIO ** (len(values) - 1):g}", scenario=scenario)
