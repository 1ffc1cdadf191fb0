"""Whether E |v_theta|^2 is finite under rho_0, so that V_M errs like M^(-1/2): judged as every other claim is."""

from __future__ import annotations

import time
from collections.abc import Mapping
from typing import Any

import numpy as np
import torch
from torch import Tensor

from mfcheck.claim import Claim, Control, Criterion
from mfcheck.conformance.head_evaluation import values_of
from mfcheck.conformance.head_snippet import snippet
from mfcheck.conformance.head_subject import HeadFailure, Subject, first_line, ordinary_call
from mfcheck.conformance.report import HOLDS, UNDECIDED, VIOLATED, PropertyResult
from mfcheck.errors import InputError
from mfcheck.outcome import CriterionOutcome
from mfcheck.replicates import Measurements, Replicates
from mfcheck.runner import Plan, run
from mfcheck.statistics.estimate import order
from mfcheck.statistics.verdict import Region, Verdict

#: Replicates of the first look; each is one sample of heads, cut into systems for every M of the ladder.
REPLICATES = 32
#: The largest M of the ladder of a fast head: sixteen times fewer where calls are slow, none below the last.
LADDERS = (2048, 512, 128)
#: The probability that a head with a finite variance is called violated.
ALPHA = 1e-3
#: Seconds that the first look may take; two more take 15 times as long.
FIRST_LOOK = 1.5

_LARGEST, _SLOPE = "the largest square's share of the sum", "slope of the median error"
#: For tails P(|v| > t) ~ t^-a with a < 2 the largest square keeps its share of the sum: slope 0. For a > 2 it falls
#: like M^(2/a - 1), for lighter tails like 1/M up to logarithms: -0.15 is a = 2.35.
_FALLS = Region(-1.2, -0.15, -1.0)
#: With a < 2 the error falls like M^(1/a - 1), slower than M^(-1/2): -0.4 is a = 1.67.
_RATE = Region(-0.6, -0.4, -0.5)


def finite_variance(subject: Subject) -> PropertyResult:
    """E |v_theta|^2 is finite under rho_0: no single head carries the sum, and V_M errs like M^(-1/2)."""
    name = "finite_variance"
    heads = _draw(subject, 4, subject.stream.child(name, "shape").torch())
    try:
        each = _seconds_a_head(subject, heads)
    except HeadFailure as error:
        return PropertyResult(name, UNDECIDED, f"under rho_0 {error}")
    affordable = [top for top in LADDERS if REPLICATES * top * each <= FIRST_LOOK]
    if not affordable:
        words = f"a head takes {each:.2g} s, and {REPLICATES * LADDERS[-1]} are the fewest that decide"
        return PropertyResult(name, UNDECIDED, words)
    try:
        outcome = run(_claim(subject, affordable[0]), Plan(seed=subject.stream.child(name).integer(31), alpha=ALPHA))
    except HeadFailure as error:
        return PropertyResult(name, UNDECIDED, f"under rho_0 {error}")
    words = "; ".join(_said(criterion) for criterion in outcome.criteria)
    status = {Verdict.SUPPORTED: HOLDS, Verdict.REFUTED: VIOLATED}.get(outcome.verdict, UNDECIDED)
    law = "rho_0" if subject.rho_0 is not None else "rho_0 = N(0, 1) each"
    drawn = f"{outcome.n * affordable[0]} heads from {law}"
    return PropertyResult(name, status, f"{words}; {drawn}", _snippet(subject) if status == VIOLATED else None)


