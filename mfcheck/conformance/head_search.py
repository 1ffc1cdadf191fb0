"""The search for an input that refutes a property, its minimal form, and lines that show it alone."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from hypothesis import HealthCheck, Phase, Verbosity, assume, given, settings

from mfcheck.conformance.head_cases import Case, cases
from mfcheck.conformance.head_properties import Property, inputs
from mfcheck.conformance.head_subject import HeadRaised, Subject


@dataclass(frozen=True)
class Found:
    """How many inputs were tried, and the minimal one that refutes with what is wrong there (None: none does)."""

    tried: int
    wrong: str | None = None
    case: Case | None = None


class _Refuted(Exception):
    pass


def search(subject: Subject, prop: Property, examples: int) -> Found:
    """Looks for an input that refutes the property and shrinks it. The same inputs at every run.

    Inputs on which the head raises are left out; that it raises is for the property of shapes to see.
    """
    tried, last = 0, Found(0)

    @settings(
        max_examples=examples,
        derandomize=True,
        database=None,
        deadline=None,
        verbosity=Verbosity.quiet,
        phases=(Phase.generate, Phase.shrink),
        suppress_health_check=list(HealthCheck),
        report_multiple_bugs=False,
    )
    @given(cases(subject, fewest=prop.fewest))
    def look(case: Case) -> None:
        nonlocal tried, last
        tried += 1
        try:
            wrong = prop.wrong(subject, inputs(subject, prop, case))
        except HeadRaised:
            assume(False)
        if wrong is not None:
            last = Found(tried, wrong, case)
            raise _Refuted

    try:
        look()
    except _Refuted:
        return last
    return Found(tried)


def snippet(target: str | None, subject: Subject, prop: Property, case: Case) -> str:
    """Lines that make the inputs and print what the property looks at; target: pkg.module:name of the head."""
    if target is None:
        head = "# head: what you handed to check_head\n"
    else:
        module, _, name = target.partition(":")
        first, *rest = name.split(".")
        head = f"from {module} import {first} as head\n" + "".join(f"head = head.{part}\n" for part in rest)
    tensors = case.tensors(subject, ball=prop.domain == "ball")
    scale = f"{subject.spec.radius / 3!r} * " if prop.domain == "far" else ""
    kind = "" if subject.dtype == torch.float64 else ", dtype=torch.float32"
    lines = ["import torch", head.rstrip(), "torch.set_default_dtype(torch.float64)"]
    for name, value in zip(("theta", "x", "tokens", "weights"), tensors, strict=True):
        factor = scale if name != "weights" else ""
        if name == "theta" and isinstance(case.theta, int) and prop.domain != "ball":
            written = f"torch.randn({subject.p}, generator=torch.Generator().manual_seed({case.theta})) / 2"
        elif name == "weights":
            written = f"torch.tensor({list(case.shares)}{kind or ', dtype=torch.float64'}) / {sum(case.shares)}"
        else:
            written = f"torch.tensor({value.tolist()}{kind})"
        lines.append(f"{name} = {factor}{written}")
    return "\n".join([*lines, prop.lines]) + "\n"
