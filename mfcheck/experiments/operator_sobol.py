"""Family V: scrambled Sobol particles in place of independent ones."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
import torch
from scipy.stats import qmc
from torch import Tensor

from mfcheck.heads import Head, hardmax_attention, matrix_softmax
from mfcheck.heads.protocol import inner_products
from mfcheck.heads.softmax import softmax_average
from mfcheck.measure import Measure
from mfcheck.operator import Sequences, gauss_hermite, head_values, operator_moments
from mfcheck.replicates import Measurements, Replicates
from mfcheck.statistics.seeds import stream

#: The law of heads: the entries of A and of V are independent and normal, with these means and deviations; p = 8.
MEAN_A, MEAN_V = ((0.4, -0.2), (0.3, 0.5)), ((0.6, 0.3), (-0.3, 0.5))
SD_A = SD_V = 0.5
HEADS: dict[str, Callable[[int], Head]] = {"softmax": matrix_softmax, "hardmax": hardmax_attention}


def planar_problem(inputs: int, tokens: int) -> Sequences:
    """Fixed inputs with tokens N(0, I) in the plane and queries on the unit circle: logits of order 1. float64."""
    generator = stream(0, "V", "planar tokens", inputs, tokens).torch()
    laws = torch.randn(inputs, tokens, 2, generator=generator, dtype=torch.float64)
    angle = torch.linspace(0.3, 2.3, inputs, dtype=torch.float64)
    return Sequences.of(torch.stack([angle.cos(), angle.sin()], -1), laws)


def planar_moments(sequences: Sequences) -> tuple[Tensor, float, float]:
    """V_rho [K, 2] of the softmax heads, E |v - V_rho|^2 summed over the inputs, and the error of either.

    A head reads A only through b = A' x, which is N(E[A]' x, sd^2 |x|^2 I), and is linear in V, independent of A. With
    m(b) the softmax average of the tokens, V_rho(x) = E[V] E m, an integral over the plane for every input, and
    E |v|^2 = |E[V] m|^2 + 2 sd^2 |m|^2 averaged over b: each of the 2 rows of V adds sd^2 |m|^2.
    """
    mean_a = torch.tensor(MEAN_A, dtype=torch.float64)
    mean_v = torch.tensor(MEAN_V, dtype=torch.float64)
    average = Head("average of tokens", 2, 2, lambda b, x, y, w: softmax_average(inner_products(b, y), y, w))
    means, variance, error = [], 0.0, 0.0
    for k, query in enumerate(sequences.queries):
        centre, spread = (mean_a.T @ query).tolist(), [SD_A * float(query.norm())] * 2

        def plane(order: int, centre: list[float] = centre, spread: list[float] = spread) -> Measure:
            return gauss_hermite(centre, spread, order)

        alone = Sequences(query[None], sequences.tokens[k : k + 1], sequences.weights[k : k + 1])
        moments = operator_moments(average, plane, alone)
        m = moments.mean[0]
        second = moments.covariance + torch.outer(m, m)
        means.append(mean_v @ m)
        variance += float(
            (mean_v @ second @ mean_v.T).trace() + 2 * SD_V**2 * second.trace() - means[-1].square().sum()
        )
        error = max(error, moments.mean_error, moments.covariance_error)
    # the largest entry of a sum over inputs of a few products with numbers below 1
    return torch.stack(means), variance, 8 * len(sequences) * error


def sobol_heads(engine: qmc.Sobol, count: int) -> Tensor:
    """The first `count` heads [count, 8] of a scrambled Sobol net, through the normal quantile function; float64."""
    normal = qmc.MultivariateNormalQMC(np.zeros(8), engine=engine).random(count)
    mean = np.concatenate([np.ravel(MEAN_A), np.ravel(MEAN_V)])
    return torch.from_numpy(mean + normal * np.repeat([SD_A, SD_V], 4))


def sobol_convergence(settings: Mapping[str, Any], replicates: Replicates) -> Measurements:
    """V4: V_M of scrambled Sobol particles, in independent pairs of scrambles.

    A replicate is `pairs` pairs of scrambled nets of the largest M; a smaller M is the net's beginning. settings:
    particles (powers of 2); pairs; inputs, tokens; head ("softmax" as claimed). With sigma^2 = E |v - V_rho|^2 of the
    softmax heads it measures `variance` [n, rungs]: half the squared difference within pairs, over sigma^2 (it needs
    no reference); `scaled` [n, rungs]: M times that, 1 for independent particles; `bias` [n, inputs 2] of the
    mean V_M at the largest M over |V_rho|, where a wrong limit shows; and the quadrature's error `reference` [n]
    over |V_rho|.
    """
    ladder = settings["particles"]
    sequences = planar_problem(settings["inputs"], settings["tokens"])
    mean, total_variance, error = planar_moments(sequences)
    head = HEADS[settings["head"]](2)
    variance = np.empty((len(replicates), len(ladder)))
    bias = np.empty((len(replicates), mean.numel()))
    for row, replicate in enumerate(replicates):
        averages = []
        for scramble in range(2 * settings["pairs"]):
            seed = replicates.stream.child(replicate, scramble).numpy()
            theta = sobol_heads(qmc.Sobol(8, scramble=True, rng=seed), max(ladder)).to(replicates.device)
            values = head_values(head, theta, sequences).flatten(1).cpu()
            averages.append(torch.stack([values[:particles].mean(0) for particles in ladder]))
        outputs = torch.stack(averages)
        variance[row] = (outputs[::2] - outputs[1::2]).square().sum(-1).mean(0) / (2 * total_variance)
        bias[row] = (outputs[:, -1].mean(0) - mean.flatten()) / mean.norm()
    return {
        "variance": variance,
        "scaled": variance * np.array(ladder),
        "bias": bias,
        "reference": np.full(len(replicates), error / float(mean.norm())),
    }