def _claim(subject: Subject, top: int) -> Claim:
    """The property as a claim of its own, with a ladder of M up to `top`."""
    ladder = tuple(top // 2**k for k in (7, 5, 3, 1) if top // 2**k >= 4)
    call = ordinary_call(subject.parameter_dimension, subject.token_dimension)

    def experiment(settings: Mapping[str, Any], replicates: Replicates) -> Measurements:
        """largest and median [n, rungs]: shares of the largest square, medians of |V_M - V_M'| over pairs."""
        largest, median = np.empty((2, len(replicates), len(ladder)))
        for row, replicate in enumerate(replicates):
            heads = _draw(subject, top, replicates.stream.child(replicate).torch())
            values = values_of(subject, heads, call)
            if settings["tails"] == "Cauchy":
                source = replicates.stream.child(replicate, "tails").numpy()
                values = values * torch.from_numpy(source.standard_cauchy(len(values)))[:, None]
            squares = values.square().sum(-1)
            for rung, size in enumerate(ladder):
                blocks = squares.reshape(-1, size)
                total = blocks.sum(-1).clamp(min=torch.finfo(torch.float64).tiny)
                largest[row, rung] = float((blocks.amax(-1) / total).mean())
                averages = values.reshape(-1, size, values.shape[-1]).mean(1)
                pairs = (averages[0::2] - averages[1::2]).norm(dim=-1)
                # the mean of the two middle ones: torch's median takes the lower
                median[row, rung] = float(pairs.quantile(0.5))
        return {"largest": largest, "median": median}

    return Claim(
        id="finite_variance",
        statement="E |v_theta|^2 is finite under rho_0",
        prediction="the largest square's share of the sum vanishes, V_M errs like M^(-1/2)",
        source="O'Brien 1980, limit of the maximum over the sum; central limit theorem",
        hypotheses="independent heads of rho_0",
        experiment=experiment,
        criteria=(
            Criterion(_LARGEST, lambda m, level: order(ladder, m["largest"], level), _FALLS),
            Criterion(_SLOPE, lambda m, level: order(ladder, m["median"], level), _RATE),
        ),
        controls=(Control("Cauchy factors", {"tails": "Cauchy"}, refutes=(_LARGEST, _SLOPE)),),
        settings={"tails": "none"},
        replicates=REPLICATES,
    )


def _draw(subject: Subject, count: int, generator: torch.Generator) -> Tensor:
    p = subject.parameter_dimension
    if subject.rho_0 is None:
        return torch.randn(count, p, generator=generator, dtype=torch.float64)
    try:
        drawn = subject.rho_0(generator, count)
    except Exception as error:
        raise InputError(f"rho_0(generator, {count}) raised {type(error).__name__}: {first_line(error)}") from error
    if not isinstance(drawn, Tensor) or tuple(drawn.shape) != (count, p):
        came = tuple(drawn.shape) if isinstance(drawn, Tensor) else type(drawn).__name__
        raise InputError(f"rho_0(generator, count) draws parameters [count, p] = {(count, p)}; it gave {came}")
    return drawn.to("cpu", torch.float64)


def _seconds_a_head(subject: Subject, heads: Tensor) -> float:
    """Seconds a head in a batch of a few hundred, or of one call where that is slow anyway."""
    if subject.seconds > 0.01:
        return subject.seconds
    call = ordinary_call(subject.parameter_dimension, subject.token_dimension)
    many = heads.repeat(64, 1)
    values_of(subject, many, call)
    began = time.process_time()
    values_of(subject, many, call)
    return (time.process_time() - began) / len(many)


def _said(criterion: CriterionOutcome) -> str:
    estimate = criterion.estimate
    if estimate.problem is not None:
        return f"{criterion.name}: {estimate.problem}"
    what = "falls with slope" if criterion.name == _LARGEST else "is"
    return f"{criterion.name} {what} {estimate.point:.2f} [{estimate.lower:.2f}, {estimate.upper:.2f}]"


def _snippet(subject: Subject) -> str:
    """Lines that show the largest square's share of the sum, which would vanish, at growing numbers of heads."""
    made_by = subject.origin.function
    if subject.rho_0 is None:
        draw = f"def rho_0(generator, count): return torch.randn(count, {subject.parameter_dimension}, **like)"
    elif made_by and made_by.endswith(".function"):
        draw = f"rho_0 = {made_by.removesuffix('.function')}.rho_0"
    else:
        draw = "# rho_0: the law that you handed to check_head"
    call = ordinary_call(subject.parameter_dimension, subject.token_dimension)
    lines = (
        draw,
        "generator = torch.Generator().manual_seed(0)",
        "for count in (100, 1000, 10000):",
        "    thetas = rho_0(generator, count).to(tokens)",
        "    squares = torch.stack([v(theta, x, tokens, weights).square().sum() for theta in thetas])",
        "    print(count, float(squares.max() / squares.sum()))  # would vanish like 1 over the count",
    )
    return snippet(subject, call, lines)
