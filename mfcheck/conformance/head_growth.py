"""How a head grows in theta along rays, against the power that it declares."""

from __future__ import annotations

import math
from dataclasses import replace

import torch

from mfcheck.conformance.head_checking import drawn, searched
from mfcheck.conformance.head_subject import Call, HeadFailure, Subject
from mfcheck.conformance.report import HOLDS, NOT_APPLICABLE, PropertyResult
from mfcheck.conformance.search import SKIP, Violation

#: Rays go to 2^FAR in steps of STEP octaves: so that products of four parameters stay finite in the dtype.
FAR, STEP = {torch.float64: 40, torch.float32: 24}, 4
#: The bound C is the largest |v| / (1 + |theta|)^power over the first half of a ray; a head whose power is the declared
#: one may pass it while its weights still shift between tokens, by at most 1 over the smallest weight, and by C itself.
#: Where tokens tie and cancel, C is no bound: logits grow like |theta|^2 until rounding breaks the tie, and what had
#: cancelled is there at full size. It holds for every measure on the tokens, so that each of them alone counts too.
SLACK = {torch.float64: 2.0**8, torch.float32: 2.0**6}


def growth(subject: Subject) -> PropertyResult:
    """|v_theta| grows no faster than the declared power of |theta| at fixed tokens."""
    name = "growth"
    power = subject.growth_power
    if subject.parameter_bound is not None:
        return PropertyResult(name, NOT_APPLICABLE, f"theta is bounded by {subject.parameter_bound:g}")
    if power is None:
        return PropertyResult(name, NOT_APPLICABLE, "the head declares no power of growth (HeadSpec.growth_power)")
    far = FAR[subject.dtype]
    steepest = -math.inf

    def test(call: Call) -> Violation | object | None:
        nonlocal steepest
        size = float(call.theta.norm())
        if size == 0:
            return None
        scales = [2.0**k for k in range(0, far + 1, STEP)]
        half = len(scales) // 2 + 1
        try:
            ratios = _along(subject, call, scales, power)
            bound = max(ratios[:half])
            if max(ratios) > SLACK[subject.dtype] * bound:
                alone = (call.with_law(y[None], torch.ones_like(call.shares[:1])) for y in call.tokens)
                bound = max(bound, *(max(_along(subject, each, scales[:half], power)) for each in alone))
                if max(ratios) <= SLACK[subject.dtype] * bound:
                    return None  # what had cancelled: no slope to report
        except HeadFailure as error:
            return SKIP if "finite" in subject.violated else Violation(str(error), _lines(power, far))
        if max(ratios) > SLACK[subject.dtype] * bound:
            excess = math.log2(max(ratios) / bound) / (far / 2) if bound > 0 else math.inf
            words = f"along a ray |v| grows like |theta|^{power + excess:.3g}, and {power:g} is declared"
            return Violation(words, _lines(power, far))
        if ratios[-1] > 0 and ratios[half - 1] > 0:
            over = (len(ratios) - half) * STEP
            steepest = max(steepest, power + math.log2(ratios[-1] / ratios[half - 1]) / over)
        return None

    strategy = drawn(subject, weights=("equal", "small integers"), laws=("free", "one token", "tied", "collinear"))
    found = searched(subject, name, strategy, test, "", examples=40)
    if found.status != HOLDS:
        return found
    measured = f"; steepest ray |theta|^{steepest + 0.0:.2f}" if steepest > -math.inf else ""
    if measured:
        subject.facts[name] = steepest
    return replace(found, detail=f"at most |theta|^{power:g}, as declared, to |theta| = 2^{far}{measured}")


def _along(subject: Subject, call: Call, scales: list[float], power: float) -> list[float]:
    """|v| / (1 + |theta|)^power at each multiple of the call's theta."""
    ratios = []
    for scale in scales:
        theta = scale * call.theta
        try:
            value = subject.value(replace(call, theta=theta))
        except HeadFailure as error:
            raise HeadFailure(f"at |theta| = {float(theta.norm()):.3g}, {error}") from error
        ratios.append(float(value.norm()) / (1 + float(theta.norm())) ** power)
    return ratios


def _lines(power: float, far: int) -> tuple[str, ...]:
    return (
        f"for k in range(0, {far + 1}, {STEP}):",
        "    size = 2.0**k * theta.norm()",
        "    value = v(2.0**k * theta, x, tokens, weights).norm()",
        f"    print(float(size), float(value / (1 + size) ** {power:g}))  # the last number would stay bounded",
    )
