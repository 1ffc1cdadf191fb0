"""exp(tQ) by Chebyshev polynomials of a symmetric matrix, and the bound of its spectrum."""

from __future__ import annotations

from typing import Any

import numpy as np
import scipy.special


def chebyshev_action(symmetric: Any, y: np.ndarray, tau: float, accuracy: float) -> np.ndarray:
    """exp(tau (X - I)) y for X symmetric with spectrum in [-1, 1], given as 2X (the recurrence's own matrix).

    Truncated where the remaining coefficients, 2 exp(-tau) I_k(tau), sum to less than `accuracy`: an a-priori bound of
    the error relative to |y|_2.
    """
    coefficients = chebyshev_coefficients(tau, accuracy)
    before, now = y, 0.5 * (symmetric @ y)
    total = coefficients[0] * before + coefficients[1] * now
    scaled = np.empty_like(y)
    for c in coefficients[2:]:
        after = symmetric @ now
        after -= before
        np.multiply(after, c, out=scaled)
        total += scaled
        before, now = now, after
    return total


def chebyshev_coefficients(tau: float, accuracy: float) -> np.ndarray:
    """Coefficients of exp(tau (x - 1)) in Chebyshev polynomials, cut where the rest sums to less than accuracy."""
    # exp(-tau) I_k(tau) falls like exp(-k^2 / (2 tau)) up to k = tau and faster beyond: what lies past this length is
    # below a hundredth of the accuracy
    reach = -2.0 * np.log(0.001 * accuracy)
    guess = int(np.sqrt(reach * (tau + 0.5 * reach))) + 4
    values = 2.0 * scipy.special.ive(np.arange(guess), tau)
    values[0] *= 0.5
    tails = np.cumsum(values[::-1])[::-1]
    keep = max(2, int(np.searchsorted(-tails, -accuracy)))
    return values[:keep]


def spectral_bound(diagonal: np.ndarray, row_sums: np.ndarray) -> float:
    """Gershgorin's bound of the largest |eigenvalue| of a symmetric Q; a hair is added for rounding."""
    return float((row_sums - diagonal).max()) * (1.0 + 1e-12)
