"""Family K: the two identities between weights and points, and the two scalings of the update (K1, K2)."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from functools import partial
from typing import Any

import numpy as np
import torch
from torch import Tensor

from mfcheck import heads, risks
from mfcheck.attention_risk import attention_layer, scalar_attention_layer, scalar_teacher
from mfcheck.dynamics.exact import chain_stationary_variance
from mfcheck.dynamics.langevin import simulate
from mfcheck.experiments.batches import in_batches
from mfcheck.experiments.time_stepping import burn_in
from mfcheck.functional import Risk, derivative_on_appending, first_variation, velocity
from mfcheck.heads import Head
from mfcheck.measure import Measure
from mfcheck.operator import Sequences
from mfcheck.replicates import Measurements, Replicates
from mfcheck.statistics.seeds import stream


def kernel_energy(measure: Measure) -> Tensor:
    """log(1 + iint exp(-|theta - theta'|^2 / 2) drho drho + int |theta|^2 drho): a risk of no particular form.

    Not a loss of finitely many features, not a polynomial in the measure, not convex: what a user might bring.
    """
    distances = (measure.points[..., :, None, :] - measure.points[..., None, :, :]).square().sum(-1)
    kernel = torch.exp(-0.5 * distances)
    pairs = torch.einsum("...i,...ij,...j->...", measure.weights, kernel, measure.weights)
    return torch.log1p(pairs + measure.integrate(lambda x: x.square().sum(-1)))


def index_dependent(measure: Measure) -> Tensor:
    """(sum_j w_j cos(j) tanh(sum of theta_j) - 1)^2 / 2: no function of the measure, since particle j matters by j."""
    index = torch.arange(measure.points.shape[-2], dtype=measure.points.dtype, device=measure.points.device)
    return 0.5 * (measure.integrate(torch.cos(index) * torch.tanh(measure.points.sum(-1))) - 1).square()


def _network(loss: str) -> Risk:
    generator = stream(0, "two-layer network").torch()
    inputs = torch.randn(8, 2, dtype=torch.float64, generator=generator)
    targets = torch.sign(torch.randn(8, dtype=torch.float64, generator=generator))
    if loss == "squared":
        return risks.two_layer_network(inputs, targets, weight_decay=0.1)
    # not quadratic in the measure: a difference quotient in the weights has a third derivative to feel
    return risks.two_layer_network(
        inputs, targets, weight_decay=0.1, loss=lambda v: torch.nn.functional.softplus(-targets.to(v) * v).mean(-1)
    )


def _attention(make: Callable[[], Head]) -> tuple[Risk, int]:
    """The risk of an attention layer of a head on three fixed sequences of three tokens, and its p."""
    head = make()
    d = head.token_dimension
    generator = stream(0, "attention layer", d).torch()
    # logits of order 1, so that a shift of eps stays small beside them
    queries, targets = 0.5 * torch.randn(2, 3, d, dtype=torch.float64, generator=generator)
    tokens = torch.randn(3, 3, d, dtype=torch.float64, generator=generator)
    risk = attention_layer(head, Sequences.of(queries, tokens), targets, weight_decay=0.1)
    return risk, head.parameter_dimension


def _scalar_attention() -> tuple[Risk, int]:
    source = stream(0, "scalar attention layer")
    data = scalar_teacher(3, 3, token_scale=1.0, query_scale=1.0, teacher=1.0, source=source)
    return scalar_attention_layer(*data, weight_decay=0.1), 2


def _module() -> Head:
    # its weights are of no account: theta takes their place
    return heads.multihead_attention(torch.nn.MultiheadAttention(2, 1, batch_first=True, dtype=torch.float64))


def _index_dependent_head() -> Head:
    """Matrix softmax times cos(i) for the i-th head of a batch [M, p]: a list of heads and no law of them."""
    head = heads.matrix_softmax(2)

    def function(theta: Tensor, x: Tensor, tokens: Tensor, weights: Tensor) -> Tensor:
        index = torch.arange(theta.shape[-2], dtype=theta.dtype, device=theta.device)
        return torch.cos(index)[:, None] * head.function(theta, x, tokens, weights)

    return replace(head, name="index-dependent", function=function)


#: Every shipped head that is smooth in theta (all but hardmax, which jumps at a tie), for an attention layer.
HEADS: dict[str, Callable[[], Head]] = {
    "scalar softmax": heads.scalar_softmax,
    "scalar softmax, tanh value": lambda: heads.scalar_softmax("tanh"),
    "matrix softmax": lambda: heads.matrix_softmax(2),
    "softmax": lambda: heads.softmax_attention(2, 1),
    "L2": lambda: heads.l2_attention(2),
    "linear": lambda: heads.linear_attention(2),
    "sigmoid": lambda: heads.sigmoid_attention(2),
    "Gaussian kernel": lambda: heads.gaussian_attention(2, 1),
    "causal": lambda: heads.causal(heads.matrix_softmax(2)),
    "nn.MultiheadAttention": _module,
    "index-dependent": _index_dependent_head,
}

#: What K1 looks at, and its controls (index-dependent): name -> (risk, p).
SUBJECTS: dict[str, Callable[[], tuple[Risk, int]]] = {
    "quadratic": lambda: (risks.quadratic(1.5), 2),
    "quadratic, one curvature a coordinate": lambda: (risks.quadratic((0.5, 2.0), centre=(1.0, -1.0)), 2),
    "quadratic, correlated": lambda: (risks.quadratic(torch.tensor([[2.0, 0.5], [0.5, 1.0]])), 2),
    "double well": lambda: (risks.double_well(tilt=0.3), 2),
    "linear attraction": lambda: (risks.linear_attraction(1.0, 3.0), 1),
    "Desai-Zwanzig": lambda: (risks.desai_zwanzig(), 1),
    "two-layer network": lambda: (_network("squared"), 2),
    "two-layer network, logistic loss": lambda: (_network("logistic"), 2),
    "a callable: kernel energy": lambda: (kernel_energy, 2),
    "scalar attention layer": _scalar_attention,
    **{f"attention layer: {name}": partial(_attention, make) for name, make in HEADS.items()},
    "index-dependent": lambda: (index_dependent, 2),
}


def weights_and_points(settings: Mapping[str, Any], replicates: Replicates) -> Measurements:
    """K1: derivatives in weights and points against difference quotients on APPENDING atoms, for each risk.

    settings: risks (keys of SUBJECTS), particles M, eps: the appended weight and the shift of an appended atom.
    Compared at every particle of a random cloud of weights 1/M, all relative to the largest value there:
    - potential: dR/dw_j by automatic differentiation and by the shipped formula, with the derivative on appending;
    - drift: minus M dR/dtheta_j, the shipped velocity, the velocity at an appended atom of weight 0, and the
      displacement that one step of the simulator applies, with the difference quotient in theta of the derivative
      on appending: no automatic differentiation on that side.
    - existing_weight: dR/dw_j with a difference quotient in the weight that is there, which cannot see an index.
    Returns potential, drift and existing_weight, [1, risks].
    """
    rows = []
    for name in settings["risks"]:
        risk, p = SUBJECTS[name]()
        generator = replicates.stream.child(name).torch()
        points = torch.randn(settings["particles"], p, dtype=torch.float64, generator=generator)
        rows.append(_discrepancies(risk, Measure.uniform(points), settings["eps"]))
    return {key: np.array([[row[key] for row in rows]]) for key in ("potential", "drift", "existing_weight")}


def _discrepancies(risk: Risk, measure: Measure, eps: float) -> dict[str, float]:
    def plain(m: Measure) -> Tensor:
        # a bare function is always differentiated: the shipped risks' closed forms do not apply to it
        return risk(m)

    points = measure.points
    by_appending = derivative_on_appending(risk, measure, points, eps)
    # no automatic differentiation on this side: a difference quotient in theta of the one on appending
    slope = torch.stack(
        [
            derivative_on_appending(risk, measure, points + shift, eps)
            - derivative_on_appending(risk, measure, points - shift, eps)
            for shift in eps * torch.eye(points.shape[-1], dtype=points.dtype)
        ],
        -1,
    ) / (2 * eps)
    potentials = [first_variation(risk, measure), first_variation(plain, measure)]
    one_step = simulate(risk, points[None], beta=0.0, step=1.0, steps=1).final[0]
    drifts = [
        velocity(risk, measure),
        velocity(plain, measure),
        velocity(plain, measure, at=points),
        one_step - points,
    ]
    return {
        "potential": max(_relative(potential, by_appending) for potential in potentials),
        "drift": max(_relative(drift, -slope) for drift in drifts),
        "existing_weight": _relative(potentials[1], _derivative_in_existing_weight(risk, measure, eps)),
    }


def _derivative_in_existing_weight(risk: Risk, measure: Measure, eps: float) -> Tensor:
    """(R(w + eps e_j) - R(w - eps e_j)) / (2 eps) for each atom j, [n]."""
    points, weights = measure.points, measure.weights
    shifts = eps * torch.eye(len(weights), dtype=weights.dtype)
    with torch.no_grad():
        differences = [risk(Measure(points, weights + e)) - risk(Measure(points, weights - e)) for e in shifts]
    return torch.stack(differences) / (2 * eps)


def _relative(value: Tensor, expected: Tensor) -> float:
    return float((value - expected).abs().max() / expected.abs().max())


@in_batches(32)
def two_scalings(settings: Mapping[str, Any], replicates: Replicates) -> Measurements:
    """K2: stationary variances of both scalings for several M, and raw(eta, beta) against mean_field(eta/M, M beta).

    A replicate holds `coordinates` particles for each M, in systems of M. settings: curvature a, beta, particles (the
    M), mean_field_contraction and raw_contraction (a eta of each), remainder (of the start at 0, as D5's), exchanged
    (the control: each scaling is run in the other's place), path_particles (M of the paths).
    Returns mean_field and raw, sums of squares [n, Ms] over the predicted variances beta / (a (1 - a eta / 2)) and
    M beta / (a (1 - a eta / (2 M))); degrees [n, Ms]; path_difference [n], the largest relative distance of the paths.
    """
    a, beta = settings["curvature"], settings["beta"]
    sums: dict[str, list[np.ndarray]] = {"mean_field": [], "raw": []}
    degrees = []
    for particles in settings["particles"]:
        systems = settings["coordinates"] // particles
        degrees.append(systems * particles)
        for scaling, columns in sums.items():
            contracted = settings[f"{scaling}_contraction"]
            share = particles if scaling == "raw" else 1
            final = simulate(
                risks.quadratic(a),
                torch.zeros(len(replicates) * systems, particles, 1, device=replicates.device),
                beta=beta,
                step=contracted / a,
                steps=burn_in(contracted / share, settings["remainder"]),
                scaling=_run_as(scaling, settings["exchanged"]),
                seed=replicates.stream.child(scaling, particles),
                first_replicate=replicates.start * systems,
            ).final
            predicted = chain_stationary_variance(a, beta=share * beta, step=contracted / a / share)
            columns.append(final.double().square().reshape(len(replicates), -1).sum(1).cpu().numpy() / predicted)
    return {
        "mean_field": np.stack(sums["mean_field"], -1),
        "raw": np.stack(sums["raw"], -1),
        "degrees": np.tile(degrees, (len(replicates), 1)),
        "path_difference": _path_difference(settings, replicates),
    }


def _path_difference(settings: Mapping[str, Any], replicates: Replicates) -> np.ndarray:
    """max |raw(eta, beta) - mean_field(eta/M, M beta)| over a path / max |theta|, [n], for an interacting risk."""
    particles, beta = settings["path_particles"], settings["beta"]
    step = settings["raw_contraction"] / settings["curvature"]
    start = torch.zeros(len(replicates), particles, 2, dtype=torch.float64, device=replicates.device)
    paths = []
    for scaling, share in (("raw", 1), ("mean_field", particles)):
        paths.append(
            simulate(
                kernel_energy,
                start,
                beta=share * beta,
                step=step / share,
                steps=settings["path_steps"],
                scaling=_run_as(scaling, settings["exchanged"]),
                seed=replicates.stream.child("paths"),
                first_replicate=replicates.start,
                observables={"theta": lambda theta: theta},
                record=1,
            ).observables["theta"]
        )
    raw, mean_field = (path.transpose(0, 1).flatten(1) for path in paths)
    difference: np.ndarray = ((raw - mean_field).abs().amax(1) / mean_field.abs().amax(1)).cpu().numpy()
    return difference


def _run_as(scaling: str, exchanged: bool) -> str:
    other = {"raw": "mean_field", "mean_field": "raw"}
    return other[scaling] if exchanged else scaling
