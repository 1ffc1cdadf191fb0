"""check_sampler: every property of an update rule, at one error rate, and what is probably wrong with it."""

from __future__ import annotations

import io
import math
import time
from collections.abc import Callable, Sequence
from typing import Any

import torch

from mfcheck.conformance.report import HOLDS, NOT_APPLICABLE, UNDECIDED, VIOLATED, PropertyResult, Report, check_names
from mfcheck.conformance.sampler_bench import Answer, Bench, Inapplicable, TooSlow, measure_speed
from mfcheck.conformance.sampler_causes import Evidence, likely_causes
from mfcheck.conformance.sampler_properties import NAMES, PROPERTIES, Property, in_order_of_need
from mfcheck.conformance.sampler_rule import RuleFailure, UpdateRule, understand
from mfcheck.conformance.sampler_snippet import snippet
from mfcheck.conformance.surroundings import own_surroundings
from mfcheck.conformance.target import name_of
from mfcheck.errors import InputError
from mfcheck.statistics.estimate import Estimate
from mfcheck.statistics.seeds import stream
from mfcheck.statistics.verdict import Region, Verdict, judge

#: The probability that ANY property of a rule that has them all is called violated.
ALPHA = 0.01
#: Looks at a property: its samples, and four times as many where that leaves it undecided.
LOOKS = 2
SCALINGS = ("raw", "mean_field")
#: At most so much is said as 0.
TINY = 1e-200
#: A step that takes longer is worth a note.
SLOW = 0.05


def check_sampler(
    make_optimizer: Callable[..., Any],
    *,
    kind: str | None = None,
    name: str | None = None,
    target: str | None = None,
    scaling: str | None = None,
    n_train: int | None = None,
    only: Sequence[str] = (),
    seed: int = 0,
    alpha: float = ALPHA,
    samples: float = 1.0,
    budget: float | None = 30.0,
    device: str = "cpu",
) -> Report:
    """Measures an update rule against what Langevin dynamics asks of it: a result a property, causes, a readable str().

    make_optimizer: a factory (params, lr, beta, generator) of a torch optimiser, or a function (theta, grad, step,
    beta, generator) -> theta; kind: "optimizer" or "update" where its signature does not tell. Parameters are [M, D],
    M particles of D coordinates. target: pkg.module:name, for the counterexamples.
    scaling: the convention that the drift should have, "raw" (g) or "mean_field" (M g); with None either will do.
    n_train: the number of data points, to recognise it as a stray factor. only: names of properties.
    alpha: the probability that any property that holds is called violated, shared out equally among all of them, chosen
    or not. samples: how many times the usual number of chains. budget: seconds for all steps of the rule, None for no
    limit: a rule that is slow gets fewer samples and steps, and the report says so.
    Raises InputError with a sentence on what cannot be called as a rule.
    """
    if scaling is not None and scaling not in SCALINGS:
        raise InputError(f"a scaling is one of {', '.join(SCALINGS)}; it came as {scaling!r}")
    if not 0 < alpha < 1:
        raise InputError(f"an error rate lies between 0 and 1; alpha came as {alpha}")
    check_names(only, NAMES)
    if budget is not None and not budget > 0:
        raise InputError(f"a budget is a positive number of seconds, or None; it came as {budget}")
    if not 0 < samples < math.inf:
        raise InputError(f"samples are a positive multiple of the usual number; they came as {samples}")
    shown = name or target or name_of(make_optimizer)
    began = time.perf_counter()
    root = stream(seed, "sampler")
    with own_surroundings(root.integer(31)) as printed:
        rule = understand(make_optimizer, shown, kind, device, root.child("understand").torch(device))
        bench = Bench(rule, root, samples, budget, scaling, n_train)
        try:
            measure_speed(bench)
        except RuleFailure as failure:
            raise InputError(str(failure)) from failure
        results, evidence = _results(bench, only, alpha, target)
    facts = {
        "kind": rule.kind,
        "dtype": str(rule.dtype).removeprefix("torch."),
        "alpha": alpha,
        "seed": seed,
        "steps": bench.clock.steps,
        "seconds": round(time.perf_counter() - began, 2),
        "step_seconds": bench.fixed,
        "scale": bench.scale,
        **evidence.facts,
    }
    causes = likely_causes(evidence)
    return Report(f"{shown} ({_KIND[rule.kind]})", results, causes, _notes(rule, bench, alpha, printed), facts)


_KIND = {"optimizer": "torch optimiser", "update": "update function"}


def _results(
    bench: Bench, only: Sequence[str], alpha: float, target: str | None
) -> tuple[tuple[PropertyResult, ...], Evidence]:
    share = alpha / len(PROPERTIES)
    wanted = _with_needs(only)
    results: dict[str, PropertyResult] = {}
    estimates: dict[str, dict[str, Estimate]] = {}
    facts: dict[str, Any] = {}
    for each in in_order_of_need():
        if each.name not in wanted:
            continue
        lacking = [need for need in each.needs if results[need].status == VIOLATED]
        if lacking:
            words = f"its interval rests on what is violated: {', '.join(lacking)}"
            results[each.name] = PropertyResult(each.name, UNDECIDED, words)
            continue
        result, found, said = _measured(each, bench, share, target)
        results[each.name] = result
        estimates[each.name] = found
        facts |= said
    violated = frozenset(name for name, result in results.items() if result.status == VIOLATED)
    ordered = tuple(results[name] for name in NAMES if name in results and (not only or name in only))
    return ordered, Evidence(estimates, facts, violated, bench.n_train)


