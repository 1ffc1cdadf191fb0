"""The benchmark's five problems and their reference: sinc collocation on the whole line, DOP853 in time."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import cache

import numpy as np
import torch
from scipy.integrate import solve_ivp

from mfcheck import risks
from mfcheck.feature_risk import FeatureRisk


@dataclass(frozen=True)
class Problem:
    """A potential with its gradient in words (for py-pde), a Gaussian start, and the mean-field strength kappa."""

    name: str
    risk: FeatureRisk
    potential: Callable[..., np.ndarray]
    gradients: tuple[str, ...]
    beta: float
    time: float
    bounds: tuple[tuple[float, float], ...]
    mean: tuple[float, ...]
    deviation: float
    kappa: float = 0.0

    def start(self, *x: np.ndarray) -> np.ndarray:
        square = sum((a - m) ** 2 for a, m in zip(x, self.mean, strict=True))
        return np.exp(-square / (2 * self.deviation**2))

    def density(self, points: torch.Tensor) -> torch.Tensor:
        square = (points - torch.tensor(self.mean, dtype=points.dtype)).square().sum(-1)
        return torch.exp(square / (-2 * self.deviation**2))


def turned() -> torch.Tensor:
    c, s = np.cos(np.pi / 6), np.sin(np.pi / 6)
    turn = torch.tensor([[c, -s], [s, c]], dtype=torch.float64)
    a = turn @ torch.diag(torch.tensor([1.0, 4.0], dtype=torch.float64)) @ turn.T
    return (a + a.T) / 2


def problems() -> list[Problem]:
    a = turned()
    p, q, r = float(a[0, 0]), float(a[0, 1]), float(a[1, 1])

    def tilted(x: torch.Tensor) -> torch.Tensor:
        u, v = x[..., 0], x[..., 1]
        return u**4 / 4 - u**2 / 2 + v**2 + u * v / 2

    def well(x: np.ndarray) -> np.ndarray:
        return x**4 / 4 - x**2 / 2

    return [
        Problem("P1", risks.quadratic(), lambda x: x**2 / 2, ("x",), 0.5, 1.0, ((-4.2, 4.2),), (1.5,), 0.3),
        Problem("P2", risks.double_well(), well, ("x**3 - x",), 0.2, 5.0, ((-2.7, 2.7),), (0.5,), 0.4),
        Problem(
            "P3",
            risks.quadratic(a),
            lambda x, y: (p * x**2 + 2 * q * x * y + r * y**2) / 2,
            (f"{p} * x + {q} * y", f"{q} * x + {r} * y"),
            0.5,
            1.0,
            ((-3.8, 3.8), (-3.0, 3.0)),
            (1.0, 0.5),
            0.4,
        ),
        Problem("P4", risks.desai_zwanzig(), well, ("x**3 - x",), 0.3, 5.0, ((-2.8, 2.8),), (0.5,), 0.4, kappa=1.0),
        Problem(
            "P5",
            FeatureRisk("tilted double well", potential=tilted),
            lambda x, y: x**4 / 4 - x**2 / 2 + y**2 + x * y / 2,
            ("x**3 - x + y / 2", "2 * y + x / 2"),
            0.3,
            2.0,
            ((-2.8, 2.8), (-2.6, 2.6)),
            (0.5, 0.0),
            0.4,
        ),
    ]


@cache
def reference(problem: Problem) -> Callable[[np.ndarray], np.ndarray]:
    """rho at the last time, as a function of points [n, p]: sinc collocation on the whole line, DOP853 in time.

    Spectral in space; `main` checks it against the exact Gaussians of P1 and P3.
    """
    sides = [(lo - 0.8, hi + 0.8) for lo, hi in problem.bounds]
    count = 128 if len(sides) == 1 else 64
    axes = [np.linspace(lo, hi, count) for lo, hi in sides]
    steps = [axis[1] - axis[0] for axis in axes]
    k = np.subtract.outer(np.arange(count), np.arange(count))
    sign = np.where(k % 2 == 0, 1.0, -1.0)
    safe = np.where(k == 0, 1, k)
    first = np.where(k == 0, 0.0, sign / safe)
    second = np.where(k == 0, -(np.pi**2) / 3, -2 * sign / safe**2)
    mesh = np.meshgrid(*axes, indexing="ij")
    names = dict(zip("xy", mesh, strict=False))
    forces = [eval(text, {}, names) for text in problem.gradients]

    def along(matrix: np.ndarray, values: np.ndarray, axis: int) -> np.ndarray:
        return matrix @ values if axis == 0 else values @ matrix.T

    def rhs(_: float, flat: np.ndarray) -> np.ndarray:
        rho = flat.reshape(mesh[0].shape)
        total = np.zeros_like(rho)
        for axis, (h, force) in enumerate(zip(steps, forces, strict=True)):
            pull = force
            if problem.kappa:
                pull = force + problem.kappa * (mesh[0] - (mesh[0] * rho).sum() * h)
            total += along(first, rho * pull, axis) / h + problem.beta / h**2 * along(second, rho, axis)
        return total.ravel()

    start = problem.start(*mesh)
    start = start / (start.sum() * np.prod(steps))
    end = solve_ivp(rhs, (0.0, problem.time), start.ravel(), method="DOP853", rtol=1e-10, atol=1e-12).y[:, -1]
    values = end.reshape(mesh[0].shape)

    def at(points: np.ndarray) -> np.ndarray:
        # grids are tensor products: one cardinal matrix an axis
        lines = [np.unique(points[:, axis]) for axis in range(points.shape[1])]
        result = values
        for axis, (line, nodes, h) in enumerate(zip(lines, axes, steps, strict=True)):
            result = along(np.sinc(np.subtract.outer(line, nodes) / h), result, axis)
        return result.ravel()

    return at
