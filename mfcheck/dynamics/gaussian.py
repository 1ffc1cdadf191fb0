"""Gaussian laws: density, exact cell masses, relative entropy."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
import torch
from jaxtyping import Float
from scipy.special import ndtr
from torch import Tensor

from mfcheck.errors import InputError

Density = Callable[[Tensor], Tensor]


@dataclass(frozen=True, eq=False)
class Gaussian:
    """The law N(mean, covariance) in R^p, float64: mean [p], covariance [p, p] symmetric and positive semidefinite."""

    mean: Float[Tensor, " p"]
    covariance: Float[Tensor, "p p"]

    @property
    def dimension(self) -> int:
        """p, the number of coordinates."""
        return self.mean.shape[0]

    @property
    def second_moment(self) -> float:
        """E |theta|^2 = trace of the covariance + |mean|^2."""
        return float(self.covariance.trace() + self.mean.square().sum())

    def log_density(self, points: Float[Tensor, "*batch n p"]) -> Float[Tensor, "*batch n"]:
        """log of the Lebesgue density at points [..., n, p]. Raises InputError where the covariance is singular."""
        factor, failed = torch.linalg.cholesky_ex(self.covariance)
        if int(failed):
            raise InputError(f"a density needs a positive definite covariance; it came as {self.covariance.tolist()}")
        if points.shape[-1] != self.dimension:
            raise InputError(f"this law lives in R^{self.dimension}; points came as {tuple(points.shape)}")
        # whitening by the inverse factor keeps the leading axes free, unlike a triangular solve
        whiten = torch.linalg.inv(factor).to(points)
        normaliser = float(factor.diagonal().log().sum()) + 0.5 * self.dimension * np.log(2 * np.pi)
        return -0.5 * ((points - self.mean.to(points)) @ whiten.T).square().sum(-1) - normaliser

    def density(self, points: Float[Tensor, "*batch n p"]) -> Float[Tensor, "*batch n"]:
        """The Lebesgue density at points [..., n, p]; fits a solver's `initial`."""
        return self.log_density(points).exp()

    def cell_masses(self, edges: Sequence[Float[Tensor, " n_plus_1"]], order: int = 8) -> Float[Tensor, "*cells"]:
        """The law's mass in every cell of a grid with the given edges, one tensor [n + 1] an axis.

        A diagonal covariance by differences of the normal distribution function (to rounding, tails included);
        otherwise by Gauss-Legendre quadrature of the density with `order` nodes a cell and axis.
        """
        _check_edges(edges, self.dimension)
        off_diagonal = self.covariance - torch.diag(self.covariance.diagonal())
        if bool((off_diagonal != 0).any()):
            return cell_masses(self.density, edges, order)
        masses = torch.ones((), dtype=torch.float64)
        for axis, edge in enumerate(edges):
            z = (edge.double().cpu() - self.mean[axis]) / self.covariance[axis, axis].sqrt()
            masses = masses[..., None] * _normal_masses(z)
        return masses.to(edges[0].device)


def gaussian(
    mean: float | Sequence[float] | Tensor, covariance: float | Sequence[float] | Sequence[Sequence[float]] | Tensor
) -> Gaussian:
    """N(mean, covariance) from plain numbers.

    mean: a number (R^1) or p of them; covariance: a number v (v I), one variance a coordinate [p], or a symmetric
    matrix [p, p]. Raises InputError where the shapes disagree or the covariance is not symmetric.
    """
    m = torch.atleast_1d(torch.as_tensor(mean, dtype=torch.float64)).cpu()
    p = m.shape[0]
    return Gaussian(m, symmetric_matrix(covariance, p, "covariance"))


def gaussian_density(
    mean: float | Sequence[float] | Tensor, covariance: float | Sequence[float] | Sequence[Sequence[float]] | Tensor
) -> Density:
    """The density of N(mean, covariance) as a callable: points [n, p] -> [n]. Arguments as in `gaussian`."""
    return gaussian(mean, covariance).density


