"""A counterexample as text: a few lines that show it alone when pasted in a fresh interpreter."""

from __future__ import annotations

from mfcheck.conformance.sampler_bench import Scenario
from mfcheck.conformance.sampler_rule import OPTIMIZER

_OPTIMIZER = """\
def run(seed):
    generator = torch.Generator({device}).manual_seed(seed)
    parameter = torch.nn.Parameter(torch.full({shape}, start, dtype=torch.{dtype}{place}))
    optimizer = rule([parameter], {eta}, beta, generator)
{settings}    for k in range(steps):
        theta = parameter.detach()
        parameter.grad = {gradient}
{change}        optimizer.step()
{after}    return parameter.detach()
"""
_UPDATE = """\
def run(seed):
    generator = torch.Generator({device}).manual_seed(seed)
    theta = torch.full({shape}, start, dtype=torch.{dtype}{place})
    for k in range(steps):
        gradient = {gradient}
        moved = rule(theta, gradient, {eta}, beta, generator)
        if moved is not None:
            theta = torch.as_tensor(moved[0] if isinstance(moved, tuple) else moved)
    return theta
"""


def snippet(target: str | None, kind: str, dtype: str, device: str, scenario: Scenario) -> str:
    """Lines that set the scenario up, make its steps and print what it shows.

    target: pkg.module:name, or None where the rule came as an object, which the lines then call `rule`.
    """
    if target is None:
        head = "# rule: what you handed to check_sampler\nimport torch\n"
    else:
        module, _, name = target.partition(":")
        first, *rest = name.split(".")
        head = f"import torch\nfrom {module} import {first} as rule\n"
        if rest:
            head += f"rule = rule.{'.'.join(rest)}\n"
    shows, _, remark = scenario.shows.partition("  #")
    changed = bool(scenario.factors)
    values = {
        "device": f'"{device}"' if device != "cpu" else "",
        "place": f', device="{device}"' if device != "cpu" else "",
        "shape": f"({scenario.particles}, {scenario.coordinates})",
        "dtype": dtype,
        "gradient": _gradient(scenario.gradient),
        "eta": "eta * factors[k]" if changed and kind != OPTIMIZER else "eta",
        "settings": "",
        "change": "",
        "after": "",
    }
    if scenario.weight_decay:
        values["settings"] = f'    optimizer.param_groups[0]["weight_decay"] = {scenario.weight_decay:g}\n'
    if changed:
        values["change"] = '        optimizer.param_groups[0]["lr"] = eta * factors[k]\n'
    if scenario.resumes:
        values["after"] = _RESUMES
    if scenario.looks_at:
        values["after"] = f"    print({scenario.looks_at})\n"
    factors = f"factors = {scenario.factors}\n" if changed else ""
    return (
        f"{head}"
        f"eta, beta, steps, start = {scenario.eta:g}, {scenario.beta:g}, {scenario.steps}, {scenario.start:g}\n"
        f"{factors}"
        f"{(_OPTIMIZER if kind == OPTIMIZER else _UPDATE).format(**values)}\n"
        f"theta = run(0)\n"
        f"print({shows}){f'  #{remark}' if remark else ''}\n"
    )


#: What a run goes on with after its steps: the optimiser that made them, or one that took up its state.
_RESUMES = """\
    ends = []
    at, saved, drawn, shared = parameter.detach(), optimizer.state_dict(), generator.get_state(), torch.get_rng_state()
    for resume in (True, False):
        if resume:
            other = torch.nn.Parameter(at.clone())
            other_generator = torch.Generator().manual_seed(seed + 1)
            going_on = rule([other], eta, beta, other_generator)
            going_on.load_state_dict(saved)
            other_generator.set_state(drawn)
        else:
            other, going_on = parameter, optimizer
            generator.set_state(drawn)
        torch.set_rng_state(shared)
        for _ in range(steps):
            other.grad = torch.ones_like(other)
            going_on.step()
        ends.append(other.detach().clone())
    print((ends[0] - ends[1]).abs().max())  # 0 where a resumed run goes on as if nothing had been
"""


def _gradient(gradient: float | str) -> str:
    if isinstance(gradient, str):
        return gradient
    return "torch.zeros_like(theta)" if gradient == 0 else f"torch.full_like(theta, {gradient:g})"
