"""Langevin does its base's step and adds the noise that it says, no more: parameters before and after are compared.

Statistical tests here fail falsely with probability 1e-6 each (exact chi-square intervals), and their seeds are fixed.
"""

from __future__ import annotations

import copy
import io
import math
import pickle
import warnings
from collections.abc import Callable
from typing import Any

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import stats
from torch import Tensor, nn, optim
from torch.nn import Parameter

import mfcheck
from mfcheck.attention import noise as noise_module
from mfcheck.attention.effective_step import known_effective_step
from mfcheck.attention.noise import add_noise
from mfcheck.attention.optim import Langevin
from mfcheck.attention.particles import ParticleAttention
from mfcheck.attention.records import QUANTILES
from mfcheck.dynamics.schedules import linear
from mfcheck.errors import InputError
from mfcheck.statistics.seeds import stream

needs_cuda = pytest.mark.skipif(not torch.cuda.is_available(), reason="torch sees no CUDA device here")
Base = Callable[..., optim.Optimizer]
BASES: dict[str, Base] = {
    "SGD": lambda params: optim.SGD(params, lr=0.05),
    "SGD, momentum": lambda params: optim.SGD(params, lr=0.05, momentum=0.9, weight_decay=0.1),
    "SGD, foreach": lambda params: optim.SGD(params, lr=0.05, foreach=True),
    "Adam": lambda params: optim.Adam(params, lr=0.05),
    "Adam, foreach": lambda params: optim.Adam(params, lr=0.05, foreach=True),
    "Adam, for loop": lambda params: optim.Adam(params, lr=0.05, foreach=False),
    "Adam, amsgrad": lambda params: optim.Adam(params, lr=0.05, amsgrad=True),
    "AdamW": lambda params: optim.AdamW(params, lr=0.05, weight_decay=0.1),
    "RMSprop": lambda params: optim.RMSprop(params, lr=0.05, centered=True),
    "Adagrad": lambda params: optim.Adagrad(params, lr=0.05, lr_decay=0.1),
    "Adamax": lambda params: optim.Adamax(params, lr=0.05),
}
#: Adamax stands for an optimiser whose effective step is not known. (NAdam cannot: torch itself loads its state with
#: mu_product in another precision, so that not even the bare optimiser resumes to the bit.)
KNOWN = [name for name in BASES if name != "Adamax"]


class Network(nn.Module):
    """A layer of particles between others, in float64: theta_after - theta_before then shows the noise to 1e-15."""

    def __init__(self, heads: int = 4) -> None:
        super().__init__()
        self.attention = ParticleAttention(8, heads, batch_first=True, dtype=torch.float64)
        self.norm = nn.LayerNorm(8, dtype=torch.float64)
        self.classifier = nn.Linear(8, 3, dtype=torch.float64)

    def forward(self, x: Tensor) -> Tensor:
        return self.classifier(self.norm(x + self.attention(x, x, x, need_weights=False)[0]).mean(1))


def network(heads: int = 4) -> Network:
    torch.manual_seed(0)
    return Network(heads)


def batch(k: int) -> tuple[Tensor, Tensor]:
    draws = torch.Generator().manual_seed(100 + k)
    x = torch.randn(6, 5, 8, generator=draws, dtype=torch.float64)
    return x, torch.randint(0, 3, (6,), generator=draws)


def backward(model: nn.Module, k: int, factor: float = 1.0) -> Tensor:
    x, y = batch(k)
    loss = nn.functional.cross_entropy(model(x), y) * factor
    loss.backward()
    return loss


def train(model: nn.Module, optimiser: optim.Optimizer, first: int, last: int) -> None:
    for k in range(first, last):
        optimiser.zero_grad()
        backward(model, k)
        optimiser.step()


def numbers(model: nn.Module) -> list[Tensor]:
    return [parameter.detach().clone() for parameter in model.parameters()]


def same(left: list[Tensor], right: list[Tensor]) -> bool:
    return all(torch.equal(a, b) for a, b in zip(left, right, strict=True))


def chi_square_interval(n: int) -> tuple[float, float]:
    low, high = stats.chi2.ppf([5e-7, 1 - 5e-7], n)
    return low / n, high / n


