"""What an update rule keeps: its randomness, its records, its state_dict."""

from __future__ import annotations

import io
import random
from collections.abc import Sequence
from typing import Any

import numpy as np
import torch
from torch import Tensor

from mfcheck.conformance.sampler_bench import BETA, ETA, Answer, Bench, Check, Scenario
from mfcheck.conformance.sampler_rule import FunctionChain, OptimizerChain, RuleFailure
from mfcheck.statistics.estimate import exact
from mfcheck.statistics.verdict import Region

SHAPE, STEPS = (4, 64), 3
#: A number that must be zero, to the bit.
NOTHING = Region.at_most(1e-300)


def reproducible(bench: Bench) -> Answer:
    """The generator's seed decides the noise: equal seeds the same bits, other seeds other noise."""
    names = ("reproducible", 1)
    first, again = (_walk(bench, names, shared) for shared in (1, 2))
    other = _walk(bench, ("reproducible", 2), 1)
    differs = float((first != again).double().mean())
    same = float((first == other).double().mean())
    # with the global generators seeded alike too: do the bits come from there?
    shared = torch.equal(first, _walk(bench, names, 1))
    says = ""
    if differs and shared:
        says = "the noise comes from a global generator (torch, NumPy or random), not from the one that was handed over"
    elif differs:
        says = "equal seeds give different noise"
    elif same > 0.5:
        says = "another seed gives the same noise: the generator that was handed over is not used"
    checks = (
        Check("share of coordinates that differ between equal seeds", lambda level: exact(differs), NOTHING),
        Check("share of coordinates that agree between other seeds", lambda level: exact(same), Region.at_most(0.5)),
    )
    return Answer(
        checks,
        says,
        {"global": bool(differs and shared)},
        Scenario("(theta != run(0)).double().mean(), (theta == run(1)).double().mean()"),
    )


def records(bench: Bench) -> Answer:
    """Where the rule records its noise and its step, they are what was applied.

    Looked for: tensors state[parameter]["noise"]; an attribute `records` of objects with beta, eta, noise_mean_square
    and effective_mean (as mfcheck.Langevin leaves them); of a function, a second value returned, the noise.
    """
    theta = bench.full(SHAPE)
    chain = bench.start(("records",), [theta] * bench.tensors)
    before = [part.clone() for part in chain.theta]
    bench.move(chain, [torch.zeros_like(part) for part in chain.theta])
    moved = [a.double() - b.double() for a, b in zip(chain.theta, before, strict=True)]
    # theta stands at 0, so that what was added is there to rounding
    rounding = 16 * float(torch.finfo(bench.rule.dtype).eps)
    checks = []
    if chain.recorded_noise is not None:
        said = chain.recorded_noise
        error = max(_apart(a.double(), b) for a, b in zip(said, moved, strict=True))
        checks.append(_small("recorded noise less what was added, over its size", error, rounding))
    last = _last_record(chain)
    if last is not None:
        checks += _record_checks(bench, last, moved, rounding)
    if not checks:
        return Answer(
            not_applicable="it records nothing that the suite knows of: state[parameter]['noise'], an attribute "
            "records, or, of a function, a second value returned"
        )
    looks_at = 'optimizer.state[parameter]["noise"]' if chain.recorded_noise is not None else "optimizer.records[-1]"
    return Answer(tuple(checks), scenario=Scenario("theta  # what was added", coordinates=3, looks_at=looks_at))


