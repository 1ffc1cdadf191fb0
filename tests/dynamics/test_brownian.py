"""Brownian paths: their law, and that coarsening, slicing and batching change no number.

Statistical tests here fail falsely with probability 1e-6 each.
"""

from __future__ import annotations

import math

import pytest
import torch
from scipy import stats

from mfcheck.dynamics.brownian import FILL, BrownianPath, _seed_of
from mfcheck.errors import InputError
from mfcheck.statistics.seeds import stream

ALPHA = 1e-6
EPS = 2.0**-52
SHAPES = [(1, 1), (3, 2), (50, 1), (1000, 1), (1025, 1), (20000, 1), (7, 300)]
needs_cuda = pytest.mark.skipif(not torch.cuda.is_available(), reason="torch sees no CUDA device here")


def path(*names: object, **options) -> BrownianPath:
    return BrownianPath(stream(0, "test_brownian", *names), **{"step": 0.25, "shape": (1000, 1), **options})


def variance_is(values: torch.Tensor, variance: float) -> bool:
    """The sum of squares inside its chi-square interval, for independent centred Gaussians."""
    low, high = stats.chi2.ppf([ALPHA / 2, 1 - ALPHA / 2], values.numel())
    return bool(low < float(values.square().sum()) / variance < high)


@pytest.mark.parametrize("law_dtype", [torch.float32, torch.float64])
@pytest.mark.parametrize("refinement", [1, 3])
def test_increments_have_the_step_as_their_variance(refinement: int, law_dtype: torch.dtype) -> None:
    increments = path("variance", refinement=refinement, noise_dtype=law_dtype).increments(0, 50, replicates=2)
    assert variance_is(increments, 0.25)
    assert not variance_is(increments, 0.25 * 1.03)  # 1e5 numbers resolve 3 %: the interval's half width is 2.2 %


def test_increments_are_gaussian_and_uncorrelated() -> None:
    increments = path("law", step=1.0, shape=(20000, 1)).increments(0, 10, replicates=2)[..., 0]
    flat = increments.flatten()
    distance = stats.ks_1samp(flat.numpy(), stats.norm.cdf).statistic
    assert distance < math.sqrt(math.log(2 / ALPHA) / (2 * len(flat)))  # Dvoretzky-Kiefer-Wolfowitz-Massart
    # the mean of n products of independent standard normals is N(0, 1/n) for this n; 4.9 is the two-sided 1e-6 point
    pairs = {
        "steps": (increments[:, :-1], increments[:, 1:]),
        "particles": (increments[..., :-1], increments[..., 1:]),
        "replicates": (increments[0], increments[1]),
    }
    for name, (one, other) in pairs.items():
        assert abs(float((one * other).mean())) < 4.9 / math.sqrt(one.numel()), name


