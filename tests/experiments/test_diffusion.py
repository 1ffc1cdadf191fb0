"""Family D's experiments: their formulas against independent computation, and their blocks against each other."""

import math
from collections.abc import Mapping
from fractions import Fraction
from itertools import pairwise
from typing import Any

import numpy as np
import pytest
import torch

from mfcheck.claim import Claim
from mfcheck.experiments import diffusion, time_stepping
from mfcheck.experiments.batches import in_batches
from mfcheck.measure import Measure
from mfcheck.replicates import Measurements, Replicates, concatenate
from mfcheck.statistics.seeds import stream
from paper_checks import claims_diffusion

#: The claims' settings with fewer samples.
FEW = {
    "D1": {"particles": 50},
    "D2": {"particles": 50},
    "D3": {"systems": 40},
    "D5": {"chains": 50},
    "D6": {"paths": 16, "anchor_paths": 20, "inverse_steps": (8, 16), "inverse_reference": 32},
    "D8": {"chains": 30, "annealed": 10, "steps": 20},
}


def _run(claim: Claim, start: int, stop: int, **changes: object) -> dict[str, np.ndarray]:
    settings = {**claim.settings, **FEW[claim.id], **changes}
    return dict(claim.experiment(settings, Replicates(stream(3, claim.id), start, stop)))


@pytest.mark.parametrize("claim", [c for c in claims_diffusion.CLAIMS if c.replicates], ids=lambda claim: claim.id)
def test_replicates_bought_in_two_looks_are_those_bought_in_one(claim: Claim) -> None:
    at_once = _run(claim, 0, 5)
    in_parts = concatenate([_run(claim, 0, 2), _run(claim, 2, 5)])
    assert set(at_once) == set(in_parts)
    for name, values in at_once.items():
        assert values.shape[0] == 5
        np.testing.assert_allclose(in_parts[name], values, rtol=1e-12)


@pytest.mark.parametrize("together", [1, 2, 3, 7])
def test_batches_change_nothing_and_are_no_larger_than_asked(together: int) -> None:
    sizes = []

    @in_batches(together)
    def numbers(settings: Mapping[str, Any], replicates: Replicates) -> Measurements:
        sizes.append(len(replicates))
        return {"number": np.array([replicates.stream.child(r).integer(32) for r in replicates])}

    whole = Replicates(stream(1), 4, 11)
    assert numbers({}, whole)["number"].tolist() == [stream(1).child(r).integer(32) for r in range(4, 11)]
    assert max(sizes) == together
    assert sum(sizes) == 7


@pytest.mark.parametrize("amplitude", diffusion.AMPLITUDES)
def test_beta_for_an_amplitude_makes_the_simulator_add_it(amplitude: str) -> None:
    beta, step = 0.3, 0.05
    by_hand = {
        "sqrt(2 beta eta)": math.sqrt(2 * 0.3 * 0.05),
        "sqrt(beta eta)": math.sqrt(0.3 * 0.05),
        "sqrt(2 beta) eta": math.sqrt(2 * 0.3) * 0.05,
    }
    assert math.sqrt(2 * diffusion.beta_for(amplitude, beta, step) * step) == pytest.approx(by_hand[amplitude])


@pytest.mark.parametrize("name", claims_diffusion.SCHEDULES)
@pytest.mark.parametrize("steps", [1, 2, 20])
def test_total_beta_is_the_sum_of_the_schedule(name: str, steps: int) -> None:
    settings = {"start": 0.01, "end": 0.001, "steps": steps, "offset": 2.0}
    summed = sum(diffusion._schedule(name, settings)(k) for k in range(steps))
    assert diffusion.total_beta(name, settings) == pytest.approx(summed, rel=1e-13)


@pytest.mark.parametrize("fault", ["final beta throughout", "shifted by one step"])
@pytest.mark.parametrize("name", claims_diffusion.ANNEALED)
def test_a_schedules_fault_moves_the_variance_by_more_than_the_margin(name: str, fault: str) -> None:
    settings = claims_diffusion.D2.settings
    steps = settings["steps"]
    faulty = diffusion._faulty(diffusion._schedule(name, settings), fault, steps)
    assert abs(faulty.total(steps) / diffusion.total_beta(name, settings) - 1) > 0.05


def test_shared_noise_correlates_particles_fully_and_coordinates_not() -> None:
    covariance = _run(claims_diffusion.D3, 0, 20, noise="shared")["covariance"].mean(0)
    assert covariance[0, 2] == pytest.approx(covariance[0, 0])
    assert abs(covariance[0, 1]) < 0.2


def test_increments_average_the_squares_that_their_standard_errors_need() -> None:
    measured = _run(claims_diffusion.D3, 0, 50)
    # independent standard normals: E (xi_i xi_j)^2 = 1, E xi_i^4 = 3
    squares = measured["covariance_squares"].mean(0)
    assert squares[0, 1] == pytest.approx(1.0, abs=0.15)
    assert squares[0, 0] == pytest.approx(3.0, abs=0.6)
    assert measured["covariance_count"].tolist() == [40 * 5] * 50
    assert measured["lag_one_count"].tolist() == [40 * 4] * 50