def step_with_and_without(base: Base, k: int = 0, **options: Any) -> tuple[Network, Network, Langevin]:
    """Two equal networks after k + 1 steps, which differ by the last step's noise alone, and the noisy one's."""
    bare = network()
    plain = base(bare.parameters())
    train(bare, plain, 0, k)
    noisy = copy.deepcopy(bare)
    copied = base(noisy.parameters())
    copied.load_state_dict(copy.deepcopy(plain.state_dict()))
    langevin = Langevin(copied, noisy.attention, **options)
    train(bare, plain, k, k + 1)
    train(noisy, langevin, k, k + 1)
    return bare, noisy, langevin


def added(bare: Network, noisy: Network) -> Tensor:
    pairs = zip(noisy.attention.particle_parameters(), bare.attention.particle_parameters(), strict=True)
    return torch.cat([(after - before).detach().flatten() for after, before in pairs])


def effective_steps(langevin: Langevin, model: Network) -> Tensor:
    """The effective steps of the particles' coordinates, from the function that the optimiser uses."""
    effective = known_effective_step(langevin.base)
    assert effective is not None
    steps = (
        effective(langevin.base, langevin.param_groups[0], parameter)
        for parameter in model.attention.particle_parameters()
    )
    sizes = [parameter.shape for parameter in model.attention.particle_parameters()]
    every = [torch.as_tensor(step, dtype=torch.float64).expand(size) for step, size in zip(steps, sizes, strict=True)]
    return torch.cat([step.flatten() for step in every])


@pytest.mark.parametrize("base", BASES)
def test_the_base_steps_all_and_the_noise_on_record_is_what_the_particles_got(base: str) -> None:
    bare, noisy, langevin = step_with_and_without(BASES[base], k=2, beta=0.3, seed=1)
    noise, (record,) = added(bare, noisy), langevin.records
    assert record.coordinates == len(noise) and (record.step, record.group) == (0, 0)
    assert record.noise_mean_square == pytest.approx(float(noise.square().mean()), rel=1e-12)
    assert record.noise_variance == pytest.approx(2 * 0.3 * 0.05, rel=1e-15)
    low, high = chi_square_interval(len(noise))
    assert low < record.noise_mean_square / record.noise_variance < high
    assert stats.kstest((noise / record.noise_variance**0.5).numpy(), "norm").pvalue > 1e-6
    for name, parameter in noisy.named_parameters():
        moved = "attention" in name and "out_bias" not in name
        assert torch.equal(parameter, bare.get_parameter(name)) != moved


@pytest.mark.parametrize("base", KNOWN)
def test_the_effective_step_on_record_is_the_one_the_base_made(base: str) -> None:
    model = network()
    plain = BASES[base](model.parameters())
    langevin = Langevin(plain, model.attention, beta=0.0)
    train(model, langevin, 0, 3)
    before = numbers(model)
    langevin.zero_grad()
    backward(model, 3)
    langevin.step()
    steps = []
    for parameter, earlier in zip(model.parameters(), before, strict=True):
        if not any(parameter is particle for particle in model.attention.particle_parameters()):
            continue
        group, state = plain.param_groups[0], plain.state[parameter]
        displacement = parameter.detach() - earlier
        if base == "AdamW":
            displacement = displacement + group["lr"] * group["weight_decay"] * earlier
        if "Adam" in base:
            # m_hat, what the effective step multiplies
            acted_on = state["exp_avg"] / (1 - group["betas"][0] ** float(state["step"]))
        elif base == "SGD, momentum":
            acted_on = state["momentum_buffer"]
        else:
            assert parameter.grad is not None
            acted_on = parameter.grad
        # the key bias has no gradient but rounding: it shifts all logits of a query alike
        seen = acted_on.abs() > 1e-6
        steps.append(torch.where(seen, -displacement / acted_on, torch.nan).flatten())
    measured, record = torch.cat(steps), langevin.records[-1]
    plainly = effective_steps(langevin, model)
    seen = ~measured.isnan()
    assert seen.float().mean() > 0.9
    torch.testing.assert_close(measured[seen], plainly[seen], rtol=1e-8, atol=0.0)
    assert record.effective_mean == pytest.approx(float(plainly.mean()), rel=1e-12)
    expected = torch.quantile(plainly, torch.tensor(QUANTILES, dtype=torch.float64))
    assert record.effective_quantiles == pytest.approx(expected.tolist(), rel=1e-12)


