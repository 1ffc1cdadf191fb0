"""exp(tQ) in non-negative arithmetic throughout: uniformisation, and squaring of a stochastic matrix."""

from __future__ import annotations

from typing import Any

import numpy as np
import scipy.stats

from mfcheck.errors import InputError

DENSE_LIMIT = 1500
JUMP_LIMIT = 3e6


def uniformisation(matrix: Any, rate: float, m: np.ndarray, t: float, accuracy: float = 1e-15) -> np.ndarray:
    """exp(tQ) m = sum_k Poisson(k; rate t) P^k m with P = I + Q / rate >= 0: no subtraction anywhere.

    rate >= the largest rate of leaving a cell. The Poisson tail left out is below `accuracy` and bounds the L1 error.
    Raises InputError where rate * t would need millions of products.
    """
    jumps = rate * t
    if jumps == 0.0:
        return m.copy()
    if jumps > JUMP_LIMIT:
        raise InputError(
            f"uniformisation needs about rate * t = {jumps:.2g} products here, more than {JUMP_LIMIT:.0g}: use "
            "method='taylor' (fewer than 1500 cells) or method='cram' or 'chebyshev'"
        )
    last = int(scipy.stats.poisson.isf(accuracy, jumps)) + 2
    weights = scipy.stats.poisson.pmf(np.arange(last + 1), jumps)
    weights /= weights.sum()
    jump = (matrix / rate).tocsr()
    jump.setdiag(np.maximum(jump.diagonal() + 1.0, 0.0))
    total = np.zeros_like(m)
    for k, w in enumerate(weights):
        if k:
            m = jump @ m
        if w:
            total += w * m
    return total


def stochastic_exponential(matrix: Any, t: float) -> np.ndarray:
    """exp(tQ) as a dense matrix [cells, cells] with entries >= 0 and columns that sum to 1 to rounding, for any t.

    Taylor series of the jump matrix P = I + Q / rate over a time in which one jump is expected, then squaring; all
    terms are non-negative, and the columns are renormalised at each squaring, so that rounding cannot build up.
    """
    n = matrix.shape[0]
    if n > DENSE_LIMIT:
        raise InputError(f"method='taylor' works with a dense matrix, at most {DENSE_LIMIT} cells; {n} came")
    rate = float(-matrix.diagonal().min())
    if rate == 0.0 or t == 0.0:
        return np.eye(n)
    squarings = max(0, int(np.ceil(np.log2(rate * t))))
    jumps = rate * t / 2.0**squarings
    jump = matrix.toarray() / rate
    np.fill_diagonal(jump, np.maximum(jump.diagonal() + 1.0, 0.0))
    if jump.min() < 0:
        raise InputError(f"method='taylor' needs off-diagonal rates >= 0; the smallest came as {rate * jump.min():.3g}")
    term = np.eye(n)
    total = np.eye(n)
    # jumps <= 1: the 20th term is below 1 / 20! = 4e-19
    for k in range(1, 20):
        term = jump @ term * (jumps / k)
        total += term
    total /= total.sum(0)
    for _ in range(squarings):
        total = total @ total
        total /= total.sum(0)
    return total
