"""The properties of a head that one input can refute: each looks at a case and says what is wrong with it, or nothing."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from scipy.optimize import nnls
from torch import Tensor

from mfcheck.conformance.head_cases import Case
from mfcheck.conformance.head_subject import HeadRaised, Subject, one_state

Inputs = tuple[Tensor, Tensor, Tensor, Tensor]


@dataclass(frozen=True)
class Property:
    """A name, what it asks in words, why it does not apply to a subject (or None), and what is wrong in a case.

    wrong(subject, inputs) -> a sentence, or None where the property holds there. domain: "plain"; "ball" (theta of norm
    at most 2, x and tokens at most 1); "far" (coordinates up to the radius). lines: how the inputs, called theta, x,
    tokens, weights in a snippet, show it with `head`.
    """

    name: str
    asks: str
    wrong: Callable[[Subject, Inputs], str | None]
    lines: str
    inapplicable: Callable[[Subject], str | None] = lambda subject: None
    domain: str = "plain"
    fewest: int = 1


def inputs(subject: Subject, prop: Property, case: Case) -> Inputs:
    """A case as tensors in the property's domain."""
    theta, x, tokens, weights = case.tensors(subject, ball=prop.domain == "ball")
    if prop.domain == "far":
        scale = subject.spec.radius / 3  # the strategy's largest number is 3
        return scale * theta, scale * x, scale * tokens, weights
    return theta, x, tokens, weights


def rounding(subject: Subject, case: Inputs, *outputs: Tensor) -> float:
    """What two ways of computing one output may differ by.

    A logit of size |theta| |x| |y| is wrong by its rounding, which its exponential makes a relative error of that size;
    n terms are summed; a factor 100 is left to the head's own arithmetic.
    """
    theta, x, tokens, _ = case
    logit = float(theta.norm() * (1 + x.norm()) * (1 + tokens.norm(dim=-1).max()))
    size = max(1.0, *(float(output.abs().max()) for output in outputs))
    return 100 * torch.finfo(subject.dtype).eps * (len(tokens) + logit) * size


def _differs(subject: Subject, case: Inputs, a: Tensor, b: Tensor, what: str) -> str | None:
    off, allowed = float((a - b).abs().max()), rounding(subject, case, a, b)
    # written so that NaN is no agreement
    if off <= allowed:
        return None
    return f"{what}: {_shown(a)} against {_shown(b)}, {off:.2g} apart where rounding allows {allowed:.1g}"


def _shown(output: Tensor) -> str:
    return "[" + ", ".join(f"{value:.6g}" for value in output.detach().reshape(-1)[:4].tolist()) + "]"


def _shape(subject: Subject, case: Inputs) -> str | None:
    try:
        output: Any = subject.raw(*(value.clone() for value in case))
    except HeadRaised as error:
        return f"it raised {error}"
    if not isinstance(output, Tensor):
        return f"it returned {type(output).__module__}.{type(output).__name__}, not a torch tensor"
    if tuple(output.shape) != (subject.d,):
        return f"it returned shape {tuple(output.shape)}, not [d] = ({subject.d},)"
    if output.dtype != subject.dtype:
        return f"it returned {output.dtype} for inputs of {subject.dtype}"
    if output.device != case[0].device:
        return f"it returned a tensor on {output.device} for inputs on {case[0].device}"
    return None


def _finite(subject: Subject, case: Inputs) -> str | None:
    output = subject(*case)
    return None if bool(torch.isfinite(output).all()) else f"it returned {_shown(output)} for finite inputs"


def _permutation(subject: Subject, case: Inputs) -> str | None:
    theta, x, tokens, weights = case
    reverse = torch.arange(len(tokens) - 1, -1, -1, device=tokens.device)
    return _differs(
        subject, case, subject(*case), subject(theta, x, tokens[reverse], weights[reverse]), "the tokens reversed"
    )


