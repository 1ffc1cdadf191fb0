"""Every figure: outcomes of registered claims, a caption that says what to see and what would refute, no simulation."""

from __future__ import annotations

import ast
from importlib import import_module
from pathlib import Path

import pytest

from mfcheck.catalogue import claims, figures
from mfcheck.report.gallery import caption

NAMES = figures()


@pytest.mark.parametrize("name", NAMES)
def test_a_figure_needs_outcomes_that_a_run_makes(name: str) -> None:
    registered = claims()
    made = {
        *registered,
        *(f"{claim.id}: {control.name}" for claim in registered.values() for control in claim.controls),
    }
    assert set(import_module(NAMES[name]).NEEDS) <= made


@pytest.mark.parametrize("name", NAMES)
def test_a_caption_says_what_should_be_seen_and_what_would_refute_the_claim(name: str) -> None:
    text = caption(import_module(NAMES[name]))
    assert "To see:" in text and "Refuted " in text


@pytest.mark.parametrize("name", NAMES)
def test_a_figure_reads_outcomes_and_never_simulates(name: str) -> None:
    path = Path(str(import_module(NAMES[name]).__file__))
    tree = ast.parse(path.read_text())
    imported = [node.module or "" for node in ast.walk(tree) if isinstance(node, ast.ImportFrom)]
    inside = [module for module in imported if module.startswith("mfcheck")]
    # constants of an experiment (its recipe, the figures on record) may be read; running it may not
    allowed = ("mfcheck.outcome", "mfcheck.plots", "mfcheck.statistics", "mfcheck.experiments")
    assert all(module.startswith(allowed) for module in inside), inside
    called = {
        getattr(node.func, "id", getattr(node.func, "attr", ""))
        for node in ast.walk(tree)
        if isinstance(node, ast.Call)
    }
    assert not called & {"simulate", "solve_fokker_planck", "run", "train", "gate"}, called
