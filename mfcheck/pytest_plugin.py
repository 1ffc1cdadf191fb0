"""The pytest plugin: one test a claim, one a control, a third outcome, and a table at the end.

Imported in every pytest run of the environment, so nothing heavy is imported until a claim is run.
"""

from __future__ import annotations

import shutil
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

if TYPE_CHECKING:
    from mfcheck.claim import Claim, Control
    from mfcheck.outcome import Outcome

OUTCOME, VERDICT, REGISTERED = "mfcheck_outcome", "mfcheck_verdict", "mfcheck_registered"


def pytest_addoption(parser: pytest.Parser) -> None:
    group = parser.getgroup("mfcheck", "claims, verdicts and their controls")
    group.addoption("--mfcheck-seed", type=int, default=0, help="root seed of every claim's randomness (default: 0)")
    group.addoption(
        "--mfcheck-profile",
        choices=("quick", "standard", "full"),
        default="quick",
        help="replicates at the first look: 1, 4 or 16 times what the claim asks for (default: quick)",
    )
    group.addoption(
        "--mfcheck-device",
        choices=("auto", "cpu", "cuda"),
        default="auto",
        help="where tensors live; auto takes CUDA when torch sees it (default: auto)",
    )
    group.addoption(
        "--mfcheck-inconclusive",
        choices=("fail", "report"),
        default="fail",
        help="whether an INCONCLUSIVE claim fails the run or is only reported (default: fail)",
    )
    group.addoption(
        "--mfcheck-out",
        type=Path,
        default=Path("outcomes"),
        metavar="DIR",
        help="folder whose outcomes.jsonl gets a line a claim as each is reached (default: outcomes)",
    )
    group.addoption(
        "--mfcheck-head",
        metavar="PKG.MODULE:NAME",
        help="the head that paper_checks/test_heads.py checks, a test a property",
    )
    group.addoption(
        "--mfcheck-only",
        default="",
        metavar="D1,C2",
        help="claims by id, with their controls; all others are left out (default: all)",
    )
    group.addoption(
        "--mfcheck-sampler",
        metavar="PKG.MODULE:NAME",
        help="the update rule that paper_checks/test_samplers.py checks, a test a property",
    )
    group.addoption(
        "--mfcheck-resume",
        action="store_true",
        help="take over outcomes that --mfcheck-out already holds for this seed, profile and code",
    )


def pytest_configure(config: pytest.Config) -> None:
    if not hasattr(config, "workerinput"):
        config.pluginmanager.register(Keeper(config), "mfcheck-keeper")


def pytest_ignore_collect(collection_path: Path, config: pytest.Config) -> bool | None:
    """Where no head or update rule is named, its tests are not there; asked for by path, they say what to name."""
    option = {"test_heads.py": "--mfcheck-head", "test_samplers.py": "--mfcheck-sampler"}.get(collection_path.name)
    if option is None or collection_path.parent.name != "paper_checks":
        return None
    return None if config.getoption(option) else True


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Leaves out the claims that --mfcheck-only does not name. `-k D1` would take D10 along, or a control's name."""
    only = {name for name in config.getoption("--mfcheck-only").split(",") if name}
    if not only:
        return
    kept = [item for item in items if _claim_of(item) in only]
    missing = only - {_claim_of(item) for item in kept}
    if missing:
        raise pytest.UsageError(f"no claim is called {', '.join(sorted(missing))} in what was collected")
    config.hook.pytest_deselected(items=[item for item in items if item not in kept])
    items[:] = kept


def _claim_of(item: pytest.Item) -> str | None:
    claim = getattr(getattr(item, "callspec", None), "params", {}).get("claim")
    return getattr(claim, "id", None)