@pytest.mark.parametrize("shape", SHAPES)
def test_a_coarse_increment_is_the_sum_of_the_fine_ones(shape: tuple[int, int]) -> None:
    fine = path("coarse", shape=shape)
    parts = fine.increments(0, 12, replicates=2)
    for factor in (2, 3, 4):
        coarse = fine.coarsen(factor)
        assert coarse.step == factor * fine.step
        pieces = parts.unflatten(1, (-1, factor))
        # the summands are exact float32 numbers times sqrt(h); their order of scaling costs one rounding each
        allowed = (factor + 4) * EPS * pieces.abs().sum(2)
        assert bool(((coarse.increments(0, 12 // factor, replicates=2) - pieces.sum(2)).abs() <= allowed).all())
    assert fine.coarsen(2).coarsen(2) == fine.coarsen(4)


@pytest.mark.parametrize("shape", SHAPES)
def test_a_replicate_reads_the_same_numbers_alone_and_in_any_batch(shape: tuple[int, int]) -> None:
    one = path("batch", shape=shape)
    lanes = -(-FILL["cpu"] // (shape[0] * shape[1]))  # replicates that share a generator; cross a border of them
    count = min(lanes + 2, 1500) if lanes > 1 else 5
    batch = one.increments(0, 3, replicates=count)
    for r in {0, 1, count // 2, count - 1}:
        assert torch.equal(one.increments(0, 3, first_replicate=r)[0], batch[r])
    assert torch.equal(one.increments(0, 3, replicates=count - 1, first_replicate=1), batch[1:])


@pytest.mark.parametrize("shape", SHAPES)
def test_where_reading_starts_and_stops_changes_no_number(shape: tuple[int, int]) -> None:
    one = path("reading", shape=shape)
    assert torch.equal(one.increments(0, 11)[:, 4:7], one.increments(4, 7))


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_torch_fills_in_groups_of_16(dtype: torch.dtype) -> None:
    # what the length-free noise rests on: one long fill is the short ones in a row, for multiples of 16
    generator = torch.Generator().manual_seed(7)
    long = torch.empty(4096, dtype=dtype).normal_(generator=generator)
    generator.manual_seed(7)
    parts = [torch.empty(n, dtype=dtype).normal_(generator=generator) for n in (16, 1024, 48, 4096 - 1088)]
    assert torch.equal(torch.cat(parts), long)


def test_names_tell_paths_apart() -> None:
    one, same, other = (path(name).increments(0, 2) for name in ("a", "a", "b"))
    assert torch.equal(one, same)
    assert not bool((one == other).any(-1).all())
    assert torch.equal(
        BrownianPath(3, 0.25, (4, 1)).increments(0, 2), BrownianPath(stream(3), 0.25, (4, 1)).increments(0, 2)
    )


@pytest.mark.parametrize("key", [0, 1, 0x9E3779B97F4A7C15, (1 << 64) - 1])
def test_no_two_replicates_share_a_seed(key: int) -> None:
    seeds = {_seed_of(key, index) for index in range(50_000)}
    assert len(seeds) == 50_000
    assert max(seeds) < 1 << 32


def test_particles_slice_reads_the_same_numbers() -> None:
    whole = path("slice", shape=(64, 2))
    numbers = whole.increments(0, 3, replicates=2)
    left, right = whole.particles(slice(0, 32)), whole.particles(slice(32, None))
    assert left.particle_count == right.particle_count == 32
    assert torch.equal(torch.cat([p.increments(0, 3, replicates=2) for p in (left, right)], 2), numbers)
    assert torch.equal(
        right.particles(slice(8, 16)).coarsen(3).increments(0, 1), whole.coarsen(3).increments(0, 1)[:, :, 40:48]
    )


def test_shared_noise_is_one_for_all_particles_and_not_for_all_replicates() -> None:
    shared = path("shared", shape=(500, 2), shared=True).increments(0, 100, replicates=20)
    assert torch.equal(shared, shared[:, :, :1].expand_as(shared))
    assert variance_is(shared[:, :, 0], 0.25)
    sliced = path("shared", shape=(500, 2), shared=True).particles(slice(3, 5)).increments(0, 100, replicates=20)
    assert torch.equal(sliced, shared[:, :, :2])


def test_uniform_law_has_the_variance_and_not_the_tails() -> None:
    values = path("uniform", step=1.0, law="uniform").increments(0, 100).flatten()
    assert float(values.abs().max()) <= math.sqrt(3) * (1 + 1e-6)  # float32 ends
    # x^2 of a uniform of variance 1 has variance 9/5 - 1 = 4/5
    assert abs(float(values.square().mean()) - 1) < 4.9 * math.sqrt(0.8 / len(values))
    assert stats.ks_1samp(values.numpy(), stats.norm.cdf).statistic > 0.05  # the two laws are 0.059 apart


@pytest.mark.parametrize(
    ("options", "says"),
    [
        ({"step": 0.0}, "step"),
        ({"step": math.nan}, "step"),
        ({"shape": (10,)}, "shape"),
        ({"shape": (0, 1)}, "shape"),
        ({"shape": (10.5, 1)}, "shape"),
        ({"refinement": 0}, "refinement"),
        ({"law": "rademacher"}, "law"),
        ({"noise_dtype": torch.float16}, "float32 or float64"),
    ],
)
def test_bad_paths_are_refused(options: dict, says: str) -> None:
    with pytest.raises(InputError, match=says):
        path("bad", **options)


def test_bad_factors_and_slices_are_refused() -> None:
    for factor in (0, 1.5, True):
        with pytest.raises(InputError, match="coarsened"):
            path("bad").coarsen(factor)  # type: ignore[arg-type]
    for chosen in (slice(5, 5), slice(0, 10, 2)):
        with pytest.raises(InputError, match="slice"):
            path("bad").particles(chosen)


@pytest.mark.gpu
@needs_cuda
@pytest.mark.parametrize("shape", [(1, 1), (50, 1), (3000, 2)])
def test_on_the_gpu_batches_and_sums_agree_too(shape: tuple[int, int]) -> None:
    one = path("gpu", shape=shape)
    batch = one.increments(0, 4, replicates=5, device="cuda")
    assert torch.equal(one.increments(0, 4, first_replicate=3, device="cuda")[0], batch[3])
    pairs = batch.unflatten(1, (-1, 2))
    coarse = one.coarsen(2).increments(0, 2, replicates=5, device="cuda")
    assert bool(((coarse - pairs.sum(2)).abs() <= 6 * EPS * pairs.abs().sum(2)).all())