def state_dict(bench: Bench) -> Answer:
    """A run taken up from a state_dict goes on bitwise as if it had not been interrupted."""
    if bench.rule.kind != "optimizer":
        return Answer(not_applicable="a function keeps no state")
    theta = [bench.full(SHAPE, 1.0)] * bench.tensors
    whole = bench.start(("state", 1), theta)
    assert isinstance(whole, OptimizerChain)
    for _ in range(STEPS):
        bench.move(whole, [0.7 * part for part in whole.theta])
    scenario = Scenario("theta", coordinates=3, start=1.0, steps=STEPS, resumes=True)
    generator, shared = whole.generator.get_state(), torch.get_rng_state()
    reached = [part.clone() for part in whole.theta]
    buffer = io.BytesIO()
    try:
        torch.save(whole.optimizer.state_dict(), buffer)
        resumed = {}
        for restored in (False, True):
            chain = bench.start(("state", 2), reached)
            assert isinstance(chain, OptimizerChain)
            buffer.seek(0)
            chain.optimizer.load_state_dict(torch.load(buffer, weights_only=False))
            if restored:
                chain.generator.set_state(generator)
            resumed[restored] = chain
    except RuleFailure:
        raise
    except Exception as error:
        return Answer(violated=f"saving or loading its state raised {type(error).__name__}: {error}", scenario=scenario)
    ends = {}
    for restored, chain in resumed.items():
        # a checkpoint keeps the global generator, too
        torch.set_rng_state(shared)
        for _ in range(STEPS):
            bench.move(chain, [0.7 * part for part in chain.theta])
        ends[restored] = torch.stack(chain.theta)
    torch.set_rng_state(shared)
    for _ in range(STEPS):
        bench.move(whole, [0.7 * part for part in whole.theta])
    apart = {restored: float((end != torch.stack(whole.theta)).double().mean()) for restored, end in ends.items()}
    says = "the generator is in the state" if not apart[False] else ""
    if apart[False] and not apart[True]:
        says = "the generator is not in the state: it was saved and restored beside it"
    differ = min(apart.values())
    check = Check("share of coordinates that differ after resuming", lambda level: exact(differ), NOTHING)
    return Answer((check,), says, scenario=scenario)


def _walk(bench: Bench, names: Sequence[object], shared: int) -> Tensor:
    """Where a few steps lead from zero, with the global generators seeded from `shared`."""
    torch.manual_seed(shared)
    np.random.seed(shared)  # noqa: NPY002
    random.seed(shared)
    theta = [bench.full(SHAPE)] * bench.tensors
    chain = bench.start(names, theta)
    for _ in range(STEPS):
        bench.move(chain, [torch.ones_like(part) for part in theta])
    return torch.stack([part.clone() for part in chain.theta])


def _last_record(chain: OptimizerChain | FunctionChain) -> Any:
    kept = getattr(chain.optimizer, "records", None) if isinstance(chain, OptimizerChain) else None
    try:
        return kept[-1] if kept else None
    except (TypeError, KeyError):
        return None


def _record_checks(bench: Bench, last: Any, moved: Sequence[Tensor], rounding: float) -> list[Check]:
    checks = []
    applied = float(torch.stack(list(moved)).square().mean())
    # beta and eta as they were handed over; the noise's mean square as it was added
    for name, expected in (("beta", BETA), ("eta", ETA), ("noise_mean_square", applied)):
        said = getattr(last, name, None)
        if isinstance(said, (int, float)):
            error = abs(said - expected) / expected if expected else abs(said)
            checks.append(_small(f"recorded {name} less what was applied, over it", error, 1e3 * rounding))
    if isinstance(getattr(last, "effective_mean", None), (int, float)):
        # without noise a gradient of 1 is multiplied by the effective step and nothing else
        theta = [bench.full((1, SHAPE[1]))] * bench.tensors
        chain = bench.start(("records", "step"), theta, beta=0.0)
        bench.move(chain, [torch.ones_like(part) for part in theta])
        step = -float(torch.stack([part.double() for part in chain.theta]).mean())
        said = float(_last_record(chain).effective_mean)
        if step:
            checks.append(_small("recorded effective step less that applied", abs(said / step - 1), 1e3 * rounding))
    return checks


def _small(name: str, error: float, bound: float) -> Check:
    return Check(name, lambda level: exact(error), Region.at_most(bound))


def _apart(said: Tensor, applied: Tensor) -> float:
    if said.shape != applied.shape:
        return float("inf")
    size = float(applied.abs().max())
    return float((said - applied).abs().max()) / size if size else float(said.abs().max())