def _law(subject: Subject, case: Inputs) -> str | None:
    theta, x, tokens, weights = case
    plain = subject(*case)
    twice = subject(theta, x, tokens.repeat_interleave(2, 0), weights.repeat_interleave(2) / 2)
    further = torch.cat([tokens, tokens[:1] + 1]), torch.cat([weights, torch.zeros_like(weights[:1])])
    shares = torch.cat([weights[:1] / 4, 3 * weights[:1] / 4, weights[1:]])
    split = subject(theta, x, torch.cat([tokens[:1], tokens]), shares)
    return (
        _differs(subject, case, plain, twice, "every token twice, at half its weight")
        or _differs(subject, case, plain, split, "the first token's weight split in 1/4 and 3/4")
        or _differs(subject, case, plain, subject(theta, x, *further), "a token of weight 0 added")
    )


def _hull(subject: Subject, case: Inputs) -> str | None:
    theta, _, tokens, weights = case
    assert subject.spec.values is not None
    values = subject.spec.values(theta, tokens)[weights > 0].detach().cpu().double().numpy()
    output = subject(*case)
    if output.numel() != subject.d:
        return None  # for the property of shapes to see
    # output = sum_j c_j value_j with c >= 0 and sum 1: the residual of the best such c
    system, wanted = np.vstack([values.T, np.ones(len(values))]), np.append(output.detach().cpu().double().numpy(), 1.0)
    residual = float(nnls(system, wanted)[1])
    # the solver's own rounding is that of the values
    allowed = rounding(subject, case, output, torch.as_tensor(values)) * 10
    if residual <= allowed:
        return None
    return f"{_shown(output)} lies {residual:.2g} outside the convex hull of the {len(values)} values"


def step(subject: Subject) -> float:
    """A small change: ten roots of the rounding unit."""
    return 10 * torch.finfo(subject.dtype).eps ** 0.5


#: A quotient above this, over a step of 1.5e-7, is a jump of 0.01 and more: on the ball attention's own constants are
#: at most a few hundred (exponential in the logits' range, which is 4).
LARGEST_QUOTIENT = 1e5


def quotient_in_x(subject: Subject, case: Inputs) -> float:
    """|v(x + h) - v(x)| / |h| for small h along each axis, both ways: the largest."""
    theta, x, tokens, weights = case
    eps, plain = step(subject), subject(*case)
    moves = eps * torch.eye(subject.d, dtype=x.dtype, device=x.device)
    moved = [subject(theta, x + side * move, tokens, weights) for move in moves for side in (1, -1)]
    return max(float((output - plain).norm()) / eps for output in moved)


def quotient_in_theta(subject: Subject, case: Inputs) -> float:
    """The same in theta, along up to sixteen axes and their diagonal."""
    theta, x, tokens, weights = case
    eps, plain = step(subject), subject(*case)
    axes = torch.eye(subject.p, dtype=x.dtype, device=x.device)[:16]
    moves = [*axes, torch.full_like(theta, subject.p**-0.5)]
    moved = [subject(theta + side * eps * move, x, tokens, weights) for move in moves for side in (1, -1)]
    return max(float((output - plain).norm()) / eps for output in moved)


def quotient_in_law(subject: Subject, case: Inputs) -> float:
    """|v(mu') - v(mu)| / W1(mu, mu') for a token moved a little, and a little mass moved from a token to another."""
    theta, x, tokens, weights = case
    eps, plain, found = step(subject), subject(*case), 0.0
    for j in range(len(tokens)):
        for axis in range(subject.d):
            moved = tokens.clone()
            moved[j, axis] += eps
            if weights[j] > 0:
                cost = eps * float(weights[j])
                found = max(found, float((subject(theta, x, moved, weights) - plain).norm()) / cost)
        k = (j + 1) % len(tokens)
        distance = float((tokens[j] - tokens[k]).norm())
        if weights[j] > 2 * eps and distance > 0.1:
            shares = weights.clone()
            shares[j] -= eps
            shares[k] += eps
            change = float((subject(theta, x, tokens, shares) - plain).norm())
            # below rounding a quotient says nothing
            found = max(found, (change - rounding(subject, case, plain)) / (eps * distance))
    return found