def test_exact_contraction_is_the_rational_power() -> None:
    a, step = 0.7, 0.005 / 0.7
    assert time_stepping.exact_contraction(a, step, 50) == float((1 - Fraction(step) * Fraction(a)) ** 50)


@pytest.mark.parametrize("contracted", [0.1, 0.6, 1.0, 1.5])
def test_burn_in_is_the_first_step_that_forgets_the_start(contracted: float) -> None:
    steps = time_stepping.burn_in(contracted, 1e-5)
    assert abs(1 - contracted) ** (2 * steps) <= 1e-5
    assert steps == 1 or abs(1 - contracted) ** (2 * (steps - 1)) > 1e-5


def test_the_ripples_gradient_is_that_of_its_potential() -> None:
    x = torch.linspace(-3, 3, 20, dtype=torch.float64)[:, None].requires_grad_(True)
    potential, gradient = time_stepping.RIPPLED.potential, time_stepping.RIPPLED.potential_gradient
    assert potential is not None and gradient is not None
    (by_differentiation,) = torch.autograd.grad(potential(x).sum(), x)
    torch.testing.assert_close(gradient(x.detach()), by_differentiation)


def test_the_pde_anchor_is_the_limit_of_the_chains_exact_law() -> None:
    mean, variance, beta = 1.0, 0.25, 0.5
    value, bar = time_stepping.rippled_second_moment(mean, variance, beta)
    # the chain's law by quadrature of its Gaussian kernel, with no particles and no finite volumes
    x = np.linspace(-6, 6, 601)
    moments = []
    for steps in (64, 128, 256):
        spread = 2 * beta / steps
        kernel = np.exp(-((x[:, None] - (x - (x + np.sin(2 * x)) / steps)) ** 2) / (2 * spread))
        kernel /= math.sqrt(2 * math.pi * spread) / (x[1] - x[0])
        law = np.exp(-((x - mean) ** 2) / (2 * variance))
        law /= law.sum()
        for _ in range(steps):
            law = kernel @ law
        moments.append(law @ x**2)
    # two Richardson steps leave O(eta^3): the last correction bounds what is left
    first = [2 * fine - coarse for coarse, fine in pairwise(moments)]
    limit = first[1] + (first[1] - first[0]) / 3
    assert abs(value - limit) < bar + abs(limit - first[1])
    assert bar < 1e-3 * value


def test_a_coarse_run_on_the_reference_step_has_no_error() -> None:
    measured = _run(claims_diffusion.D6, 0, 3, inverse_steps=(32,))
    assert np.all(measured["strong"] == 0)
    assert np.all(measured["weak"] == 0)


def test_plateau_and_annealed_gap_follow_the_variances_recursion() -> None:
    curvatures, beta, step, steps = (0.5, 4.0), 0.5, 0.05, 200
    variances = np.zeros(2)
    a = np.array(curvatures)
    for _ in range(2000):
        variances = (1 - a * step) ** 2 * variances + 2 * beta * step
    plateau = 0.5 * a @ variances
    assert time_stepping.plateau(curvatures, beta=beta, step=step) == pytest.approx(plateau)
    for schedule, betas in {
        "linear": [beta * (1 - k / steps) for k in range(steps)],
        "logarithmic": [beta * math.log(2) / math.log(2 + k) for k in range(steps)],
    }.items():
        gap = variances
        for b in betas:
            gap = (1 - a * step) ** 2 * gap + 2 * b * step
        predicted = time_stepping.annealed_gap(curvatures, beta=beta, step=step, steps=steps, schedule=schedule)
        assert predicted == pytest.approx(0.5 * a @ gap)


def test_the_gap_is_the_quadratics_value() -> None:
    measured = _run(claims_diffusion.D8, 0, 2, schedules=("constant",), steps=10)
    assert measured["curves"].shape == (2, 1, 2)
    assert measured["curves"][:, 0, -1] == pytest.approx(measured["gap"][:, 0])
    theta = torch.tensor([[[1.0, 2.0]]], dtype=torch.float64)
    assert float(time_stepping.quadratic((1.0, 3.0))(Measure.uniform(theta))) == pytest.approx(0.5 + 6.0)


def test_the_contraction_under_raw_scaling_is_off() -> None:
    settings = {**claims_diffusion.D4.settings, "contractions": (0.1,), "steps": (50,)}
    replicates = Replicates(stream(0), 0, 1)
    assert time_stepping.contraction(settings, replicates)["error"].max() < 1e-13
    assert time_stepping.contraction({**settings, "scaling": "raw"}, replicates)["error"].max() > 1.0
