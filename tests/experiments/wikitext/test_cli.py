"""`mfcheck wikitext` as a person types it: what it prints, exit codes, Ctrl-C, records."""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
import torch
from typer.testing import CliRunner

from mfcheck.cli import app
from mfcheck.errors import InputError
from mfcheck.experiments.wikitext.record import read_record, rounded, write_record
from mfcheck.outcome import read_outcomes

PRESETS = Path(__file__).parents[3] / "mfcheck" / "experiments" / "wikitext" / "presets"


@pytest.fixture
def mine(tmp_path: Path) -> Path:
    """The preset tiny with fewer steps, as a person's own file."""
    text = (PRESETS / "tiny.toml").read_text(encoding="utf-8")
    path = tmp_path / "mine.toml"
    path.write_text(text.replace("steps = 40", "steps = 6").replace("size = 6000", "size = 2500"), encoding="utf-8")
    return path


def typed(*arguments: object) -> tuple[int, str]:
    result = CliRunner().invoke(app, ["wikitext", *map(str, arguments)], env={"COLUMNS": "160"})
    return result.exit_code, result.output


def test_a_run_prints_arms_differences_and_words_and_twice_does_nothing(mine: Path, tmp_path: Path) -> None:
    asked = ("--preset", mine, "--out", tmp_path / "out", "--workers", 1, "--record", tmp_path / "r.jsonl")
    code, output = typed(*asked)
    assert code == 0, output
    assert "multihead-8" in output and "W5" in output and "text generated from seed 0, not WikiText-2" in output
    record = read_record(str(tmp_path / "r.jsonl"))
    assert record.about["preset"] == str(mine.resolve()) and len(record.outcomes) == 6
    # what figures and report read, of the hypotheses for which there are arms
    judged = {outcome.claim: outcome for outcome in read_outcomes(tmp_path / "out" / "outcomes.jsonl")}
    assert set(judged) == {"W1", "W2", "W3", "W4", "W5"} and len(judged["W1"].data["arms"]["name"]) == 3
    began = time.monotonic()
    code, again = typed(*asked)
    assert code == 0 and time.monotonic() - began < 20
    # all but the tokens a second of the progress bar
    assert output[output.index("Preset tiny") :] == again[again.index("Preset tiny") :]


def test_a_pilot_uses_seeds_of_its_own(mine: Path, tmp_path: Path) -> None:
    code, output = typed("--preset", mine, "--out", tmp_path, "--workers", 1, "--pilot", 2)
    assert code == 0 and "pairs to see the margin" in output
    names = {path.name for path in (tmp_path / "pilot" / "cells").iterdir()}
    assert "multihead-8-seed-1000" in names and len(names) == 6


def test_a_failed_cell_is_exit_code_1(mine: Path, tmp_path: Path) -> None:
    place = tmp_path / "out" / "cells" / "particles-8-seed-1"
    place.mkdir(parents=True)
    (place / "checkpoint.pt").write_bytes(b"damaged")
    code, output = typed("--preset", mine, "--out", tmp_path / "out", "--workers", 1)
    assert code == 1 and "particles-8-seed-1 failed: the checkpoint" in output


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        (("--preset", "huge"), "no preset is called 'huge'"),
        (("--preset", "small", "--data", "nowhere"), "there is no folder nowhere"),
        (("--preset", "tiny", "--device", "tpu"), "a device is auto, cpu or cuda"),
        (("--preset", "paper", "--recorded"), "no run is on record as 'paper'"),
    ],
)
def test_bad_input_is_a_sentence_and_exit_code_2(
    arguments: tuple[str, ...], sentence: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    code, output = typed(*arguments)
    assert code == 2 and sentence in re.sub(r"\s+", " ", output)


@pytest.mark.skipif(torch.cuda.is_available(), reason="there is a GPU here")
def test_the_paper_preset_without_a_gpu_is_a_sentence() -> None:
    code, output = typed("--preset", "paper")
    assert code == 2 and "cuda, and torch sees none here" in output


def test_a_folder_that_cannot_be_written_to_is_a_sentence(mine: Path, tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    code, output = typed("--preset", mine, "--out", tmp_path / "file")
    assert code == 2 and "Not a directory" in output


def test_ctrl_c_says_what_stands(mine: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from mfcheck.experiments.wikitext import sweep as sweeping

    def interrupted(*arguments: object, **options: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(sweeping, "sweep", interrupted)
    code, output = typed("--preset", mine, "--out", tmp_path / "out")
    assert code == 130 and "stopped with 0 of 6 cells done; the same command goes on" in output


def test_a_real_ctrl_c_leaves_whole_files(mine: Path, tmp_path: Path) -> None:
    mine.write_text(mine.read_text(encoding="utf-8").replace("steps = 6", "steps = 100000"), encoding="utf-8")
    arguments = ["wikitext", "--preset", str(mine), "--out", str(tmp_path / "out"), "--workers", "1"]
    program = "import sys; from mfcheck.cli import app; sys.argv[0] = 'mfcheck'; app()"
    environment = os.environ | {"PYTHONPATH": str(Path(__file__).parents[3]), "OMP_NUM_THREADS": "1"}
    process = subprocess.Popen([sys.executable, "-c", program, *arguments], env=environment, stderr=subprocess.PIPE)
    note = tmp_path / "out" / "cells" / "multihead-8-seed-0" / "progress.json"
    deadline = time.monotonic() + 120
    while not note.exists() and process.poll() is None and time.monotonic() < deadline:
        time.sleep(0.1)
    process.send_signal(signal.SIGINT)
    _, said = process.communicate(timeout=60)
    assert process.returncode == 130 and b"stopped with 0 of 6 cells done" in said, said
    assert not [path for path in (tmp_path / "out").rglob("*.partial*")]


def test_a_record_is_read_as_it_was_written_to_seven_digits(tmp_path: Path) -> None:
    write_record(tmp_path / "r.jsonl", {"preset": "x"}, [{"a": [1.23456789012, float(2**40)], "b": None}])
    record = read_record(str(tmp_path / "r.jsonl"))
    assert record.outcomes == ({"a": [1.234568, 1.099512e12], "b": None},)
    assert rounded({"x": 0.1 + 0.2}) == {"x": 0.3}
    (tmp_path / "r.jsonl").write_text("{}\n", encoding="utf-8")
    with pytest.raises(InputError, match="is no record of"):
        read_record(str(tmp_path / "r.jsonl"))


def test_the_run_on_record_is_judged_as_json() -> None:
    code, output = typed("--preset", "small", "--recorded", "--json")
    found = json.loads(output)
    assert code == 0 and found["n"] == 12 and found["hypotheses"][0]["id"] == "W1"
    # the finding of docs/wikitext.md
    words = {row["name"]: row["word"] for one in found["hypotheses"] for row in one["rows"]}
    assert words["log_perplexity: multihead-8-mean - multihead-8"] == "better"
    assert words["log_perplexity: particles-8 - multihead-8-mean"] == "equivalent"
