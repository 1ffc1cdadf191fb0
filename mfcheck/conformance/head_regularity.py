"""Whether a head is Lipschitz in x, in theta and in the law of tokens on a ball, and its constants there.

No sample of points proves a Lipschitz bound: `holds` means that along every path tried the difference quotients settle
under bisection. The largest of them, which Hypothesis is told to make large, is a lower bound of the constant.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import Any, Protocol

import ot
from hypothesis import strategies as st
from hypothesis.strategies import SearchStrategy
from torch import Tensor

from mfcheck.conformance.head_checking import drawn, failed, searched
from mfcheck.conformance.head_snippet import tensor
from mfcheck.conformance.head_subject import Call, HeadFailure, Subject
from mfcheck.conformance.report import HOLDS, VIOLATED, PropertyResult
from mfcheck.conformance.rounding import rounding, rounding_of_tokens
from mfcheck.conformance.search import Violation
from mfcheck.conformance.strategies import entries, shares_of
from mfcheck.conformance.zoom import HALVINGS, Zoom, bisect, keeps_growing, ladder

EXAMPLES = 60
#: Laws of several tokens, between which mass has a way to go.
_APART = ("free", "tied", "collinear", "long")
NAMES = {"x": "x", "theta": "theta", "tokens": "the tokens", "shares": "the tokens' weights"}


class Route(Protocol):
    """A path of calls: where it starts, the call at t, how long it is, and an expression of the call at t."""

    call: Call
    argument: str

    @property
    def key(self) -> Any: ...

    @property
    def length(self) -> float: ...

    def at(self, t: float) -> Call: ...

    def written(self) -> tuple[str, str]: ...


@dataclass(frozen=True, eq=False)
class Shift:
    """One of a call's arguments moved along a direction of its shape."""

    call: Call
    argument: str
    direction: Tensor

    @property
    def key(self) -> Any:
        """Equal for equal routes."""
        return self.call.key, self.argument, tuple(self.direction.flatten().tolist())

    @property
    def length(self) -> float:
        """Euclidean; for tokens, each of which moves at its weight, an upper bound of W1."""
        if self.argument == "tokens":
            return float((self.call.weights * self.direction.norm(dim=-1)).sum())
        return float(self.direction.norm())

    def at(self, t: float) -> Call:
        """The call with its argument moved by t times the direction."""
        return replace(self.call, **{self.argument: getattr(self.call, self.argument) + t * self.direction})

    def written(self) -> tuple[str, str]:
        """A line that sets the direction up, and the value at t."""
        names = ["theta", "x", "tokens", "weights"]
        given = ", ".join(f"{name} + t * direction" if name == self.argument else name for name in names)
        return f"direction = {tensor(self.direction)}", f"v({given})"


@dataclass(frozen=True, eq=False)
class Mixture:
    """The mixture (1 - t) w + t w' of two weightings of the same tokens."""

    call: Call
    shares: Tensor
    argument: str = "shares"

    @property
    def key(self) -> Any:
        """Equal for equal routes."""
        return self.call.key, tuple(self.shares.tolist())

    @property
    def length(self) -> float:
        """W1 between the two laws, exactly: W1 of their mixtures is |t - s| times this."""
        tokens = self.call.tokens.numpy()
        end = self.call.with_law(self.call.tokens, self.shares).weights
        cost = ot.dist(tokens, tokens, metric="euclidean")
        return float(ot.emd2(self.call.weights.numpy(), end.numpy(), cost))

    def at(self, t: float) -> Call:
        """The call in the mixture."""
        end = self.shares / self.shares.sum()
        return self.call.with_law(self.call.tokens, (1 - t) * self.call.weights + t * end)

    def written(self) -> tuple[str, str]:
        """A line that sets the other weights up, and the value at t."""
        total = float(self.shares.sum())
        return f"other = {tensor(self.shares)} / {total!r}", "v(theta, x, tokens, (1 - t) * weights + t * other)"


def lipschitz_in_x(subject: Subject) -> PropertyResult:
    """It is Lipschitz in the query x on a ball."""
    return _along(subject, "lipschitz_in_x", _shifts(subject, "x"))


def lipschitz_in_theta(subject: Subject) -> PropertyResult:
    """It is Lipschitz in its parameters theta on a ball."""
    return _along(subject, "lipschitz_in_theta", _shifts(subject, "theta"))


