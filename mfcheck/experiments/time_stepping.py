"""Family D, the step size: contraction, the chain's own stationary law, strong and weak order, annealing (D4 to D8)."""

from __future__ import annotations

from collections.abc import Mapping
from decimal import Decimal, localcontext
from functools import lru_cache
from typing import Any

import numpy as np
import torch
from torch import Tensor

from mfcheck.dynamics import schedules
from mfcheck.dynamics.brownian import BrownianPath
from mfcheck.dynamics.exact import chain_law, chain_stationary_variance
from mfcheck.dynamics.fokker_planck import Grid, solve_fokker_planck
from mfcheck.dynamics.gaussian import gaussian
from mfcheck.dynamics.langevin import simulate
from mfcheck.dynamics.schedules import Schedule
from mfcheck.experiments.batches import in_batches
from mfcheck.experiments.diffusion import beta_for
from mfcheck.feature_risk import FeatureRisk
from mfcheck.measure import Measure
from mfcheck.replicates import Measurements, Replicates
from mfcheck.risks import quadratic


def contraction(settings: Mapping[str, Any], replicates: Replicates) -> Measurements:
    """D4: the relative error of theta_k against (1 - eta a)^k theta_0 without noise, in float64.

    settings: curvature a, contractions (a eta, one a run), steps (k, one a run), particles M, scaling, and
    differentiated_steps: that many steps are also made with the same risk as a plain callable, which goes through
    automatic differentiation. Returns error [1, runs], the largest over particles and both risks.
    """
    a = settings["curvature"]
    shipped = quadratic(a)
    start = torch.linspace(0.5, 2.0, settings["particles"], dtype=torch.float64)[None, :, None]
    worst = []
    for contracted, steps in zip(settings["contractions"], settings["steps"], strict=True):
        step, few = contracted / a, min(steps, settings["differentiated_steps"])
        errors = [
            simulate(risk, start, beta=0.0, step=step, steps=k, scaling=settings["scaling"]).final
            / start
            / exact_contraction(a, step, k)
            - 1
            for risk, k in ((shipped, steps), (lambda measure: shipped(measure), few))
        ]
        worst.append(max(float(error.abs().max()) for error in errors))
    return {"error": np.array([worst])}


def exact_contraction(a: float, step: float, steps: int) -> float:
    """(1 - eta a)^k of the doubles a and eta, correctly rounded: a power of the rounded 1 - eta a is k eps/2 off."""
    with localcontext() as context:
        # 40 digits lose at most k 1e-40 by the power; the product of two doubles needs up to 107 for exactness
        context.prec = 120
        return float((1 - Decimal(step) * Decimal(a)) ** steps)


@in_batches(32)
def stationary_variance(settings: Mapping[str, Any], replicates: Replicates) -> Measurements:
    """D5: sums of squares of Euler-Maruyama chains on a quadratic after burn-in, over a predicted variance.

    settings: curvature a, contractions (a eta), beta, chains a replicate, remainder (the start at 0 is forgotten but
    for this share of the variance), predicted: "chain" (beta / (a (1 - a eta / 2))) or "Gibbs" (beta / a).
    Returns sum_of_squares [n, contractions] and degrees [n].
    """
    a, beta = settings["curvature"], settings["beta"]
    columns = []
    for contracted in settings["contractions"]:
        step = contracted / a
        final = simulate(
            quadratic(a),
            torch.zeros(len(replicates), settings["chains"], 1, device=replicates.device),
            beta=beta,
            step=step,
            steps=burn_in(contracted, settings["remainder"]),
            seed=replicates.stream.child(contracted),
            first_replicate=replicates.start,
        ).final
        gibbs = settings["predicted"] == "Gibbs"
        expected = beta / a if gibbs else chain_stationary_variance(a, beta=beta, step=step)
        columns.append(final.double().square().sum((1, 2)).cpu().numpy() / expected)
    return {"sum_of_squares": np.stack(columns, -1), "degrees": np.full(len(replicates), settings["chains"])}