@pytest.mark.parametrize("base", KNOWN)
def test_preconditioned_noise_is_the_isotropic_draw_times_the_root_of_the_effective_step(base: str) -> None:
    bare, noisy, _ = step_with_and_without(BASES[base], k=2, beta=0.3, seed=1)
    isotropic = added(bare, noisy)
    bare, noisy, langevin = step_with_and_without(BASES[base], k=2, beta=0.3, seed=1, noise="preconditioned")
    steps = effective_steps(langevin, noisy)
    expected = isotropic * (steps / langevin.param_groups[0]["lr"]).sqrt()
    torch.testing.assert_close(added(bare, noisy), expected, rtol=1e-9, atol=1e-13)
    (record,) = langevin.records
    assert record.noise_variance == pytest.approx(2 * 0.3 * float(steps.mean()), rel=1e-12)
    assert record.noise_mean_square == pytest.approx(float(expected.square().mean()), rel=1e-9)


@pytest.mark.parametrize("base", BASES)
@pytest.mark.parametrize("scaling", ["raw", "mean_field"])
def test_at_beta_zero_nothing_is_drawn_and_raw_is_the_base_to_the_bit(base: str, scaling: str) -> None:
    bare, cold = network(), network()
    train(bare, BASES[base](bare.parameters()), 0, 4)
    generator = torch.Generator().manual_seed(3)
    state = generator.get_state()
    langevin = Langevin(BASES[base](cold.parameters()), cold.attention, 0.0, scaling=scaling, generator=generator)
    train(cold, langevin, 0, 4)
    assert torch.equal(generator.get_state(), state)
    assert [record.noise_mean_square for record in langevin.records] == [0.0] * 4
    if scaling == "raw":
        assert same(numbers(cold), numbers(bare))


@pytest.mark.parametrize("momentum", [0.0, 0.9])
def test_raw_at_eta_and_beta_is_mean_field_at_eta_over_m_and_m_beta_path_by_path(momentum: float) -> None:
    particles = []
    for scaling, eta, beta in (("raw", 0.25, 0.5), ("mean_field", 0.25 / 4, 4 * 0.5)):
        theta = Parameter(torch.linspace(-1, 2, 4 * 50, dtype=torch.float64).reshape(4, 50))
        langevin = Langevin(optim.SGD([theta], lr=eta, momentum=momentum), theta, beta, scaling=scaling, seed=5)
        for _ in range(20):
            langevin.zero_grad()
            torch.cosh(theta).log().sum().backward()
            langevin.step()
        particles.append(theta.detach())
    # M = 4: every factor is a power of 2
    assert torch.equal(*particles)


def test_mean_field_scaling_multiplies_the_loss_and_not_the_bases_weight_decay() -> None:
    theta = Parameter(torch.tensor([[1.0, 2.0], [3.0, 4.0], [5.0, 6.0]], dtype=torch.float64))
    base = optim.SGD([theta], lr=0.1, weight_decay=0.5)
    langevin = Langevin(base, theta, 0.0, scaling="mean_field")
    theta.grad = torch.full_like(theta, 0.25)
    before = theta.detach().clone()
    langevin.step()
    torch.testing.assert_close(theta.detach(), before - 0.1 * (3 * 0.25 + 0.5 * before), rtol=1e-14, atol=0.0)
    assert torch.equal(theta.grad, torch.full_like(theta, 0.25))
    # a parameter of many models' particles says how many a model has
    other = Parameter(torch.ones(5, 4, 2, dtype=torch.float64))
    langevin = Langevin(optim.SGD([other], lr=0.1), other, 0.0, scaling="mean_field", count=4)
    other.grad = torch.ones_like(other)
    langevin.step()
    torch.testing.assert_close(other.detach(), torch.full_like(other, 1 - 0.4), rtol=1e-14, atol=0.0)


