"""Actions of exp(tQ) on masses: rational (CRAM) in one dimension, Chebyshev in two, and the non-negative ways."""

from __future__ import annotations

from typing import Any, Literal

import numpy as np
import scipy.linalg
import scipy.sparse
import scipy.sparse.linalg
import scipy.special
import scipy.stats
import torch
from scipy.linalg.lapack import zgtsv
from scipy.sparse.csgraph import breadth_first_order

from mfcheck.dynamics.fokker_planck.generator import Rates, banded
from mfcheck.errors import InputError

Method = Literal["auto", "cram", "chebyshev", "uniformisation", "taylor", "expm"]
METHODS = ("auto", "cram", "chebyshev", "uniformisation", "taylor", "expm")

# Chebyshev rational approximation of exp(x) on (-inf, 0], order 14, error 1.8e-14: poles and residues of the upper
# half-plane. Source: Pusa, Nuclear Science and Engineering 169 (2011) 155, corrected in 182 (2016) 297.
_POLES = np.array(
    [
        -8.8977731864688888199 + 16.630982619902085304j,
        -3.7032750494234480603 + 13.656371871483268171j,
        -0.2087586382501301251 + 10.991260561901260913j,
        3.9933697105785685194 + 6.0048316422350373178j,
        5.0893450605806245066 + 3.5888240290270065102j,
        5.6231425727459771248 + 1.1940690463439669766j,
        2.2697838292311127097 + 8.4617379730402214019j,
    ]
)
_RESIDUES = np.array(
    [
        -7.1542880635890672853e-5 + 1.4361043349541300111e-4j,
        9.4390253107361688779e-3 - 1.7184791958483017511e-2j,
        -3.7636003878226968717e-1 + 3.3518347029450104214e-1j,
        -2.3498232091082701191e1 - 5.8083591297142074004j,
        4.6933274488831293047e1 + 4.5643649768827760791e1j,
        -2.7875161940145646468e1 - 1.0214733999056451434e2j,
        4.8071120988325088907 - 1.3209793837428723881j,
    ]
)
_AT_INFINITY = 1.8321743782540412751e-14
_TWICE_RESIDUES = 2.0 * _RESIDUES
# the approximation's error and the rounding of residues of size 100, in the norm in which A is symmetric
_CRAM_ERROR = 5e-14
DENSE_LIMIT = 1500
JUMP_LIMIT = 3e6


def tridiagonal_action(
    lower: np.ndarray, diagonal: np.ndarray, upper: np.ndarray, m: np.ndarray, t: float
) -> np.ndarray:
    """exp(tA) m for a tridiagonal A with eigenvalues <= 0, any t: seven complex solves in one LAPACK call.

    lower[i] = A[i + 1, i] and upper[i] = A[i, i + 1], both of full length with 0 at the end: the seven systems
    tA - pole are laid end to end and that 0 keeps them apart.
    """
    n, count = m.size, len(_POLES)
    below = np.empty((count, n), dtype=np.complex128)
    below[:] = t * lower
    above = np.empty((count, n), dtype=np.complex128)
    above[:] = t * upper
    middle = (t * diagonal) - _POLES[:, None]
    right = np.empty((count, n), dtype=np.complex128)
    right[:] = m
    *_, x, info = zgtsv(below.ravel()[:-1], middle.ravel(), above.ravel()[:-1], right.ravel(), 1, 1, 1, 1)
    if info:
        raise InputError(f"the tridiagonal solve met a singular matrix (LAPACK info {info}): is the potential finite?")
    return (_TWICE_RESIDUES @ x.reshape(count, n)).real + _AT_INFINITY * m


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


def propagate(Q: Any, masses: Any, t: float, method: Method = "auto") -> torch.Tensor:
    """exp(tQ) masses for a sparse generator Q [cells, cells] and masses [cells], t >= 0; float64 tensor [cells].

    "cram": tridiagonal Q with real spectrum, any t. "chebyshev": Q with detailed balance (Scharfetter-Gummel).
    "uniformisation" and "taylor": non-negative arithmetic throughout for rates >= 0, the certified path: entries >= 0
    and mass kept to rounding; taylor is dense and takes any t. "expm": scipy's, for any Q. "auto": cram, chebyshev or
    expm, the first that applies. Raises InputError where the method does not apply.
    """
    m = np.asarray(masses.detach().cpu() if isinstance(masses, torch.Tensor) else masses, dtype=np.float64)
    matrix = scipy.sparse.csc_array(Q)
    if matrix.shape != (m.size, m.size):
        raise InputError(f"Q is [cells, cells] for masses [cells]; they came as {matrix.shape} and {m.shape}")
    if not (np.isfinite(t) and t >= 0):
        raise InputError(f"a time is finite and >= 0; it came as {t}")
    if method not in METHODS:
        raise InputError(f"method is one of {', '.join(METHODS)}; it came as {method!r}")
    if method == "auto":
        signs_agree = bool(((matrix.multiply(matrix.T)).data >= 0).all())
        method = "expm" if not signs_agree else "cram" if _is_tridiagonal(matrix) else "chebyshev"
    if method == "cram":
        result = _cram(matrix, m, t)
    elif method == "chebyshev":
        result = _chebyshev(matrix, m, t)
    elif method == "uniformisation":
        if (matrix - scipy.sparse.diags_array(matrix.diagonal())).min() < 0:
            raise InputError("method='uniformisation' needs off-diagonal rates >= 0: is this a centred flux?")
        result = uniformisation(matrix, float(-matrix.diagonal().min()), m, t)
    elif method == "taylor":
        result = stochastic_exponential(matrix, t) @ m
    else:
        dense = m.size <= DENSE_LIMIT
        result = (
            scipy.linalg.expm(t * matrix.toarray()) @ m if dense else scipy.sparse.linalg.expm_multiply(t * matrix, m)
        )
    return torch.from_numpy(result)


