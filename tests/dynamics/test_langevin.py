"""simulate: each scheme is its formula, path by path; batches, tiles and recording change no number.

Statistical tests here fail falsely with probability 1e-6 each (exact chi-square intervals).
"""

from __future__ import annotations

import math
from collections.abc import Callable

import pytest
import torch
from scipy import stats
from torch import Tensor

from mfcheck import risks
from mfcheck.dynamics import drift as drift_module
from mfcheck.dynamics import langevin as langevin_module
from mfcheck.dynamics.brownian import BrownianPath
from mfcheck.dynamics.langevin import SCHEMES, Drift, Trajectory, simulate
from mfcheck.dynamics.schedules import linear
from mfcheck.errors import InputError
from mfcheck.functional import velocity
from mfcheck.measure import Measure
from mfcheck.statistics.seeds import stream

ALPHA = 1e-6
EPS = 2.0**-52
needs_cuda = pytest.mark.skipif(not torch.cuda.is_available(), reason="torch sees no CUDA device here")


def start(*shape: int, dtype: torch.dtype = torch.float64) -> Tensor:
    return torch.randn(*shape, generator=torch.Generator().manual_seed(5), dtype=torch.float64).to(dtype)


def network(p: int) -> risks.FeatureRisk:
    generator = torch.Generator().manual_seed(6)
    inputs, targets = torch.randn(32, p, generator=generator), torch.randn(32, generator=generator)
    return risks.two_layer_network(inputs, targets, weight_decay=0.1)


def nothing(theta: Tensor, s: float) -> Tensor:
    return torch.zeros_like(theta)


def chi_square_interval(n: int) -> tuple[float, float]:
    """Where (sum of n squares) / (n variance) of independent centred Gaussians lies, but for 1e-6."""
    low, high = stats.chi2.ppf([ALPHA / 2, 1 - ALPHA / 2], n)
    return low / n, high / n


def textbook(
    risk: risks.FeatureRisk, theta: Tensor, path: BrownianPath, scheme: str, betas: list[float], eta: float
) -> Tensor:
    """The schemes as the literature writes them, from a path's increments."""
    increments = path.increments(0, len(betas) + 1, replicates=theta.shape[0])
    for k, beta in enumerate(betas):
        here = velocity(risk, Measure.uniform(theta))
        noise = math.sqrt(2 * beta) * increments[:, k]
        if scheme == "euler_maruyama":
            theta = theta + eta * here + noise
        elif scheme == "heun":
            there = velocity(risk, Measure.uniform(theta + eta * here + noise))
            theta = theta + eta * (here + there) / 2 + noise
        else:
            theta = theta + eta * here + math.sqrt(2 * beta) * (increments[:, k] + increments[:, k + 1]) / 2
    return theta


def rounding(theta: Tensor, steps: int) -> float:
    """Two ways of writing a step differ by a few roundings of the state a step; the drifts here grow nothing (eta L < 1
    on the states reached), so that they add up: 16 per step is twice what the longest step has."""
    return 16 * steps * torch.finfo(theta.dtype).eps * float(theta.abs().max() + 1)


@pytest.mark.parametrize("scheme", SCHEMES)
@pytest.mark.parametrize("risk", [risks.double_well(), risks.desai_zwanzig(), network(2)], ids=lambda r: r.name)
def test_each_scheme_is_its_formula(risk: risks.FeatureRisk, scheme: str) -> None:
    initial = start(3, 20, 2)
    path = BrownianPath(stream(0, "formula"), 0.05, (20, 2))
    schedule = linear(0.5, 0.1, 10)
    got = simulate(risk, initial, beta=schedule, step=0.05, steps=12, scheme=scheme, noise=path).final
    expected = textbook(risk, initial, path, scheme, schedule.betas(12), 0.05)
    assert float((got - expected).abs().max()) <= rounding(expected, 12)


