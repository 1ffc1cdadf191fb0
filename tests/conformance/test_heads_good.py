"""Shipped heads have the properties that they declare, and the report says which claims speak of them."""

from __future__ import annotations

import json
from typing import Any

import pytest
import torch
from torch import nn

import mfcheck
from mfcheck import HeadSpec, InputError, check_head
from mfcheck.conformance.applicable import CLAIMS
from mfcheck.conformance.head_properties import NAMES
from mfcheck.heads import l2_attention, linear_attention, matrix_softmax, scalar_softmax

#: benchmarks/head_conformance.py runs all shipped heads over 50 seeds.
GOOD = (scalar_softmax("tanh"), linear_attention(2), nn.MultiheadAttention(2, 1))


@pytest.mark.parametrize("head", GOOD, ids=lambda head: getattr(head, "name", type(head).__name__))
def test_a_shipped_head_has_every_property(head: Any) -> None:
    report = check_head(head, seed=11)
    assert report.passed, str(report)
    assert not any(result.status == "undecided" for result in report.results)
    assert {"K1", "V1", "T1"} <= set(report.facts["claims"])
    assert json.loads(report.to_json())["passed"]


def test_claims_apply_by_their_hypotheses() -> None:
    bounded = check_head(scalar_softmax("tanh"))
    assert {"G1", "G2", "C6"} <= set(bounded.facts["claims"])
    told = "\n".join(bounded.sections["claims of the catalogue"])
    assert "T3 does not" not in told
    unbounded = check_head(matrix_softmax(2), only=NAMES[:3])
    assert "claims" not in unbounded.facts


def test_the_claims_are_those_of_the_catalogue() -> None:
    from paper_checks import CLAIMS as REGISTERED

    assert {needs.claim for needs in CLAIMS} <= set(REGISTERED)
    assert {name for needs in CLAIMS for name in needs.properties} <= set(NAMES)


def test_equal_seeds_give_equal_reports() -> None:
    first, second = (check_head(matrix_softmax(2), only=("gradient", "lipschitz_in_x"), seed=3) for _ in range(2))
    assert first.results == second.results


def test_tokens_that_tie_and_cancel_until_rounding_breaks_the_tie_are_no_growth() -> None:
    """At logits of |theta|^2 > 1 / eps one of two cancelling tokens wins: |v| jumps to |theta|, not beyond."""
    report = check_head(l2_attention(2), only=("growth",), seed=33)
    assert report.passed, str(report)
    assert report.facts["growth"] < 1.5


@pytest.mark.parametrize("seed", [0, 1])
def test_what_rounding_leaves_of_centred_tokens_is_no_violation(seed: int) -> None:
    """A mean of centred tokens is 0 for all arguments: what is computed are roundings, which no argument explains."""

    def centred(theta: torch.Tensor, x: torch.Tensor, tokens: torch.Tensor, weights: torch.Tensor) -> torch.Tensor:
        return theta.reshape(2, 2) @ (weights @ (tokens - weights @ tokens))

    only = ("permutation_invariant", "law_not_list", "float32_agrees", "lipschitz_in_law")
    report = check_head(HeadSpec(centred, 4, 2), only=only, seed=seed)
    assert report.passed, str(report)


def test_declared_values_and_bounds_are_used() -> None:
    head = matrix_softmax(2)
    spec = HeadSpec(head.function, 8, 2, values=lambda theta, tokens: 0 * tokens, token_bound=1.0)
    report = check_head(spec, only=("convex_hull", "finite", "growth"))
    assert report["convex_hull"].status == "violated"
    assert "|x_i|, |y_i| <= 1" in report["finite"].detail
    assert report["growth"].status == "not applicable"


def test_an_unknown_property_is_refused() -> None:
    with pytest.raises(InputError, match="no property is called symmetry"):
        check_head(matrix_softmax(2), only=("symmetry",))
    with pytest.raises(InputError, match="no property is called symmetry"):
        mfcheck.parametrize_with_properties(matrix_softmax(2), only=("symmetry",))


@mfcheck.parametrize_with_properties(matrix_softmax(2), only=("deterministic", "inputs_not_modified", "gpu_agrees"))
def test_a_users_own_test_file(check: Any) -> None:
    check()


def test_a_violated_property_fails_its_test() -> None:
    from mfcheck.conformance.check_head import HeadCheck
    from mfcheck.conformance.parametrize import property_checks

    ((_, check),) = [
        (c.name, c)
        for c in property_checks(
            lambda: HeadCheck(lambda t, x, y, w: t.sum() * y[0], parameter_dimension=1, token_dimension=2)
        )
        if c.name == "permutation_invariant"
    ]
    with pytest.raises(AssertionError, match="permutation_invariant is violated"):
        check()
    assert torch.is_grad_enabled()
