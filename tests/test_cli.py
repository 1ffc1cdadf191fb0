"""`mfcheck figures` as a person types it."""

from __future__ import annotations

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
    import sys

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
    assert {path.name for path in (place / "figures" / "out").iterdir()} == {"ratio.png", "ratio.pdf"}
    assert (place / "figures" / "out" / "ratio.png").read_bytes().startswith(b"\x89PNG")


def test_missing_outcomes_are_a_sentence_with_the_command_that_makes_them(place: Path) -> None:
    result = CliRunner().invoke(app, ["figures"])
    assert result.exit_code == 2 and "pytest paper_checks --mfcheck-out outcomes" in result.output
    append_outcome(place / "outcomes" / "outcomes.jsonl", OUTCOME)
    result = CliRunner().invoke(app, ["figures"])
    assert result.exit_code == 2
    assert "no outcome of D1: half" in result.output and "pytest paper_checks -k 'D1'" in result.output


def test_an_unknown_figure_is_a_sentence_that_names_those_there_are(place: Path) -> None:
    append_outcome(place / "outcomes" / "outcomes.jsonl", OUTCOME)
    result = CliRunner().invoke(app, ["figures", "nonsense"])
    assert result.exit_code == 2 and "no figure is called nonsense; there are ratio" in result.output
