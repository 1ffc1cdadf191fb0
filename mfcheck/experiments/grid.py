"""Family P: what the grid solver conserves, its orders in space and time, and that Gibbs laws stand still (P1-P4)."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
import scipy.linalg
import torch
from torch import Tensor

from mfcheck.dynamics.exact import linear_mean_field, ornstein_uhlenbeck
from mfcheck.dynamics.fokker_planck import (
    Grid,
    generator,
    gibbs,
    gibbs_fixed_point,
    propagate,
    solve_on_grid,
    stochastic_exponential,
)
from mfcheck.dynamics.gaussian import gaussian
from mfcheck.experiments.closed_forms import rotated
from mfcheck.feature_risk import FeatureRisk
from mfcheck.replicates import Measurements, Replicates
from mfcheck.risks import desai_zwanzig, double_well, linear_attraction, quadratic, two_layer_network

#: Box for Ornstein-Uhlenbeck on the line: the laws below stay 8 standard deviations inside it.
LINE = ((-6.0, 6.0),)
PLANE = ((-5.0, 5.0), (-4.0, 4.0))


def tilted_wells(points: Tensor) -> Tensor:
    """x^4/4 - x^2/2 + y^2 + xy/2 in the plane: not a sum over the coordinates."""
    x, y = points[..., 0], points[..., 1]
    return 0.25 * x**4 - 0.5 * x * x + y * y + 0.5 * x * y


def conservation(settings: Mapping[str, Any], replicates: Replicates) -> Measurements:
    """P1: the worst |mass - 1| and the smallest mass over many steps far above the explicit limit.

    The double well on [-3, 3], where cell Peclet numbers reach the hundreds at the smallest beta, from a rough random
    start and from an atom in the outermost cell. settings: cells, betas, multiples of the explicit limit
    1 / max |Q_ii|, steps, flux, method ("taylor": non-negative arithmetic; "expm": Pade, all that a centred flux
    leaves). Also uniformisation in the plane, and the mean-field stepping of the solver, at the same multiples.
    Returns mass_error and smallest, [1, cases].
    """
    start = replicates.stream.child("start").numpy()
    paths: list[np.ndarray] = []
    for cells in settings["cells"]:
        grid = Grid(((-3.0, 3.0),), cells)
        rough = start.standard_exponential(cells) ** 4
        atom = np.eye(cells)[0]
        for beta in settings["betas"]:
            matrix = generator(double_well().potential(grid.centres), grid, beta, settings["flux"])  # type: ignore[misc]
            limit = 1.0 / float(np.abs(matrix.diagonal()).max())
            for multiple in settings["multiples"]:
                jump = _one_step(matrix, multiple * limit, settings["method"])
                paths += [_path(jump, rough / rough.sum(), settings["steps"]), _path(jump, atom, settings["steps"])]
                paths.append(_interacting_path(grid, atom, beta, multiple * limit, settings["steps"], settings["flux"]))
    paths += _plane_paths(settings, start)
    return {
        "mass_error": np.array([[np.abs(path.sum(-1) - 1.0).max() for path in paths]]),
        "smallest": np.array([[path.min() for path in paths]]),
    }


def _one_step(matrix: Any, t: float, method: str) -> Callable[[np.ndarray], np.ndarray]:
    """One step of length t as a matrix, made once: non-negative arithmetic, or a Pade exponential ("expm")."""
    step = scipy.linalg.expm(t * matrix.toarray()) if method == "expm" else stochastic_exponential(matrix, t)
    return lambda m: step @ m


def _path(step: Callable[[np.ndarray], np.ndarray], masses: np.ndarray, steps: int) -> np.ndarray:
    """Masses after 0, 1, ..., steps, [steps + 1, cells]."""
    path = [masses]
    for _ in range(steps):
        path.append(step(path[-1]))
    return np.stack(path)


def _interacting_path(grid: Grid, masses: np.ndarray, beta: float, step: float, steps: int, flux: str) -> np.ndarray:
    times = [step * k for k in range(1, steps + 1)]
    solved = solve_on_grid(desai_zwanzig(), masses, grid, beta=beta, times=times, step=step, flux=flux)  # type: ignore[arg-type]
    return solved.numpy()


def _plane_paths(settings: Mapping[str, Any], start: np.random.Generator) -> list[np.ndarray]:
    grid = Grid(((-3.0, 3.0), (-3.0, 3.0)), 24)
    rough = start.standard_exponential(grid.size) ** 4
    paths = []
    for beta in settings["betas"]:
        matrix = generator(tilted_wells(grid.centres), grid, beta, settings["flux"])
        limit = 1.0 / float(np.abs(matrix.diagonal()).max())
        for multiple in settings["multiples"]:
            if settings["method"] == "taylor":
                moved = propagate(matrix, rough / rough.sum(), multiple * limit, "uniformisation").numpy()
                paths.append(moved[None])
            else:
                step = _one_step(matrix, multiple * limit, settings["method"])
                paths.append(_path(step, rough / rough.sum(), settings["steps"]))
    return paths


def space_order(settings: Mapping[str, Any], replicates: Replicates) -> Measurements:
    """P2: L1 errors of Ornstein-Uhlenbeck on the line and in the plane against the exact Gaussian, exact in time.

    settings: cells_on_line, cells_in_plane (an axis), flux. In the plane the curvatures are 1 and 4 on axes turned by
    30 degrees. Returns line [1, r] and plane [1, r], and the spacings line_h, plane_h.
    """
    line, plane = gaussian(1.0, 0.25), gaussian([1.0, 0.5], 0.16)
    curvature = rotated(1.0, 4.0, 30.0)
    results: dict[str, list[float]] = {"line": [], "line_h": [], "plane": [], "plane_h": []}
    for cells in settings["cells_on_line"]:
        grid = Grid(LINE, cells)
        masses = _solve_linear(quadratic(1.0), line.density, grid, 1.0, settings["flux"])
        results["line"].append(_distance(masses, grid, ornstein_uhlenbeck(1.0, line, beta=0.5, time=1.0).density))
        results["line_h"].append(grid.spacing[0])
    for cells in settings["cells_in_plane"]:
        grid = Grid(PLANE, cells)
        masses = _solve_linear(quadratic(curvature), plane.density, grid, 0.5, settings["flux"])  # type: ignore[arg-type]
        results["plane"].append(
            _distance(masses, grid, ornstein_uhlenbeck(curvature, plane, beta=0.5, time=0.5).density)
        )
        results["plane_h"].append(grid.spacing[0])
    return {name: np.array([values]) for name, values in results.items()}


def _solve_linear(risk: FeatureRisk, density: Any, grid: Grid, time: float, flux: str) -> Tensor:
    start = grid.masses_of(density)
    return solve_on_grid(risk, start, grid, beta=0.5, times=[time], step=time, flux=flux)[0]  # type: ignore[arg-type]


def _distance(masses: Tensor, grid: Grid, density: Callable[[Tensor], Tensor]) -> float:
    """sum_i |masses_i - rho(theta_i) h^p|."""
    return float((masses - density(grid.centres) * grid.cell_volume).abs().sum())


def time_order(settings: Mapping[str, Any], replicates: Replicates) -> Measurements:
    """P3: L1 errors in time with a mean-field drift, on a fixed grid and against a closed form.

    On a fixed grid the reference is another scheme (commutator-free, order four) with `reference_steps`; its error is
    its distance to itself with half as many. Against the closed form of the linear mean-field model cells and steps
    are refined together, so that the limit itself is judged. settings: scheme, steps (in time 1), reference_steps,
    cells, anchor_cells and anchor_steps. Returns double_well, network, anchor [1, r], over step and
    anchor_step [1, r], and the references' errors double_well_reference, network_reference [1].
    """
    grid = Grid(((-4.0, 4.0),), settings["cells"])
    start = grid.masses_of(gaussian(0.5, 0.16).density)
    x = torch.linspace(-1.5, 1.5, 6, dtype=torch.float64)[:, None]
    risks = {
        "double_well": desai_zwanzig(),
        "network": two_layer_network(x, torch.sign(x[:, 0]), weight_decay=0.5),
    }
    results: dict[str, np.ndarray] = {}
    for name, risk in risks.items():

        def solved(steps: int, scheme: str, risk: FeatureRisk = risk) -> Tensor:
            return solve_on_grid(risk, start, grid, beta=0.6, times=[1.0], step=1.0 / steps, scheme=scheme)[0]  # type: ignore[arg-type]

        reference = solved(settings["reference_steps"], "commutator_free")
        doubled = solved(settings["reference_steps"] // 2, "commutator_free")
        errors = [float((solved(steps, settings["scheme"]) - reference).abs().sum()) for steps in settings["steps"]]
        results[name] = np.array([errors])
        results[f"{name}_reference"] = np.array([float((reference - doubled).abs().sum())])
    results["step"], results["anchor_step"] = (
        1.0 / np.array([settings["steps"]]),
        1.0 / np.array([settings["anchor_steps"]]),
    )
    results["anchor"] = np.array([_anchor_errors(settings)])
    return results


def _anchor_errors(settings: Mapping[str, Any]) -> list[float]:
    start = gaussian(1.5, 0.25)
    truth = linear_mean_field(1.0, 3.0, start, beta=0.5, time=1.0)
    errors = []
    for cells, steps in zip(settings["anchor_cells"], settings["anchor_steps"], strict=True):
        grid = Grid(LINE, cells)
        masses = solve_on_grid(
            linear_attraction(1.0, 3.0),
            grid.masses_of(start.density),
            grid,
            beta=0.5,
            times=[1.0],
            step=1.0 / steps,
            scheme=settings["scheme"],
        )[0]
        errors.append(_distance(masses, grid, truth.density))
    return errors


def gibbs_drift(settings: Mapping[str, Any], replicates: Replicates) -> Measurements:
    """P4: the largest change of a cell's mass when the discrete Gibbs law is propagated for many steps.

    Linear in one and two dimensions through one step's stochastic matrix, and a mean-field fixed point through the
    solver's own stepping, Desai-Zwanzig below beta_c. settings: steps, step, flux. Returns change [1, 3].
    """
    beta, flux, changes = 0.3, settings["flux"], []
    method = "taylor" if flux == "scharfetter_gummel" else "expm"
    line, square = Grid(((-3.0, 3.0),), 200), Grid(((-3.0, 3.0), (-3.0, 3.0)), 24)
    for grid, values in ((line, double_well().potential(line.centres)), (square, tilted_wells(square.centres))):  # type: ignore[misc]
        masses = gibbs(values, grid, beta).numpy()
        step = _one_step(generator(values, grid, beta, flux), settings["step"], method)
        changes.append(np.abs(_path(step, masses, settings["steps"]) - masses).max())
    magnetised = gibbs_fixed_point(desai_zwanzig(), line, beta, initial=line.masses_of(gaussian(0.7, 0.1).density))
    moved = _interacting_path(line, magnetised.numpy(), beta, settings["step"], settings["steps"], flux)
    changes.append(np.abs(moved - magnetised.numpy()).max())
    return {"change": np.array([changes])}
