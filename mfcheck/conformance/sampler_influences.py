"""What must not touch the noise (gradient, theta, weight decay, clipping), and the limits of zero gradient and beta."""

from __future__ import annotations

import math
from collections.abc import Sequence
from functools import partial

import torch
from torch import Tensor
from torch.nn.utils import clip_grad_norm_

from mfcheck.conformance.sampler_bench import ETA, Answer, Bench, Check, Scenario, spread, spreads
from mfcheck.conformance.sampler_rule import FunctionChain, OptimizerChain, RuleFailure
from mfcheck.statistics.estimate import Estimate, exact, mean
from mfcheck.statistics.quotient import variance_quotient
from mfcheck.statistics.verdict import Region

#: Constant gradients, a block of coordinates each; what is looked at is the spread within a block.
GRADIENTS = (0.0, 0.1, -1.0, 1.0, 3.0, -10.0)
SPIKES = (1e3, -1e4)
#: In single precision a larger gradient moves theta so far that the noise drowns in its rounding.
SPIKES_SINGLE = (3e2, -1e3)
PLACES = (0.0, 1.0, -1.0, 10.0)
#: eta times weight decay: a decay that multiplies the noise, too, takes three quarters of its variance.
DECAY = 0.5
EACH = 2**16
#: A variance within 5 %: with 2^16 coordinates a block its interval reaches 3 % at a suite's share of alpha.
UNTOUCHED = Region.around(1.0, relative=0.05)


def noise_unaffected_by_gradient(bench: Bench) -> Answer:
    """The noise has the same variance whatever the gradient, from 0.1 to 10 and of either sign."""
    each = bench.count(EACH)
    gradients = bench.blocks(GRADIENTS, each)
    # the last of three steps, when what a rule remembers of the gradients has come to bear
    moved = bench.increments(("gradient",), [torch.zeros_like(gradients)], [gradients], steps=3)[-1][0]
    return Answer(
        _against_none(bench, moved, [f"gradient {g:g}" for g in GRADIENTS], 3),
        scenario=Scenario("(theta - start).var() / (2 * beta * eta)", gradient=10.0),
    )


def noise_unaffected_by_weight_decay(bench: Bench) -> Answer:
    """The noise has the same variance wherever theta is, under weight decay too where the rule has one."""
    each = bench.count(EACH)
    theta = bench.blocks(PLACES, each)
    moved = bench.increments(("place",), [theta])[-1][0]
    checks = list(_against_none(bench, moved, [f"theta {place:g}" for place in PLACES], 1))
    says = "it has no weight decay: theta alone was varied"
    if _decay(bench, theta):
        decayed = bench.increments(("decay",), [theta], change=_with_decay)[-1][0]
        checks += _against_none(bench, decayed, [f"weight decay, theta {place:g}" for place in PLACES], 1)
        says = f"eta x weight decay = {DECAY:g}"
    decay = DECAY / ETA if len(checks) > len(PLACES) else 0.0
    scenario = Scenario("(theta - start).var() / (2 * beta * eta)", start=10.0, weight_decay=decay)
    return Answer(tuple(checks), says, scenario=scenario)


def noise_unaffected_by_clipping(bench: Bench) -> Answer:
    """The noise has the same variance under gradients so large that clipping acts, clipped by the user or not."""
    each = bench.count(EACH)
    spikes = SPIKES if bench.rule.dtype == torch.float64 else SPIKES_SINGLE
    gradients = bench.blocks(spikes, each)
    zero = torch.zeros_like(gradients)
    moved = bench.increments(("spikes",), [zero], [gradients])[-1][0]
    checks = list(_against_none(bench, moved, [f"gradient {g:g}" for g in spikes], 1))
    if bench.rule.kind == "optimizer":
        clipped = bench.increments(("clipped",), [zero], [gradients], change=_clip)[-1][0]
        checks += _against_none(bench, clipped, [f"gradient {g:g} clipped to norm 1" for g in spikes], 1)
    return Answer(tuple(checks), scenario=Scenario("(theta - start).var() / (2 * beta * eta)", gradient=spikes[-1]))


