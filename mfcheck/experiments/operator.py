"""Family V: the Monte Carlo operator V_M = (1/M) sum_i v_{theta_i}, against V_rho = E v_theta."""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from torch import Tensor

from mfcheck.heads import scalar_softmax
from mfcheck.measure import Measure
from mfcheck.operator import (
    OperatorMoments,
    Sequences,
    gauss_hermite,
    head_values,
    operator_moments,
    product,
    rule_on_the_line,
)
from mfcheck.replicates import Measurements, Replicates
from mfcheck.statistics.seeds import Stream, stream

#: The law of scalar heads: a ~ N(.7, 1) and, where it is normal, v ~ N(.6, .8^2).
MEAN_A, SD_A, MEAN_V, SD_V = 0.7, 1.0, 0.6, 0.8
DEGREES_OF_FREEDOM = 1.5
#: The softmax average has poles in a at a distance of about pi / (x times the tokens' spread) from the real line, so
#: that Gauss-Hermite converges like exp(-distance sqrt(2 order)): 120 against 200 nodes leave 1e-7.
ORDERS = (120, 200)


@dataclass(frozen=True)
class ValueLaw:
    """A law of the value parameter v: how numbers of a shape are drawn from a stream, and a quadrature rule of it.

    The scalar head is linear in v, so that a rule with the law's first two moments gives V_rho and the covariance
    exactly; where the variance is infinite the rule has the mean alone, and only V_rho means anything.
    """

    draw: Callable[[Stream, int], Tensor]
    rule: Measure


def _normal(source: Stream, count: int) -> Tensor:
    return torch.randn(count, generator=source.torch()).mul_(SD_V).add_(MEAN_V)


def _exponential(source: Stream, count: int) -> Tensor:
    return torch.empty(count).exponential_(generator=source.torch())


def _squared_exponential(source: Stream, count: int) -> Tensor:
    return _exponential(source, count).square_().mul_(0.5)


def _student(source: Stream, count: int) -> Tensor:
    heavy = source.numpy().standard_t(DEGREES_OF_FREEDOM, count)
    return torch.from_numpy(heavy).float().mul_(SD_V).add_(MEAN_V)


VALUE_LAWS = {
    "normal": ValueLaw(_normal, rule_on_the_line([MEAN_V - SD_V, MEAN_V + SD_V], [0.5, 0.5])),
    # Exp(1) has mean and variance 1
    "exponential": ValueLaw(_exponential, rule_on_the_line([0.0, 2.0], [0.5, 0.5])),
    # Exp(1)^2 / 2 has mean 1 and variance E X^4 / 4 - 1 = 5
    "squared exponential": ValueLaw(
        _squared_exponential, rule_on_the_line([1 - math.sqrt(5), 1 + math.sqrt(5)], [0.5, 0.5])
    ),
    "Student": ValueLaw(_student, rule_on_the_line([MEAN_V], [1.0])),
}


def scalar_problem(inputs: int, tokens: int) -> Sequences:
    """Fixed inputs with scalar tokens: queries spread over [.5, 1.5], tokens N(.5, 1). float64."""
    generator = stream(0, "V", "scalar tokens", inputs, tokens).torch()
    laws = torch.randn(inputs, tokens, 1, generator=generator, dtype=torch.float64) + 0.5
    return Sequences.of(torch.linspace(0.5, 1.5, inputs, dtype=torch.float64)[:, None], laws)


def scalar_moments(value_law: str, sequences: Sequences) -> OperatorMoments:
    """V_rho and the covariance of v_theta for scalar heads, by Gauss-Hermite in a and the law's rule in v."""
    value = VALUE_LAWS[value_law].rule
    return operator_moments(
        scalar_softmax(), lambda order: product(gauss_hermite([MEAN_A], [SD_A], order), value), sequences, ORDERS
    )


def scalar_heads(value_law: str, source: Stream, count: int) -> Tensor:
    """Independent heads theta = (a, v), shape [count, 2], float32."""
    a = torch.randn(count, generator=source.child("a").torch()).mul_(SD_A).add_(MEAN_A)
    return torch.stack([a, VALUE_LAWS[value_law].draw(source.child("v"), count)], -1)


