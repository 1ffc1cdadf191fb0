"""The notebook runs from top to bottom, and what it shows is what it printed."""

from __future__ import annotations

from pathlib import Path

import nbformat
from nbclient import NotebookClient

NOTEBOOK = Path(__file__).parents[1] / "docs" / "your_head.ipynb"


def test_the_notebook_goes_from_a_head_to_a_verdict_and_a_figure(tmp_path: Path) -> None:
    notebook = nbformat.read(NOTEBOOK, as_version=4)
    shown = [_text(cell) for cell in notebook.cells]
    NotebookClient(notebook, timeout=300, resources={"metadata": {"path": str(tmp_path)}}).execute()
    # what is random has named seeds: rounding may move a last digit, and no verdict
    for cell, before in zip(notebook.cells, shown, strict=True):
        words = [[word for word in text.split() if word.isalpha()] for text in (_text(cell), before)]
        assert words[0] == words[1], cell.source
    outputs = [output for cell in notebook.cells for output in cell.get("outputs", [])]
    assert any("image/png" in output.get("data", {}) for output in outputs)
    assert "SUPPORTED" in "".join(shown) and "REFUTED" in "".join(shown)


def _text(cell: nbformat.NotebookNode) -> str:
    return "".join(output.get("text", "") for output in cell.get("outputs", []))