def test_the_trap_under_adam_raw_and_mean_field_are_one_update_up_to_epsilon() -> None:
    def run(scaling: str, eps: float, noise: str) -> Tensor:
        model = network()
        base = optim.Adam(model.parameters(), lr=0.01, eps=eps)
        langevin = Langevin(base, model.attention, 0.01, scaling=scaling, noise=noise, seed=2)
        train(model, langevin, 0, 10)
        # without biases: the key's has no gradient but rounding, so that no eps is small beside it
        weights = (model.attention.qkv_weight, model.attention.out_weight)
        return torch.cat([weight.detach().flatten() for weight in weights if weight is not None])

    # without the key bias's 0/0, eps = 1e-300 is eps = 0
    raw = run("raw", 1e-300, "isotropic")
    torch.testing.assert_close(run("mean_field", 1e-300, "isotropic"), raw, rtol=1e-7, atol=1e-9)
    small = float((run("mean_field", 1e-8, "isotropic") - run("raw", 1e-8, "isotropic")).abs().max())
    large = float((run("mean_field", 1e-1, "isotropic") - run("raw", 1e-1, "isotropic")).abs().max())
    assert small < 1e-3 < 1e-2 < large
    # preconditioned noise keeps them apart: its variance is M = 4 times smaller
    apart = run("mean_field", 1e-300, "preconditioned") - run("raw", 1e-300, "preconditioned")
    assert float(apart.abs().max()) > 1e-2


@settings(deadline=None, max_examples=20)
@given(
    steps=st.integers(1, 6),
    beta=st.floats(0.01, 2.0),
    eta=st.floats(0.001, 0.5),
    gamma=st.floats(0.1, 1.0),
)
def test_schedules_of_beta_and_of_the_learning_rate_both_count(
    steps: int, beta: float, eta: float, gamma: float
) -> None:
    theta = Parameter(torch.zeros(3, 20, dtype=torch.float64))
    langevin = Langevin(optim.SGD([theta], lr=eta), theta, linear(beta, 0.0, steps), seed=4)
    scheduler = optim.lr_scheduler.ExponentialLR(langevin, gamma)
    standard = stream(4, "langevin").torch()
    exposure = 0.0
    for k in range(steps + 1):
        before = theta.detach().clone()
        theta.grad = torch.zeros_like(theta)
        langevin.step()
        scheduler.step()
        now = 2 * beta * max(1 - k / steps, 0.0) * eta * gamma**k
        exposure += now / 2
        # at beta = 0, in the last step, nothing is drawn
        xi = torch.randn(60, generator=standard, dtype=torch.float64).view(3, 20) if k < steps else 0.0
        torch.testing.assert_close(theta.detach() - before, now**0.5 * xi + 0 * before, rtol=1e-9, atol=1e-12)
        assert langevin.records[-1].eta == pytest.approx(eta * gamma**k)
    assert langevin.exposure == pytest.approx([exposure])
    assert langevin.param_groups[0]["lr"] == langevin.base.param_groups[0]["lr"] == scheduler.get_last_lr()[0]


def test_schedulers_find_an_optimiser_and_do_not_warn() -> None:
    model = network()
    langevin = Langevin(optim.SGD(model.parameters(), lr=0.1, momentum=0.9), model.attention, 0.1)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        for make in (
            lambda: optim.lr_scheduler.OneCycleLR(langevin, 0.2, total_steps=10),
            lambda: optim.lr_scheduler.CosineAnnealingLR(langevin, 10),
        ):
            scheduler = make()
            for k in range(3):
                train(model, langevin, k, k + 1)
                scheduler.step()
        plateau = optim.lr_scheduler.ReduceLROnPlateau(langevin, patience=0)
        plateau.step(1.0)
        plateau.step(2.0)


