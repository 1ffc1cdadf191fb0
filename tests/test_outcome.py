"""Outcomes go to JSON lines and come back, whatever was measured and however the run ended."""

from __future__ import annotations

import json
import math
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch

from mfcheck.errors import InputError
from mfcheck.outcome import Outcome, append_outcome, digest, read_outcomes
from mfcheck.runner import Plan, run
from mfcheck.statistics.estimate import Estimate
from mfcheck.statistics.verdict import Region, Verdict
from tests.outcomes import OUTCOME, criterion
from tests.synthetic import claim


def test_an_outcome_comes_back_from_json() -> None:
    again = Outcome.from_json(OUTCOME.to_json())
    assert again.to_json() == OUTCOME.to_json()
    assert (again.claim, again.verdict, again.criteria[0]) == (OUTCOME.claim, Verdict.SUPPORTED, OUTCOME.criteria[0])


def test_an_outcome_of_run_comes_back_from_json() -> None:
    tried = claim(columns=2)
    for control in (None, tried.controls[0]):
        outcome = run(tried, Plan(), control)
        assert Outcome.from_json(outcome.to_json()) == outcome


def test_floats_keep_every_digit() -> None:
    level, point = 1 - 1e-6 / 3, 0.1 + 0.2
    estimate = Estimate(point, point - 1e-16, point + 1e-16, level, 3)
    again = Outcome.from_json(replace(OUTCOME, criteria=(criterion(estimate, Region(0.0, 1.0, 0.3)),)).to_json())
    assert again.criteria[0].estimate == estimate


def test_nan_and_infinite_ends_come_back() -> None:
    estimate = Estimate(math.nan, -math.inf, math.inf, 0.99, 3, problem="2 rungs")
    judged = criterion(estimate, Region.at_most(1.0))
    again = Outcome.from_json(replace(OUTCOME, criteria=(judged,), data={"x": [math.nan, math.inf]}).to_json())
    back = again.criteria[0]
    assert math.isnan(back.estimate.point)
    assert (back.estimate.lower, back.estimate.upper, back.region) == (-math.inf, math.inf, Region.at_most(1.0))
    assert math.isnan(again.data["x"][0])


def test_arrays_and_tensors_become_lists() -> None:
    data = {
        "array": np.arange(4.0).reshape(2, 2),
        "number": np.float64(0.5),
        "count": np.int64(3),
        "flag": np.bool_(True),
        "tensor": torch.ones(2),
        "pair": (1, np.float32(2.0)),
        "nested": {1: {"deep": np.ones(1)}},
        "verdict": Verdict.REFUTED,
    }
    again = Outcome.from_json(replace(OUTCOME, data=data).to_json())
    assert again.data == {
        "array": [[0.0, 1.0], [2.0, 3.0]],
        "number": 0.5,
        "count": 3,
        "flag": True,
        "tensor": [1.0, 1.0],
        "pair": [1, 2.0],
        "nested": {"1": {"deep": [1.0]}},
        "verdict": "REFUTED",
    }


def test_an_outcome_is_one_line() -> None:
    assert "\n" not in replace(OUTCOME, statement="two\nlines").to_json()


@pytest.mark.parametrize(
    "line",
    ["", "[]", "3", "{}", OUTCOME.to_json()[:-20], OUTCOME.to_json().replace("SUPPORTED", "TRUE")],
)
def test_another_line_is_no_outcome(line: str) -> None:
    with pytest.raises(InputError, match="not an outcome of this version of mfcheck"):
        Outcome.from_json(line)


def test_an_outcome_of_another_version_is_no_outcome() -> None:
    fields = json.loads(OUTCOME.to_json())
    for changed in (fields | {"colour": "red"}, {k: v for k, v in fields.items() if k != "looks"}):
        with pytest.raises(InputError, match="not an outcome"):
            Outcome.from_json(json.dumps(changed))


def test_a_criterion_is_found_by_name() -> None:
    assert OUTCOME.criterion("ratio") is OUTCOME.criteria[0]
    with pytest.raises(InputError, match=r"D1 has no criterion 'slope'; it has \['ratio'\]"):
        OUTCOME.criterion("slope")


# --- the file ---


def test_outcomes_are_appended_and_read_in_order(tmp_path: Path) -> None:
    path = tmp_path / "new" / "outcomes.jsonl"
    for id in ("D2", "D1"):
        append_outcome(path, replace(OUTCOME, claim=id))
    assert [outcome.claim for outcome in read_outcomes(path)] == ["D2", "D1"]


def test_the_latest_outcome_of_a_claim_or_control_is_read(tmp_path: Path) -> None:
    path = tmp_path / "outcomes.jsonl"
    for id, control, seed in (("D1", None, 0), ("D1", "broken", 1), ("D2", None, 2), ("D1", None, 3)):
        append_outcome(path, replace(OUTCOME, claim=id, control=control, seed=seed))
    read = [(outcome.claim, outcome.control, outcome.seed) for outcome in read_outcomes(path)]
    assert read == [("D1", "broken", 1), ("D2", None, 2), ("D1", None, 3)]


@pytest.mark.parametrize("cut", [1, 50, 300])
def test_an_unfinished_line_counts_as_not_yet_run(tmp_path: Path, cut: int) -> None:
    path = tmp_path / "outcomes.jsonl"
    append_outcome(path, replace(OUTCOME, claim="D1"))
    append_outcome(path, replace(OUTCOME, claim="D2"))
    whole = path.read_bytes()
    path.write_bytes(whole[:-cut])  # a run killed while it wrote D2
    # cut by the line's end alone, D2 is whole
    expected = ["D1", "D2"] if cut == 1 else ["D1"]
    assert [outcome.claim for outcome in read_outcomes(path)] == expected
    append_outcome(path, replace(OUTCOME, claim="D3"))
    assert [outcome.claim for outcome in read_outcomes(path)] == [*expected, "D3"]


def test_bytes_that_are_no_text_are_passed_over(tmp_path: Path) -> None:
    path = tmp_path / "outcomes.jsonl"
    path.write_bytes(b"\xff\xfe\x80\n")
    append_outcome(path, OUTCOME)
    assert len(read_outcomes(path)) == 1


def test_a_missing_file_names_the_command_that_makes_it(tmp_path: Path) -> None:
    with pytest.raises(InputError, match=r"make them with `pytest paper_checks --mfcheck-out"):
        read_outcomes(tmp_path / "outcomes.jsonl")


def test_a_digest_depends_on_what_it_is_given() -> None:
    assert digest(1, "a") == digest(1, "a")
    assert len({digest(1, "a"), digest(1, "b"), digest("1", "a"), digest((1, "a"))}) == 4
