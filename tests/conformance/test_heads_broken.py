"""Every broken head is caught by its own property, with a minimal counterexample that runs when pasted."""

from __future__ import annotations

import contextlib
import io
import os
import subprocess
import sys
from pathlib import Path

import pytest
import torch

from mfcheck import check_head
from mfcheck.conformance.broken_heads_more import BROKEN
from mfcheck.conformance.head_matrix import statuses
from mfcheck.conformance.head_properties import NAMES
from mfcheck.conformance.mutant import Broken

ROOT = Path(__file__).parents[2]
HERE = [broken for broken in BROKEN if torch.cuda.is_available() or not broken.needs_gpu]
#: A few whole rows; `python -m mfcheck.conformance.head_matrix` runs them all.
ROWS = ("recency", "detached_value", "batch_statistics", "one_token_keeps_its_axis")


@pytest.mark.parametrize("broken", HERE, ids=lambda broken: broken.name)
def test_a_broken_head_is_caught_by_its_own_property_and_the_snippet_runs(broken: Broken) -> None:
    result = check_head(broken.brought, target=broken.target, only=(broken.breaks,))[broken.breaks]
    assert result.status == "violated", result
    assert result.counterexample is not None
    with contextlib.redirect_stdout(io.StringIO()) as printed:
        exec(compile(result.counterexample, "<snippet>", "exec"), {})
    assert printed.getvalue().strip()


@pytest.mark.parametrize("broken", [b for b in HERE if b.name in ROWS], ids=lambda broken: broken.name)
def test_no_unrelated_property_is_violated(broken: Broken) -> None:
    assert broken.faults(statuses(broken)) == []


def test_every_property_has_two_broken_heads() -> None:
    counts = {name: sum(broken.breaks == name for broken in BROKEN) for name in NAMES}
    assert min(counts.values()) >= 2, counts
    assert {name for broken in BROKEN for name in broken.also} <= set(NAMES)


def test_a_counterexample_is_minimal_and_shows_in_a_fresh_interpreter() -> None:
    result = check_head(next(b.brought for b in BROKEN if b.name == "recency"), only=("permutation_invariant",))
    code = result["permutation_invariant"].counterexample
    assert code is not None
    assert "order = [1, 0]" in code  # two tokens
    shown = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, env={**os.environ, "PYTHONPATH": str(ROOT)}
    )
    assert shown.returncode == 0, shown.stderr
    first, second = shown.stdout.strip().splitlines()
    assert first != second


def test_the_page_of_the_matrix_has_every_broken_head_and_property() -> None:
    text = (ROOT / "docs" / "conformance_heads.md").read_text(encoding="utf-8")
    assert all(f"| {broken.name} |" in text or broken.needs_gpu for broken in BROKEN)
    assert all(f"| {name} |" in text for name in NAMES)