def burn_in(contracted: float, remainder: float) -> int:
    """The steps k after which a chain from 0 lacks at most `remainder` of its variance: |1 - a eta|^(2k)."""
    factor = abs(1 - contracted)
    return 1 if factor == 0 else int(np.ceil(np.log(remainder) / (2 * np.log(factor))))


#: U(x) = x^2/2 - cos(2x)/2, so that U' = x + sin 2x is Lipschitz and not linear, as the theorems on order ask.
RIPPLED = FeatureRisk(
    "rippled quadratic",
    potential=lambda x: (0.5 * x.square() - 0.5 * torch.cos(2 * x)).sum(-1),
    potential_gradient=lambda x: x + torch.sin(2 * x),
)


@in_batches(32)
def coupled_steps(settings: Mapping[str, Any], replicates: Replicates) -> Measurements:
    """D6: Euler-Maruyama with several steps against a fine run on the same Brownian path, at time 1.

    A replicate is `paths` independent paths from N(start_mean, start_variance). settings: inverse_steps (1/eta, each
    divides 1/eta_ref, coarsest first), inverse_reference (1/eta_ref), beta, amplitude and reference_amplitude (keys of
    AMPLITUDES: of the coarse runs and of the fine one), anchor_paths: further paths on the coarsest step alone.
    Returns strong [n, steps]: E |theta_eta - theta_ref|; weak [n, steps]: E theta_eta^2 - E theta_ref^2; and
    second_moment [n]: E theta_ref^2, as the many coarse paths' less the coupled difference (two levels: Giles 2008),
    which costs less than as many fine paths.
    """
    n, paths, beta = len(replicates), settings["paths"], settings["beta"]
    finest, coarsest = settings["inverse_reference"], settings["inverse_steps"][0]
    path = BrownianPath(replicates.stream.child("path"), 1.0 / finest, (paths, 1))
    start = _rippled_start(settings, replicates, paths, "start")

    def final(start: Tensor, inverse_step: int, amplitude: str, noise: BrownianPath) -> Tensor:
        return simulate(
            RIPPLED,
            start,
            beta=beta_for(amplitude, beta, 1.0 / inverse_step),
            step=1.0 / inverse_step,
            steps=inverse_step,
            noise=noise,
            first_replicate=replicates.start,
        ).final.reshape(n, -1)

    reference = final(start, finest, settings["reference_amplitude"], path)
    strong, weak = [], []
    for inverse_step in settings["inverse_steps"]:
        coarse = final(start, inverse_step, settings["amplitude"], path.coarsen(finest // inverse_step))
        strong.append((coarse - reference).abs().mean(1))
        weak.append((coarse.square() - reference.square()).mean(1))
    many = settings["anchor_paths"]
    other = BrownianPath(replicates.stream.child("anchor"), 1.0 / coarsest, (many, 1))
    # float32 is enough for a mean that nothing is subtracted from path by path
    anchor = final(
        _rippled_start(settings, replicates, many, "anchor start").float(), coarsest, settings["amplitude"], other
    ).double()
    return {
        "strong": torch.stack(strong, -1).cpu().numpy(),
        "weak": torch.stack(weak, -1).cpu().numpy(),
        "second_moment": (anchor.square().mean(1) - weak[0]).cpu().numpy(),
    }


def _rippled_start(settings: Mapping[str, Any], replicates: Replicates, paths: int, name: str) -> Tensor:
    """`paths` draws of N(start_mean, start_variance) for each replicate, [n, paths, 1] in float64."""
    generators = [replicates.stream.child(name, index).torch() for index in replicates]
    draws = torch.stack([torch.randn(paths, 1, dtype=torch.float64, generator=one) for one in generators])
    return (settings["start_mean"] + settings["start_variance"] ** 0.5 * draws).to(replicates.device)


@lru_cache
def rippled_second_moment(start_mean: float, start_variance: float, beta: float) -> tuple[float, float]:
    """D6's anchor: E theta^2 at time 1 by the Fokker-Planck equation of RIPPLED, and its error bar.

    The bar: the solution's L1 bar times half the box's largest theta^2 (masses of sum 1 on both sides).
    """
    half_box = 6.0  # ten standard deviations of the law at any time: U >= theta^2/2 - 1/2
    solution = solve_fokker_planck(
        RIPPLED,
        gaussian(start_mean, start_variance).density,
        Grid(bounds=[(-half_box, half_box)]),
        beta=beta,
        times=[1.0],
        tolerance=1e-6,
    )
    law: Measure = solution.measure()
    return float(law.integrate(lambda x: x.square().sum(-1))), float(solution.error[-1]) * half_box**2 / 2


@in_batches(40)
def annealing(settings: Mapping[str, Any], replicates: Replicates) -> Measurements:
    """D8: the gap E U(theta) - min U on a quadratic at constant beta, and after annealing from there.

    A replicate is `chains` chains at constant beta from 0, of which the first `annealed` go on under each schedule of
    `schedules` for `steps` steps: "linear" to 0, "logarithmic", or "constant". settings: also curvatures a_i, step,
    beta, remainder (as D5's), record_every, predicted: of the plateau, "chain" (`plateau`) or "Gibbs" (p beta / 2).
    Returns plateau [n] and its plateau_ratio [n] to the prediction; gap [n, schedules]; curves [n, schedules, times],
    the gap on the way.
    """
    risk = quadratic(settings["curvatures"])
    step, beta = settings["step"], settings["beta"]
    p = len(settings["curvatures"])
    settled = simulate(
        risk,
        torch.zeros(len(replicates), settings["chains"], p, device=replicates.device),
        beta=beta,
        step=step,
        steps=burn_in(min(settings["curvatures"]) * step, settings["remainder"]),
        seed=replicates.stream.child("plateau"),
        first_replicate=replicates.start,
    ).final

    def gap(theta: Tensor) -> Tensor:
        return risk(Measure.uniform(theta.double()))

    curves = [
        simulate(
            risk,
            settled[:, : settings["annealed"]],
            beta=_annealed(name, beta, settings["steps"]),
            step=step,
            steps=settings["steps"],
            seed=replicates.stream.child("annealing", name),
            first_replicate=replicates.start,
            observables={"gap": gap},
            record=range(0, settings["steps"] + 1, settings["record_every"]),
        ).observables["gap"]
        for name in settings["schedules"]
    ]
    stacked = torch.stack(curves, 0).permute(2, 0, 1).cpu().numpy()
    level = gap(settled).cpu().numpy()
    gibbs = settings["predicted"] == "Gibbs"
    expected = 0.5 * p * beta if gibbs else plateau(settings["curvatures"], beta=beta, step=step)
    return {"plateau": level, "plateau_ratio": level / expected, "gap": stacked[:, :, -1], "curves": stacked}


def plateau(curvatures: tuple[float, ...], *, beta: float, step: float) -> float:
    """sum_i beta / (2 (1 - a_i eta / 2)): the stationary gap of Euler-Maruyama on the quadratic above its minimum."""
    return sum(0.5 * a * chain_stationary_variance(a, beta=beta, step=step) for a in curvatures)


def annealed_gap(curvatures: tuple[float, ...], *, beta: float, step: float, steps: int, schedule: str) -> float:
    """The gap after annealing from the plateau, exactly: the chain's own law under the schedule's beta_k."""
    betas = _annealed(schedule, beta, steps).betas(steps)
    total = 0.0
    for a in curvatures:
        start = gaussian(0.0, chain_stationary_variance(a, beta=beta, step=step))
        total += 0.5 * a * chain_law(a, start, beta=betas, step=step, steps=steps).second_moment
    return total


def _annealed(name: str, beta: float, steps: int) -> Schedule:
    if name == "linear":
        return schedules.linear(beta, 0.0, steps)
    if name == "logarithmic":
        return schedules.logarithmic(beta)
    return schedules.constant(beta)