def test_groups_have_their_own_step_and_their_own_record() -> None:
    model = network()
    layer = model.attention
    assert layer.qkv_weight is not None and layer.qkv_bias is not None
    rest = [p for name, p in model.named_parameters() if "attention" not in name or "out_bias" in name]
    groups = [
        {"params": rest, "lr": 0.3},
        {"params": [layer.qkv_weight, layer.qkv_bias], "lr": 0.1},
        {"params": [layer.out_weight], "lr": 0.02},
    ]
    langevin = Langevin(optim.SGD(groups), layer, 0.5)
    train(model, langevin, 0, 2)
    assert [(r.step, r.group, r.eta) for r in langevin.records] == [
        (0, 1, 0.1), (0, 2, 0.02), (1, 1, 0.1), (1, 2, 0.02)
    ]  # fmt: skip
    assert langevin.exposure == pytest.approx([0.0, 2 * 0.5 * 0.1, 2 * 0.5 * 0.02])
    for record in langevin.records:
        low, high = chi_square_interval(record.coordinates)
        assert low < record.noise_mean_square / (2 * 0.5 * record.eta) < high


def test_clipped_gradients_are_what_the_base_sees() -> None:
    bare, clipped = network(), network()
    plain = optim.SGD(bare.parameters(), lr=0.1)
    langevin = Langevin(optim.SGD(clipped.parameters(), lr=0.1), clipped.attention, 0.2)
    for model, optimiser in ((bare, plain), (clipped, langevin)):
        backward(model, 0, factor=100.0)
        nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimiser.step()
    assert torch.equal(bare.classifier.weight, clipped.classifier.weight)
    assert langevin.records[0].noise_mean_square == pytest.approx(float(added(bare, clipped).square().mean()), rel=1e-9)


@pytest.mark.parametrize("base", ["SGD", "Adam"])
def test_a_gradient_scaler_unscales_first_and_skips_drift_and_noise_together(base: str) -> None:
    bare, scaled = network(), network()
    plain = Langevin(BASES[base](bare.parameters()), bare.attention, 0.2, seed=1)
    langevin = Langevin(BASES[base](scaled.parameters()), scaled.attention, 0.2, seed=1)
    scaler = torch.amp.GradScaler("cpu", init_scale=1024.0)
    for k in range(3):
        train(bare, plain, k, k + 1)
        langevin.zero_grad()
        x, y = batch(k)
        scaler.scale(nn.functional.cross_entropy(scaled(x), y)).backward()
        scaler.step(langevin)
        scaler.update()
        for left, right in zip(numbers(bare), numbers(scaled), strict=True):
            torch.testing.assert_close(left, right, rtol=1e-9, atol=1e-9)
        before, state = numbers(scaled), langevin.state_dict()["langevin"]["generators"]["cpu"]
        scaler.scale(scaled(x).sum() * math.inf).backward()
        scaler.step(langevin)
        scaler.update()
        assert same(before, numbers(scaled)) and langevin.steps_made == k + 1
        assert torch.equal(state, langevin.state_dict()["langevin"]["generators"]["cpu"])


@pytest.mark.parametrize("base", BASES)
@pytest.mark.parametrize("scaling", ["raw", "mean_field"])
def test_a_resumed_run_is_the_uninterrupted_one_to_the_bit(base: str, scaling: str) -> None:
    def start() -> tuple[Network, Langevin, optim.lr_scheduler.LRScheduler]:
        model = network()
        optimiser = Langevin(
            BASES[base](model.parameters()), model.attention, linear(0.3, 0.0, 7), scaling=scaling, seed=9
        )
        return model, optimiser, optim.lr_scheduler.StepLR(optimiser, 2, 0.5)

    def steps(model: Network, optimiser: Langevin, scheduler: Any, first: int, last: int) -> None:
        for k in range(first, last):
            train(model, optimiser, k, k + 1)
            scheduler.step()

    whole = start()
    steps(*whole, 0, 8)
    part = start()
    steps(*part, 0, 3)
    file = io.BytesIO()
    torch.save([one.state_dict() for one in part], file)
    file.seek(0)
    resumed = start()
    torch.manual_seed(77)
    for one, state in zip(resumed, torch.load(file, weights_only=True), strict=True):
        one.load_state_dict(state)
    steps(*resumed, 3, 8)
    assert same(numbers(whole[0]), numbers(resumed[0]))
    assert whole[1].exposure == resumed[1].exposure and whole[1].steps_made == resumed[1].steps_made == 8
    # written out, since nan is not nan
    assert str(whole[1].records[3:]) == str(resumed[1].records)


