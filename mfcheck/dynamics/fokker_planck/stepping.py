"""Time steps of dm/dt = Q(m) m: every step is a product of exponentials of generators, so masses stay masses."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from mfcheck.dynamics.fokker_planck.evolution import Weights, evolve, weights
from mfcheck.dynamics.fokker_planck.generator import Layout, Rates, face_rates
from mfcheck.dynamics.fokker_planck.landscape import Landscape
from mfcheck.dynamics.fokker_planck.path import Path
from mfcheck.errors import InputError

# Gauss nodes of a step and the weights of the fourth-order commutator-free exponential scheme with two exponentials.
# Source: Blanes and Moan, Applied Numerical Mathematics 56 (2006) 1519, and Thalhammer, SIAM J. Numer. Anal. 44 (2006).
_GAUSS = 0.5 + np.array([-1.0, 1.0]) * np.sqrt(3.0) / 6.0
_MIX = 0.5 + np.array([[1.0, -1.0], [-1.0, 1.0]]) * np.sqrt(3.0) / 3.0


# a step's error over the distance of its last correction, as seen on the shipped risks: the interpolant's own part is
# far smaller, the exponential scheme's is of this size. It only proposes steps; the bar comes from doubling them
_CORRECTION_LEFT = 0.03


@dataclass
class Past:
    """A time at which masses, the state and its slope are known."""

    time: float
    masses: np.ndarray
    state: np.ndarray
    slope: np.ndarray


@dataclass
class Dynamics:
    """What a step needs: the landscape on a layout, beta, and the accuracy of each exponential in L1.

    `rounding` collects, over all exponentials, their own L1 errors and the mass of negative rounding that was set to 0;
    `response` is the largest effect of a change of states on masses that steps have met: see Path.
    """

    land: Landscape
    layout: Layout
    beta: float
    accuracy: float
    rounding: float = 0.0
    response: float = 0.0

    def rates(self, potential: np.ndarray) -> Rates:
        return face_rates(potential, self.layout, self.beta)

    def exponential(self, potential: np.ndarray, m: np.ndarray, t: float) -> np.ndarray:
        """exp(tQ) m, negative rounding set to 0 and each grid's mass set back to 1; both amounts on record."""
        return self._exponential(self.rates(potential), weights(potential, self.layout, self.beta), m, t)

    def _exponential(self, rates: Rates, gibbs: Weights, m: np.ndarray, t: float) -> np.ndarray:
        result, error = evolve(rates, gibbs, m, t, self.accuracy)
        below = 0.0
        if result.min() < 0.0:
            negative = np.minimum(result, 0.0)
            result -= negative
            below = -2.0 * float(negative.sum())
        members = self.layout.members
        totals = members @ result
        result /= totals @ members
        self.rounding += error + below + max(abs(total - 1.0) for total in totals.tolist())
        return result

    def begin(self, time: float, m: np.ndarray) -> Past:
        """State, and the state's slope, at masses."""
        state = self.land.state(m)
        change = self.rates(self.land.potentials(state[None])[0]).apply(m)
        return Past(time, m, state, self.land.derivative(m, state, change))

    def step(self, now: Past, before: Past | None, tau: float) -> tuple[Past, float]:
        """One fourth-order commutator-free step, and the L1 distance that its last correction moved the masses.

        States inside the step are first extrapolated from the last two times, then the step is repeated with the state
        that it reached added to the interpolation: far more accurate, and stable where the interaction is strong.
        Without a past the start is linear, and the step is repeated twice on the cubic between its own two ends.
        """
        at = now.time + _GAUSS * tau
        if before is not None:
            guess = hermite(before, now, at)
            end = self.advance(now.masses, tau, guess)
            inside = with_end(before, now, now.time + tau, self.land.state(end), at)
        else:
            end = self.advance(now.masses, tau, now.state + np.multiply.outer(_GAUSS * tau, now.slope))
            guess = hermite(now, self.begin(now.time + tau, end), at)
            end = self.advance(now.masses, tau, guess)
            inside = hermite(now, self.begin(now.time + tau, end), at)
        corrected = self.advance(now.masses, tau, inside)
        moved = float((self.layout.members @ np.abs(corrected - end)).max())
        change = float(np.abs(inside - guess).max())
        # below rounding the quotient says nothing
        if moved > 1e-13 and change > 0.0:
            self.response = max(self.response, moved / (tau * change))
        return self.begin(now.time + tau, corrected), moved

    def advance(self, m: np.ndarray, tau: float, states: np.ndarray) -> np.ndarray:
        """Masses after a step, from the states [2, ...] at its two Gauss nodes."""
        potentials = _MIX @ self.land.potentials(states)
        rates, gibbs = self.rates(potentials), weights(potentials, self.layout, self.beta)
        m = self._exponential(rates.one(0), gibbs.one(0), m, 0.5 * tau)
        return self._exponential(rates.one(1), gibbs.one(1), m, 0.5 * tau)


