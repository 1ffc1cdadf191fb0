"""Spectral gaps: of the generator in a frozen potential, and of the mean-field equation linearised at rest."""

from __future__ import annotations

import numpy as np
import scipy.linalg
import scipy.sparse
import scipy.sparse.linalg
import torch
from jaxtyping import Float
from torch import Tensor

from mfcheck.dynamics.fokker_planck.equilibrium import loss_hessian
from mfcheck.dynamics.fokker_planck.generator import Layout, banded, check_beta, face_rates
from mfcheck.dynamics.fokker_planck.grid import Grid, normalised_masses
from mfcheck.dynamics.fokker_planck.landscape import FeatureLandscape, landscape
from mfcheck.errors import InputError
from mfcheck.functional import Risk, evaluate
from mfcheck.measure import Measure

_DENSE_CELLS = 300
_HESSIAN_CELLS = 2500


def spectral_gap(
    risk: Risk,
    masses: Float[Tensor, " cells"] | np.ndarray,
    grid: Grid,
    beta: float,
    linearised: bool = True,
    device: str = "cpu",
) -> float:
    """The slowest rate of return to stationary masses [cells], in 1 / time: small perturbations decay like exp(-gap s).

    linearised=False: the smallest non-zero eigenvalue of -Q with the potential frozen at the masses. True: that of the
    mean-field equation linearised there, -Q (I + diag(m) R'' / beta) on perturbations of mass 0, negative where the
    state is unstable; relative entropy and free energy decay at twice the gap. The masses must be a Gibbs fixed point
    on this grid (gibbs_fixed_point): with Scharfetter-Gummel rates the linearisation is then this one exactly.
    Raises InputError on bad input, masses that are not stationary, and grids above 2500 cells for a risk that is not a
    FeatureRisk.
    """
    check_beta(beta)
    m = normalised_masses(np.asarray(torch.as_tensor(masses).detach().cpu(), dtype=np.float64), grid)
    layout = Layout((grid,))
    land = landscape(risk, layout, device)
    potential = land.potentials(land.state(m)[None])[0]
    rates = face_rates(potential, layout, beta)
    speed = float(np.abs(rates.apply(m)).sum())
    if speed > 1e-6 * float(np.abs(rates.diagonal * m).sum()):
        raise InputError(
            f"spectral_gap takes stationary masses; the ones given move at an L1 speed of {speed:.2g}: "
            "use gibbs_fixed_point on this grid"
        )
    # the Gibbs density of the potential is m to rounding, and has its far tails right where m may be clipped
    root = np.exp(0.5 * np.maximum(potential.min() - potential, -1300.0 * beta) / beta)
    root /= np.sqrt(root @ root)
    couplings = [-np.sqrt(up * down) for up, down in zip(rates.up, rates.down, strict=True)]
    generator = scipy.sparse.csc_array(banded(layout, -rates.diagonal, couplings, couplings))
    if not linearised or land.linear:
        factor, core = np.zeros((m.size, 0)), np.zeros((0, 0))
    elif isinstance(land, FeatureLandscape):
        factor = root[:, None] * (land.features - m @ land.features)
        core = loss_hessian(land.risk, m @ land.features, device) / beta
    else:
        factor = np.diag(root) - np.outer(root, root * root)
        core = _weights_hessian(risk, m, grid, device) / beta
    return _slowest(generator, root, factor, core)


def _slowest(generator: scipy.sparse.csc_array, root: np.ndarray, factor: np.ndarray, core: np.ndarray) -> float:
    """The smallest eigenvalue of A (I + F C F') orthogonal to root, A symmetric >= 0 with A root = 0.

    Its inverse there is (I + F C F')^-1 A^+, with A^+ by one sparse factorisation and the rest by Woodbury:
    I - F (I + C F'F)^-1 C F'. The eigenvalues are real (a product with A^+ >= 0).
    """
    n, rank = factor.shape
    inner = np.linalg.solve(np.eye(rank) + core @ (factor.T @ factor), core)
    # A + root root' is regular; a sparse stand-in for it: A + shift I, corrected by the projection
    if n <= _DENSE_CELLS:
        inverse = np.linalg.inv(generator.toarray() + np.outer(root, root)) - np.outer(root, root)
        product = inverse - factor @ (inner @ (factor.T @ inverse))
        values = scipy.linalg.eigvals(product).real
        values = values[np.abs(values) > 1e-9 * np.abs(values).max()]
        return float((1.0 / values).min() if (values < 0).any() else 1.0 / values.max())
    scale = float(generator.diagonal().max())
    solve = scipy.sparse.linalg.splu(generator + 1e-13 * scale * scipy.sparse.eye_array(n, format="csc")).solve

    def inverse_action(x: np.ndarray) -> np.ndarray:
        x = x.ravel()
        x = x - root * (root @ x)
        y = solve(x)
        y -= root * (root @ y)
        return y - factor @ (inner @ (factor.T @ y))

    operator = scipy.sparse.linalg.LinearOperator((n, n), matvec=inverse_action, dtype=np.float64)
    start = np.sin(np.arange(n) + 1.0) * root  # fixed, and not orthogonal to anything in particular
    found = scipy.sparse.linalg.eigs(operator, k=4, which="LM", v0=start, return_eigenvectors=False, tol=1e-12)
    return float((1.0 / found.real).min() if (found.real < 0).any() else 1.0 / found.real.max())


def _weights_hessian(risk: Risk, m: np.ndarray, grid: Grid, device: str) -> np.ndarray:
    if grid.size > _HESSIAN_CELLS:
        raise InputError(
            f"the linearised gap of a general risk needs its second derivative in all weights, at most "
            f"{_HESSIAN_CELLS} cells; {grid.size} came (write the risk as a FeatureRisk, or use a coarser grid)"
        )
    points = grid.centres.to(device)
    hessian: Tensor = torch.autograd.functional.hessian(
        lambda w: evaluate(risk, Measure(points, w)), torch.from_numpy(m).to(device)
    )
    return hessian.cpu().numpy()