@pytest.fixture
def mfcheck_verify(
    request: pytest.FixtureRequest, record_property: Callable[[str, object], None]
) -> Callable[..., None]:
    """verify(registry, claim, control=None): runs a claim or control and fails the test on an unexpected verdict."""

    def verify(registry: Mapping[str, Claim], claim: Claim, control: Control | None = None) -> None:
        from mfcheck.report.words import explain
        from mfcheck.statistics.verdict import Verdict

        outcome, taken_over = _outcome(request.config, registry, claim, control)
        record_property(VERDICT, outcome.verdict.value)
        record_property(REGISTERED, (len(registry), sum(len(c.controls) for c in registry.values())))
        record_property(OUTCOME, (outcome.to_json(), taken_over))
        if outcome.passed:
            return
        if outcome.verdict is Verdict.INCONCLUSIVE and request.config.getoption("--mfcheck-inconclusive") == "report":
            return
        options = f"--mfcheck-seed {outcome.seed} --mfcheck-profile {outcome.profile} --mfcheck-device {outcome.device}"
        pytest.fail(explain(outcome, f"pytest '{request.node.nodeid}' {options}"), pytrace=False)

    return verify


def _outcome(
    config: pytest.Config, registry: Mapping[str, Claim], claim: Claim, control: Control | None
) -> tuple[Outcome, bool]:
    """The outcome, run now or taken over from an earlier run (True) where --mfcheck-resume finds it."""
    from threadpoolctl import threadpool_limits
    from torch import set_num_threads

    from mfcheck.device import resolve_device
    from mfcheck.errors import InputError
    from mfcheck.runner import Plan, identity, run

    try:
        device = resolve_device(config.getoption("--mfcheck-device"))
    except InputError as error:
        raise pytest.UsageError(str(error)) from error
    plan = Plan(
        seed=config.getoption("--mfcheck-seed"),
        profile=config.getoption("--mfcheck-profile"),
        device=device,
        registered=len(registry),
    )
    if config.getoption("--mfcheck-resume"):
        for earlier in _on_file(config):
            if earlier.identity == identity(claim, plan, control):
                return earlier, True
    # one thread a process: xdist's workers share the cores, and sums do not depend on how many there are
    set_num_threads(1)
    with threadpool_limits(limits=1):
        return run(claim, plan, control), False


def _path(config: pytest.Config) -> Path:
    out: Path = config.getoption("--mfcheck-out")
    return (out if out.is_absolute() else config.invocation_params.dir / out) / "outcomes.jsonl"


def _on_file(config: pytest.Config) -> list[Outcome]:
    from mfcheck.outcome import read_outcomes

    return read_outcomes(_path(config)) if _path(config).exists() else []


def pytest_report_teststatus(report: Any, config: pytest.Config) -> tuple[str, str, str] | None:
    """INCONCLUSIVE is shown as itself: neither a pass nor a refutation."""
    if getattr(report, "when", None) != "call":
        return None
    if dict(report.user_properties).get(VERDICT) != "INCONCLUSIVE":
        return None
    # a failed one stays among the failures, so that its explanation is printed
    return ("failed" if report.failed else "inconclusive", "I", "INCONCLUSIVE")


class Keeper:
    """Keeps outcomes as they are reached, and shows them at the end: in pytest itself, or in xdist's controller."""

    def __init__(self, config: pytest.Config) -> None:
        self.config = config
        self.lines: list[str] = []
        self.registered = (0, 0)

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        found: dict[str, Any] = dict(report.user_properties)
        if report.when != "call" or OUTCOME not in found:
            return
        from mfcheck.outcome import Outcome, append_outcome

        line, taken_over = found[OUTCOME]
        self.lines.append(line)
        claims, controls = found[REGISTERED]
        self.registered = (claims, controls)
        if not taken_over:
            append_outcome(_path(self.config), Outcome.from_json(line))

    def pytest_terminal_summary(self, terminalreporter: Any) -> None:
        if not self.lines:
            return
        from rich.console import Console

        from mfcheck.outcome import Outcome
        from mfcheck.report.tables import summary_table
        from mfcheck.report.words import counts

        outcomes = [Outcome.from_json(line) for line in self.lines]
        width = max(72, shutil.get_terminal_size(fallback=(150, 24)).columns)
        console = Console(
            width=width,
            force_terminal=bool(terminalreporter.hasmarkup),
            color_system="auto" if terminalreporter.hasmarkup else None,
        )
        with console.capture() as capture:
            console.print(summary_table(outcomes, width))
        terminalreporter.section("mfcheck")
        terminalreporter.write(capture.get())
        terminalreporter.write_line(counts(outcomes, *self.registered))
        terminalreporter.write_line(f"outcomes in {_path(self.config)}")
