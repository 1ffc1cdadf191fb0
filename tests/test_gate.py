"""`mfcheck gate`: groups kept whole, resume bit by bit, and what the command says."""

from __future__ import annotations

import json
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

import mfcheck.gate
from mfcheck.cli import app
from mfcheck.errors import InputError
from mfcheck.experiments.toy_gate.arms import MAIN, Recipe
from mfcheck.experiments.toy_gate.seeds import run_seeds
from mfcheck.experiments.toy_gate.task import Task
from mfcheck.gate import GatePlan, outcomes_of, read_gate, run_gate
from mfcheck.outcome import read_outcomes
from mfcheck.report.gate import END, START

TINY = partial(run_seeds, task=Task(training=64, validation=16), recipe=Recipe(batch=32, steps=8))


@pytest.fixture(autouse=True)
def tiny(monkeypatch: pytest.MonkeyPatch) -> None:
    """The same run on a task of a second."""
    monkeypatch.setattr(mfcheck.gate, "run_seeds", TINY)


class Killed(BaseException):
    """What a kill looks like from within."""


def test_a_run_that_was_killed_and_taken_up_leaves_the_same_bytes(tmp_path: Path) -> None:
    plan = GatePlan(seeds=10)
    run_gate(plan, tmp_path / "whole", jobs=1)

    def kill(seeds: int) -> None:
        raise Killed

    with pytest.raises(Killed):
        run_gate(plan, tmp_path / "cut", jobs=1, on_group=kill)
    kept = list((tmp_path / "cut" / "groups").iterdir())
    assert len(kept) == 1 and not (tmp_path / "cut" / "gate.jsonl").exists()
    # a file that a kill cut short does not count
    (tmp_path / "cut" / "groups" / "seeds_00004_00008.json").write_text('{"identity": "')
    told: list[int] = []
    run_gate(plan, tmp_path / "cut", jobs=1, resume=True, on_group=told.append)
    assert told == [4, 4, 2]
    whole, cut = ((tmp_path / name / "gate.jsonl").read_bytes() for name in ("whole", "cut"))
    assert whole == cut


def test_what_another_plan_or_other_code_left_is_not_taken_over(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    run_gate(GatePlan(seeds=4), tmp_path, jobs=1)
    monkeypatch.setattr(mfcheck.gate, "run_seeds", None)  # nothing may be run
    run_gate(GatePlan(seeds=4), tmp_path, jobs=1, resume=True)
    with pytest.raises(TypeError):
        run_gate(GatePlan(seeds=4, root=1), tmp_path, jobs=1, resume=True)
    monkeypatch.setattr(mfcheck.gate, "_code", lambda: "other")
    with pytest.raises(TypeError):
        run_gate(GatePlan(seeds=4), tmp_path, jobs=1, resume=True)


def test_numbers_come_back_as_they_were_written(tmp_path: Path) -> None:
    seeds = run_gate(GatePlan(seeds=5), tmp_path, jobs=1)
    header, read = read_gate(tmp_path / "gate.jsonl")
    assert read == seeds and tuple(header["arms"]) == MAIN
    assert "maps" in read[0]["beta 0"] and "maps" not in read[1]["beta 0"]
    with pytest.raises(InputError, match="no gate at"):
        read_gate(tmp_path / "nothing.jsonl")
    (tmp_path / "other.jsonl").write_text("{}\n{}\n")
    with pytest.raises(InputError, match="not written by"):
        read_gate(tmp_path / "other.jsonl")


def test_pilot_seeds_are_others(tmp_path: Path) -> None:
    real = run_gate(GatePlan(seeds=2), tmp_path, jobs=1)
    pilot = run_gate(GatePlan(seeds=2, pilot=True), tmp_path, jobs=1)
    assert not {one["beta 0"]["loss"] for one in real} & {one["beta 0"]["loss"] for one in pilot}


def test_the_command_prints_verdicts_and_keeps_outcomes(tmp_path: Path) -> None:
    out = tmp_path / "gate"
    result = CliRunner().invoke(app, ["gate", "--seeds", "4", "--out", str(out), "--jobs", "1"])
    assert result.exit_code == 1, result.output
    assert "Gate failed (n = 4 paired seeds)" in result.output
    for part in ("S1", "S4", "beta 0.005", "UNDECIDED".lower(), "0.3346"):
        assert part in result.output, part
    assert [outcome.claim for outcome in read_outcomes(out / "outcomes.jsonl")] == ["S1", "S2", "S3", "S4"]
    again = CliRunner().invoke(
        app, ["gate", "--read", str(out / "gate.jsonl"), "--out", str(tmp_path / "read"), "--json"]
    )
    told: dict[str, Any] = json.loads(again.stdout)
    assert told["n"] == 4 and not told["passed"]
    assert {row["word"] for one in told["hypotheses"] for row in one["rows"]} <= {
        "better", "worse", "equivalent", "undecided",
    }  # fmt: skip


def test_the_command_writes_tables_between_the_marks_of_a_document(tmp_path: Path) -> None:
    document = tmp_path / "gate.md"
    document.write_text(f"before\n{START}\nold\n{END}\nafter\n")
    arguments = ["gate", "--seeds", "2", "--out", str(tmp_path), "--jobs", "1", "--write", str(document)]
    assert CliRunner().invoke(app, arguments).exit_code == 1
    text = document.read_text()
    assert text.startswith("before") and text.endswith("after\n") and "old" not in text and "| **S3:" in text
    document.write_text("no marks")
    assert CliRunner().invoke(app, arguments).exit_code == 2


def test_a_pilot_says_how_many_seeds_without_looking_at_means(tmp_path: Path) -> None:
    result = CliRunner().invoke(app, ["gate", "--pilot", "--seeds", "4", "--out", str(tmp_path), "--jobs", "1"])
    assert result.exit_code == 0 and "paired seeds show half" in " ".join(result.output.split())


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["--seeds", "1"], "at least two seeds"),
        (["--arms", "most"], "main or all"),
        (["--device", "tpu"], "auto, cpu or cuda"),
        (["--read", "nowhere.jsonl"], "no gate at"),
    ],
)
def test_bad_input_is_a_sentence_and_exit_code_2(arguments: list[str], said: str, tmp_path: Path) -> None:
    result = CliRunner().invoke(app, ["gate", "--out", str(tmp_path), *arguments])
    assert result.exit_code == 2 and said in result.output


def test_outcomes_carry_the_words_and_the_cards_values(tmp_path: Path) -> None:
    from mfcheck.experiments.toy_gate.verdict import judge_gate

    plan = GatePlan(seeds=3)
    seeds = run_gate(plan, tmp_path, jobs=1)
    first = outcomes_of(judge_gate(seeds), plan.header(), seeds)[0]
    details = first.criteria[1].estimate.details
    assert details["card"] == pytest.approx(0.4203 - 0.3346) and details["word"] in ("undecided", "better", "worse")
    assert len(first.data["arms"]["beta 0"]["kept_accuracy"][0]) == 8
