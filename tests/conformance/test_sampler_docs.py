"""The examples of docs/bring_your_own.md on update rules run."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

PAGE = (Path(__file__).parents[2] / "docs" / "bring_your_own.md").read_text(encoding="utf-8")
SECTION = PAGE.split("## Update rules")[1].split("\n## ")[0]
EXAMPLES = re.findall(r"```python\n(.*?)```", SECTION, re.DOTALL)


@pytest.mark.parametrize("example", EXAMPLES, ids=["function", "optimiser"])
def test_an_example_runs(example: str) -> None:
    exec(compile(example, "docs/bring_your_own.md", "exec"), {})