def _measured(
    each: Property, bench: Bench, share: float, target: str | None
) -> tuple[PropertyResult, dict[str, Estimate], dict[str, Any]]:
    """A property's result, after a second look with four times the samples where the first decides nothing."""
    for look in range(1, LOOKS + 1):
        looking = bench if look == 1 else bench.larger(4, f"look {look}")
        try:
            answer = each.measure(looking)
        except TooSlow as slow:
            return PropertyResult(each.name, UNDECIDED, str(slow)), {}, {}
        except Inapplicable as reason:
            return PropertyResult(each.name, NOT_APPLICABLE, str(reason)), {}, {}
        except RuleFailure as failure:
            return PropertyResult(each.name, VIOLATED, str(failure)), {}, {}
        if answer.not_applicable is not None:
            return PropertyResult(each.name, NOT_APPLICABLE, answer.not_applicable), {}, dict(answer.facts)
        code = _code(bench, answer, target)
        if answer.violated is not None:
            return PropertyResult(each.name, VIOLATED, answer.violated, code), {}, dict(answer.facts)
        # a property's share over its checks; half of it for the first look, a quarter for the second: together below it
        level = 1 - share / (len(answer.checks) * 2**look)
        judged = [(check, check.estimate(level)) for check in answer.checks]
        verdicts = [judge(estimate, check.region) for check, estimate in judged]
        words = [_line(check.name, e, v, why) for (check, e), (v, why) in zip(judged, verdicts, strict=True)]
        found = {check.name: estimate for check, estimate in judged}
        status = _status([verdict for verdict, _ in verdicts])
        if status == UNDECIDED and look < LOOKS:
            continue
        detail = _detail(status, words, [verdict for verdict, _ in verdicts], judged, answer.says)
        return (
            PropertyResult(each.name, status, detail, code if status == VIOLATED else None),
            found,
            dict(answer.facts),
        )
    raise AssertionError("the last look always answers")


def _status(verdicts: Sequence[Verdict]) -> str:
    if Verdict.REFUTED in verdicts:
        return VIOLATED
    return HOLDS if all(verdict is Verdict.SUPPORTED for verdict in verdicts) else UNDECIDED


def _line(name: str, estimate: Estimate, verdict: Verdict, why: str) -> str:
    if estimate.problem is not None or not math.isfinite(estimate.point):
        return f"{name}: {why}"
    if estimate.level == 1.0:
        return f"{name} = {estimate.point:.4g}"
    return f"{name} = {estimate.point:.4g} [{estimate.lower:.4g}, {estimate.upper:.4g}]"


def _allowed(region: Region) -> str:
    if math.isinf(region.lower):
        return f"at most {region.upper:.3g}" if region.upper > TINY else "0"
    return str(region)


def _detail(
    status: str, words: Sequence[str], verdicts: Sequence[Verdict], judged: Sequence[tuple[Any, Estimate]], says: str
) -> str:
    """The check that says most: the worst one, how many of them there are, and the words of the property."""
    wanted = {VIOLATED: Verdict.REFUTED, UNDECIDED: Verdict.INCONCLUSIVE, HOLDS: Verdict.SUPPORTED}[status]
    chosen = [i for i, verdict in enumerate(verdicts) if verdict is wanted]
    worst = max(chosen, key=lambda i: _distance(*judged[i]))
    check = judged[worst][0]
    parts = [f"{words[worst]}, allowed {_allowed(check.region)}"]
    if len(words) > 1:
        if status == HOLDS:
            parts[0] = f"{len(words)} checks, the furthest: {parts[0]}"
        elif len(chosen) > 1:
            parts.append(f"and {len(chosen) - 1} of {len(words) - 1} more")
    return "; ".join([says, *parts] if says.startswith("samples at") else [*parts, *([says] if says else [])])


def _distance(check: Any, estimate: Estimate) -> float:
    """How far from its prediction a check came out, in half-widths of its region."""
    if not math.isfinite(estimate.point):
        return math.inf
    half = check.region.half_width
    return abs(estimate.point - check.region.prediction) / half if half else abs(estimate.point)


def _code(bench: Bench, answer: Answer, target: str | None) -> str | None:
    if answer.scenario is None:
        return None
    dtype = str(bench.rule.dtype).removeprefix("torch.")
    return snippet(target, bench.rule.kind, dtype, bench.rule.device, answer.scenario)


def _with_needs(only: Sequence[str]) -> set[str]:
    """The properties chosen and all that they rest on; all of them if none is chosen."""
    wanted = set(only or NAMES)
    for each in reversed(in_order_of_need()):
        if each.name in wanted:
            wanted |= set(each.needs)
    return wanted


def _notes(rule: UpdateRule, bench: Bench, alpha: float, printed: io.StringIO) -> tuple[str, ...]:
    notes = [f"error rate {alpha:g} for all properties together, {alpha / len(PROPERTIES):.2g} for each"]
    if rule.dtype != torch.float64:
        notes.append(f"it works in {str(rule.dtype).removeprefix('torch.')}, so the suite does")
    if bench.fixed > SLOW:
        notes.append(f"a step takes {bench.fixed:.2g} s: fewer steps were made ({bench.clock.steps} in all)")
    if bench.slowed < 1:
        notes.append(f"a step takes {bench.each:.2g} s a coordinate: only {bench.slowed:.2g} of the samples were taken")
    lines = printed.getvalue().count("\n")
    if lines:
        notes.append(f"it printed {lines} lines, which are left out here")
    return tuple(notes)
