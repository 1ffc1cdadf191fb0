"""exp(tA) m for tridiagonal A by rational (CRAM) approximations: one complex tridiagonal solve, any step length."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np
from scipy.linalg.lapack import zgtsv

from mfcheck.errors import InputError


@dataclass(frozen=True)
class Approximation:
    """A rational approximation of exp(x) on (-inf, 0]: poles of the upper half-plane, twice their residues, the value
    at infinity, and its error (rounding included) in the norm in which A is symmetric."""

    poles: np.ndarray
    twice_residues: np.ndarray
    at_infinity: float
    error: float

    @cached_property
    def column(self) -> np.ndarray:
        """The poles as a column."""
        return self.poles[:, None]


def _approximation(at_infinity: float, error: float, *pairs: tuple[complex, complex]) -> Approximation:
    poles, residues = np.array(pairs).T
    return Approximation(np.ascontiguousarray(poles), 2.0 * residues, at_infinity, error)


# Orders 6, 8 and 10 by the Caratheodory-Fejer method (Trefethen, Weideman and Schmelzer, BIT 46 (2006) 653): within
# 0.1 % of the best approximations. Order 14: Pusa, Nuclear Science and Engineering 169 (2011) 155, corrected in 182
# (2016) 297. Errors are 9.3^-order, and at order 14 the rounding of residues of size 100.
APPROXIMATIONS = (
    _approximation(
        1.0085226729326144e-06,
        1.01e-6,
        (2.40060293893282 + 1.1931293084021168j, -0.5790130040303871 - 4.2868885645802965j),
        (1.1585525717189844 + 3.6147726008197374j, 0.6630068705278566 + 1.4514129199022079j),
        (-1.7819882759211316 + 6.196512467347124j, -0.08358161715626576 - 0.10642926074787237j),
    ),
    _approximation(
        1.1722573195081711e-08,
        1.18e-8,
        (3.2209452451180125 + 1.1936196054221206j, -1.8317717107376783 - 9.525608130572932j),
        (2.292249147887982 + 3.600771496085447j, 2.4362407330690816 + 3.716755641126924j),
        (0.2694909874430078 + 6.082032592715811j, -0.6325880537745696 - 0.44392310274040586j),
        (-3.4085395013620245 + 8.77303456442925j, 0.02812975716425184 + 0.011577384570471243j),
    ),
    _approximation(
        1.361064299171933e-10,
        1.37e-10,
        (4.027732484349744 + 1.1938560670544074j, -4.818382066052579 - 21.05459760415716j),
        (3.2837529007165824 + 3.5943867739448168j, 7.117165219144486 + 8.819533321302155j),
        (1.7154060343371103 + 6.038934927519807j, -2.565584999831319 - 1.2163857328859051j),
        (-0.8944046818852149 + 8.582756900330239j, 0.2725869855660254 + 0.014211727772665576j),
        (-5.161191251727027 + 11.375156252406379j, -0.005784903975338346 + 0.0006858507185396359j),
    ),
    _approximation(
        1.8321743782540412751e-14,
        5e-14,
        (-8.8977731864688888199 + 16.630982619902085304j, -7.1542880635890672853e-5 + 1.4361043349541300111e-4j),
        (-3.7032750494234480603 + 13.656371871483268171j, 9.4390253107361688779e-3 - 1.7184791958483017511e-2j),
        (-0.2087586382501301251 + 10.991260561901260913j, -3.7636003878226968717e-1 + 3.3518347029450104214e-1j),
        (3.9933697105785685194 + 6.0048316422350373178j, -2.3498232091082701191e1 - 5.8083591297142074004j),
        (5.0893450605806245066 + 3.5888240290270065102j, 4.6933274488831293047e1 + 4.5643649768827760791e1j),
        (5.6231425727459771248 + 1.1940690463439669766j, -2.7875161940145646468e1 - 1.0214733999056451434e2j),
        (2.2697838292311127097 + 8.4617379730402214019j, 4.8071120988325088907 - 1.3209793837428723881j),
    ),
)
FINEST = APPROXIMATIONS[-1]


def coarsest_within(error: float) -> Approximation | None:
    """The cheapest approximation whose error is at most this; None where rounding alone is more."""
    return next((approximation for approximation in APPROXIMATIONS if approximation.error <= error), None)


def tridiagonal_action(
    lower: np.ndarray,
    diagonal: np.ndarray,
    upper: np.ndarray,
    m: np.ndarray,
    t: float,
    approximation: Approximation = FINEST,
) -> np.ndarray:
    """exp(tA) m for a tridiagonal A with eigenvalues <= 0, any t: one complex solve a pole, all in one LAPACK call.

    lower[i] = A[i + 1, i] and upper[i] = A[i, i + 1], both of full length with 0 at the end: the systems
    tA - pole are laid end to end and that 0 keeps them apart. An eigenvector of eigenvalue 0 (a Gibbs density) is
    multiplied by 1 to within the approximation's error and keeps its direction at every order.
    """
    n, count = m.size, approximation.poles.size
    work = np.empty((4, count, n), dtype=np.complex128)
    np.multiply(lower, t, out=work[0])
    np.subtract(t * diagonal, approximation.column, out=work[1])
    np.multiply(upper, t, out=work[2])
    work[3] = m
    below, middle, above, right = work.reshape(4, -1)
    *_, x, info = zgtsv(below[:-1], middle, above[:-1], right, 1, 1, 1, 1)
    if info:
        raise InputError(f"the tridiagonal solve met a singular matrix (LAPACK info {info}): is the potential finite?")
    result: np.ndarray = approximation.twice_residues.dot(x.reshape(count, n)).real
    return result + approximation.at_infinity * m


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
