"""Which claims of the catalogue say something about a head, given the properties that it has."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass

from mfcheck.conformance.head_subject import Subject
from mfcheck.conformance.report import HOLDS, NOT_APPLICABLE, VIOLATED, PropertyResult

_VALUE = ("shape_and_dtype", "finite", "deterministic", "inputs_not_modified")
_LAW = ("permutation_invariant", "law_not_list", "weight_zero_ignored")
_AVERAGE = (*_VALUE, "index_independent")
_FLOW = (*_VALUE, *_LAW, "lipschitz_in_x", "lipschitz_in_law")
_TRAINING = (*_AVERAGE, "gradient", "lipschitz_in_theta")


@dataclass(frozen=True)
class Needs:
    """What a claim asks of a head: properties, and conditions of its own, each a reason against or None."""

    claim: str
    about: str
    properties: tuple[str, ...]
    conditions: tuple[Callable[[Subject], str | None], ...] = ()


def _bounded(subject: Subject) -> str | None:
    power = subject.growth_power
    if power == 0 or subject.parameter_bound is not None:
        return None
    said = "no power of growth" if power is None else f"growth power {power:g}"
    return f"it is about bounded heads, growth power 0, and this one declares {said}"


def _few_parameters(subject: Subject) -> str | None:
    p = subject.parameter_dimension
    return None if p <= 8 else f"it is about at most 8 effective parameters, and theta has {p}"


def _planar(subject: Subject) -> str | None:
    p = subject.parameter_dimension
    return None if p <= 2 else f"its reference is a grid in at most two parameters, and theta has {p}"


def _matrix_softmax(subject: Subject) -> str | None:
    if subject.name.startswith(("matrix softmax", "scalar softmax")):
        return None
    return "its formula is that of softmax over logits x'Ay with a value matrix, which no property can tell"


#: In the order of the catalogue. Families D and P, and C1 to C7 but C6, speak of dynamics on risks of their own.
CLAIMS: tuple[Needs, ...] = (
    Needs("C6", "particles of heads against the grid", _TRAINING, (_planar,)),
    Needs("K1", "first variations from weights and points", (*_AVERAGE, "gradient")),
    Needs("K2", "mean-field against raw scaling", (*_AVERAGE, "gradient")),
    Needs("V1", "V_M errs like M^(-1/2)", (*_AVERAGE, "finite_variance")),
    Needs("V2", "sqrt(M) (V_M - V_rho) is Gaussian", (*_AVERAGE, "finite_variance")),
    Needs("V3", "keeping m of M heads", _AVERAGE),
    Needs("V4", "Sobol particles beat M^(-1/2)", (*_AVERAGE, "gradient", "lipschitz_in_theta"), (_few_parameters,)),
    Needs("V5", "trained heads are not independent", _TRAINING, (_planar,)),
    Needs("T1", "residual steps converge at order 1", (*_VALUE, "lipschitz_in_x", "lipschitz_in_law")),
    Needs("T2", "N tokens converge to the continuity equation", _FLOW),
    Needs("T3", "Gaussian tokens stay Gaussian", _FLOW, (_matrix_softmax,)),
    Needs("T4", "stability of the token flow in W2", _FLOW, (_matrix_softmax,)),
    Needs("T5", "the coupled system depends continuously on its data", (*_FLOW, "gradient", "lipschitz_in_theta")),
    Needs("G1", "exponential decay of the free energy", (*_TRAINING, "growth"), (_bounded,)),
    Needs("G2", "one Gibbs fixed point", (*_TRAINING, "growth"), (_bounded,)),
    Needs("G3", "linear decay of the deep loss", (*_TRAINING, "lipschitz_in_x")),
    Needs("G4", "excess diffusion raises the final loss", (*_TRAINING, "growth"), (_bounded,)),
)
ELSEWHERE = "families D, P, S and W, C1 to C5, C7 and G5 are about dynamics or networks of their own, not about a head"


def applicable_claims(subject: Subject, results: Mapping[str, PropertyResult]) -> tuple[str, ...]:
    """A line a claim: applies, or why not. results by property; a property that was not run is not spoken for."""
    applies: list[str] = []
    others: list[str] = []
    for needs in CLAIMS:
        reason = _against(needs, subject, results)
        if reason is None:
            applies.append(f"{needs.claim} ({needs.about})")
        else:
            others.append(f"{needs.claim} does not: {reason}")
    return (f"apply: {', '.join(applies) or 'none'}", *others, ELSEWHERE)


def applying(subject: Subject, results: Mapping[str, PropertyResult]) -> list[str]:
    """The ids of the claims that apply."""
    return [needs.claim for needs in CLAIMS if _against(needs, subject, results) is None]


def _against(needs: Needs, subject: Subject, results: Mapping[str, PropertyResult]) -> str | None:
    for condition in needs.conditions:
        reason = condition(subject)
        if reason is not None:
            return reason
    for name in needs.properties:
        result = results.get(name)
        if result is None:
            return f"{name} was not checked"
        if result.status == HOLDS:
            continue
        if result.status == VIOLATED:
            return f"{name} is violated"
        if result.status == NOT_APPLICABLE and name == "growth" and subject.parameter_bound is not None:
            continue
        return f"{name} is {result.status}"
    return None
