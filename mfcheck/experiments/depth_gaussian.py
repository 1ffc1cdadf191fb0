"""Family T, Gaussian tokens: their moments under softmax attention against N tokens, and against the ODE (T3).

What becomes of N^(-1/2) above a tilt of 1/2. The tilt s is the spectral radius of (S A' S A)^(1/2); write it for the
line, S = 1 and A = s. The weights e^{s x y} of two independent tokens have a variance while E e^{2 s x y} is finite,
for 2 s < 1. This is the hypothesis. The softmax average is a ratio, though, and its normalisation, e^{s^2 x^2 / 2},
tempers the weights where x is large: a token at y moves the average at x by e^{s x y - s^2 x^2 / 2} (y - s x) / N to
first order, and the tokens' moments after k layers by e^{c_k y^2 / 2} / N up to powers of y, with (the integral over
one Gaussian more a layer) c_1 = s^2 / (1 + s^2), c_{k+1} = s^2 / (1 + s^2 - c_k), which rises to s^2 for s < 1. This
has a variance, and the moments their rate with the delta method's constant, while c_k < 1/2: for one layer up to s = 1,
for two up to 0.79, for many up to s = 1/sqrt(2). Beyond it a few tokens far out carry the sum, which has no limit
theorem at N^(-1/2). So just above 1/2 the constant grows (from 2.5 at 0.3 to 3.5 at 0.5 and 6.3 at 0.6 for the mean of
the turning problem below) and is reached at ever larger N, and no exponent is lost for certain below 1/sqrt(2).
"""

from __future__ import annotations

import functools
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from mfcheck.dynamics.gaussian_tokens import moment_flow, moment_steps, moment_variation
from mfcheck.dynamics.tokens import residual_flow
from mfcheck.experiments.batches import in_batches
from mfcheck.experiments.depth_rates import hermite_law, moment_constants
from mfcheck.heads import matrix_softmax
from mfcheck.measure import Measure
from mfcheck.replicates import Measurements, Replicates

Array = NDArray[np.float64]


@dataclass(frozen=True, eq=False)
class GaussianProblem:
    """Logits A, value V and the start N(mean, covariance) of Gaussian tokens in the plane."""

    logits: Array
    value: Array
    mean: Array
    covariance: Array

    def parameters(self) -> torch.Tensor:
        """theta [8] of the matrix softmax head."""
        return torch.from_numpy(np.concatenate([self.logits.ravel(), self.value.ravel()]))


#: contracting: V A' is near -0.6 I, so that S shrinks by a third and A is seen in it; tilt 0.36 at its start, falling.
#: turning: A and S multiples of I and V a quarter turn, so that V S A' S is antisymmetric and S' = 0: the tilt stays
#: where it starts, but for the dt^2 of a residual step, and the tokens turn. Times the settings' logit_scale.
PROBLEMS = {
    "contracting": GaussianProblem(
        np.array([[0.2, -0.5], [0.6, 0.1]]),
        np.array([[-0.2, 1.1], [-0.9, -0.4]]),
        np.array([0.5, -0.3]),
        np.array([[0.6, 0.1], [0.1, 0.5]]),
    ),
    "turning": GaussianProblem(np.eye(2), np.array([[0.0, -1.0], [1.0, 0.0]]), np.array([0.5, -0.3]), np.eye(2)),
}


