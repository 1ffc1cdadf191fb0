"""Whether averages over random heads converge: E|v_theta|^2 finite under rho_0, and the rate M^(-1/2), through `run`."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import torch

from mfcheck.claim import Claim, Control, Criterion
from mfcheck.conformance.head_subject import Subject, example
from mfcheck.replicates import Measurements, Replicates
from mfcheck.run import Plan, run
from mfcheck.statistics.estimate import mean, order
from mfcheck.statistics.verdict import Region, Verdict

PARTICLES = (8, 16, 32, 64, 128)
SHARE, SLOPE = "largest draw's share of the sum of squares", "slope of the error of V_M in M"
STATUSES = {Verdict.SUPPORTED: "holds", Verdict.REFUTED: "violated", Verdict.INCONCLUSIVE: "undecided"}
#: Of 248 draws of a law with two moments the largest has a share that vanishes with their number; of one without, a
#: share that does not. 0.25 lies between a squared Gaussian (0.035) and Student's t with 1.5 degrees (0.5).
LARGEST = 0.25


def moments(subject: Subject, alpha: float, seed: int, replicates: int = 64) -> dict[str, tuple[str, str]]:
    """{property: (status, detail)} for theta ~ N(0, I): finite variance, and the Monte Carlo rate (claim V1's).

    One claim with two criteria at the error rate alpha; its control multiplies v by Student's t with 1.5 degrees of
    freedom. Where the control is not refuted the check has no power for this head, and both are undecided.
    """
    claim = Claim(
        id="H1",
        statement="averages over independent heads converge at the rate M^(-1/2)",
        prediction="slope -0.5 +- 0.1; no draw carries the sum of squares",
        source="claim V1",
        hypotheses="theta ~ N(0, I)",
        experiment=lambda settings, wanted: _draws(subject, settings, wanted),
        settings={"heavy": False},
        replicates=replicates,
        criteria=(
            Criterion(SHARE, lambda m, level: mean(m["share"], level), Region.at_most(LARGEST)),
            Criterion(
                SLOPE,
                lambda m, level: order(PARTICLES, m["square"], level, power=0.5),
                Region.around(-0.5, absolute=0.1),
            ),
        ),
        controls=(Control("values times Student-t(1.5)", {"heavy": True}, refutes=(SHARE,)),),
    )
    plan = Plan(seed=seed, alpha=alpha)
    outcome, control = run(claim, plan), run(claim, plan, claim.controls[0])
    result = {}
    for name, criterion in zip(("finite variance", "Monte Carlo rate"), outcome.criteria, strict=True):
        detail = f"{criterion.name}: {criterion.reason} ({outcome.n} replicates)"
        status = STATUSES[criterion.verdict]
        if not control.passed:
            status, detail = "undecided", f"the control (heavy tails) was not refuted: no power here; {detail}"
        result[name] = (status, detail)
    return result


def _draws(subject: Subject, settings: Mapping[str, Any], replicates: Replicates) -> Measurements:
    """square [n, PARTICLES]: |V_M - V_M'|^2 / 2 of two independent averages; share [n]: of all draws of a replicate."""
    _, x, tokens, weights = example(subject.p, subject.d, 3, subject.dtype, subject.device)
    squares, shares = [], []
    for replicate in replicates:
        generator = replicates.stream.child(replicate).torch()
        count = 2 * max(PARTICLES)
        theta = torch.randn(count, subject.p, generator=generator, dtype=torch.float64).to(x)
        rows = values(subject, theta, x, tokens, weights).double().cpu().numpy()
        if settings["heavy"]:
            rows = rows * replicates.stream.child("t", replicate).numpy().standard_t(1.5, size=(count, 1))
        halves = rows.reshape(2, max(PARTICLES), subject.d)
        # one ladder from nested averages: a replicate is a whole ladder
        squares.append([0.5 * ((halves[0, :m].mean(0) - halves[1, :m].mean(0)) ** 2).sum() for m in PARTICLES])
        centred = ((rows - rows.mean(0)) ** 2).sum(-1)
        total = centred.sum()
        shares.append(centred.max() / total if total > 0 else 0.0)
    return {"square": np.array(squares), "share": np.array(shares)}


def values(
    subject: Subject, theta: torch.Tensor, x: torch.Tensor, tokens: torch.Tensor, weights: torch.Tensor
) -> torch.Tensor:
    """v_theta(x) for many theta [n, p]: [n, d], in one batch where the head takes batches."""
    from mfcheck.conformance.head_properties import batched

    if batched(subject, (theta[0], x, tokens, weights)) is not None:
        n = len(theta)
        return subject(theta, x.expand(n, -1), tokens.expand(n, *tokens.shape), weights.expand(n, -1))
    return torch.stack([subject(row, x, tokens, weights) for row in theta])