def test_the_noise_depends_on_its_seed_alone() -> None:
    def noise(seed: Any, k: int, disturbed: bool) -> Tensor:
        bare, noisy = network(), network()
        for model in (bare, noisy):
            optimiser: optim.Optimizer = optim.SGD(model.parameters(), lr=0.1)
            if model is noisy:
                optimiser = Langevin(optimiser, noisy.attention, 0.1, seed=seed)
            if disturbed:
                torch.manual_seed(k)
                torch.randn(5)
            train(model, optimiser, k, k + 1)
        return added(bare, noisy)

    first = noise(1, 0, False)
    torch.testing.assert_close(noise(1, 5, True), first, rtol=1e-9, atol=1e-12)
    torch.testing.assert_close(noise(stream(1, "langevin"), 5, True), first, rtol=1e-9, atol=1e-12)
    assert abs(float(torch.corrcoef(torch.stack([first, noise(2, 0, False)]))[0, 1])) < 6 / len(first) ** 0.5


def test_a_generator_of_your_own_is_used_and_saved() -> None:
    theta = Parameter(torch.zeros(2, 30))
    generator = torch.Generator().manual_seed(8)
    langevin = Langevin(optim.SGD([theta], lr=0.5), theta, 1.0, generator=generator)
    theta.grad = torch.zeros_like(theta)
    langevin.step()
    expected = torch.randn(60, generator=torch.Generator().manual_seed(8)).view(2, 30)
    torch.testing.assert_close(theta.detach(), expected)
    assert torch.equal(langevin.state_dict()["langevin"]["generators"]["cpu"], generator.get_state())


def test_copies_and_pickles_go_on_as_the_original() -> None:
    model = network()
    langevin = Langevin(optim.Adam(model.parameters(), lr=0.1), model.attention, linear(0.2, 0.1, 5))
    optim.lr_scheduler.StepLR(langevin, 1)
    train(model, langevin, 0, 2)
    for copied_model, copied in (
        copy.deepcopy((model, langevin)),
        pickle.loads(pickle.dumps((model, langevin))),
    ):
        assert all(a is not b for a, b in zip(copied_model.parameters(), model.parameters(), strict=True))
        train(copied_model, copied, 2, 4)
        assert copied.steps_made == 4 and langevin.steps_made == 2
        ours = copy.deepcopy((model, langevin))
        train(*ours, 2, 4)
        assert same(numbers(copied_model), numbers(ours[0]))


def test_what_has_no_gradient_is_left_alone() -> None:
    theta, unused = Parameter(torch.zeros(2, 3)), Parameter(torch.zeros(2, 3))
    langevin = Langevin(optim.SGD([theta, unused], lr=0.1), [theta, unused], 1.0)
    langevin.step()
    assert not theta.any() and not langevin.records and langevin.steps_made == 1
    theta.grad = torch.zeros_like(theta)
    langevin.step()
    assert theta.all() and not unused.any()


def test_records_can_be_thinned_and_cleared() -> None:
    theta = Parameter(torch.zeros(2, 3))
    theta.grad = torch.zeros_like(theta)
    for every, expected in ((0, []), (1, [0, 1, 2, 3, 4]), (2, [0, 2, 4])):
        langevin = Langevin(optim.Adamax([theta], lr=0.1), theta, 1.0, record_every=every)
        for _ in range(5):
            langevin.step()
        assert [record.step for record in langevin.records] == expected
        assert all(math.isnan(record.effective_mean) for record in langevin.records)
        langevin.clear_records()
        assert not langevin.records


