"""The path of the state along a solution that is already there: what a finer one takes its potentials from."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np


@dataclass(frozen=True)
class Path:
    """States and slopes [nodes, ...] at times [nodes].

    response: masses moved in L1, per unit of time, by a unit of change (largest entry) of the states in a step, the
    largest over the steps that were seen.
    """

    times: np.ndarray
    states: np.ndarray
    slopes: np.ndarray
    response: float

    def mixed(self, shares: np.ndarray) -> Path:
        """Mixtures [new grids, grids] of the grids' states [nodes, grids, K]."""
        return replace(self, states=shares @ self.states, slopes=shares @ self.slopes)

    def at(self, times: np.ndarray) -> np.ndarray:
        """The quintic through states and slopes at the three nodes around each time: [n, ...]. At least three nodes."""
        count = len(self.times)
        after = np.clip(np.searchsorted(self.times, times), 1, count - 1)
        # the third node is the nearer neighbour of the interval's two
        left = times - self.times[np.maximum(after - 2, 0)] < self.times[np.minimum(after + 1, count - 1)] - times
        first = np.clip(np.where(left, after - 2, after - 1), 0, count - 3)
        nodes = np.repeat(self.times[first[:, None] + np.arange(3)], 2, axis=1)
        flat = self.states.reshape(count, -1), self.slopes.reshape(count, -1)
        # Newton's form with every node taken twice: first differences at a double node are slopes
        values = [flat[0][first + k // 2] for k in range(6)]
        coefficients = [values[0]]
        for order in range(1, 6):
            values = [
                flat[1][first + k // 2]
                if order == 1 and k % 2 == 0
                else (values[k + 1] - values[k]) / (nodes[:, k + order] - nodes[:, k])[:, None]
                for k in range(6 - order)
            ]
            coefficients.append(values[0])
        result = coefficients[5]
        for k in range(4, -1, -1):
            result = coefficients[k] + (times - nodes[:, k])[:, None] * result
        return result.reshape(len(times), *self.states.shape[1:])