def _lipschitz(quotient: Callable[[Subject, Inputs], float], of: str) -> Callable[[Subject, Inputs], str | None]:
    def wrong(subject: Subject, case: Inputs) -> str | None:
        found = quotient(subject, case)
        if found <= LARGEST_QUOTIENT:
            return None
        return f"a change of {step(subject):.1g} in {of} is answered {found:.2g} times as large: a jump"

    return wrong


def _growth(subject: Subject, case: Inputs) -> str | None:
    theta, x, tokens, weights = case
    power = subject.spec.hypotheses.growth_power
    assert power is not None
    # far out, where attention has settled on its tokens, for powers; and near, before an exponential has overflowed.
    # outputs that nearly cancel at the first place say nothing about powers: 2 is allowed for far, 1e6 near
    for first, second, allowed in ((1e3, 1e5, 2.0), (10.0, 100.0, 1e6)):
        a, b = (float(subject(t * theta, x, tokens, weights).double().norm()) for t in (first, second))
        # what is not finite there is for that property to see
        if not np.isfinite([a, b]).all() or a <= 1e-6 * first**power:
            continue
        if b > allowed * a * (second / first) ** power:
            grown = np.log(b / a) / np.log(second / first)
            return (
                f"from {first:g} theta to {second:g} theta it grew from {a:.3g} to {b:.3g}, like power {grown:.2f}, "
                f"and declared is {power:g}"
            )
    return None


def _gradient(subject: Subject, case: Inputs) -> str | None:
    theta, x, tokens, weights = case
    # off the small numbers of the strategy, where heads may have kinks
    offset = torch.sin(torch.arange(subject.p, dtype=theta.dtype, device=theta.device)) / 7
    leaves = [value.clone().requires_grad_(True) for value in (theta + offset, x + 0.0371, tokens + 0.0113)]
    with one_state():
        output = subject.raw(*leaves, weights.clone())
    if not isinstance(output, Tensor) or not output.requires_grad:
        return "its output has no gradient: was it detached, or computed in NumPy?"
    gradients = torch.autograd.grad(output.sum(), leaves, allow_unused=True)
    eps = 1e-6
    for what, leaf, gradient in zip(("theta", "x", "the tokens"), leaves, gradients, strict=True):
        direction = torch.cos(torch.arange(leaf.numel(), dtype=leaf.dtype, device=leaf.device)).reshape(leaf.shape)
        ends = [[value.detach() for value in leaves] for _ in range(2)]
        where = next(k for k, value in enumerate(leaves) if value is leaf)
        for side, end in zip((1, -1), ends, strict=True):
            end[where] = end[where] + side * eps * direction
        slope = float((subject(*ends[0], weights) - subject(*ends[1], weights)).sum()) / (2 * eps)
        claimed = 0.0 if gradient is None else float((gradient * direction).sum())
        # central differences: eps^2 of the third derivative, and the outputs' rounding over eps
        allowed = 1e-5 * max(1.0, abs(slope)) + rounding(subject, case, output) / eps
        if not abs(slope - claimed) <= allowed:
            return f"its gradient in {what} is {claimed:.6g} along a direction in which it changes at {slope:.6g}"
    return None


def batched(subject: Subject, case: Inputs) -> Tensor | None:
    """Rows of a batch of three different inputs, or None where the head takes no batches."""
    theta, x, tokens, weights = case
    scales = torch.tensor([1.0, 0.5, -1.0], dtype=theta.dtype, device=theta.device)
    try:
        output = subject(scales[:, None] * theta, scales[:, None] * x, tokens.expand(3, *tokens.shape).clone(),
                         weights.expand(3, -1).clone())  # fmt: skip
    except HeadRaised:
        return None
    return output if output.shape == (3, subject.d) else None


def _batches(subject: Subject, case: Inputs) -> str | None:
    theta, x, tokens, weights = case
    output = batched(subject, case)
    if output is None:
        return None
    for row, scale in zip(output, (1.0, 0.5, -1.0), strict=True):
        wrong = _differs(subject, case, row, subject(scale * theta, scale * x, tokens, weights), "in a batch and alone")
        if wrong:
            return wrong
    return None


