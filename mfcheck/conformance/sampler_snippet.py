"""A counterexample as text: a few lines that show it alone when pasted in a fresh interpreter."""

from __future__ import annotations

from mfcheck.conformance.sampler_bench import Scenario

_OPTIMIZER = """\
parameter = torch.nn.Parameter(theta)
optimizer = rule([parameter], eta, beta, generator)
for _ in range(steps):
    theta = parameter.detach()
    parameter.grad = {gradient}
    optimizer.step()
theta = parameter.detach()
"""
_UPDATE = """\
for _ in range(steps):
    gradient = {gradient}
    moved = rule(theta.clone(), gradient, eta, beta, generator)
    theta = torch.as_tensor(moved[0] if isinstance(moved, tuple) else moved)
"""


def snippet(target: str | None, kind: str, dtype: str, device: str, scenario: Scenario) -> str:
    """Lines that set the scenario up, make its steps and print what it shows.

    target: pkg.module:name, or None where the rule came as an object, which the lines then call `rule`.
    """
    if target is None:
        head = "import torch\n# rule: what you handed to check_sampler\n"
    else:
        module, _, name = target.partition(":")
        first, *rest = name.split(".")
        head = f"import torch\nfrom {module} import {first} as rule\n"
        if rest:
            head += f"rule = rule.{'.'.join(rest)}\n"
    gradient = scenario.gradient
    if isinstance(gradient, str):
        written = gradient
    else:
        written = "torch.zeros_like(theta)" if gradient == 0 else f"torch.full_like(theta, {gradient:g})"
    place = f', device="{device}"' if device != "cpu" else ""
    made = f"torch.Generator({device!r})" if device != "cpu" else "torch.Generator()"
    return (
        f"{head}"
        f"eta, beta, steps, start = {scenario.eta:g}, {scenario.beta:g}, {scenario.steps}, {scenario.start:g}\n"
        f"generator = {made}.manual_seed(0)\n"
        f"theta = torch.full(({scenario.particles}, {scenario.coordinates}), start, dtype=torch.{dtype}{place})\n"
        f"{(_OPTIMIZER if kind == 'optimizer' else _UPDATE).format(gradient=written)}"
        f"print({_expression(scenario.shows)})\n"
    )


def _expression(shows: str) -> str:
    """The expression without a remark behind it, which would comment out the closing bracket."""
    return shows.split("  #")[0]
