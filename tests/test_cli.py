"""The mfcheck command as a person types it."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest
from typer.testing import CliRunner

from mfcheck.cli import app
from mfcheck.outcome import append_outcome
from tests.outcomes import CONTROL, OUTCOME

ROOT = Path(__file__).parents[1]
FIGURE = '''"""The variance ratio."""

from mfcheck.plots import interval_rows, new_figure

NEEDS = ("D1", "D1: half")


def draw(outcomes):
    figure, (axes,) = new_figure()
    interval_rows(axes, [(name, outcomes[name].criteria[0]) for name in NEEDS])
    return figure
'''


@pytest.fixture
def place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An empty folder with one figure, in which commands run."""
    (tmp_path / "figures").mkdir()
    (tmp_path / "figures" / "__init__.py").write_text("")
    (tmp_path / "figures" / "ratio.py").write_text(FIGURE)
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", [p for p in sys.path if Path(p or ".").resolve() != ROOT])
    for name in [name for name in sys.modules if name.split(".")[0] == "figures"]:
        monkeypatch.delitem(sys.modules, name)
    return tmp_path


def test_a_figure_is_drawn_whole_as_png_and_pdf(place: Path) -> None:
    for outcome in (OUTCOME, CONTROL):
        append_outcome(place / "outcomes" / "outcomes.jsonl", outcome)
    result = CliRunner().invoke(app, ["figures"])
    assert result.exit_code == 0, result.output
    assert {path.name for path in (place / "outcomes" / "figures").iterdir()} == {"ratio.png", "ratio.pdf"}
    assert (place / "outcomes" / "figures" / "ratio.png").read_bytes().startswith(b"\x89PNG")


def test_missing_outcomes_are_a_sentence_with_the_command_that_makes_them(place: Path) -> None:
    result = CliRunner().invoke(app, ["figures"])
    assert result.exit_code == 2 and "pytest paper_checks --mfcheck-out outcomes" in result.output
    append_outcome(place / "outcomes" / "outcomes.jsonl", OUTCOME)
    result = CliRunner().invoke(app, ["figures"])
    assert result.exit_code == 2
    assert "no outcome of D1: half" in result.output and "mfcheck verify D1" in result.output


def test_an_unknown_figure_is_a_sentence_that_names_those_there_are(place: Path) -> None:
    append_outcome(place / "outcomes" / "outcomes.jsonl", OUTCOME)
    result = CliRunner().invoke(app, ["figures", "nonsense"])
    assert result.exit_code == 2 and "no figure is called nonsense; there are ratio" in result.output


def test_figures_are_listed_with_what_they_show_and_drawn_in_the_formats_asked_for(place: Path) -> None:
    result = CliRunner().invoke(app, ["figures", "--list"])
    assert result.exit_code == 0 and "ratio" in result.output and "The variance ratio." in result.output
    for outcome in (OUTCOME, CONTROL):
        append_outcome(place / "outcomes" / "outcomes.jsonl", outcome)
    result = CliRunner().invoke(app, ["figures", "--format", "svg", "--out", "pictures"])
    assert [path.name for path in (place / "pictures").iterdir()] == ["ratio.svg"], result.output
    result = CliRunner().invoke(app, ["figures", "ratio", "--format", "svg", "--json"])
    (drawn,) = json.loads(result.output)
    assert drawn["claims"] == ["D1"] and drawn["caption"] == "The variance ratio."
    assert [Path(path).name for path in drawn["files"]] == ["ratio.svg"]
    (listed,) = json.loads(CliRunner().invoke(app, ["figures", "--list", "--json"]).output)
    assert listed["name"] == "ratio" and "files" not in listed
    result = CliRunner().invoke(app, ["figures", "--format", "jpg"])
    assert result.exit_code == 2 and "a format is one of png, pdf, svg, gif; it came as jpg" in result.output