def symmetric_matrix(value: object, p: int, what: str) -> Float[Tensor, "p p"]:
    """A [p, p] float64 matrix from a number (times I), p diagonal entries, or a symmetric matrix."""
    matrix = torch.as_tensor(value, dtype=torch.float64).cpu()
    if matrix.ndim == 0:
        return matrix * torch.eye(p, dtype=torch.float64)
    if matrix.shape == (p,):
        return torch.diag(matrix)
    if matrix.shape != (p, p):
        raise InputError(f"the {what} in R^{p} is a number, {p} numbers or a {p} x {p} matrix; it came as {value!r}")
    # products leave roundings of the largest entry's size in every entry, small ones too
    if not torch.allclose(matrix, matrix.T, rtol=0.0, atol=1e-12 * float(matrix.abs().max())):
        raise InputError(f"the {what} is symmetric; it came as {matrix.tolist()}")
    return 0.5 * (matrix + matrix.T)


def relative_entropy(first: Gaussian, second: Gaussian) -> float:
    """KL(first | second) = (sum_i (d_i - log(1 + d_i)) + |L^-1 (m_1 - m_2)|^2) / 2, in nats.

    d_i are the eigenvalues of L^-1 (S_1 - S_2) L^-T with S_2 = L L'. This form of the textbook's
    trace - p - log det keeps its digits where the two laws are close, as at the end of a relaxation.
    """
    factor, failed = torch.linalg.cholesky_ex(second.covariance)
    if int(failed) or first.dimension != second.dimension:
        raise InputError("relative entropy compares Gaussians of one dimension, the second of positive covariance")
    inverse = torch.linalg.inv(factor)
    excess = torch.linalg.eigvalsh(inverse @ (first.covariance - second.covariance) @ inverse.T)
    shift = inverse @ (first.mean - second.mean)
    return 0.5 * float((excess - torch.log1p(excess)).sum() + shift.square().sum())


def cell_masses(
    density: Density, edges: Sequence[Float[Tensor, " n_plus_1"]], order: int = 8
) -> Float[Tensor, "*cells"]:
    """Integrals of a density over the cells of a grid by Gauss-Legendre quadrature, `order` nodes a cell and axis.

    density: points [n, p] -> [n]; edges: one increasing tensor [n + 1] an axis. Returns [cells] in p axes, float64.
    """
    _check_edges(edges, len(edges))
    roots, factors = np.polynomial.legendre.leggauss(order)
    nodes: list[Tensor] = []
    weights: list[Tensor] = []
    for edge in edges:
        edge = edge.double()
        half = 0.5 * edge.diff()
        middle = 0.5 * (edge[1:] + edge[:-1])
        nodes.append((middle[:, None] + half[:, None] * torch.as_tensor(roots).to(edge)).reshape(-1))
        weights.append((half[:, None] * torch.as_tensor(factors).to(edge)).reshape(-1))
    points = torch.stack([x.reshape(-1) for x in torch.meshgrid(*nodes, indexing="ij")], -1)
    values = density(points).reshape([len(x) for x in nodes])
    for axis, weight in enumerate(weights):
        shape = [1] * len(edges)
        shape[axis] = -1
        values = _fold(values * weight.reshape(shape), axis, order)
    return values


def _fold(values: Tensor, axis: int, order: int) -> Tensor:
    """Sums groups of `order` neighbours along an axis."""
    shape = (*values.shape[:axis], values.shape[axis] // order, order, *values.shape[axis + 1 :])
    return values.reshape(shape).sum(axis + 1)


def _normal_masses(z: Float[Tensor, " n_plus_1"]) -> Float[Tensor, " n"]:
    """Phi(z_{j+1}) - Phi(z_j), taken in the upper tail by symmetry, where a plain difference cancels."""
    lower, upper = z[:-1].numpy(), z[1:].numpy()
    flip = lower > 0
    return torch.as_tensor(ndtr(np.where(flip, -lower, upper)) - ndtr(np.where(flip, -upper, lower)))


def _check_edges(edges: Sequence[Tensor], p: int) -> None:
    if len(edges) != p or any(edge.ndim != 1 or bool((edge.diff() <= 0).any()) for edge in edges):
        raise InputError(
            f"edges are {p} increasing one-dimensional tensors, one an axis; "
            f"they came with shapes {[tuple(edge.shape) for edge in edges]}"
        )
