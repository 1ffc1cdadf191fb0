"""The plugin as a person meets it: verdicts, the third outcome, the file, resuming, workers."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from mfcheck.outcome import read_outcomes
from mfcheck.statistics.verdict import Verdict

pytest_plugins = ["pytester"]

CLAIMS = """
import numpy as np
from mfcheck.claim import Claim, Control, Criterion, registry
from mfcheck.statistics.estimate import mean
from mfcheck.statistics.verdict import Region

def normals(settings, replicates):
    rows = [replicates.stream.child(i).numpy().normal(settings["mean"], settings["sd"]) for i in replicates]
    return {"x": np.array(rows)}

def claim(id, **settings):
    return Claim(
        id=id, statement=f"statement {id}", prediction="the mean is 0", source="none", hypotheses="none",
        experiment=normals, settings={"mean": 0.0, "sd": 1.0} | settings, replicates=100,
        criteria=(Criterion("mean", lambda m, level: mean(m["x"], level), Region.around(0.0, absolute=1.0)),),
        controls=(Control("shifted", {"mean": 5.0}, refutes=("mean",)),),
    )

CLAIMS = registry([claim("D1"), claim("D2"), %s])
"""
TESTS = Path(__file__).parents[1] / "paper_checks" / "test_claims.py"


@pytest.fixture
def suite(pytester: pytest.Pytester) -> pytest.Pytester:
    """A folder with two true claims; `lay` in a test adds others."""
    lay(pytester)
    return pytester


def lay(pytester: pytest.Pytester, extra: str = "") -> None:
    package = pytester.path / "paper_checks"
    package.mkdir(exist_ok=True)
    (package / "__init__.py").write_text(CLAIMS % extra)
    for module in [name for name in sys.modules if name.split(".")[0] == "paper_checks"]:
        del sys.modules[module]  # the repository's own, where this process has loaded it
    (package / "test_claims.py").write_text(TESTS.read_text())
    pytester.makeini("[pytest]\npythonpath = .")


def outcomes(pytester: pytest.Pytester) -> dict[str, Verdict]:
    return {o.name: o.verdict for o in read_outcomes(pytester.path / "outcomes" / "outcomes.jsonl")}


def test_true_claims_pass_and_their_controls_are_refuted(suite: pytest.Pytester) -> None:
    result = suite.runpytest_inprocess("paper_checks")
    assert result.ret == 0
    result.stdout.fnmatch_lines(
        ["*statement D1*", "claims run 2 / 2 registered (2 as expected), controls refuted 2 / 2*"]
    )
    assert outcomes(suite) == {
        "D1": Verdict.SUPPORTED,
        "D1: shifted": Verdict.REFUTED,
        "D2": Verdict.SUPPORTED,
        "D2: shifted": Verdict.REFUTED,
    }


def test_a_false_claim_fails_with_the_interval_and_the_line_that_reproduces_it(suite: pytest.Pytester) -> None:
    lay(suite, 'claim("D3", mean=3.0)')
    result = suite.runpytest_inprocess("paper_checks", "-k", "D3", "--mfcheck-seed", "7")
    assert result.ret == 1
    result.stdout.fnmatch_lines(
        [
            "claim D3 is REFUTED; expected SUPPORTED",
            "*is disjoint from*",
            "*reproduce:*test_claim?D3?' --mfcheck-seed 7 *",
        ]
    )


@pytest.mark.parametrize(("mode", "code"), [("fail", 1), ("report", 0)])
def test_an_undecided_claim_is_shown_as_inconclusive(suite: pytest.Pytester, mode: str, code: int) -> None:
    lay(suite, 'claim("D3", sd=1000.0)')
    result = suite.runpytest_inprocess(
        "paper_checks", "-v", "-k", "test_claim and D3", f"--mfcheck-inconclusive={mode}"
    )
    assert result.ret == code
    result.stdout.fnmatch_lines(["*D3* INCONCLUSIVE*"])
    assert outcomes(suite)["D3"] is Verdict.INCONCLUSIVE


def test_a_control_that_is_missed_fails(suite: pytest.Pytester) -> None:
    lay(suite, 'claim("D3", sd=1000.0)')
    result = suite.runpytest_inprocess("paper_checks", "-k", "test_control and D3")
    assert result.ret == 1
    result.stdout.fnmatch_lines(["control 'shifted' of claim D3 is INCONCLUSIVE; expected REFUTED"])


def test_workers_and_selection_change_no_number(suite: pytest.Pytester) -> None:
    suite.runpytest_inprocess("paper_checks", "--mfcheck-out", "alone")
    suite.runpytest_inprocess("paper_checks", "-n", "2", "--mfcheck-out", "two")
    suite.runpytest_inprocess("paper_checks", "-k", "D2", "--mfcheck-out", "selected")
    files = {out: read_outcomes(suite.path / out / "outcomes.jsonl") for out in ("alone", "two", "selected")}
    found = {out: {o.name: o.criteria for o in outcomes} for out, outcomes in files.items()}
    assert len(found["alone"]) == 4 and found["two"] == found["alone"]
    assert found["selected"] == {name: c for name, c in found["alone"].items() if name.startswith("D2")}


def test_resuming_takes_over_what_is_on_file_and_runs_the_rest(suite: pytest.Pytester) -> None:
    suite.runpytest_inprocess("paper_checks", "-k", "D1")
    path = suite.path / "outcomes" / "outcomes.jsonl"
    with path.open("a") as file:
        file.write('{"claim": "D2", "contr')  # killed in the middle of a line
    before = {o.name: o.started for o in read_outcomes(path)}
    result = suite.runpytest_inprocess("paper_checks", "--mfcheck-resume")
    assert result.ret == 0
    result.stdout.fnmatch_lines(["claims run 2 / 2*"])
    assert set(outcomes(suite)) == {"D1", "D1: shifted", "D2", "D2: shifted"}
    assert {o.name: o.started for o in read_outcomes(path) if o.claim == "D1"} == before
    other_seed = suite.runpytest_inprocess("paper_checks", "-k", "D1", "--mfcheck-resume", "--mfcheck-seed", "1")
    assert other_seed.ret == 0
    assert {o.seed for o in read_outcomes(path) if o.claim == "D1"} == {1}


def test_a_device_that_is_not_there_is_a_sentence(suite: pytest.Pytester, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "")
    result = suite.runpytest_inprocess("paper_checks", "-k", "D1", "--mfcheck-device", "cuda")
    assert result.ret != 0
    result.stdout.fnmatch_lines(["*the device asked for is cuda, and torch sees none here*"])


def test_without_claims_the_plugin_imports_nothing_heavy(pytester: pytest.Pytester) -> None:
    pytester.makepyfile("import sys\n\ndef test_light():\n    assert 'torch' not in sys.modules")
    assert pytester.runpytest_subprocess().ret == 0
