"""propagate: exp(tQ) masses for any sparse generator, by the method that suits it or the one that is named."""

from __future__ import annotations

from typing import Any, Literal

import numpy as np
import scipy.linalg
import scipy.sparse
import scipy.sparse.linalg
import torch
from scipy.sparse.csgraph import breadth_first_order

from mfcheck.dynamics.fokker_planck.chebyshev import chebyshev_action, spectral_bound
from mfcheck.dynamics.fokker_planck.rational import tridiagonal_pieces
from mfcheck.dynamics.fokker_planck.stochastic import DENSE_LIMIT, stochastic_exponential, uniformisation
from mfcheck.errors import InputError

Method = Literal["auto", "cram", "chebyshev", "uniformisation", "taylor", "expm"]
METHODS = ("auto", "cram", "chebyshev", "uniformisation", "taylor", "expm")


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