def zero_gradient(bench: Bench) -> Answer:
    """Without a gradient there is noise and nothing else: theta stays where it was on average."""
    each = bench.count(2**18)
    theta = bench.blocks(PLACES, each)
    ((moved,),) = bench.increments(("zero gradient",), [theta])
    rows = moved.view(len(PLACES), -1)
    deviation = math.sqrt(spread(rows[0])[0] / each)
    if deviation == 0:
        # no noise to compare with: then nothing may move at all
        still = float(rows.abs().max())
        return Answer((Check("largest displacement", lambda level: exact(still), Region.at_most(1e-12)),))
    checks = tuple(
        Check(
            f"mean displacement at theta {place:g} over the noise's deviation",
            partial(_mean_of, row / deviation),
            Region.around(0.0, absolute=0.02),
        )
        for place, row in zip(PLACES, rows, strict=True)
    )
    return Answer(checks, scenario=Scenario("(theta - start).mean() / (theta - start).std()", start=10.0))


def zero_beta(bench: Bench) -> Answer:
    """At beta = 0 there is the drift and nothing else: no noise is left, and the drift is that at beta > 0."""
    each = bench.count(EACH)
    values = GRADIENTS[1:]
    gradients = bench.blocks(values, each)
    zero = torch.zeros_like(gradients)
    scenario = Scenario("(theta - start).std()", gradient=1.0, beta=0.0)
    try:
        ((moved,),) = bench.increments(("zero beta", 1), [zero], [gradients], beta=0.0)
    except RuleFailure as failure:
        return Answer(violated=f"at beta = 0: {failure}", scenario=scenario)
    ((noisy,),) = bench.increments(("zero beta", 2), [zero], [gradients])
    still, rows = moved.view(len(values), -1), noisy.view(len(values), -1)
    # a block has one gradient, so that all its coordinates move alike, to the bit
    left = float((still - still[:, :1]).abs().max())
    checks = [Check("noise left at beta = 0", lambda level: exact(left), Region.at_most(_rounding(bench)))]
    drift = ETA * torch.tensor(values, dtype=torch.float64)
    checks += [
        Check(
            f"drift at beta = 0 less that at beta > 0, over eta g, at gradient {value:g}",
            partial(_mean_of, (row - quiet.mean()) / float(size)),
            Region.around(0.0, absolute=0.05),
        )
        # the noise dwarfs the drift of a gradient of 0.1
        for value, size, row, quiet in zip(values, drift, rows, still, strict=True)
        if abs(value) >= 1
    ]
    return Answer(tuple(checks), scenario=scenario)


def _against_none(bench: Bench, moved: Tensor, names: Sequence[str], steps: int) -> tuple[Check, ...]:
    """Each block's variance over that of a run without gradient at theta = 0, at the same step."""
    key = ("quiet", steps)
    if key not in bench.kept:
        theta = bench.full((1, 4 * bench.count(EACH)))
        bench.kept[key] = bench.increments(key, [theta], steps=steps)[-1]
    quiet = spread(bench.kept[key][0])
    return tuple(
        Check(f"variance at {name} / that at none", partial(variance_quotient, block, quiet, 1.0), UNTOUCHED)
        for name, block in zip(names, spreads(moved.view(len(names), -1)), strict=True)
    )


def _mean_of(row: Tensor, level: float) -> Estimate:
    return mean(row.cpu().numpy(), level)


def _rounding(bench: Bench) -> float:
    """What rounding may leave between two coordinates that move alike: vectorised loops may end differently."""
    return 4 * float(torch.finfo(bench.rule.dtype).eps) * ETA * max(abs(g) for g in GRADIENTS)


def _decay(bench: Bench, theta: Tensor) -> bool:
    """Whether the optimiser has a weight decay in its groups."""
    if bench.rule.kind != "optimizer":
        return False
    chain = bench.start(("decay", "groups"), [theta[:, :8]])
    return isinstance(chain, OptimizerChain) and all("weight_decay" in g for g in chain.optimizer.param_groups)


def _with_decay(chain: OptimizerChain | FunctionChain, k: int) -> None:
    if isinstance(chain, OptimizerChain):
        for group in chain.optimizer.param_groups:
            group["weight_decay"] = DECAY / ETA


def _clip(chain: OptimizerChain | FunctionChain, k: int) -> None:
    if isinstance(chain, OptimizerChain):
        clip_grad_norm_(chain.parameters, 1.0)
