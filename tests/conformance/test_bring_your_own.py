"""The examples of docs/bring_your_own.md on heads run as they stand."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

PAGE = Path(__file__).parents[2] / "docs" / "bring_your_own.md"
EXAMPLES = re.findall(
    r"^```python\n(.*?)^```", PAGE.read_text(encoding="utf-8").partition("\n## Update rules")[0], re.M | re.S
)


@pytest.mark.parametrize("code", EXAMPLES, ids=lambda code: code.strip().splitlines()[-1][:60])
def test_a_worked_example_runs(code: str) -> None:
    exec(compile(code, str(PAGE), "exec"), {"__name__": "example"})


def test_there_are_examples() -> None:
    assert len(EXAMPLES) >= 2