@pytest.mark.parametrize("scaling", ["mean_field", "raw"])
def test_the_injected_variance_is_2_beta_eta_steps(scaling: str) -> None:
    final = simulate(
        Drift(nothing),
        torch.zeros(2, 50_000, 1),
        beta=0.3,
        step=0.1,
        steps=20,
        scaling=scaling,
        seed=stream(0, "variance"),
    ).final
    low, high = chi_square_interval(final.numel())
    assert low < float(final.double().square().mean()) / (2 * 0.3 * 0.1 * 20) < high


@pytest.mark.parametrize("replicates", [1, 3])
@pytest.mark.parametrize("shape", [(1, 1), (40, 3), (5001, 1), (1667, 3)])
def test_the_noise_that_a_run_adds_is_its_path_s(
    shape: tuple[int, int], replicates: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    # tiles, groups and whole replicates read the path in different ways; increments() is yet another
    monkeypatch.setattr(langevin_module, "TILE", 4096)
    path = BrownianPath(stream(0, "path", *shape), 0.5, shape)
    flat = risks.FeatureRisk("flat", potential=lambda x: x.sum(-1), potential_gradient=torch.zeros_like)
    expected = path.increments(0, 3, replicates=replicates).sum(1)
    for drift in (flat, Drift(nothing)):
        zero = torch.zeros(replicates, *shape, dtype=torch.float64)
        final = simulate(drift, zero, beta=0.5, step=0.5, steps=3, noise=path).final
        assert float((final - expected).abs().max()) <= rounding(expected, 3)


def test_step_k_uses_beta_k() -> None:
    path = BrownianPath(stream(0, "schedule"), 0.1, (5, 1))
    schedule = linear(0.5, 0.0, 6)
    run = simulate(
        Drift(nothing),
        torch.zeros(1, 5, 1, dtype=torch.float64),
        beta=schedule,
        step=0.1,
        steps=8,
        noise=path,
        record=1,
        observables={"theta": lambda theta: theta},
    )
    jumps = torch.diff(run.observables["theta"], dim=0, prepend=torch.zeros(1, 1, 5, 1, dtype=torch.float64))
    expected = path.increments(0, 8)[0]
    expected *= torch.tensor([math.sqrt(2 * schedule(k)) for k in range(8)], dtype=torch.float64)[:, None, None]
    assert torch.allclose(jumps[:, 0], expected, rtol=0, atol=16 * 8 * EPS)
    assert run.exposure == pytest.approx(0.1 * schedule.total(8), rel=4 * EPS)


@pytest.mark.parametrize("scheme", SCHEMES)
@pytest.mark.parametrize(
    "risk",
    [
        risks.double_well(),
        risks.desai_zwanzig(),
        lambda m: m.integrate(lambda x: torch.log(torch.cosh(2 * x)).sum(-1)) + m.mean().square().sum(-1),
    ],
    ids=["linear", "features", "callable"],
)
def test_raw_is_mean_field_at_step_over_M_and_M_beta(risk: Callable, scheme: str) -> None:
    particles, eta, beta = 12, 0.3, 0.2
    initial = start(2, particles, 1)
    raw = simulate(risk, initial, beta=beta, step=eta, steps=40, scheme=scheme, scaling="raw", seed=1).final
    mean_field = simulate(
        risk, initial, beta=particles * beta, step=eta / particles, steps=40, scheme=scheme, seed=1
    ).final
    assert float((raw - mean_field).abs().max()) <= rounding(raw, 40)
    unscaled = simulate(risk, initial, beta=beta, step=eta, steps=40, scheme=scheme, seed=1).final
    assert float((raw - unscaled).abs().max()) > 0.1


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
@pytest.mark.parametrize("scheme", SCHEMES)
@pytest.mark.parametrize(("particles", "replicates"), [(1, 1100), (7, 200), (3000, 3)])
@pytest.mark.parametrize("risk", [risks.quadratic(1.3), risks.desai_zwanzig()], ids=lambda r: r.name)
def test_a_replicate_alone_is_its_row_of_the_batch_bit_by_bit(
    risk: risks.FeatureRisk,
    particles: int,
    replicates: int,
    scheme: str,
    dtype: torch.dtype,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(langevin_module, "TILE", 4096)  # several groups of replicates, several tiles of the 3000
    initial = start(replicates, particles, 1, dtype=dtype)
    settings = {"beta": 0.4, "step": 0.05, "steps": 3, "scheme": scheme, "seed": stream(0, "batch")}
    batch = simulate(risk, initial, **settings).final
    for r in {0, replicates // 2, replicates - 1}:
        alone = simulate(risk, initial[r], first_replicate=r, **settings).final
        assert torch.equal(alone[0], batch[r])


@pytest.mark.parametrize("risk", [network(3), risks.quadratic([[2.0, 0.3], [0.3, 1.0]])], ids=lambda r: r.name)
def test_a_replicate_alone_is_its_row_up_to_the_rounding_of_matrix_products(risk: risks.FeatureRisk) -> None:
    # a BLAS chooses its kernel by the whole matrix' shape, and with it the order of the sums over p or K numbers
    p = 3 if risk.features else 2
    initial = start(9, 50, p)
    batch = simulate(risk, initial, beta=0.4, step=0.05, steps=10, seed=1).final
    alone = simulate(risk, initial[4], beta=0.4, step=0.05, steps=10, seed=1, first_replicate=4).final
    assert float((alone[0] - batch[4]).abs().max()) <= rounding(batch, 10)


def test_noise_that_is_off_draws_none_and_contracts_exactly() -> None:
    initial = start(2, 50, 1)
    for scheme, factor in [("euler_maruyama", 1 - 0.2), ("heun", 1 - 0.2 + 0.02), ("leimkuhler_matthews", 1 - 0.2)]:
        final = simulate(risks.quadratic(2.0), initial, beta=0.0, step=0.1, steps=50, scheme=scheme).final
        assert torch.allclose(final, initial * factor**50, rtol=4 * 50 * EPS, atol=0)


@pytest.mark.parametrize("eta", [0.25, 0.75])
@pytest.mark.parametrize(
    ("scheme", "law"),
    [
        ("euler_maruyama", lambda a, eta: 1 / (a * (1 - a * eta / 2))),
        ("leimkuhler_matthews", lambda a, eta: 1 / a),
        # x' = (1 - z + z^2/2) x + (1 - z/2) sqrt(2 beta eta) xi, z = a eta
        ("heun", lambda a, eta: 2 * eta * (1 - a * eta / 2) ** 2 / (1 - (1 - a * eta + (a * eta) ** 2 / 2) ** 2)),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)
def test_the_stationary_variance_on_a_quadratic_is_the_scheme_s_own(scheme: str, law: Callable, eta: float) -> None:
    a, beta = 2.0, 0.6
    # burn-in: the start's share of the variance is at most (1 - z + z^2/2)^(2 k) = .625^50 < 1e-10
    final = simulate(
        risks.quadratic(a), torch.zeros(1, 200_000, 1), beta=beta, step=eta, steps=25, scheme=scheme, seed=3
    ).final
    low, high = chi_square_interval(final.numel())
    assert low < float(final.double().square().mean()) / (beta * law(a, eta)) < high


def test_strong_order_1_on_one_brownian_path() -> None:
    """Coarse and fine Euler-Maruyama on an Ornstein-Uhlenbeck process differ by a Gaussian of known variance."""
    a, beta, finest, horizon, ratio = 1.0, 0.5, 1 / 64, 2.0, 2
    count = 20_000
    initial = torch.zeros(1, count, 1, dtype=torch.float64)
    path = BrownianPath(stream(0, "strong"), finest, (count, 1))
    exact = []
    low, high = chi_square_interval(count)
    for factor in (1, 2, 4, 8):
        fine, coarse = path.coarsen(factor), path.coarsen(factor * ratio)
        h, steps = fine.step, round(horizon / coarse.step)
        x = simulate(risks.quadratic(a), initial, beta=beta, step=h, steps=2 * steps, noise=fine).final
        y = simulate(risks.quadratic(a), initial, beta=beta, step=2 * h, steps=steps, noise=coarse).final
        # per coarse step: x <- (1-ah)^2 x + s ((1-ah) u + v), y <- (1-2ah) y + s (u + v), u and v of variance h
        q, r, s2 = (1 - a * h) ** 2, 1 - 2 * a * h, 2 * beta * h
        xx = xy = yy = 0.0
        for _ in range(steps):
            xx, xy, yy = q * q * xx + s2 * (q + 1), q * r * xy + s2 * (2 - a * h), r * r * yy + 2 * s2
        exact.append(xx - 2 * xy + yy)
        assert low < float((x - y).square().mean()) / exact[-1] < high
    slopes = [math.log2(exact[i + 1] / exact[i]) / 2 for i in range(3)]
    # the exact errors' local slopes are 1 + O(a h); the largest h is 1/4
    assert all(abs(slope - 1) < 0.2 for slope in slopes) and abs(slopes[0] - 1) < abs(slopes[2] - 1)


@pytest.mark.parametrize(("scheme", "order"), [("euler_maruyama", 1), ("heun", 2)])
def test_weak_order_on_a_quadratic(scheme: str, order: int) -> None:
    """Mean and variance of one step are read off the code without noise error; iterated, they give the weak error."""
    a, beta, horizon = 1.0, 0.5, 1.0
    errors = []
    for eta in (1 / 8, 1 / 16, 1 / 32, 1 / 64):
        # the step is affine in (theta, xi): its slope in theta from beta = 0, its slope in xi from theta = 0
        points = torch.tensor([[[0.0], [1.0]]], dtype=torch.float64)
        decay = torch.diff(
            simulate(risks.quadratic(a), points, beta=0.0, step=eta, steps=1, scheme=scheme).final[0, :, 0]
        )
        path = BrownianPath(1, eta, (2, 1))
        kicked = simulate(risks.quadratic(a), 0 * points, beta=beta, step=eta, steps=1, scheme=scheme, noise=path).final
        kick = float((kicked / path.increments(0, 1)[0])[0, 0, 0])
        variance = 0.0
        for _ in range(round(horizon / eta)):
            variance = float(decay) ** 2 * variance + kick**2 * eta
        errors.append(abs(variance - beta / a * (1 - math.exp(-2 * a * horizon))))
    slopes = [math.log2(errors[i] / errors[i + 1]) for i in range(3)]
    assert abs(slopes[-1] - order) < 0.05  # the next term is O(eta) relative, eta = 1/64


@pytest.mark.parametrize("scheme", SCHEMES)
def test_recorded_observables_are_those_of_the_kept_path(scheme: str) -> None:
    risk, initial = risks.desai_zwanzig(), start(3, 10, 2)
    settings = {"beta": 0.3, "step": 0.1, "scheme": scheme, "seed": stream(0, "record")}
    kept = [initial, *(simulate(risk, initial, steps=k, **settings).final for k in range(1, 9))]
    observables = {"theta": lambda theta: theta, "mean": lambda theta: theta.mean(1)}
    run = simulate(risk, initial, steps=8, record=[0, 3, 7], observables=observables, **settings)
    assert torch.equal(run.observables["theta"], torch.stack([kept[0], kept[3], kept[7]]))
    assert torch.equal(run.observables["mean"], torch.stack([kept[k].mean(1) for k in (0, 3, 7)]))
    assert torch.equal(run.final, kept[8])
    assert run.times.tolist() == [0.0, 3 * 0.1, 7 * 0.1]
    every = simulate(risk, initial, steps=8, record=3, observables=observables, **settings)
    assert torch.equal(every.observables["theta"], torch.stack([kept[3], kept[6]]))
    end = simulate(risk, initial, steps=8, observables=observables, **settings)
    assert torch.equal(end.observables["theta"][0], end.final) and end.times.tolist() == [0.8]


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
@pytest.mark.parametrize("scheme", SCHEMES)
@pytest.mark.parametrize(("particles", "p"), [(5001, 1), (1667, 3), (2000, 70)])
def test_tiles_of_particles_change_no_number(
    particles: int, p: int, scheme: str, dtype: torch.dtype, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(langevin_module, "TILE", 4096)
    initial = start(1, particles, p, dtype=dtype)
    risk = risks.double_well()
    settings = {"beta": 0.4, "step": 0.05, "steps": 3, "scheme": scheme, "seed": stream(0, "tiles")}
    whole = simulate(Drift(lambda theta, s: -risk.gradient(theta, None)), initial, **settings).final
    assert torch.equal(simulate(risk, initial, **settings).final, whole)


@pytest.mark.parametrize("limit", ["FEATURES_AT_ONCE", "FEATURES_KEPT"])
@pytest.mark.parametrize("risk", [network(2), risks.desai_zwanzig()], ids=lambda r: r.name)
def test_chunks_of_features_change_the_drift_by_rounding(
    risk: risks.FeatureRisk, limit: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    theta = start(3, 501, 2)
    count = risk.features(theta).shape[-1]
    whole = drift_module.feature_gradient(risk, theta, count)
    monkeypatch.setattr(drift_module, limit, 64 * count if limit == "FEATURES_AT_ONCE" else 1)
    # sums over M particles in another order: at most M roundings of the sum of absolute values, most far fewer
    assert torch.allclose(drift_module.feature_gradient(risk, theta, count), whole, rtol=1e-12, atol=501 * EPS)
    assert torch.allclose(whole, -velocity(risk, Measure.uniform(theta)), rtol=1e-12, atol=501 * EPS)


def dz_batched(measure: Measure) -> Tensor:
    points, kappa = measure.points, 1.0
    square = points * points
    inner = (square * square / 4 + 0.5 * (kappa - 1) * square).sum(-1)
    return (measure.weights * inner).sum(-1) - 0.5 * kappa * measure.mean().square().sum(-1)


def dz_one_by_one(measure: Measure) -> Tensor:
    return dz_batched(Measure(measure.points.reshape(-1, 1), measure.weights.reshape(-1)))


def dz_looks_at_values(measure: Measure) -> Tensor:
    assert measure.points.abs().max().item() < 100
    return dz_one_by_one(measure)


@pytest.mark.parametrize("own", [dz_batched, dz_one_by_one, dz_looks_at_values])
@pytest.mark.parametrize("replicates", [1, 4])
def test_a_users_callable_runs_as_the_shipped_risk_does(own: Callable, replicates: int) -> None:
    initial = start(replicates, 30, 1)
    settings = {"beta": 0.3, "step": 0.1, "steps": 10, "seed": stream(0, "own")}
    shipped = simulate(risks.desai_zwanzig(), initial, **settings).final
    assert float((simulate(own, initial, **settings).final - shipped).abs().max()) <= rounding(shipped, 10)


def test_an_answer_of_shape_R_by_accident_is_not_taken_for_a_batch() -> None:
    def mixes(measure: Measure) -> Tensor:  # sums over the FIRST axis: right for one replicate, wrong for a batch
        return (
            (measure.points.square().mean(0) * 1.0).sum()
            if measure.points.ndim == 2
            else measure.points.mean((1, 2)).sum().expand(2)
        )

    initial = start(2, 10, 1)
    expected = simulate(risks.quadratic(2.0), initial, beta=0.1, step=0.1, steps=3).final
    assert float((simulate(mixes, initial, beta=0.1, step=0.1, steps=3).final - expected).abs().max()) <= rounding(
        expected, 3
    )


def test_a_drift_sees_the_time_of_its_evaluation() -> None:
    zero = torch.zeros(1, 2, 1, dtype=torch.float64)
    clock = Drift(lambda theta, s: torch.full_like(theta, s))
    euler = simulate(clock, zero, beta=0.0, step=0.25, steps=8).final
    heun = simulate(clock, zero, beta=0.0, step=0.25, steps=8, scheme="heun").final
    assert torch.equal(euler, torch.full_like(zero, 0.25**2 * 28))  # sums of multiples of 1/16: exact
    assert torch.equal(heun, torch.full_like(zero, 2.0**2 / 2))


def test_the_pde_driven_process_shares_the_noise() -> None:
    """Synchronous coupling: E|theta_i - theta_bar_i|^2 is O(1/M), with independent noises it is O(1)."""
    a, kappa, particles = 1.0, 3.0, 200
    initial = start(20, particles, 1)
    settings = {"beta": 0.5, "step": 0.05, "steps": 60}
    bar = Drift(lambda theta, s: -(a + kappa) * theta)  # the PDE's mean is 0 at all times but for the start's own
    system = simulate(risks.linear_attraction(a, kappa), initial, seed=1, **settings).final
    coupled = simulate(bar, initial, seed=1, **settings).final
    independent = simulate(bar, initial, seed=2, **settings).final
    # the mean is near stationary: theta_i - theta_bar_i is at most kappa/(a+kappa) of it, of variance beta/(a M)
    assert float((system - coupled).square().mean()) < 4 * 0.5 / (a * particles)
    assert float((system - independent).square().mean()) > 0.1  # 2 beta / (a + kappa) = .25


def test_a_system_of_2M_and_its_halves_read_the_same_noise() -> None:
    path = BrownianPath(stream(0, "halves"), 0.1, (64, 1))
    initial = start(3, 64, 1)
    run = {"beta": 0.4, "step": 0.1, "steps": 5}
    whole = simulate(risks.quadratic(1.0), initial, noise=path, **run).final
    for chosen in (slice(0, 32), slice(32, 64)):
        half = simulate(risks.quadratic(1.0), initial[:, chosen], noise=path.particles(chosen), **run).final
        assert torch.equal(half, whole[:, chosen])


def test_shared_noise_moves_all_particles_together() -> None:
    path = BrownianPath(1, 0.1, (6, 2), shared=True)
    moved = simulate(Drift(nothing), torch.zeros(2, 6, 2), beta=0.4, step=0.1, steps=5, noise=path).final
    assert torch.equal(moved, moved[:, :1].expand_as(moved)) and not torch.equal(moved[0], moved[1])


def test_initial_state_stays_and_the_dtype_and_one_replicate_are_kept() -> None:
    for dtype in (torch.float32, torch.float64):
        initial = start(8, 2, dtype=dtype)
        copy = initial.clone()
        run = simulate(risks.quadratic(1.0), initial, beta=0.1, step=0.1, steps=2)
        assert isinstance(run, Trajectory) and run.final.dtype == dtype and run.final.shape == (1, 8, 2)
        assert torch.equal(initial, copy)


def test_float32_noise_in_a_float64_state_is_the_float32_noise() -> None:
    state = torch.zeros(1, 5, 1, dtype=torch.float64)
    run = {"beta": 0.5, "step": 1.0, "steps": 1, "seed": 4}
    wide = simulate(Drift(nothing), state, **run).final
    assert torch.equal(wide.float(), simulate(Drift(nothing), state.float(), **run).final)
    assert not torch.equal(wide, simulate(Drift(nothing), state, noise_dtype=torch.float64, **run).final)


def test_an_overflow_is_a_sentence() -> None:
    with pytest.raises(InputError, match=r"no longer finite after step \d+.*smaller step"):
        simulate(risks.double_well(), torch.full((1, 3, 1), 50.0), beta=0.1, step=0.1, steps=1000)
    with pytest.raises(InputError, match="after step 20:"):
        simulate(risks.double_well(), torch.full((1, 3, 1), 50.0), beta=0.1, step=0.1, steps=1000, record=20)


BAD: list[tuple[dict, str]] = [
    ({"initial": [[1.0]]}, "torch tensor"),
    ({"initial": torch.zeros(3)}, "came as \\(3,\\)"),
    ({"initial": torch.zeros(0, 3, 1)}, "none of them 0"),
    ({"initial": torch.zeros(1, 3, 1, dtype=torch.int64)}, "int64"),
    ({"initial": torch.zeros(1, 3, 1, dtype=torch.float16)}, "float16"),
    ({"initial": torch.tensor([[[math.nan], [0.0]]])}, "finite; 1 of"),
    ({"beta": -0.1}, "beta"),
    ({"beta": math.nan}, "beta"),
    ({"beta": "hot"}, "beta"),
    ({"step": 0.0}, "step"),
    ({"step": -1.0}, "step"),
    ({"step": math.inf}, "step"),
    ({"steps": 0}, "steps"),
    ({"steps": 2.5}, "steps"),
    ({"steps": True}, "steps"),
    ({"scheme": "milstein"}, "euler_maruyama, heun, leimkuhler_matthews; it came as 'milstein'"),
    ({"scaling": "none"}, "mean_field, raw"),
    ({"seed": 1.5}, "seed"),
    ({"first_replicate": -1}, "first_replicate"),
    ({"record": 0}, "record"),
    ({"record": 6}, "record"),
    ({"record": [3, 2]}, "record"),
    ({"record": [6]}, "record"),
    ({"record": []}, "record"),
    ({"record": [1.5]}, "record"),
    ({"noise": 3}, "BrownianPath"),
    ({"noise": BrownianPath(1, 0.1, (4, 1))}, "\\(4, 1\\), the initial state \\(3, 1\\)"),
    ({"noise": BrownianPath(1, 0.2, (3, 1))}, "step 0.2, the run 0.1"),
    ({"noise": BrownianPath(1, 0.1, (3, 1)), "noise_dtype": torch.float64}, "float64"),
    ({"noise_dtype": torch.float16}, "float32 or float64"),
    ({"risk": 3}, "risk"),
    ({"risk": lambda m: m.points.sum(-1)}, "scalar"),
    ({"risk": lambda m: 1.0}, "tensor"),
    ({"risk": lambda m: m.mean().detach().sum()}, "differentiable"),
    ({"risk": risks.FeatureRisk("own", potential=lambda x: x)}, "own"),
    ({"risk": Drift(lambda theta, s: theta[0])}, "shape of theta"),
    ({"risk": Drift(lambda theta, s: theta.double())}, "dtype"),
    ({"risk": Drift(lambda theta, s: 0.0)}, "tensor"),
    ({"observables": {"total": lambda theta: theta.sum()}}, "'total'"),
    ({"observables": {"number": lambda theta: 1.0}}, "'number'"),
]


@pytest.mark.parametrize(("change", "says"), BAD, ids=[f"{i}-{next(iter(c))}" for i, (c, _) in enumerate(BAD)])
def test_bad_input_is_a_sentence(change: dict, says: str) -> None:
    settings = {"risk": risks.quadratic(1.0), "initial": torch.ones(2, 3, 1), "beta": 0.1, "step": 0.1, "steps": 5}
    settings |= change
    with pytest.raises(InputError, match=says):
        simulate(settings.pop("risk"), settings.pop("initial"), **settings)


@pytest.mark.gpu
@needs_cuda
@pytest.mark.parametrize("scheme", SCHEMES)
@pytest.mark.parametrize("risk", [risks.double_well(), network(2)], ids=lambda r: r.name)
def test_on_the_gpu_each_scheme_is_its_formula(risk: risks.FeatureRisk, scheme: str) -> None:
    initial = start(3, 20, 2).cuda()
    path = BrownianPath(stream(0, "gpu"), 0.05, (20, 2))
    got = simulate(risk, initial, beta=0.2, step=0.05, steps=12, scheme=scheme, noise=path)
    assert got.final.device.type == "cuda"
    increments = path.increments(0, 13, replicates=3, device="cuda").cpu()
    path_on_cpu = _Recorded(increments)
    expected = textbook(risk, initial.cpu(), path_on_cpu, scheme, [0.2] * 12, 0.05)  # type: ignore[arg-type]
    assert float((got.final.cpu() - expected).abs().max()) <= rounding(expected, 12)


class _Recorded:
    """Increments drawn on another device, in the place of a path."""

    def __init__(self, values: Tensor) -> None:
        self.values = values

    def increments(self, start: int, stop: int, replicates: int) -> Tensor:
        return self.values[:, start:stop]
