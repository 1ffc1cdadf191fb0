"""Time steps of dm/dt = Q(m) m: every step is a product of exponentials of generators, so masses stay masses."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Literal

import numpy as np
import scipy.sparse
import torch
from jaxtyping import Float
from torch import Tensor

from mfcheck.dynamics.fokker_planck.exponential import evolve, propagate
from mfcheck.dynamics.fokker_planck.generator import Flux, Layout, Rates, check_beta, check_flux, face_rates
from mfcheck.dynamics.fokker_planck.grid import Grid, normalised_masses
from mfcheck.dynamics.fokker_planck.landscape import Landscape, landscape
from mfcheck.errors import InputError
from mfcheck.functional import Risk

Scheme = Literal["commutator_free", "midpoint", "frozen"]
SCHEMES = ("commutator_free", "midpoint", "frozen")

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

    `rounding` collects, over all exponentials, their own L1 errors and the mass of negative rounding that was set to 0.
    """

    land: Landscape
    layout: Layout
    beta: float
    accuracy: float
    rounding: float = 0.0

    def rates(self, potential: np.ndarray) -> Rates:
        return face_rates(potential, self.layout, self.beta)

    def exponential(self, potential: np.ndarray, m: np.ndarray, t: float) -> np.ndarray:
        """exp(tQ) m, negative rounding set to 0 and each grid's mass set back to 1; both amounts on record."""
        return self._exponential(self.rates(potential), potential, m, t)

    def _exponential(self, rates: Rates, potential: np.ndarray, m: np.ndarray, t: float) -> np.ndarray:
        result, error = evolve(rates, potential, self.beta, m, t, self.accuracy)
        below = 0.0
        if result.min() < 0.0:
            negative = np.minimum(result, 0.0)
            result -= negative
            below = -2.0 * float(negative.sum())
        members = self.layout.members
        totals = members @ result
        result /= totals @ members
        self.rounding += error + below + float(np.abs(totals - 1.0).max())
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
            end = self._advance(now, tau, hermite(before, now, at))
            inside = with_end(before, now, now.time + tau, self.land.state(end), at)
        else:
            end = self._advance(now, tau, now.state + np.multiply.outer(_GAUSS * tau, now.slope))
            end = self._advance(now, tau, hermite(now, self.begin(now.time + tau, end), at))
            inside = hermite(now, self.begin(now.time + tau, end), at)
        corrected = self._advance(now, tau, inside)
        moved = self.layout.members @ np.abs(corrected - end)
        return self.begin(now.time + tau, corrected), float(moved.max())

    def _advance(self, now: Past, tau: float, states: np.ndarray) -> np.ndarray:
        """Masses after a step, from the states [2, ...] at its two Gauss nodes."""
        potentials = _MIX @ self.land.potentials(states)
        rates = self.rates(potentials)
        m = self._exponential(rates.one(0), potentials[0], now.masses, 0.5 * tau)
        return self._exponential(rates.one(1), potentials[1], m, 0.5 * tau)


def hermite(a: Past, b: Past, times: np.ndarray) -> np.ndarray:
    """The cubic through states and slopes at two times, evaluated at other times: [n, ...]."""
    width = b.time - a.time
    u = (times - a.time) / width
    v = u - 1.0
    weights = ((1.0 + 2.0 * u) * v * v, (3.0 - 2.0 * u) * u * u, width * u * v * v, width * u * u * v)
    return sum(np.multiply.outer(w, x) for w, x in zip(weights, (a.state, b.state, a.slope, b.slope), strict=True))


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


def adaptive_march(
    dynamics: Dynamics, m: np.ndarray, intervals: Sequence[float], tolerance: float, most: int
) -> tuple[list[np.ndarray], list[list[float]]]:
    """Masses at the end of each interval, and the steps that were chosen: each step's mismatch is near tolerance.

    Raises InputError where more than `most` steps would be needed.
    """
    results, mesh = [], []
    now = dynamics.begin(0.0, m)
    before: Past | None = None
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
            steps.append(trial)
            left -= trial
            tau = trial * min(factor, 2.5)
        results.append(now.masses)
        mesh.append(steps)
    return results, mesh


def solve_on_grid(
    risk: Risk,
    masses: Tensor | np.ndarray,
    grid: Grid,
    *,
    beta: float,
    times: Sequence[float],
    step: float,
    scheme: Scheme = "midpoint",
    flux: Flux = "scharfetter_gummel",
    device: str = "cpu",
) -> Float[Tensor, "T cells"]:
    """Masses [T, cells] on one grid at one step, with no extrapolation and no error bar: for studies of order.

    masses [cells]; step: an upper bound, each time interval is cut into equal steps no longer. scheme: "midpoint" (the
    potential at a predicted half step, order 2), "frozen" (the potential at the old time, order 1) or "commutator_free"
    (order 4; Scharfetter-Gummel only). flux as in `generator`. Raises InputError on bad input, as solve_fokker_planck.
    """
    check_beta(beta)
    check_flux(flux)
    intervals = time_intervals(times)
    if not (np.isfinite(step) and step > 0):
        raise InputError(f"a step is finite and > 0; it came as {step}")
    if scheme not in SCHEMES:
        raise InputError(f"scheme is one of {', '.join(SCHEMES)}; it came as {scheme!r}")
    m = normalised_masses(_array(masses), grid)
    layout = Layout((grid,))
    land = landscape(risk, layout, device)
    mesh = [_equal(length, step) for length in intervals]
    dynamics = Dynamics(land, layout, beta, 1e-13)
    if scheme == "commutator_free":
        if flux != "scharfetter_gummel":
            raise InputError(f"scheme='commutator_free' goes with flux='scharfetter_gummel'; flux came as {flux!r}")
        return torch.from_numpy(np.stack(march(dynamics, m, mesh)))
    exponential = dynamics.exponential if flux == "scharfetter_gummel" else _other_flux(layout, beta, flux)
    results = []
    for steps in mesh:
        for tau in steps:
            potential = land.potentials(land.state(m)[None])[0]
            if scheme == "midpoint" and not land.linear:
                potential = land.potentials(land.state(exponential(potential, m, 0.5 * tau))[None])[0]
            m = exponential(potential, m, tau)
        results.append(m)
    return torch.from_numpy(np.stack(results))


def _other_flux(layout: Layout, beta: float, flux: Flux) -> Callable[[np.ndarray, np.ndarray, float], np.ndarray]:
    """exp(tQ) m as it comes, with no clipping: these fluxes are there to be compared with."""

    def exponential(potential: np.ndarray, m: np.ndarray, t: float) -> np.ndarray:
        matrix = scipy.sparse.csc_array(face_rates(potential, layout, beta, flux).matrix())
        reversible = flux == "upwind" and layout.axes[0].stride == 1 and not layout.axes[0].periodic
        return propagate(matrix, m, t, "cram" if reversible else "expm").numpy()

    return exponential


def _equal(length: float, step: float) -> list[float]:
    count = int(np.ceil(length / step * (1.0 - 1e-9)))
    return [length / count] * count if count else []


def _array(values: Tensor | np.ndarray) -> np.ndarray:
    return np.asarray(values.detach().cpu() if isinstance(values, Tensor) else values, dtype=np.float64)


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
