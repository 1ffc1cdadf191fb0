"""Telling a jump or a cusp from a slope: difference quotients over ever shorter pieces of a path.

Over a Lipschitz path the quotients |change| / distance settle; over a jump they double with each halving of the
distance, over a cusp like sqrt they grow by sqrt 2.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from itertools import pairwise

import torch
from torch import Tensor

#: A path t -> v, for t from 0 to 1.
Path = Callable[[float], Tensor]
#: Halvings of a path in double and in single precision: what is left is far above rounding of the arguments.
HALVINGS = {torch.float64: 30, torch.float32: 14}
SETTLED = 4
#: A change counts where it is so many times what rounding explains.
RESOLVED = 64.0
#: Quotients that grow by GROWTH in each of the last two windows of WINDOW halvings keep growing: what is Hoelder
#: continuous of an exponent above 3/4 passes.
WINDOW, GROWTH = 8, 4.0
#: ... at distances below 2^-SMALL of the path alone: steep is not yet a jump.
SMALL = {torch.float64: 18, torch.float32: 12}
#: Mass comes in from 2^-k down: softmax over logits that are L apart settles at e^-L only.
NEAR_LADDER, WHOLE_LADDER = 64, {torch.float64: 1000, torch.float32: 112}


@dataclass(frozen=True)
class Zoom:
    """Changes of v (Euclidean) over pieces of a path of lengths t, from long to short, and where the last begins."""

    lengths: tuple[float, ...]
    changes: tuple[float, ...]
    begin: float = 0.0

    @property
    def quotients(self) -> tuple[float, ...]:
        """|change of v| over the length in t."""
        return tuple(change / length for change, length in zip(self.changes, self.lengths, strict=True))

    def resolved(self, allowed: float) -> Zoom:
        """Down to the last piece whose change rounding does not explain."""
        last = max((i for i, change in enumerate(self.changes) if change > RESOLVED * allowed), default=-1)
        return Zoom(self.lengths[: last + 1], self.changes[: last + 1], self.begin)


def bisect(path: Path, halvings: int) -> Zoom:
    """Halves a path, and keeps the half over which v changes more: where a path jumps, the jump.

    Ends early where the quotients have settled: SETTLED halvings in a row that change them by less than 2 %.
    """
    # quarters first: where a path comes back to its start, the change is in between
    corners = [path(0.25 * i) for i in range(5)]
    quarters = [float((b - a).norm()) for a, b in pairwise(corners)]
    first = quarters.index(max(quarters))
    left, right = 0.25 * first, 0.25 * (first + 1)
    at_left, at_right = corners[first], corners[first + 1]
    lengths, changes, still = [0.25], [quarters[first]], 0
    for _ in range(halvings):
        middle = 0.5 * (left + right)
        at_middle = path(middle)
        before, after = float((at_middle - at_left).norm()), float((at_right - at_middle).norm())
        if before >= after:
            right, at_right = middle, at_middle
        else:
            left, at_left = middle, at_middle
        lengths.append(right - left)
        changes.append(max(before, after))
        still = still + 1 if 0.98 * changes[-2] <= 2 * changes[-1] <= 1.02 * changes[-2] else 0
        if still == SETTLED:
            break
    return Zoom(tuple(lengths), tuple(changes), left)


def ladder(path: Path, dtype: torch.dtype, allowed: float) -> Zoom:
    """Changes from t = 0 to t = 2^-k, k = 0, 8, 16, ...: further down only while they do not settle."""
    start = path(0.0)
    lengths: list[float] = []
    changes: list[float] = []
    step = WINDOW if dtype is torch.float64 else WINDOW // 2
    for k in range(0, WHOLE_LADDER[dtype] + 1, step):
        lengths.append(2.0**-k)
        changes.append(float((path(2.0**-k) - start).norm()))
        if changes[-1] <= RESOLVED * allowed:
            break
        if k >= NEAR_LADDER and not keeps_growing(Zoom(tuple(lengths), tuple(changes)), 0.0, dtype):
            break
    return Zoom(tuple(lengths), tuple(changes))


def keeps_growing(zoom: Zoom, allowed: float, dtype: torch.dtype, power: float = 1.0) -> bool:
    """Whether |change| / length^power still grows over the shortest pieces that are resolved. allowed: by rounding."""
    seen = zoom.resolved(allowed)
    if not seen.lengths or seen.lengths[-1] > 2.0 ** -SMALL[dtype]:
        return False
    end = len(seen.lengths) - 1
    for _ in range(2):
        wanted = seen.lengths[end] * 2.0**WINDOW
        before = max((i for i in range(end) if seen.lengths[i] >= 0.999 * wanted), default=-1)
        if before < 0:
            return False
        shrunk = seen.lengths[before] / seen.lengths[end]
        grown = seen.changes[end] / max(seen.changes[before], 1e-300) * shrunk**power
        # 2 bits a window of 8 halvings, in proportion where pieces are not halved
        if grown < shrunk ** (2 / WINDOW):
            return False
        end = before
    return True
