"""Whether a head reads a law: no order, no multiplicities, nothing of weight zero; and where its output lies."""

from __future__ import annotations

import numpy as np
import torch
from hypothesis import strategies as st
from scipy.optimize import nnls

from mfcheck.conformance.head_checking import ROUNDING, Rewritten, drawn, failed, same_value, searched
from mfcheck.conformance.head_snippet import ASK, tensor, whole
from mfcheck.conformance.head_subject import Call, HeadFailure, Subject
from mfcheck.conformance.report import NOT_APPLICABLE, PropertyResult
from mfcheck.conformance.rounding import rounding
from mfcheck.conformance.search import Violation
from mfcheck.conformance.strategies import entries

#: How far off a token of weight zero stands, over the bound: its logit is the largest of all.
FAR = 16.0


def permutation_invariant(subject: Subject) -> PropertyResult:
    """The order of the tokens changes nothing."""

    @st.composite
    def pairs(draw: st.DrawFn) -> Rewritten:
        call = draw(drawn(subject, least=2))
        order = draw(st.permutations(range(len(call.shares))))
        other = call.with_law(call.tokens[order], call.shares[order])
        asked = "print(v(theta, x, tokens[order], weights[order]))  # the same law: the same value is expected"
        lines = (f"order = {whole(order)}", ASK, asked)
        return Rewritten(call, other, f"tokens in the order {whole(order)} give another value", lines)

    return searched(subject, "permutation_invariant", pairs(), lambda pair: same_value(subject, pair), ROUNDING)


def law_not_list(subject: Subject) -> PropertyResult:
    """A law, not a list: splitting a token's weight between two copies changes nothing, nor does doubling them all."""

    @st.composite
    def pairs(draw: st.DrawFn) -> Rewritten:
        call = draw(drawn(subject))
        count = len(call.shares)
        if draw(st.booleans()):
            again = [index for index in range(count) for _ in range(2)]
            parts, words = [0.5] * (2 * count), "every token twice, at half its weight, gives another value"
        else:
            place = draw(st.integers(0, count - 1))
            share = draw(st.sampled_from((0.5, 0.25, 0.875)))
            again = sorted([*range(count), place])
            parts = [1.0] * (count + 1)
            parts[place], parts[place + 1] = share, 1 - share
            words = f"token {place} split in two of {share:g} and {1 - share:g} of its weight gives another value"
        factors = torch.tensor(parts, dtype=torch.float64)
        other = call.with_law(call.tokens[again], call.shares[again] * factors)
        asked = "print(v(theta, x, tokens[again], weights[again] * parts))  # the same law: the same value is expected"
        lines = (f"again, parts = {whole(again)}, {tensor(factors)}", ASK, asked)
        return Rewritten(call, other, words, lines)

    return searched(subject, "law_not_list", pairs(), lambda pair: same_value(subject, pair), ROUNDING)


def weight_zero_ignored(subject: Subject) -> PropertyResult:
    """A token of weight zero changes nothing, wherever it stands in the list and however far off it is."""
    bound = FAR * subject.x_bound if subject.token_bound is None else subject.token_bound

    @st.composite
    def pairs(draw: st.DrawFn) -> Rewritten:
        call = draw(drawn(subject))
        place = draw(st.integers(0, len(call.shares)))
        far = draw(entries(subject.token_dimension, bound))[None]
        nothing = torch.zeros(1, dtype=torch.float64)
        other = call.with_law(
            torch.cat([call.tokens[:place], far, call.tokens[place:]]),
            torch.cat([call.shares[:place], nothing, call.shares[place:]]),
        )
        lines = (
            f"far, nothing = {tensor(far)}, {tensor(nothing)}",
            f"more = torch.cat([tokens[:{place}], far, tokens[{place}:]])",
            f"same = torch.cat([weights[:{place}], nothing, weights[{place}:]])",
            ASK,
            "print(v(theta, x, more, same))  # the same law: the same value is expected",
        )
        return Rewritten(call, other, f"a token {whole(far[0])} of weight 0 changes the value", lines)

    return searched(subject, "weight_zero_ignored", pairs(), lambda pair: same_value(subject, pair), ROUNDING)


def convex_hull(subject: Subject) -> PropertyResult:
    """The output lies in the convex hull of the values that the head declares."""
    values = subject.values
    name = "convex_hull"
    if values is None:
        return PropertyResult(name, NOT_APPLICABLE, "the head declares no values (HeadSpec.values, Head.values)")

    def test(call: Call) -> Violation | object | None:
        try:
            value = subject.value(call)
        except HeadFailure as error:
            return failed(subject, error)
        theta, _, tokens, _ = subject.place(call)
        corners = values(theta, tokens).detach().to("cpu", torch.float64)
        outside = distance_to_hull(value.numpy(), corners.numpy())
        scale = float(corners.abs().max().clamp(min=float(value.abs().max())))
        # the least squares solver's own rounding: its normal matrix is of size n, its entries up to scale
        allowed = 64 * (len(corners) + subject.token_dimension) * subject.eps * scale
        if outside <= allowed:
            return None
        allowed += rounding(subject, call, value)
        if outside <= allowed:
            return None
        lines = (ASK, f"# outside the hull of the values {corners.tolist()}")
        return Violation(f"{outside:.3g} outside the hull, rounding allows {allowed:.2g}", lines)

    return searched(subject, name, drawn(subject), test, ROUNDING)


def distance_to_hull(point: np.ndarray, corners: np.ndarray) -> float:
    """The largest coordinate of point - sum_j a_j corner_j, for the best a >= 0 of sum 1. point [d], corners [n, d]."""
    scale = max(float(np.abs(corners).max()), float(np.abs(point).max()), 1e-300)
    # shifted so that the corners lie about 0, with the sum as one more equation of weight 1
    centre = corners.mean(0)
    matrix = np.vstack([(corners - centre).T / scale, np.ones(len(corners))])
    shares, _ = nnls(matrix, np.append((point - centre) / scale, 1.0))
    total = shares.sum()
    if total > 0:
        shares = shares / total
    return float(np.abs(point - shares @ corners).max())