def convergence(settings: Mapping[str, Any], replicates: Replicates) -> Measurements:
    """V1: errors of V_M for a ladder of M, every rung from the same heads.

    A replicate draws `heads` heads, cut into heads / M systems for each M of `particles` (each M divides the next).
    Heads are float32 (rounding 6e-8 of |v|), averages float64. settings: particles; heads; inputs and tokens;
    value_law; subtracted: V_M = sum / (M - subtracted), 0 as claimed. With sigma^2 = tr Cov_rho of the claim's law
    (the normal one), which a law without a variance is judged against too, it measures: `mean_square` [n, rungs] of
    V_M - V_rho over sigma^2; `scaled` [n, rungs]: M times that, 1 as claimed; `median` [n, rungs] of the norm over
    sigma; `bias` [n, inputs] at the smallest M over |V_rho|; and, the same in every replicate, `signal` [n]:
    |V_rho| / sigma, and the quadrature's error `reference` [n] over sigma.
    """
    ladder, count = settings["particles"], settings["heads"]
    sequences = scalar_problem(settings["inputs"], settings["tokens"])
    moments = scalar_moments(settings["value_law"], sequences)
    sigma = math.sqrt(scalar_moments("normal", sequences).total_variance)
    mean = moments.mean[:, 0].to(replicates.device)
    squares = np.empty((len(replicates), len(ladder)))
    medians = np.empty_like(squares)
    bias = np.empty((len(replicates), len(sequences)))
    for row, replicate in enumerate(replicates):
        heads = scalar_heads(settings["value_law"], replicates.stream.child(replicate), count).to(replicates.device)
        sums, size = head_values(scalar_softmax(), heads, sequences)[..., 0].double(), 1
        for rung, particles in enumerate(ladder):
            # neighbouring groups of the rung before are put together
            sums, size = sums.unflatten(0, (-1, particles // size)).sum(1), particles
            error = sums / (particles - settings["subtracted"]) - mean
            square = error.square().sum(-1)
            squares[row, rung] = square.mean()
            medians[row, rung] = square.median().sqrt()
            if rung == 0:
                bias[row] = (error.mean(0) / mean.abs()).cpu()
    return {
        "mean_square": squares / sigma**2,
        "scaled": squares / sigma**2 * np.array(ladder),
        "median": medians / sigma,
        "bias": bias,
        "signal": np.full(len(replicates), float(moments.mean.norm()) / sigma),
        "reference": np.full(len(replicates), moments.mean_error / sigma),
    }


def gaussian_limit(settings: Mapping[str, Any], replicates: Replicates) -> Measurements:
    """V2: systems of M heads, sqrt(M) (V_M - V_rho) at each input over its predicted standard deviation.

    A replicate is `systems` systems. settings: particles M; systems; inputs, tokens; value_law. Measures `standardised`
    [n, systems, inputs]; `cubes` [n, inputs], means of its third powers; `products` [n, pairs], means of products of
    two inputs (each with itself too); and, the same in every replicate, their prediction `correlation` [n, pairs], and
    the quadrature's error `reference` [n] in that.
    """
    sequences = scalar_problem(settings["inputs"], settings["tokens"])
    moments = scalar_moments(settings["value_law"], sequences)
    sd = moments.covariance.diagonal().sqrt()
    systems, particles = settings["systems"], settings["particles"]
    samples = np.empty((len(replicates), systems, len(sequences)))
    for row, replicate in enumerate(replicates):
        source = replicates.stream.child(replicate)
        heads = scalar_heads(settings["value_law"], source, systems * particles).to(replicates.device)
        values = head_values(scalar_softmax(), heads, sequences)[..., 0].double().cpu()
        average = values.unflatten(0, (systems, particles)).mean(1)
        samples[row] = (average - moments.mean[:, 0]) * math.sqrt(particles) / sd
    rows, columns = np.triu_indices(len(sequences))
    correlation = (moments.covariance / sd[:, None] / sd).numpy()[rows, columns]
    return {
        "standardised": samples,
        "cubes": (samples**3).mean(1),
        "products": (samples[..., rows] * samples[..., columns]).mean(1),
        "correlation": np.broadcast_to(correlation, (len(samples), len(correlation))),
        "reference": np.full(len(samples), moments.covariance_error / float(sd.min()) ** 2),
    }


def subsets(settings: Mapping[str, Any], replicates: Replicates) -> Measurements:
    """V3: the mean squared deviation of a kept subset's average from the pool's, over (1/m - 1/M) S^2.

    A replicate is one pool of M heads. settings: pool M; kept: the values of m; samples: how many sampled subsets a
    pool; inputs, tokens; replacement (False as claimed). S^2 is the pool's variance with M - 1 in the denominator,
    summed over the inputs. Measures, 1 as claimed, `all_subsets` [n, kept] over every subset (every tuple under
    replacement), and `sampled` [n, kept].
    """
    pool, kept, replacement = settings["pool"], settings["kept"], settings["replacement"]
    sequences = scalar_problem(settings["inputs"], settings["tokens"])
    every = [_every_index(pool, m, replacement) for m in kept]
    measured = np.empty((2, len(replicates), len(kept)))
    for row, replicate in enumerate(replicates):
        source = replicates.stream.child(replicate)
        theta = scalar_heads("normal", source.child("heads"), pool).double()
        values = head_values(scalar_softmax(), theta, sequences)[..., 0].numpy()
        spread = values.var(0, ddof=1).sum()
        sampled = _sampled_indices(source.child("subsets"), pool, kept, settings["samples"], replacement)
        for which, indices in enumerate((every, sampled)):
            for rung, (m, index) in enumerate(zip(kept, indices, strict=True)):
                deviation = values[index].mean(1) - values.mean(0)
                measured[which, row, rung] = np.square(deviation).sum(1).mean() / ((1 / m - 1 / pool) * spread)
    return {"all_subsets": measured[0], "sampled": measured[1]}


def _every_index(pool: int, m: int, replacement: bool) -> np.ndarray:
    """All ways [count, m] to keep m of the pool's particles: combinations, or tuples under replacement."""
    if replacement:
        return np.array(list(itertools.product(range(pool), repeat=m)))
    return np.array(list(itertools.combinations(range(pool), m)))


def _sampled_indices(
    source: Stream, pool: int, kept: tuple[int, ...], samples: int, replacement: bool
) -> list[np.ndarray]:
    """Indices [samples, m] of randomly kept particles for each m of `kept`."""
    generator = source.numpy()
    if replacement:
        return [generator.integers(pool, size=(samples, m)) for m in kept]
    shuffled = generator.permuted(np.broadcast_to(np.arange(pool), (samples, pool)), axis=1)
    return [shuffled[:, :m] for m in kept]