def lipschitz_in_law(subject: Subject) -> PropertyResult:
    """It is Lipschitz in the law of tokens for W1 on a ball; where that fails, for W2."""
    name = "lipschitz_in_law"
    moved = _along(subject, name, _shifts(subject, "tokens"))
    if moved.status != HOLDS:
        return moved
    mixed = _along(subject, name, _mixtures(subject))
    examples = (moved.examples or 0) + (mixed.examples or 0)
    if mixed.status == HOLDS:
        return replace(mixed, detail=f"for W1 (so for W2, too); {mixed.detail}", examples=examples)
    if mixed.status == VIOLATED:
        softer = _along(subject, name, _mixtures(subject), power=0.5)
        if softer.status == HOLDS:
            words = f"for W2 alone; in W1, {mixed.detail}"
            return replace(softer, detail=words, examples=examples + (softer.examples or 0))
    return replace(mixed, examples=examples)


def _along(subject: Subject, name: str, routes: SearchStrategy[Any], power: float = 1.0) -> PropertyResult:
    """Whether difference quotients settle along all routes drawn. power: of the distance, 1/2 for W2 of mixtures."""
    last = 0.0

    def test(route: Route) -> Violation | object | None:
        nonlocal last
        last = 0.0
        length = route.length
        if length == 0:
            return None
        try:
            start = subject.value(route.call)
            allowed = 64 * subject.eps * float(start.norm())
            zoom = _zoom(subject, route, allowed)
            if keeps_growing(zoom, allowed, subject.dtype, power):
                ends = rounding(subject, route.call, start), rounding_of_tokens(subject, route.at(1.0))
                allowed = max(allowed, *ends)
                if keeps_growing(zoom, allowed, subject.dtype, power):
                    return _violation(route, zoom.resolved(allowed), power)
        except HeadFailure as error:
            return failed(subject, error)
        last = max(zoom.resolved(allowed).quotients, default=0.0) / length
        subject.facts[name] = max(subject.facts.get(name, 0.0), last)
        return None

    found = searched(subject, name, routes, test, "", examples=EXAMPLES, score=lambda: math.log(max(last, 1e-12)))
    if found.status != HOLDS:
        return found
    return replace(found, detail=f"constant at least {subject.facts.get(name, 0.0):.3g} on {subject.ball}")


def _zoom(subject: Subject, route: Route, allowed: float) -> Zoom:
    def path(t: float) -> Tensor:
        return subject.value(route.at(t))

    if isinstance(route, Mixture) and not bool((route.call.shares > 0).all()):
        # mass arrives where there was none: how a head takes it is decided at its first grain
        return ladder(path, subject.dtype, allowed)
    return bisect(path, HALVINGS[subject.dtype])


def _violation(route: Route, zoom: Zoom, power: float) -> Violation:
    moved, change = zoom.lengths[-1] * route.length, zoom.changes[-1]
    setup, value = route.written()
    depths = sorted({max(1, round(-math.log2(zoom.lengths[-1]) * part)) for part in (0.4, 0.7, 1.0)})
    lines = (
        setup,
        f"def at(t): return {value}",
        f"begin = {zoom.begin!r}",
        f"for t in ({', '.join(f'2.0**-{depth}' for depth in depths)}):",
        "    change = float((at(begin + t) - at(begin)).norm())",
        f"    print(t, change, change / t{'' if power == 1 else ' ** 0.5'})  # the last number would settle",
    )
    words = f"{NAMES[route.argument]} moved by {moved:.2g} move v by {change:.3g}, and quotients keep growing"
    return Violation(words, lines)


def _shifts(subject: Subject, argument: str) -> SearchStrategy[Shift]:
    bound = subject.theta_bound if argument == "theta" else subject.x_bound

    @st.composite
    def shifts(draw: st.DrawFn) -> Shift:
        # one token alone has no shares that could jump
        call = draw(drawn(subject, least=2, laws=_APART))
        start: Tensor = getattr(call, argument)
        end = draw(entries(start.numel(), bound)).reshape(start.shape)
        return Shift(call, argument, end - start)

    return shifts()


def _mixtures(subject: Subject) -> SearchStrategy[Mixture]:
    @st.composite
    def mixtures(draw: st.DrawFn) -> Mixture:
        call = draw(drawn(subject, least=2, weights=("equal", "small integers", "some zero"), laws=_APART))
        return Mixture(call, draw(shares_of("small integers", len(call.shares))))

    return mixtures()
