"""One exponential of a step: exp(tQ) m for Scharfetter-Gummel rates, with its L1 error."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from mfcheck.dynamics.fokker_planck.chebyshev import chebyshev_action, spectral_bound
from mfcheck.dynamics.fokker_planck.generator import Layout, Rates, banded
from mfcheck.dynamics.fokker_planck.rational import coarsest_within, tridiagonal_action, tridiagonal_pieces
from mfcheck.dynamics.fokker_planck.stochastic import uniformisation

_HIGHEST = 600.0


@dataclass(frozen=True)
class Weights:
    """Unnormalised Gibbs weights exp(-(U - min U)/beta) [..., cells] of potentials, and 1/pi with pi the Gibbs masses,
    normalised on each grid [..., cells]; highest: the largest exponent, above 600 cut off."""

    values: np.ndarray
    inverse: np.ndarray
    highest: float

    def one(self, k: int) -> Weights:
        """Those of the k-th of several potentials."""
        return Weights(self.values[k], self.inverse[k], self.highest)


def weights(potential: np.ndarray, layout: Layout, beta: float) -> Weights:
    """Gibbs weights of potentials [..., cells]."""
    exponent = potential - potential.min(axis=-1, keepdims=True)
    exponent *= -1.0 / beta
    lowest = float(exponent.min())
    if lowest < -_HIGHEST:
        np.maximum(exponent, -_HIGHEST, out=exponent)
    values = np.exp(exponent, out=exponent)
    members = layout.members
    inverse = values @ members.T @ members
    inverse /= values
    return Weights(values, inverse, -lowest)


def evolve(rates: Rates, gibbs: Weights, m: np.ndarray, t: float, accuracy: float) -> tuple[np.ndarray, float]:
    """exp(tQ) m for Scharfetter-Gummel rates with these Gibbs weights, and a bound or measure of its L1 error.

    Both ways are accurate in the norm |m / sqrt(pi)|_2, in which Q is symmetric; in L1 (at most that norm) their error
    is eps |m / sqrt(pi)|_2, harmless unless the start lies far out in the tail of the Gibbs density pi: there it can be
    of order one with the mass still right to rounding. That is checked first. Where it fails, the tridiagonal way takes
    pieces, doubled until two answers agree; Chebyshev waits until uniformisation has brought the masses in.
    """
    layout = rates.layout
    # of several grids together: at least that of each
    amplification = float((m * m) @ gibbs.inverse) ** 0.5
    if len(layout.axes) == 1 and not layout.axes[0].periodic:
        lower, diagonal, upper = rates.up[0], rates.diagonal, rates.down[0]
        approximation = coarsest_within(accuracy / amplification)
        if approximation is not None:
            result = tridiagonal_action(lower, diagonal, upper, m, t, approximation)
            return result, approximation.error * amplification
        return tridiagonal_pieces(lower, diagonal, upper, m, t, accuracy)
    couplings = [np.sqrt(up * down) for up, down in zip(rates.up, rates.down, strict=True)]
    row_sums = np.zeros_like(m)
    for axis, coupling in zip(layout.axes, couplings, strict=True):
        row_sums += coupling
        row_sums += axis.behind(coupling)
    bound = spectral_bound(rates.diagonal, row_sums)
    root = np.sqrt(gibbs.values / gibbs.values.sum())
    remaining, waited = t, 0.0
    while gibbs.highest > _HIGHEST or amplification * 1e-14 > accuracy:
        piece = min(remaining, max(t / 16.0, 20.0 / bound))
        m = uniformisation(rates.matrix(), float(-rates.diagonal.min()), m, piece)
        waited += 1e-15
        remaining -= piece
        if remaining <= 1e-14 * t:
            return m, waited
        amplification = float(np.linalg.norm(m / root))
    relative = max(accuracy / amplification, 1e-16)
    scale = 4.0 / bound
    symmetric = banded(
        layout, scale * rates.diagonal + 2.0, [scale * c for c in couplings], [scale * c for c in couplings]
    )
    result = root * chebyshev_action(symmetric, m / root, 0.5 * bound * remaining, relative)
    return result, waited + max(relative, 1e-14) * amplification
