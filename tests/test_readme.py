"""The README's own example runs, and its commands exist."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import torch

README = (Path(__file__).parents[1] / "README.md").read_text(encoding="utf-8")


def test_the_example_runs_and_particles_agree_with_the_density() -> None:
    (code,) = re.findall(r"```python\n(.*?)```", README, re.DOTALL)
    torch.manual_seed(0)
    names: dict[str, Any] = {}
    exec(code, names)
    density, run = names["density"], names["run"]
    assert bool((density.error <= 1e-5).all())
    # 100 replicates' means, each within 1/sqrt(M) of the density's; z = 5 and the scheme's bias at step 0.05
    spread = float(run.final.mean((1, 2)).std()) / 10
    assert abs(float(run.final.mean() - density.measure(1).mean())) < 5 * spread + 0.05**2


def test_every_command_of_the_readme_names_something_that_exists() -> None:
    root = Path(__file__).parents[1]
    makefile = (root / "Makefile").read_text(encoding="utf-8")
    for target in re.findall(r"^make (\w+)", README, re.MULTILINE):
        assert f"\n{target}:" in makefile
    for script in re.findall(r"benchmarks/\w+\.py", README):
        assert (root / script).exists(), script