@functools.lru_cache
def _constants(name: str, scale: float, layers: int, nodes: int) -> tuple[Array, Array]:
    """`moment_constants` [2], and their error: the change from 3/4 of the nodes, where they converge geometrically."""
    problem = PROBLEMS[name]
    theta = problem.parameters()
    theta[:4] *= scale
    coarse, fine = (
        moment_constants(
            hermite_law(problem.mean, problem.covariance, count), theta, depth_step=1 / layers, layers=layers
        )
        for count in (3 * nodes // 4, nodes)
    )
    return fine, np.abs(fine - coarse)


@in_batches(32)
def gaussian_moments(settings: Mapping[str, Any], replicates: Replicates) -> Measurements:
    """T3: squared errors of the mean and covariance of N tokens against the moments of Gaussian tokens.

    A replicate draws as many tokens as the largest N, cut into systems of N for every rung. From each squared error is
    taken what the sample's own mean and covariance at the start make of it to first order, less the known mean of that
    (`first_order_errors`): nothing changes on average and its variance falls 50-fold.
    settings: problem, of PROBLEMS; logit_scale (times A); tokens; layers; nodes of the quadrature; logits_in_ode: 0
    leaves A out of the moments; ode_layers. Returns mean_error and covariance_error [n, rungs] (|.|^2 and squared
    Frobenius norm); constants [n, 2], their limits times N, and constants_error [n, 2]; tilt [n]; ode_error [n, k]:
    the residual moments' distance from the ODE at dt = 1/L for L of ode_layers; believed mean and covariance, of the
    moments' steps, and empirical ones, of a largest system; drawn [n, 200, 2]: some of its tokens.
    """
    problem, scale = PROBLEMS[settings["problem"]], settings["logit_scale"]
    logits, value, m0, s0 = scale * problem.logits, problem.value, problem.mean, problem.covariance
    layers, ladder, count = settings["layers"], settings["tokens"], len(replicates)
    steps: dict[str, Any] = {"depth_step": 1 / layers, "layers": layers}
    _, _, tilt = moment_steps(m0, s0, logits, value, **steps)
    believed = logits * settings["logits_in_ode"]
    mean, covariance, _ = moment_steps(m0, s0, believed, value, **steps)
    theta = problem.parameters()
    theta[:4] *= scale
    rho = Measure.uniform(theta[None].to(replicates.device))
    factor = np.linalg.cholesky(s0)
    normal = np.stack([replicates.stream.child(r).numpy().standard_normal((ladder[-1], 2)) for r in replicates])
    pool = torch.from_numpy(m0 + normal @ factor.T).to(replicates.device)
    errors: dict[str, list[Array]] = {"mean_error": [], "covariance_error": []}
    for size in ladder:
        systems = pool.reshape(count, -1, size, 2)
        end, _ = residual_flow(matrix_softmax(2), rho, systems, **steps)
        first, expected = first_order_errors(systems.cpu().numpy(), problem, believed, layers)
        m, s = sample_moments(end.cpu().numpy())
        total = np.square(m - mean).sum(-1), np.square(s - covariance).sum((-2, -1))
        for name, square, linear, known in zip(errors, total, first, expected, strict=True):
            errors[name].append((square - linear).mean(-1) + known)
    exact = moment_flow(m0, s0, believed, value)
    ode = []
    for number in settings["ode_layers"]:
        m, s, _ = moment_steps(m0, s0, believed, value, depth_step=1 / number, layers=number)
        ode.append(np.hypot(np.linalg.norm(m - exact[0]), np.linalg.norm(s - exact[1])))
    constants, bars = _constants(settings["problem"], scale, layers, settings["nodes"])
    last = end[:, 0].cpu().numpy()
    empirical = sample_moments(last)
    return {name: np.stack(columns, -1) for name, columns in errors.items()} | {
        "constants": np.tile(constants, (count, 1)),
        "constants_error": np.tile(bars, (count, 1)),
        "tilt": np.full(count, tilt),
        "ode_error": np.tile(ode, (count, 1)),
        "believed_mean": np.tile(mean, (count, 1)),
        "believed_covariance": np.tile(covariance, (count, 1, 1)),
        "empirical_mean": empirical[0],
        "empirical_covariance": empirical[1],
        "drawn": last[:, :200],
    }


def sample_moments(tokens: Array) -> tuple[Array, Array]:
    """Mean [..., d] and unbiased covariance [..., d, d] of tokens [..., N, d]."""
    mean = tokens.mean(-2)
    centred = tokens - mean[..., None, :]
    # N - 1 for N: else the covariance's bias S/N is in its error, of higher order
    return mean, np.einsum("...ni,...nj->...ij", centred, centred) / (tokens.shape[-2] - 1)


def first_order_errors(
    starts: Array, problem: GaussianProblem, logits: Array, layers: int
) -> tuple[tuple[Array, Array], tuple[float, float]]:
    """The squared errors that Gaussian tokens with a sample's mean and covariance would have, to first order.

    starts [..., N, 2]: tokens drawn from the start. Returns |.|^2 of mean and covariance, [...] each, and their exact
    means: the sample's mean has covariance S/N, its covariance, independent of that, entries with the covariance
    (S_ik S_jl + S_il S_jk)/(N - 1) of Wishart's law.
    """
    size, s = starts.shape[-2], problem.covariance

    def carried(dm: Array, ds: Array) -> tuple[Array, Array]:
        return moment_variation(
            problem.mean, s, logits, problem.value, dm, ds, depth_step=1 / layers, layers=layers
        )  # fmt: skip

    m, c = sample_moments(starts)
    dm, ds = carried(m - problem.mean, c - s)
    square = np.square(dm).sum(-1), np.square(ds).sum((-2, -1))
    # the six changes by one entry of the start's mean or covariance
    basis = np.eye(6)
    of_mean, of_covariance = carried(basis[:, :2], basis[:, 2:].reshape(6, 2, 2))
    spread = np.zeros((6, 6))
    spread[:2, :2] = s / size
    wishart = np.einsum("ik,jl->ijkl", s, s) + np.einsum("il,jk->ijkl", s, s)
    spread[2:, 2:] = wishart.reshape(4, 4) / (size - 1)
    known = [float(np.einsum("ak,ab,bk->", out, spread, out)) for out in (of_mean, of_covariance.reshape(6, 4))]
    return square, (known[0], known[1])