def test_hooks_and_later_groups_work_as_in_any_optimiser() -> None:
    theta, later, called = Parameter(torch.zeros(2, 3)), Parameter(torch.zeros(4)), []
    langevin = Langevin(optim.SGD([theta], lr=0.1), theta, 1.0)
    langevin.register_step_pre_hook(lambda *_: called.append("before"))
    langevin.register_step_post_hook(lambda *_: called.append("after"))
    langevin.add_param_group({"params": [later], "lr": 0.5})
    theta.grad, later.grad = torch.zeros_like(theta), torch.ones_like(later)
    langevin.step()
    assert called == ["before", "after"]
    torch.testing.assert_close(later.detach(), torch.full((4,), -0.5))
    assert langevin.exposure == [0.1, 0.0] and "lr: 0.5" in repr(langevin)


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64, torch.bfloat16])
@pytest.mark.parametrize("kind", ["isotropic", "by coordinate"])
def test_tiles_change_no_law_and_every_coordinate_gets_its_own(
    dtype: torch.dtype, kind: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(noise_module.TILE, "cpu", 1000)
    shapes = [(3,), (30, 50), (700,), (299,), (1,), (40, 100)]
    parameters = [torch.zeros(shape, dtype=dtype) for shape in shapes]
    parameters[1] = torch.zeros(50, 30, dtype=dtype).t()
    given: float | list[Tensor] = 0.25
    if kind == "by coordinate":
        given = [torch.full_like(p, 4.0**j) for j, p in enumerate(parameters)]
    squares = add_noise(parameters, given, torch.Generator().manual_seed(1))
    drawn = torch.cat(
        [p.double().flatten() / (0.5 if kind == "isotropic" else 2.0**j) for j, p in enumerate(parameters)]
    )
    low, high = chi_square_interval(len(drawn))
    assert low < float(drawn.square().mean()) < high
    assert drawn.unique().numel() > (0.99 if dtype != torch.bfloat16 else 0.1) * len(drawn)
    whole = sum(float(p.double().square().sum()) for p in parameters)
    assert sum(float(s) for s in squares) == pytest.approx(whole, rel=1e-5 if dtype != torch.bfloat16 else 1e-2)


@pytest.mark.parametrize(
    ("scaling", "momentum", "temperature"),
    [("mean_field", 0.0, 1.0), ("raw", 0.0, 2.0), ("mean_field", 0.5, 0.5)],
)
def test_it_samples_at_the_temperature_its_docstring_names(scaling: str, momentum: float, temperature: float) -> None:
    a, beta, eta = 2.0, 0.3, 0.01
    # M = 2 particles a chain; the risk is their mean of a theta^2 / 2
    theta = Parameter(torch.zeros(2, 5000))
    base = optim.SGD([theta], lr=eta, momentum=momentum)
    langevin = Langevin(base, theta, beta, scaling=scaling, seed=3, record_every=0)
    for _ in range(400):
        theta.grad = a * theta.detach() / 2
        langevin.step()
    drift = a if scaling == "mean_field" else a / 2
    # exact: v' = mu v + g, theta' = theta - eta v' + noise; the fixed point of the covariance of (theta, v)
    step = torch.tensor([[1 - eta * drift, -eta * momentum], [drift, momentum]], dtype=torch.float64)
    kick = torch.diag(torch.tensor([2 * beta * eta, 0.0], dtype=torch.float64))
    system = torch.eye(4, dtype=torch.float64) - torch.kron(step, step)
    expected = float(torch.linalg.solve(system, kick.flatten())[0])
    # eta is not 0
    assert expected == pytest.approx(temperature * beta / a, rel=0.1)
    low, high = chi_square_interval(theta.numel())
    # 400 steps forget the start at 0 but for (1 - a eta / 2)^800 = 3e-4 and less
    assert low < float(theta.detach().square().mean()) / expected < high


def test_preconditioned_noise_under_adam_samples_gibbs_at_every_curvature() -> None:
    beta, eta = 0.5, 0.1
    for a in (0.5, 4.0):
        spread = (beta / a) ** 0.5
        theta = Parameter(torch.zeros(5_000))
        base = optim.Adam([theta], lr=eta, betas=(0.0, 0.9999), eps=0.0)
        # v at its stationary value and long at work; eta_eff = eta / (a spread), a eta_eff = eta / spread
        base.state[theta] |= {
            "step": torch.tensor(1e6),
            "exp_avg": torch.zeros_like(theta),
            "exp_avg_sq": torch.full_like(theta, (a * spread) ** 2),
        }
        langevin = Langevin(base, theta, beta, noise="preconditioned", record_every=0)
        for _ in range(100):
            theta.grad = a * theta.detach()
            langevin.step()
        # Euler-Maruyama's own variance; v moves by up to 100 (1 - beta2) = 1 % of itself, the variance by less
        expected = spread**2 / (1 - eta / spread / 2)
        low, high = chi_square_interval(5_000)
        assert 0.99 * low < float(theta.detach().square().mean()) / expected < 1.01 * high


@pytest.mark.parametrize(
    ("options", "sentence"),
    [
        ({"beta": -0.1}, "beta is a finite number >= 0; it came as -0.1"),
        ({"beta": lambda k: -1.0}, "gives -1.0 at step 0"),
        ({"beta": "warm"}, "a number >= 0 or a schedule"),
        ({"scaling": "mean"}, "scaling is one of raw, mean_field; it came as 'mean'"),
        ({"noise": "white"}, "noise is one of isotropic, preconditioned; it came as 'white'"),
        ({"seed": 1.5}, "the seed is a whole number or a Stream"),
        ({"count": 0}, "count is how many particles"),
        ({"record_every": -1}, "record_every is a whole number >= 0"),
        ({"particles": []}, "none was given"),
        ({"particles": [Parameter(torch.ones(7, 2))]}, "those of shapes \\[\\(7, 2\\)\\] are not"),
        ({"particles": ["theta"]}, "one came as str"),
        ({"base": "Adam"}, "a torch optimiser; it came as str"),
        ({"base": optim.LBFGS([Parameter(torch.ones(2))])}, "LBFGS evaluates a closure"),
        ({"base": optim.Adamax, "noise": "preconditioned"}, "effective step of Adamax is not known"),
    ],
)
def test_bad_input_is_a_sentence(options: dict[str, Any], sentence: str) -> None:
    theta = Parameter(torch.ones(2, 3))
    base = options.pop("base", optim.SGD([theta], lr=0.1))
    if isinstance(base, type):
        base = base([theta])
    with pytest.raises(InputError, match=sentence):
        Langevin(base, **{"particles": theta, "beta": 0.1} | options)


def test_closures_lacking_learning_rates_late_negative_betas_and_foreign_states_are_sentences() -> None:
    theta = Parameter(torch.ones(2, 3))
    theta.grad = torch.zeros_like(theta)

    class Unscaled(optim.Optimizer):
        def __init__(self, params: Any) -> None:
            super().__init__(params, {"speed": 1.0})

        def step(self, closure: Any = None) -> None:
            return None

    with pytest.raises(InputError, match=r"group 0 of Unscaled has only \[.*'speed'\]"):
        Langevin(Unscaled([theta]), theta, 0.1)
    langevin = Langevin(optim.SGD([theta], lr=0.1), theta, lambda k: 0.1 if k < 1 else -0.1)
    with pytest.raises(InputError, match="takes no closure"):
        langevin.step(lambda: 0.0)  # type: ignore[arg-type]
    langevin.step()
    before = theta.detach().clone()
    with pytest.raises(InputError, match=r"gives -0\.1 at step 1"):
        langevin.step()
    assert torch.equal(before, theta)
    with pytest.raises(InputError, match="has an entry 'langevin'"):
        langevin.load_state_dict(langevin.base.state_dict())


def test_it_is_a_public_name() -> None:
    assert mfcheck.Langevin is Langevin


@pytest.mark.gpu
@needs_cuda
@pytest.mark.parametrize("base", ["SGD", "Adam, foreach"])
def test_on_the_gpu_the_record_holds_and_resuming_is_exact(base: str) -> None:
    def start() -> tuple[Parameter, Langevin]:
        theta = Parameter(torch.ones(4, 1000, device="cuda"))
        return theta, Langevin(BASES[base]([theta]), theta, 0.3, seed=2)

    def steps(theta: Parameter, langevin: Langevin, count: int) -> None:
        for _ in range(count):
            theta.grad = theta.detach().clone()
            langevin.step()

    whole, part, resumed = start(), start(), start()
    steps(*whole, 6)
    steps(*part, 3)
    resumed[0].data.copy_(part[0].data)
    resumed[1].load_state_dict(part[1].state_dict())
    steps(*resumed, 3)
    assert torch.equal(whole[0], resumed[0])
    low, high = chi_square_interval(4000)
    assert all(low < record.noise_mean_square / record.noise_variance < high for record in whole[1].records)
