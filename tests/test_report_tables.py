"""What a person reads: intervals, explanations, tables, the README."""

from __future__ import annotations

from pathlib import Path

import pytest

from mfcheck.errors import InputError
from mfcheck.report.tables import (
    END,
    SAMPLE_END,
    SAMPLE_START,
    START,
    markdown_table,
    printed,
    update_readme,
)
from mfcheck.report.words import counts, explain, interval
from mfcheck.statistics.estimate import Estimate, exact
from mfcheck.statistics.verdict import Region, Verdict
from tests.outcomes import CONTROL, OUTCOME, REFUTED, SUPPORTED, criterion, outcome


def test_an_interval_shows_as_many_digits_as_it_is_wide() -> None:
    assert interval(SUPPORTED) == "1.0018 [0.9971, 1.0064]"
    tiny = criterion(exact(3e-15, 1e-15), Region.at_most(1e-12))
    assert interval(tiny) == "3e-15 [2e-15, 4e-15]"
    assert interval(criterion(exact(0.25), Region.at_most(1.0))) == "0.25"
    none = criterion(Estimate(float("nan"), 0.0, 1.0, 0.9, 2, problem="2 rungs"), Region.at_most(1.0))
    assert interval(none) == "none"


def test_an_explanation_names_claim_prediction_interval_and_the_line_that_reproduces_it() -> None:
    text = explain(outcome(verdict=Verdict.REFUTED, criteria=(REFUTED,)), "pytest -k D1")
    for part in (
        "claim D1 is REFUTED; expected SUPPORTED",
        OUTCOME.statement,
        OUTCOME.prediction,
        "[0.499, 0.501]",
        "-k D1",
    ):
        assert part in text


def test_counts_tell_claims_run_from_claims_registered() -> None:
    assert counts([OUTCOME, CONTROL], 7, 12) == (
        "claims run 1 / 7 registered (1 as expected), controls refuted 1 / 12 registered"
    )
    missed = outcome(control="half", expected=Verdict.REFUTED)
    assert "controls refuted 0 / 12" in counts([OUTCOME, missed], 7, 12)


@pytest.mark.parametrize("width", [72, 80, 110, 160])
def test_the_summary_shows_every_criterion_and_the_controls(width: int) -> None:
    text = printed([outcome(criteria=(SUPPORTED, REFUTED)), CONTROL], width)
    assert max(map(len, text.splitlines())) <= width
    for part in ("SUPPORTED", "REFUTED", "1/1 refuted", "0.5000 [0.4990, 0.5010]", str(SUPPORTED.region)):
        assert part in text
    assert "…" not in text


def test_the_markdown_table_is_in_catalogue_order_and_escapes_bars() -> None:
    table = markdown_table([outcome(claim="K1"), outcome(claim="D10"), CONTROL, OUTCOME])
    rows = [line.split(" | ")[0] for line in table.splitlines() if line.startswith("| ")][1:]
    assert rows == ["| D1", "| D10", "| K1"]
    assert "ratio 1 \\| within 1 %" in table and "1 of 1" in table


def test_the_readme_gets_its_table_between_the_marks(tmp_path: Path) -> None:
    readme = tmp_path / "README.md"
    readme.write_text(f"before\n{SAMPLE_START}\nold\n{SAMPLE_END}\n{START}\nold\n{END}\nafter\n")
    update_readme(readme, [OUTCOME])
    text = readme.read_text()
    assert "old" not in text and "| D1 |" in text and "ratio" in text.partition(SAMPLE_END)[0]
    assert "```" in text and text.startswith("before\n") and text.endswith("\nafter\n")
    update_readme(readme, [OUTCOME])
    assert readme.read_text() == text
    readme.write_text("no marks")
    with pytest.raises(InputError, match="has no place for what is generated"):
        update_readme(readme, [OUTCOME])
