"""What somebody brings: everything is checked, or answered in a sentence."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
import torch
from typer.testing import CliRunner

from mfcheck import HeadSpec, InputError, check_head
from mfcheck.cli import app
from mfcheck.conformance.target import load_target
from tests.conformance import brought_heads as brought

FEW = ("shape_and_dtype", "finite", "deterministic", "permutation_invariant")
BROUGHT = "tests.conformance.brought_heads"


@pytest.mark.parametrize(
    "head",
    [brought.plain, brought.partial, brought.spec, brought.a_lambda, brought.Own, brought.Own(), brought.multihead],
    ids=["function", "partial", "HeadSpec", "lambda", "module class", "module", "nn.MultiheadAttention"],
)
def test_what_can_be_called_as_a_head_is(head: Any) -> None:
    report = check_head(head, only=FEW)
    assert report.passed, str(report)
    assert report.facts["token_dimension"] == 2


@pytest.mark.parametrize(
    ("head", "words"),
    [
        (brought.not_callable, "it came as int"),
        (brought.wrong_arity, r"called as \(theta, x, tokens, weights\); wrong_arity takes \(query"),
        (brought.wrong_shape, r"it returned shape \(1, 2\), and a head returns one token"),
        (brought.raises, "RuntimeError: no attention today"),
        (brought.to_numpy, r"returned a numpy.ndarray, which has no gradient in theta: compute in torch"),
        (brought.any_number, r"takes theta of 1, 2, 3, 4, ... numbers alike.*--parameters"),
        (lambda theta, x, tokens, weights: x * torch.nan, "it returned"),
    ],
    ids=["a number", "wrong arity", "wrong shape", "raises", "NumPy", "any theta", "NaN"],
)
def test_what_cannot_is_answered_in_a_sentence(head: Any, words: str) -> None:
    with pytest.raises(InputError, match=words):
        check_head(head)


def test_a_head_that_needs_single_precision_is_checked_in_it() -> None:
    report = check_head(brought.single_precision, only=(*FEW, "gradient", "float32_agrees"))
    assert report.passed, str(report)
    assert report.facts["dtype"] == "float32"
    assert {report[name].status for name in ("gradient", "float32_agrees")} == {"not applicable"}


def test_a_slow_head_is_tried_on_fewer_examples_and_the_report_says_so() -> None:
    spec = HeadSpec(brought.slow, 4, 2)
    report = check_head(spec, only=("shape_and_dtype", "permutation_invariant", "lipschitz_in_x"), budget=4.0)
    assert report["shape_and_dtype"].status == "holds"
    assert (report["shape_and_dtype"].examples or 0) < 10
    assert report["lipschitz_in_x"].status == "undecided"
    assert any("fewer examples" in note for note in report.notes)


def test_prints_are_counted_and_kept_apart(capsys: pytest.CaptureFixture[str]) -> None:
    report = check_head(brought.chatty, only=("deterministic",))
    assert capsys.readouterr().out == ""
    assert any(note.startswith("it printed") for note in report.notes)


def test_parameters_of_its_own_are_noted() -> None:
    assert any("parameters of its own" in note for note in check_head(brought.own_parameters, only=FEW[:1]).notes)


def test_a_head_that_takes_single_calls_is_no_worse_for_it() -> None:
    for head, way in ((brought.plain, "torch.func.vmap"), (brought.branches, "a loop")):
        batches = check_head(head, only=("batches", "index_independent"))["batches"]
        assert batches.status == "not applicable"
        assert way in batches.detail


def test_global_generators_are_given_back() -> None:
    torch.manual_seed(5)
    expected = torch.randn(3)
    torch.manual_seed(5)
    check_head(brought.plain, only=FEW[:2])
    assert torch.equal(torch.randn(3), expected)


def test_exit_codes_and_json(tmp_path: Path) -> None:
    out = tmp_path / "report.json"
    held = CliRunner().invoke(app, ["head", f"{BROUGHT}:good", "--only", "deterministic", "--json", str(out)])
    assert held.exit_code == 0, held.output
    assert json.loads(out.read_text())["results"][0]["status"] == "holds"
    broken = "mfcheck.conformance.broken_heads:causal"
    violated = CliRunner().invoke(app, ["head", broken, "--only", "permutation_invariant"])
    assert violated.exit_code == 1
    assert "from mfcheck.conformance.broken_heads import causal" in violated.output
    for target in ("nowhere:head", f"{BROUGHT}:missing", "no colon", f"{BROUGHT}:wrong_arity"):
        refused = CliRunner().invoke(app, ["head", target])
        assert refused.exit_code == 2, refused.output


def test_a_target_is_loaded_by_its_dotted_name() -> None:
    assert load_target(f"{BROUGHT}:good") is brought.good