def hermite(a: Past, b: Past, times: np.ndarray) -> np.ndarray:
    """The cubic through states and slopes at two times, evaluated at other times: [n, ...]."""
    width = b.time - a.time
    u = (times - a.time) / width
    v = u - 1.0
    share = np.stack(((1.0 + 2.0 * u) * v * v, (3.0 - 2.0 * u) * u * u, width * u * v * v, width * u * u * v), 1)
    known = np.stack((a.state, b.state, a.slope, b.slope))
    return (share @ known.reshape(4, -1)).reshape(len(times), *a.state.shape)


def with_end(a: Past, b: Past, time: float, end: np.ndarray, times: np.ndarray) -> np.ndarray:
    """The quartic through states and slopes at two times and a state at a third, evaluated at other times: [n, ...]."""
    cubic = hermite(a, b, np.array([time, *times]))
    bump = ((times - a.time) * (times - b.time) / ((time - a.time) * (time - b.time))) ** 2
    return cubic[1:] + np.multiply.outer(bump, end - cubic[0])


def march(dynamics: Dynamics, m: np.ndarray, mesh: Sequence[Sequence[float]]) -> list[np.ndarray]:
    """Masses at the end of each group of steps: mesh[k] are the step lengths that lead to the k-th time.

    A landscape that does not see the measure takes each group in one exponential.
    """
    results = []
    if dynamics.land.linear:
        potential = dynamics.land.potentials(dynamics.land.state(m)[None])[0]
        for steps in mesh:
            length = sum(steps)
            if length > 0.0:
                m = dynamics.exponential(potential, m, length)
            results.append(m)
        return results
    before, now = None, dynamics.begin(0.0, m)
    for steps in mesh:
        for tau in steps:
            before, now = now, dynamics.step(now, before, tau)[0]
        results.append(now.masses)
    return results