def _index(subject: Subject, case: Inputs) -> str | None:
    theta, x, tokens, weights = case
    try:
        rows = subject(theta.expand(3, -1).clone(), x.expand(3, -1).clone(), tokens.expand(3, *tokens.shape).clone(),
                       weights.expand(3, -1).clone())  # fmt: skip
    except HeadRaised:
        return None
    if rows.shape != (3, subject.d):
        return None
    return _differs(subject, case, rows[0], rows[2], "one theta as the first and as the last particle of a batch")


def _deterministic(subject: Subject, case: Inputs) -> str | None:
    first, second = (torch.as_tensor(subject.raw(*(value.clone() for value in case))) for _ in range(2))
    if torch.equal(first, second):
        return None
    return f"the same call twice: {_shown(first)} and {_shown(second)}"


def _unchanged(subject: Subject, case: Inputs) -> str | None:
    copies = [value.clone() for value in case]
    subject.raw(*copies)
    for what, before, after in zip(("theta", "x", "tokens", "weights"), case, copies, strict=True):
        if not torch.equal(before, after):
            return f"it changed {what} from {_shown(before)} to {_shown(after)}"
    return None


def _precision(subject: Subject, case: Inputs) -> str | None:
    double = subject(*case)
    single = [value.float() for value in case]
    output = subject(*single)
    _theta, _x, _tokens, _weights = single
    allowed = rounding(subject, case, double) * torch.finfo(torch.float32).eps / torch.finfo(torch.float64).eps
    off = float((output.double() - double).abs().max())
    if off <= allowed:
        return None
    return (
        f"in float32 {_shown(output)}, in float64 {_shown(double)}: {off:.2g} apart where rounding allows {allowed:.1g}"
    )


def _device(subject: Subject, case: Inputs) -> str | None:
    here, there = subject(*case), subject(*(value.cuda() for value in case)).to(case[0].device)
    return _differs(subject, case, here, there, "on the CPU and on the GPU")


def _no_batches(subject: Subject) -> str | None:
    from mfcheck.conformance.head_subject import example

    fits = batched(subject, example(subject.p, subject.d, 3, subject.dtype, subject.device)) is not None
    return None if fits else "it takes one input at a time: batches are no part of it"


def _unless(declared: str, why: str) -> Callable[[Subject], str | None]:
    return lambda subject: None if getattr(subject.spec.hypotheses, declared) else f"it says so itself: {why}"


def _double_only(subject: Subject) -> str | None:
    return None if subject.dtype == torch.float64 else "it takes float32 only; this needs double precision"


def _lipschitz_applies(subject: Subject) -> str | None:
    return _double_only(subject) or _unless("lipschitz_in_law", "not Lipschitz")(subject)


