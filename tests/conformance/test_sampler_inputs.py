"""Update rules as people bring them: odd ones are handled, or answered in a sentence."""

from __future__ import annotations

import functools
import json
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from typer.testing import CliRunner

from mfcheck import check_sampler
from mfcheck.cli import app
from mfcheck.conformance.good_samplers import SGLD, euler_maruyama
from mfcheck.errors import InputError

ONE = ["noise_power_of_eta"]


def as_numpy(theta: torch.Tensor, grad: torch.Tensor, step: float, beta: float, generator: torch.Generator) -> Any:
    return np.asarray(euler_maruyama(theta, grad, step, beta, generator))


def single(theta: torch.Tensor, grad: torch.Tensor, step: float, beta: float, generator: torch.Generator) -> Any:
    return euler_maruyama(theta.float(), grad.float(), step, beta, generator)


def scaled(
    theta: torch.Tensor, grad: torch.Tensor, step: float, beta: float, generator: torch.Generator, factor: float = 1.0
) -> Any:
    return euler_maruyama(theta, factor * grad, step, beta, generator)


def talks(theta: torch.Tensor, grad: torch.Tensor, step: float, beta: float, generator: torch.Generator) -> Any:
    print("stepping")
    return euler_maruyama(theta, grad, step, beta, generator)


def by_name(*, theta: torch.Tensor, grad: torch.Tensor, step: float, beta: float, generator: torch.Generator) -> Any:
    return euler_maruyama(theta, grad, step, beta, generator)


@pytest.mark.parametrize(
    "rule",
    [as_numpy, single, talks, by_name, functools.partial(scaled, factor=1.0), lambda p, lr, b, g: SGLD(p, lr, b, g)],
)
def test_what_is_odd_and_right_is_handled(rule: Callable[..., Any]) -> None:
    assert check_sampler(rule, only=ONE).passed


def test_what_it_prints_is_left_out_and_said(capsys: pytest.CaptureFixture[str]) -> None:
    report = check_sampler(talks, only=ONE)
    assert any("printed" in note for note in report.notes)
    assert capsys.readouterr().out == ""


def raises(theta: Any, grad: Any, step: float, beta: float, generator: Any) -> Any:
    raise RuntimeError("no such thing")


@pytest.mark.parametrize(
    ("rule", "words"),
    [
        (3, "cannot be called"),
        (lambda a, b: a, "neither four arguments nor five"),
        (lambda *a: a, "say which"),
        (torch.optim.SGD, "takes no beta"),
        (torch.optim.SGD([torch.nn.Parameter(torch.ones(1))], lr=0.1), "already made"),
        (raises, "RuntimeError: no such thing"),
        (lambda theta, grad, step, beta, generator: theta[:1], "shape"),
        (lambda theta, grad, step, beta, generator: "theta", "type str"),
        (lambda theta, grad, step, beta, generator: None, "returned None"),
        (lambda theta, grad, step, beta, generator: theta * float("nan"), "NaN"),
        (lambda params, lr, beta, generator: 3, "torch.optim.Optimizer was expected"),
    ],
)
def test_what_is_no_rule_is_answered_in_a_sentence(rule: Any, words: str) -> None:
    with pytest.raises(InputError, match=words):
        check_sampler(rule)


def test_a_slow_rule_is_asked_less_and_the_report_says_so() -> None:
    def slow(theta: Any, grad: Any, step: float, beta: float, generator: Any) -> Any:
        time.sleep(0.1)
        return euler_maruyama(theta, grad, step, beta, generator)

    began = time.perf_counter()
    report = check_sampler(slow, budget=3.0)
    assert time.perf_counter() - began < 15
    assert any("a step takes 0.1" in note for note in report.notes)
    assert report["noise_variance"].status == "holds"
    assert "--budget" in report["stationary_temperature"].detail


@pytest.mark.parametrize(
    ("target", "code", "words"),
    [
        ("nothing", 2, "written pkg.module:name"),
        ("no.such.module:name", 2, "there is no module no"),
        ("mfcheck.conformance.good_samplers:nothing", 2, "has no nothing"),
        ("mfcheck.conformance.good_samplers:SGLD", 0, "holds"),
        ("mfcheck.conformance.broken:EtaOutsideRoot", 1, "eta stands outside of the square root"),
    ],
)
def test_the_command_has_three_exit_codes(target: str, code: int, words: str, tmp_path: Path) -> None:
    only = "noise_variance,noise_power_of_eta,noise_power_of_beta"
    path = tmp_path / "report.json"
    result = CliRunner().invoke(app, ["sampler", target, "--only", only, "--json", str(path)])
    assert result.exit_code == code
    assert words in result.output
    if code != 2:
        assert json.loads(path.read_text())["passed"] is (code == 0)


def test_a_counterexample_runs_alone() -> None:
    target = "mfcheck.conformance.broken:FactorTwoMissing"
    from mfcheck.conformance.broken.noise import FactorTwoMissing

    result = check_sampler(FactorTwoMissing, target=target, only=["noise_variance"])["noise_variance"]
    assert result.counterexample is not None
    printed = subprocess.run([sys.executable, "-c", result.counterexample], capture_output=True, text=True, check=True)
    assert abs(float(printed.stdout.split("(")[1].split(",")[0].rstrip(")\n")) - 0.5) < 0.02


def test_the_convention_declared_is_held_to() -> None:
    assert not check_sampler(SGLD, only=["scaling"], scaling="mean_field").passed
    assert check_sampler(SGLD, only=["scaling"], scaling="raw").passed