def follow(
    dynamics: Dynamics, m: np.ndarray, mesh: Sequence[Sequence[float]], path: Path, allowed: float
) -> tuple[list[np.ndarray], float]:
    """As `march`, with states taken from the path of a coarser solution: one pass a step where `march` takes two.

    The path is moved by its distance from the states reached so far, continued linearly: for a path of order four that
    leaves an error two orders beyond the scheme's. At the end of each step the state reached shows what was missed. A
    step whose miss, at the path's response, moves more mass than twice its share of `allowed` (L1, for the whole time;
    what steps do not use passes to later ones) is repeated with it. Second result: the sum of what is left uncorrected.
    """
    lengths = np.array([tau for steps in mesh for tau in steps])
    ends = np.cumsum(lengths)
    starts = ends - lengths
    inner = starts[:, None] + _GAUSS * lengths[:, None]
    known = path.at(np.concatenate([np.zeros(1), np.column_stack([inner, ends]).ravel()]))
    along = known[1:].reshape(len(lengths), 3, *known.shape[1:])
    offset, drift = dynamics.land.state(m) - known[0], np.zeros_like(known[0])
    # a miss that grows like a parabola from the step's start is on the average of the Gauss nodes at most half its end
    effect = 0.5 * path.response * lengths
    left, k = 0.0, 0
    stages = np.array([*_GAUSS, 1.0])
    results = []
    for steps in mesh:
        for tau in steps:
            states = along[k] + offset + np.multiply.outer(stages * tau, drift)
            after = dynamics.advance(m, tau, states[:2])
            reached = dynamics.land.state(after)
            missed = reached - states[2]
            miss = effect[k] * float(np.abs(missed).max())
            if miss > 2.0 * (allowed - left) / (len(lengths) - k):
                # the parabola through the last two distances and the new one
                reach = stages * tau * (stages * tau + (lengths[k - 1] if k else 0.0))
                states += np.multiply.outer(reach / reach[-1], missed)
                after = dynamics.advance(m, tau, states[:2])
                reached = dynamics.land.state(after)
                miss = effect[k] * float(np.abs(reached - states[2]).max())
            left += miss
            m = after
            before, offset = offset, reached - along[k, 2]
            drift = (offset - before) / tau
            k += 1
        results.append(m)
    return results, left


def adaptive_march(
    dynamics: Dynamics, m: np.ndarray, intervals: Sequence[float], tolerance: float, most: int
) -> tuple[list[np.ndarray], list[list[float]], Path]:
    """Masses at the end of each interval, the steps that were chosen (each one's mismatch is near tolerance), the path.

    Raises InputError where more than `most` steps would be needed.
    """
    results, mesh = [], []
    now = dynamics.begin(0.0, m)
    before: Past | None = None
    nodes = [now]
    # first guess: a tenth of the time in which the state would change by its own size
    speed = float(np.abs(now.slope).max(initial=0.0))
    tau = min(max(intervals), 0.1 * float(np.abs(now.state).max(initial=0.0) + 0.1) / speed if speed > 0 else np.inf)
    count = 0
    for length in intervals:
        steps: list[float] = []
        left = length
        while left > 1e-12 * length:
            pieces = np.ceil(left / tau * (1.0 - 1e-9))
            trial = left / pieces
            after, moved = dynamics.step(now, before, trial)
            error = _CORRECTION_LEFT * moved
            count += 1
            if count > most:
                raise InputError(
                    f"the time step that this tolerance asks for is too small: {most} steps did not reach the last "
                    f"time (the step had come down to {trial:.2g}); ask for a larger tolerance"
                )
            factor = 0.9 * (tolerance / error) ** 0.2 if error > 0 else 2.5
            if factor < 0.6:
                tau = trial * max(factor, 0.2)
                continue
            before, now = now, after
            nodes.append(now)
            steps.append(trial)
            left -= trial
            tau = trial * min(factor, 2.5)
        results.append(now.masses)
        mesh.append(steps)
    path = Path(
        np.array([node.time for node in nodes]),
        np.stack([node.state for node in nodes]),
        np.stack([node.slope for node in nodes]),
        dynamics.response,
    )
    return results, mesh, path


def time_intervals(times: Sequence[float]) -> list[float]:
    """Lengths between sorted times, the first counted from 0. Raises InputError on unsorted or negative times."""
    try:
        values = [float(time) for time in times]
    except TypeError:
        raise InputError(f"times are a sequence of numbers >= 0, [0.5, 1.0]; they came as {times!r}") from None
    if not values:
        raise InputError("times are at least one number >= 0; none came")
    if not all(np.isfinite(values)) or values[0] < 0:
        raise InputError(f"times are finite and >= 0; they came as {values}")
    lengths = np.diff([0.0, *values])
    if (lengths < 0).any():
        raise InputError(f"times come sorted; they came as {values}")
    return lengths.tolist()
