"""Of what law the noise is: isotropic, Gaussian, independent across particles, coordinates and steps.

All five properties read the same run: two parameter tensors (one for a plain function) of 8 particles, without a
gradient, for a few steps. Everything is measured relative to the run's own variance, so that noise of a wrong size is
found by the properties that speak of its size, and by none of these. Standard errors of correlations are those of the
worst case that another property speaks of: for coordinates, all particles and steps having one draw; for particles, all
steps; for steps, all particles.
"""

from __future__ import annotations

import math
from dataclasses import replace
from functools import partial

import numpy as np
import torch
from jaxtyping import Float
from scipy import special
from torch import Tensor

from mfcheck.conformance.sampler_bench import Answer, Bench, Check, Inapplicable, Scenario, spread
from mfcheck.statistics.estimate import Estimate, kolmogorov_distance, largest_deviation, mean
from mfcheck.statistics.quotient import variance_quotient
from mfcheck.statistics.verdict import Region

PARTICLES, COORDINATES, STEPS = 8, 2**15, 4
#: Largest density of N(0, 1) times its place: how far a relative error of the scale moves its distribution function.
SCALE_TO_DISTANCE = 1 / math.sqrt(2 * math.pi * math.e)


def increments(bench: Bench) -> Float[Tensor, "K P M D"]:
    """The run's increments over their standard deviation, centred; made once."""
    if ("increments",) not in bench.kept:
        steps = bench.steps(STEPS, 3)
        # what an optimiser draws is spread over two tensors, what a function draws lies in one
        wide = bench.count(COORDINATES) * (2 // bench.tensors)
        theta = [bench.full((PARTICLES, max(64, wide))) for _ in range(bench.tensors)]
        moved = torch.stack([torch.stack(step) for step in bench.increments(("law",), theta, steps=steps)])
        centred = moved - moved.mean()
        scale = centred.std()
        if not scale > 0:
            raise Inapplicable("it adds no noise, so that there is no law of it")
        bench.kept[("increments",)] = [centred / scale]
    return bench.kept[("increments",)][0]


def noise_isotropic(bench: Bench) -> Answer:
    """Every particle, every parameter tensor and every coordinate gets noise of the same variance."""
    x = increments(bench)
    groups = [(f"particle {i}", x[:, :, i], torch.cat([x[:, :, :i], x[:, :, i + 1 :]], 2)) for i in range(x.shape[2])]
    if x.shape[1] > 1:
        groups.append(("second parameter tensor", x[:, 1], x[:, :1]))
    checks = [
        Check(
            f"variance of {name} / that of the others",
            partial(variance_quotient, spread(one), spread(others), 1.0),
            Region.around(1.0, relative=0.05),
        )
        for name, one, others in groups
    ]
    # two independent estimates of every coordinate's variance: the mean of their product is the variances' own spread
    squares = (x / x.std()).square().reshape(-1, x.shape[-1]).double().cpu().numpy()
    half = len(squares) // 2
    product = (squares[0::2][:half].mean(0) - 1) * (squares[1::2][:half].mean(0) - 1)
    checks.append(
        Check(
            "squared variation of the variance over coordinates",
            lambda level: mean(product, level),
            Region.at_most(0.005),
        )
    )
    return Answer(
        tuple(checks),
        scenario=Scenario("(theta - start).var(1) / (theta - start).var()", PARTICLES, steps=1),
    )


def noise_gaussian(bench: Bench) -> Answer:
    """The noise is Gaussian: its Kolmogorov distance to the normal law of its own variance, step by step."""
    x = increments(bench)
    # by each step's own deviation: noise that changes from step to step is another property's
    scaled = (x / x.flatten(1).std(1)[:, None, None, None]).cpu().numpy()

    def estimate(level: float) -> Estimate:
        rate = 1 - level
        distance = kolmogorov_distance(scaled, "norm", 1 - rate / 2)
        # deviations were estimated from the sample: their relative errors, at the other half of the rate, move the law
        each = special.ndtri(rate / 4 / len(scaled))
        moved = -SCALE_TO_DISTANCE * float(each) / math.sqrt(2 * scaled[0].size)
        return replace(distance, lower=max(0.0, distance.lower - moved), upper=distance.upper + moved, level=level)

    check = Check("Kolmogorov distance to the normal law", estimate, Region.at_most(0.005))
    return Answer(
        (check,),
        scenario=Scenario("((theta - start) / (theta - start).std()).pow(4).mean()  # 3 for Gaussian noise", steps=1),
    )


def independent_particles(bench: Bench) -> Answer:
    """No two particles share noise: correlations between the particles of a tensor."""
    x = increments(bench).movedim(2, 0).flatten(1)
    return Answer(
        (_pairs("largest correlation between two particles", x, shared=increments(bench).shape[0]),),
        scenario=Scenario("torch.corrcoef(theta - start)[0, 1]", 2),
    )


def independent_coordinates(bench: Bench) -> Answer:
    """No two coordinates share noise: correlations at every distance along a particle, and between two tensors."""
    x = increments(bench)
    rows = x.flatten(0, 2)
    width = rows.shape[-1]

    def along(values: Tensor) -> np.ndarray:
        """Averages of products at every distance, around the end, by a Fourier transform."""
        power = torch.fft.rfft(values).abs().square().mean(0)
        return (torch.fft.irfft(power, n=width) / width).cpu().numpy()[1 : width // 2 + 1]

    products, squares = along(rows), along(rows.square())
    # distances up to half the width: half the products at width/2 are the other half again
    counts = np.full(len(products), float(rows.numel()))
    counts[-1] /= 2
    deviations, variances = [products], [np.maximum(squares - products**2, 0.0) / counts]
    if x.shape[1] > 1:
        both = (x[:, 0] * x[:, 1]).flatten()
        deviations.append(np.array([float(both.mean())]))
        variances.append(np.array([float(both.var()) / both.numel()]))
    errors = np.sqrt(np.concatenate(variances) * x.shape[0] * x.shape[2])
    check = Check(
        "largest correlation between coordinates a distance apart",
        lambda level: largest_deviation(np.concatenate(deviations), errors, level, x.numel() // 2),
        Region.at_most(0.03),
    )
    return Answer(
        (check,),
        scenario=Scenario("((theta - start)[0, 1:] * (theta - start)[0, :-1]).mean() / (theta - start).var()"),
    )


def independent_steps(bench: Bench) -> Answer:
    """No two steps share noise: correlations between the steps of a run."""
    x = increments(bench).flatten(1)
    return Answer(
        (_pairs("largest correlation between two steps", x, shared=PARTICLES),),
        scenario=Scenario("(theta - start).var() / (2 * beta * eta * steps)", steps=2),
    )


def _pairs(name: str, rows: Float[Tensor, "k n"], shared: int) -> Check:
    """The largest correlation between two rows, with standard errors from the products' own squares.

    shared: how many of a row's numbers may be one and the same draw.
    """
    scaled = rows / rows.square().mean(1, keepdim=True).sqrt().clamp_min(1e-300)
    upper = torch.triu_indices(len(rows), len(rows), 1)
    count = rows.shape[1]
    products = (scaled @ scaled.T / count)[upper[0], upper[1]]
    squares = (scaled.square() @ scaled.square().T / count)[upper[0], upper[1]]
    errors = ((squares - products.square()).clamp_min(0.0) * shared / count).sqrt()
    return Check(
        name,
        lambda level: largest_deviation(products.cpu().numpy(), errors.cpu().numpy(), level, count),
        Region.at_most(0.04),
    )
