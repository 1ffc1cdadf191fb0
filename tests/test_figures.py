"""Every figure: outcomes of registered claims, a caption that says what to see and what would refute, no simulation."""

from __future__ import annotations

import ast
from importlib import import_module
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

from mfcheck.catalogue import claims, figures
from mfcheck.report.gallery import caption, save
from tests.outcomes import outcome

NAMES = figures()


@pytest.mark.parametrize("name", NAMES)
def test_a_figure_needs_outcomes_that_a_run_makes(name: str) -> None:
    registered = claims()
    made = {
        *registered,
        *(f"{claim.id}: {control.name}" for claim in registered.values() for control in claim.controls),
        # left by `mfcheck wikitext`
        "W1",
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


def test_the_animation_has_a_frame_a_time_on_record(tmp_path: Path) -> None:
    times = (0.0, 0.5, 2.0, 5.0)
    generator = np.random.default_rng(0)
    centres = np.linspace(-3.9, 3.9, 40)
    bump = np.exp(-((centres[:, None] - 0.1) ** 2) - (centres[None] + 0.2) ** 2)
    data = {
        "times": list(times),
        "box": [-4.0, 4.0],
        "heads": generator.standard_normal((4, 20, 2)).tolist(),
        "density": [bump.tolist()] * 4,
    }
    module = import_module(NAMES["phase_portrait"])
    read = {name: outcome(claim="C6", data=data) for name in module.NEEDS}
    assert save("phase_portrait", module, read, tmp_path, ["gif", "png"], dpi=40) == [
        tmp_path / "phase_portrait.gif",
        tmp_path / "phase_portrait.png",
    ]
    with Image.open(tmp_path / "phase_portrait.gif") as picture:
        # identical frames may be merged: the last one is held
        assert len(times) <= getattr(picture, "n_frames", 1) <= len(times) + 5
    # a figure without one is not drawn as a GIF
    assert save("density", import_module(NAMES["density"]), read, tmp_path, ["gif"]) == []