_CALL = "print(head(theta, x, tokens, weights))"
PROPERTIES = (
    Property("shape and dtype", "returns a tensor [d] of the inputs' dtype and device", _shape,
             "print(type(out := head(theta, x, tokens, weights)), getattr(out, 'shape', None), getattr(out, 'dtype', None))"),
    Property("finite", "finite on the domain", _finite, _CALL, domain="far"),
    Property("order of the tokens", "the order of the tokens changes nothing", _permutation,
             "print(head(theta, x, tokens, weights), head(theta, x, tokens.flip(0), weights.flip(0)))",
             _unless("permutation_invariant", "the order of the tokens counts"), fewest=2),
    Property("a law, not a list", "splitting weights and adding tokens of weight 0 changes nothing", _law,
             "print(head(theta, x, tokens, weights))\n"
             "print(head(theta, x, tokens.repeat_interleave(2, 0), weights.repeat_interleave(2) / 2))\n"
             "print(head(theta, x, torch.cat([tokens[:1], tokens]), torch.cat([weights[:1] / 4, 3 * weights[:1] / 4, weights[1:]])))\n"
             "print(head(theta, x, torch.cat([tokens, tokens[:1] + 1]), torch.cat([weights, torch.zeros_like(weights[:1])])))",
             _unless("function_of_law", "it reads a list")),
    Property("convex hull of the values", "the output is a mixture of the declared values", _hull, _CALL,
             lambda subject: None if subject.spec.values is not None else "it declares no values"),
    Property("Lipschitz in x", "no jump in the query on the ball", _lipschitz(quotient_in_x, "x"),
             "h = 1.5e-7 * torch.eye(len(x), dtype=x.dtype)\n"
             "print([head(theta, x + s * e, tokens, weights) - head(theta, x, tokens, weights) for e in h for s in (1, -1)])",
             _lipschitz_applies, domain="ball"),
    Property("Lipschitz in theta", "no jump in the parameters on the ball", _lipschitz(quotient_in_theta, "theta"),
             "h = 1.5e-7 * torch.eye(len(theta), dtype=x.dtype)\n"
             "print([head(theta + s * e, x, tokens, weights) - head(theta, x, tokens, weights) for e in h for s in (1, -1)])",
             _lipschitz_applies, domain="ball"),
    Property("Lipschitz in the law", "no jump in the tokens' law (W1) on the ball", _lipschitz(quotient_in_law, "the law"),
             "for j in range(len(tokens)):\n"
             "    moved = tokens.clone(); moved[j, 0] += 1.5e-7\n"
             "    shares = weights.clone(); shares[j] -= 1.5e-7; shares[(j + 1) % len(tokens)] += 1.5e-7\n"
             "    print([head(theta, x, *law) - head(theta, x, tokens, weights) for law in ((moved, weights), (tokens, shares))])",
             _lipschitz_applies, domain="ball"),
    Property("growth in theta", "at most of the declared power", _growth,
             "print([head(t * theta, x, tokens, weights) for t in (10, 100, 1e3, 1e5)])",
             lambda s: None if s.spec.hypotheses.growth_power is not None else "it declares no power of growth"),
    Property("gradient", "automatic differentiation agrees with difference quotients", _gradient,
             "leaf = (theta + torch.sin(torch.arange(len(theta))) / 7).requires_grad_(True)\n"
             "out = head(leaf, x + 0.0371, tokens + 0.0113, weights)\n"
             "print(torch.autograd.grad(out.sum(), leaf) if getattr(out, 'requires_grad', False) else 'no gradient')",
             lambda subject: _double_only(subject) or _unless("smooth", "not smooth")(subject)),
    Property("batches", "a batch is its single calls", _batches,
             "s = torch.tensor([1.0, 0.5, -1.0], dtype=x.dtype)\n"
             "print(head(s[:, None] * theta, s[:, None] * x, tokens.expand(3, *tokens.shape), weights.expand(3, -1)))\n"
             "print([head(k * theta, k * x, tokens, weights) for k in s])", _no_batches),
    Property("the particle's index", "one theta gives one output, wherever in a batch it stands", _index,
             "print(head(theta.expand(3, -1), x.expand(3, -1), tokens.expand(3, *tokens.shape), weights.expand(3, -1)))",
             _no_batches),
    Property("deterministic", "the same call gives the same output, bit by bit", _deterministic,
             "print([head(theta, x, tokens, weights) for _ in range(2)])"),
    Property("inputs unchanged", "no input is modified", _unchanged,
             "before = [value.clone() for value in (theta, x, tokens, weights)]\n"
             "head(theta, x, tokens, weights)\nprint(before, theta, x, tokens, weights)"),
    Property("float32", "single precision agrees with double", _precision,
             "print(head(*(value.float() for value in (theta, x, tokens, weights))), head(theta, x, tokens, weights))",
             _double_only),
    Property("GPU", "the GPU agrees with the CPU", _device,
             "print(head(*(value.cuda() for value in (theta, x, tokens, weights))), head(theta, x, tokens, weights))",
             lambda subject: None if torch.cuda.is_available() else "no GPU here"),
)  # fmt: skip