def test_help_and_completion_load_none_of_the_heavy_libraries() -> None:
    code = "import sys, mfcheck.cli; print(*{'torch', 'scipy', 'matplotlib', 'pytest'} & set(sys.modules))"
    done = subprocess.run([sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True)
    assert done.returncode == 0 and done.stdout.split() == [], done.stdout + done.stderr


def mfcheck(*arguments: str, cwd: Path, path: Path = ROOT) -> subprocess.CompletedProcess[str]:
    """The command in a process of its own, with the package of `path`."""
    return subprocess.run(
        [sys.executable, "-c", "from mfcheck.cli import app; app()", *arguments],
        cwd=cwd,
        env=os.environ | {"PYTHONPATH": str(path), "OMP_NUM_THREADS": "1", "PYTEST_ADDOPTS": ""},
        capture_output=True,
        text=True,
    )


def test_verify_runs_claims_by_id_and_prints_them_as_json(tmp_path: Path) -> None:
    done = mfcheck("verify", "D4", "--json", "--jobs", "1", cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    found = json.loads(done.stdout)
    assert {outcome["claim"] for outcome in found} == {"D4"}
    assert [outcome["verdict"] for outcome in found if outcome["control"] is None] == ["SUPPORTED"]
    assert "REFUTED" in {outcome["verdict"] for outcome in found if outcome["control"]}
    assert (tmp_path / "outcomes" / "outcomes.jsonl").exists()
    again = mfcheck("verify", "D4", "--resume", "--jobs", "1", cwd=tmp_path)
    assert again.returncode == 0 and "SUPPORTED" in again.stdout
    report = mfcheck("report", cwd=tmp_path)
    assert report.returncode == 0 and "report.html" in report.stdout
    assert "claim-D4" in (tmp_path / "outcomes" / "report.html").read_text(encoding="utf-8")
    moved = mfcheck("report", "--json", "--against", "outcomes/outcomes.jsonl", cwd=tmp_path)
    assert "0 verdicts changed, 0 intervals moved" in moved.stdout


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        (["verify", "D4", "Z9"], "no claim is called Z9; there are D1"),
        (["verify", "--profile", "slow"], "a profile is one of quick, standard, full; it came as 'slow'"),
        (["verify", "--device", "tpu"], "a device is one of auto, cpu, cuda; it came as 'tpu'"),
        (["claims", "show", "Z9"], "no claim is called Z9"),
        (["report", "--outcomes", "nowhere"], "nowhere"),
        (["bench", "nonsense"], "no benchmark is called nonsense; there are"),
    ],
)
def test_bad_input_is_a_sentence_and_exit_code_2(arguments: list[str], sentence: str) -> None:
    result = CliRunner().invoke(app, arguments)
    assert result.exit_code == 2 and sentence in result.output


def test_the_catalogue_is_listed_and_shown() -> None:
    result = CliRunner().invoke(app, ["claims", "list", "--json"])
    listed = json.loads(result.output)
    assert result.exit_code == 0 and {"D1", "P7", "C1"} <= {claim["id"] for claim in listed}
    assert all(claim["controls"] and claim["criteria"] for claim in listed)
    # hypotheses of the two experiments are words
    assert all(claim["formula"] for claim in listed if claim["id"][0] not in "SW")
    shown = CliRunner().invoke(app, ["claims", "show", "P7"]).output
    for part in ("source:", "hypotheses:", "paper_checks/claims_grid.py", "mfcheck/experiments/grid_reference.py:"):
        assert part in shown


def test_a_claim_is_shown_with_what_each_control_must_do() -> None:
    assert "must refute variance ratio" in CliRunner().invoke(app, ["claims", "show", "D1"]).output
    assert "must support validation loss" in CliRunner().invoke(app, ["claims", "show", "S1"]).output
    control = json.loads(CliRunner().invoke(app, ["claims", "show", "S1", "--json"]).output)["controls"][0]
    assert control["supports"] and not control["refutes"]


def test_the_doctor_finds_what_is_needed() -> None:
    result = CliRunner().invoke(app, ["doctor", "--json"])
    facts = json.loads(result.output)
    assert result.exit_code == 0 and facts["missing"] == "" and "torch" in facts["libraries"]


def test_benchmarks_are_listed() -> None:
    result = CliRunner().invoke(app, ["bench"])
    assert result.exit_code == 0 and "fokker_planck" in result.output and "false_alarms" in result.output


def test_a_wheel_carries_the_claims_and_verifies_them_away_from_the_repository(tmp_path: Path) -> None:
    pytest.importorskip("hatchling", reason="needs hatchling: pip install '.[test]'")
    built = subprocess.run(
        [sys.executable, "-m", "hatchling", "build", "-t", "wheel", "-d", str(tmp_path)],
        cwd=ROOT,
        capture_output=True,
        text=True,
    )
    assert built.returncode == 0, built.stderr
    (wheel,) = tmp_path.glob("*.whl")
    installed, elsewhere = tmp_path / "installed", tmp_path / "elsewhere"
    elsewhere.mkdir()
    with zipfile.ZipFile(wheel) as archive:
        archive.extractall(installed)
    done = mfcheck("verify", "D4", "--jobs", "1", cwd=elsewhere, path=installed)
    assert done.returncode == 0 and "SUPPORTED" in done.stdout, done.stdout + done.stderr
    shown = mfcheck("doctor", "--json", cwd=elsewhere, path=installed)
    assert str(installed / "mfcheck" / "shipped") in json.loads(shown.stdout)["claims"]
    listed = mfcheck("figures", "--list", cwd=elsewhere, path=installed)
    assert listed.returncode == 0 and "wasserstein" in listed.stdout
    bench = mfcheck("bench", cwd=elsewhere, path=installed)
    assert bench.returncode == 2 and "benchmarks are in the repository" in bench.stderr