def _is_tridiagonal(matrix: Any) -> bool:
    coordinates = matrix.tocoo()
    return bool((np.abs(coordinates.row - coordinates.col) <= 1).all())


def _cram(matrix: Any, m: np.ndarray, t: float) -> np.ndarray:
    if not _is_tridiagonal(matrix):
        raise InputError("method='cram' takes a tridiagonal Q (one dimension, no-flux sides); use 'chebyshev'")
    lower, upper = np.append(matrix.diagonal(-1), 0.0), np.append(matrix.diagonal(1), 0.0)
    # 1e-11: the rounding of a single piece on the stiffest grids, 1e-14 times a few hundred
    return tridiagonal_pieces(lower, matrix.diagonal(), upper, m, t, 1e-11)[0]


def _chebyshev(matrix: Any, m: np.ndarray, t: float) -> np.ndarray:
    """By the symmetric form; log pi is followed along the edges of a spanning tree: Q[j, i] pi_i = Q[i, j] pi_j."""
    off = scipy.sparse.csc_array(matrix - scipy.sparse.diags_array(matrix.diagonal()))
    off.eliminate_zeros()
    order, parent = breadth_first_order(off, 0, directed=False)
    if len(order) < m.size or off.min() < 0:
        raise InputError("method='chebyshev' needs a connected chain with positive rates both ways; use 'expm'")
    children, parents = order[1:], parent[order[1:]]
    steps = np.log(np.asarray(off[children, parents]).ravel() / np.asarray(off[parents, children]).ravel())
    log_pi = np.zeros(m.size)
    for child, above, step in zip(children, parents, steps, strict=True):
        log_pi[child] = log_pi[above] + step
    coupling = off.multiply(off.T).sqrt().tocsr()
    root = np.exp(0.5 * (log_pi - log_pi.max()))
    diagonal = matrix.diagonal()
    bound = spectral_bound(diagonal, np.asarray(coupling.sum(1)).ravel())
    symmetric = (4.0 / bound) * (coupling + scipy.sparse.diags_array(diagonal + 0.5 * bound))
    return root * chebyshev_action(symmetric.tocsr(), m / root, 0.5 * bound * t, 1e-15)


def spectral_bound(diagonal: np.ndarray, row_sums: np.ndarray) -> float:
    """Gershgorin's bound of the largest |eigenvalue| of a symmetric Q; a hair is added for rounding."""
    return float((row_sums - diagonal).max()) * (1.0 + 1e-12)


def evolve(
    rates: Rates, potential: np.ndarray, beta: float, m: np.ndarray, t: float, accuracy: float
) -> tuple[np.ndarray, float]:
    """exp(tQ) m for Scharfetter-Gummel rates of a potential [cells], and a bound or measure of its L1 error.

    Both ways are accurate in the norm |m / sqrt(pi)|_2, in which Q is symmetric; in L1 (at most that norm) their error
    is eps |m / sqrt(pi)|_2, harmless unless the start lies far out in the tail of the Gibbs density pi: there it can be
    of order one with the mass still right to rounding. That is checked first. Where it fails, the tridiagonal way takes
    pieces, doubled until two answers agree; Chebyshev waits until uniformisation has brought the masses in.
    """
    layout = rates.layout
    exponent = (potential - potential.min()) / beta
    gibbs = np.exp(-np.minimum(exponent, 600.0))
    members = layout.members
    amplification = float(np.sqrt(((members @ gibbs) * (members @ (m * (m / gibbs)))).max()))
    if len(layout.axes) == 1 and not layout.axes[0].periodic:
        lower, diagonal, upper = rates.up[0], rates.diagonal, rates.down[0]
        error = _CRAM_ERROR * amplification
        if error <= accuracy:
            return tridiagonal_action(lower, diagonal, upper, m, t), error
        return tridiagonal_pieces(lower, diagonal, upper, m, t, accuracy)
    couplings = [np.sqrt(up * down) for up, down in zip(rates.up, rates.down, strict=True)]
    row_sums = np.zeros_like(m)
    for axis, coupling in zip(layout.axes, couplings, strict=True):
        row_sums += coupling
        row_sums += axis.behind(coupling)
    bound = spectral_bound(rates.diagonal, row_sums)
    root = np.sqrt(gibbs / gibbs.sum())
    remaining, waited = t, 0.0
    while exponent.max() > 600.0 or amplification * 1e-14 > accuracy:
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


def tridiagonal_pieces(
    lower: np.ndarray, diagonal: np.ndarray, upper: np.ndarray, m: np.ndarray, t: float, accuracy: float
) -> tuple[np.ndarray, float]:
    """exp(tA) m in 2, 4, 8, ... equal pieces until two answers agree to `accuracy` in L1, and their distance.

    Short pieces do not carry rounding out of the tail: each doubling gains orders, so the distance bounds the finer
    one's error with room. Rounding sets a floor: it ends where a further doubling no longer helps.
    """
    before = tridiagonal_action(lower, diagonal, upper, m, t)
    last = np.inf
    for doubling in range(1, 11):
        pieces = 2**doubling
        now = m
        for _ in range(pieces):
            now = tridiagonal_action(lower, diagonal, upper, now, t / pieces)
        distance = float(np.abs(now - before).sum())
        if distance <= accuracy or (distance < 1e-9 and distance > 0.5 * last):
            break
        before, last = now, distance
    return now, distance
