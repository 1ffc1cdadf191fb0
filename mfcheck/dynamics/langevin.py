"""Particles: M noisy gradient steps of a risk, replicates batched, in place, in pieces that fit the cache."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from numbers import Integral, Real

import torch
from jaxtyping import Float
from torch import Tensor

from mfcheck.device import keep_freed_memory
from mfcheck.dynamics.brownian import GROUP, BrownianPath, NoiseReader
from mfcheck.dynamics.drift import FEATURES_AT_ONCE, Drift, Force, force_of
from mfcheck.dynamics.schedules import Schedule, as_schedule
from mfcheck.errors import InputError
from mfcheck.functional import Risk
from mfcheck.statistics.seeds import Stream

__all__ = ["SCALINGS", "SCHEMES", "BrownianPath", "Drift", "Trajectory", "simulate"]

SCHEMES = ("euler_maruyama", "heun", "leimkuhler_matthews")
SCALINGS = ("mean_field", "raw")
TILE = 1 << 19  # bytes of state worked on at a time. Less pays for calls, more leaves the cache with every operation
LOOK_EVERY = 100  # steps between two looks for infinities: a look costs about a step's addition

Observable = Callable[[Tensor], Tensor]


@dataclass(frozen=True)
class Trajectory:
    """What a run leaves: the final state, recorded times, {name: [T, R, ...]}, and the exposure sum_k beta_k eta."""

    final: Float[Tensor, "R M p"]
    times: Float[Tensor, " T"]
    observables: dict[str, Tensor]
    exposure: float


def simulate(
    risk: Risk | Drift,
    initial: Float[Tensor, "R M p"],
    *,
    beta: float | Schedule | Callable[[int], float],
    step: float,
    steps: int,
    scheme: str = "euler_maruyama",
    scaling: str = "mean_field",
    seed: int | Stream = 0,
    observables: Mapping[str, Observable] | None = None,
    record: int | Sequence[int] | None = None,
    noise: BrownianPath | None = None,
    first_replicate: int = 0,
    noise_dtype: torch.dtype | None = None,
    device: str | torch.device | None = None,
) -> Trajectory:
    """R independent systems of M particles in R^p, theta <- theta + eta drift + sqrt(2 beta_k eta) xi_k.

    initial [R, M, p], or [M, p] for one replicate; float32 or float64, which the run keeps (and leaves untouched).
    The drift is M times minus the gradient of the risk in theta_i (`mean_field`: the PDE's) or that without the M
    (`raw`: the update as it is usually typed); raw(eta, beta) is mean_field(eta/M, M beta). risk: a FeatureRisk (the
    fastest), any differentiable callable of a Measure (batched where it answers a batch with [R], else under vmap), or
    a Drift. beta: a number, a Schedule, or k -> beta_k for step k = 0..steps-1; 0 draws no noise.

    scheme, with W the noise's path on [0, steps eta]:
      euler_maruyama: weak order 1; heun: average of the drifts at theta and at the Euler step, weak order 2 (additive
      noise); leimkuhler_matthews: Euler with (xi_k + xi_{k+1})/2, order 2 for the stationary law [LM].

    observables: functions of theta [R, M, p] -> [R, ...], recorded after the steps in `record`: a sequence of step
    indices in [0, steps] (0 is the initial state), or a number k for k, 2k, ...; default: after the last step.
    times are record * step. seed gives replicate r (numbered from first_replicate) the same noise alone and in any
    batch; noise: a BrownianPath of this step and shape (M, p) in the seed's place, for coupled runs. noise_dtype:
    float32 unless asked otherwise, also into a float64 state; see BrownianPath.
    Raises InputError on bad shapes, values or names, and where the state stops being finite.

    >>> from mfcheck.risks import quadratic
    >>> run = simulate(quadratic(), torch.ones(1, 2, 1), beta=0.0, step=0.5, steps=2)
    >>> run.final.ravel().tolist()  # (1 - eta)^2
    [0.25, 0.25]
    """
    theta = _initial_state(initial, device)
    _check_numbers(step, steps, scheme, scaling, first_replicate)
    particles, dimension = theta.shape[1:]
    betas = as_schedule(beta).betas(steps)
    path = _path(noise, seed, step, (particles, dimension), noise_dtype)
    marks = _recorded_steps(record, steps)
    if theta.device.type == "cpu":
        keep_freed_memory()
    with torch.no_grad():
        force = force_of(risk, theta)
        stepper = _Stepper(force, scheme, step, step / particles if scaling == "raw" else step, betas)
        drawn = path if any(betas) else None
        groups = _groups(theta, force, stepper, drawn, first_replicate, steps)
        records: dict[str, list[Tensor]] = {name: [] for name in observables or {}}
        done = 0
        for mark in marks if marks[-1] == steps else [*marks, steps]:
            for group in groups:
                group.advance(done, mark)
            _check_finite(theta, mark, scheme)
            done = mark
            if mark in marks:
                for name, observe in (observables or {}).items():
                    records[name].append(_observed(name, observe, theta))
    return Trajectory(
        final=theta,
        times=torch.tensor([mark * step for mark in marks], dtype=torch.float64, device=theta.device),
        observables={name: torch.stack(values) for name, values in records.items()},
        exposure=math.fsum(betas) * step,
    )


@dataclass(frozen=True)
class _Stepper:
    """One step of a scheme on a piece of the state, in place."""

    force: Force
    scheme: str
    step: float
    drift_step: float
    betas: list[float]

    def apply(self, x: Tensor, k: int, xi: Tensor | None) -> None:
        """x <- the state after step k; xi is the noise of unit variance, None where there is none."""
        amplitude = math.sqrt(2.0 * self.betas[k] * self.step)
        drift_step = self.force.factor * self.drift_step
        drift = self.force.function(x, k * self.step)
        if self.scheme != "heun":
            x.add_(drift, alpha=drift_step)
            if xi is not None:
                x.add_(xi, alpha=amplitude)
            return
        predicted = torch.add(x, drift, alpha=drift_step)
        if xi is not None:
            predicted.add_(xi, alpha=amplitude)
        # x + eta (f(x) + f(y)) / 2 + noise, from y = x + eta f(x) + noise
        later = self.force.function(predicted, (k + 1) * self.step)
        x.copy_(predicted).add_(later, alpha=0.5 * drift_step).add_(drift, alpha=-0.5 * drift_step)


@dataclass
class _Group:
    """Replicates that go through the steps together, and the pieces of them that do not see each other."""

    theta: Float[Tensor, "G M p"]
    tiles: list[Tensor]
    stepper: _Stepper
    reader: NoiseReader | None
    previous: list[Tensor] = field(default_factory=list)

    def advance(self, start: int, stop: int) -> None:
        """Steps start..stop-1, in place."""
        averaged = self.stepper.scheme == "leimkuhler_matthews" and self.reader is not None
        if averaged and not self.previous:
            self.previous = [xi.clone() for xi in self._noise()]
        for k in range(start, stop):
            noise = self._noise() if self.reader is not None else (None for _ in self.tiles)
            for index, (tile, xi) in enumerate(zip(self.tiles, noise, strict=True)):
                if averaged:
                    assert xi is not None
                    mean = self.previous[index]
                    mean.add_(xi).mul_(0.5)
                    self.stepper.apply(tile, k, mean)
                    mean.copy_(xi)
                else:
                    self.stepper.apply(tile, k, xi)
            if k % LOOK_EVERY == LOOK_EVERY - 1:
                _check_finite(self.theta, k + 1, self.stepper.scheme)

    def _noise(self) -> Iterator[Tensor]:
        """One step's noise, tile by tile."""
        assert self.reader is not None
        if self.reader.tileable:
            yield from (self.reader.fill(tile.shape[1]) for tile in self.tiles)
        elif len(self.tiles) == 1:
            yield self.reader.step()
        else:
            yield from self.reader.step().split(self.tiles[0].shape[1], 1)


def _groups(
    theta: Tensor, force: Force, stepper: _Stepper, path: BrownianPath | None, first: int, steps: int
) -> list[_Group]:
    """The state cut into replicates that stay in cache together, and each into particles where they are independent."""
    replicates, particles, dimension = theta.shape
    on_cpu = theta.device.type == "cpu"
    tile = TILE // theta.element_size()
    together = replicates
    if force.rowwise and on_cpu:
        room = FEATURES_AT_ONCE // force.width if force.width > dimension else tile // dimension
        together = max(1, min(replicates, room // particles))
    groups = []
    for start in range(0, replicates, together):
        part = theta[start : start + together]
        reader = None
        if path is not None:
            reader = NoiseReader(path, first + start, len(part), theta.dtype, theta.device)
        tiles = [part]
        if force.local and on_cpu and part.numel() > tile:
            tiles = list(part.split(_tile_size(particles, dimension, tile), 1))
        groups.append(_Group(part, tiles, stepper, reader))
    return groups


def _tile_size(particles: int, dimension: int, tile: int) -> int:
    """Particles a tile: equal tiles of about `tile` numbers (a small rest costs as many calls), a multiple of 16."""
    count = -(-particles * dimension // tile)
    return -(-particles // (count * GROUP)) * GROUP


def _initial_state(initial: object, device: str | torch.device | None) -> Tensor:
    if not isinstance(initial, Tensor):
        raise InputError(f"the initial state is a torch tensor [R, M, p]; it came as {type(initial).__name__}")
    if initial.ndim not in (2, 3) or 0 in initial.shape:
        raise InputError(f"the initial state is [R, M, p] or [M, p], none of them 0; it came as {tuple(initial.shape)}")
    if initial.dtype not in (torch.float32, torch.float64):
        raise InputError(f"the initial state is float32 or float64; it came as {initial.dtype}")
    if device is not None and torch.device(device).type == "cuda" and not torch.cuda.is_available():
        raise InputError("the device asked for is cuda, and torch sees none here")
    theta = initial.detach().to(device=device, copy=True).contiguous()
    if not bool(torch.isfinite(theta).all()):
        raise InputError(f"the initial state is finite; {int((~torch.isfinite(theta)).sum())} of its values are not")
    return theta if theta.ndim == 3 else theta[None]


def _check_numbers(step: object, steps: object, scheme: str, scaling: str, first_replicate: object) -> None:
    if isinstance(step, bool) or not isinstance(step, Real) or not 0 < float(step) < math.inf:
        raise InputError(f"the step eta is a finite number > 0; it came as {step!r}")
    if isinstance(steps, bool) or not isinstance(steps, Integral) or steps < 1:
        raise InputError(f"steps is a whole number >= 1; it came as {steps!r}")
    if scheme not in SCHEMES:
        raise InputError(f"the scheme is one of {', '.join(SCHEMES)}; it came as {scheme!r}")
    if scaling not in SCALINGS:
        raise InputError(f"the scaling is one of {', '.join(SCALINGS)}; it came as {scaling!r}")
    if isinstance(first_replicate, bool) or not isinstance(first_replicate, Integral) or first_replicate < 0:
        raise InputError(f"first_replicate is a whole number >= 0; it came as {first_replicate!r}")


def _path(
    noise: BrownianPath | None, seed: int | Stream, step: float, shape: tuple[int, int], dtype: torch.dtype | None
) -> BrownianPath:
    if noise is None:
        if isinstance(seed, bool) or not isinstance(seed, (int, Stream)):
            raise InputError(f"the seed is a whole number or a Stream; it came as {seed!r}")
        return BrownianPath(seed, step, shape, noise_dtype=dtype or torch.float32)
    if not isinstance(noise, BrownianPath):
        raise InputError(f"noise is a BrownianPath; it came as {type(noise).__name__}")
    own = (noise.particle_count, noise.shape[1])
    if own != shape:
        raise InputError(f"the noise's path has shape (M, p) = {own}, the initial state {shape}; they must agree")
    if not math.isclose(noise.step, step, rel_tol=1e-12):
        raise InputError(f"the noise's path has step {noise.step}, the run {step}; coarsen the path, or use its step")
    if dtype is not None and dtype != noise.noise_dtype:
        raise InputError(f"the noise's path is {noise.noise_dtype}, and noise_dtype asks for {dtype}")
    return noise


def _recorded_steps(record: int | Sequence[int] | None, steps: int) -> list[int]:
    if record is None:
        return [steps]
    if isinstance(record, int):
        if isinstance(record, bool) or not 1 <= record <= steps:
            raise InputError(f"record every k steps takes k in [1, {steps}]; it came as {record}")
        return list(range(record, steps + 1, record))
    try:
        marks = [int(k) for k in record]
        whole = all(k == given for k, given in zip(marks, record, strict=True))
    except (TypeError, ValueError):
        marks, whole = [], False
    if not marks or not whole or sorted(set(marks)) != marks or marks[0] < 0 or marks[-1] > steps:
        raise InputError(f"record is a number of steps or rising step indices in [0, {steps}]; it came as {record!r}")
    return marks


def _observed(name: str, observe: Observable, theta: Tensor) -> Tensor:
    value = observe(theta)
    if not isinstance(value, Tensor) or value.ndim < 1 or value.shape[0] != theta.shape[0]:
        came = tuple(value.shape) if isinstance(value, Tensor) else type(value).__name__
        raise InputError(f"observable {name!r} returns a tensor [R, ...] with R = {theta.shape[0]}; it returned {came}")
    return value.detach().clone()


def _check_finite(theta: Tensor, step: int, scheme: str) -> None:
    # the sum is a cheap screen: it is finite whenever all is well, and only else does the full look decide
    if bool(torch.isfinite(theta.sum())) or bool(torch.isfinite(theta).all()):
        return
    count = int((~torch.isfinite(theta)).any(-1).sum())
    raise InputError(
        f"the state was no longer finite after step {step}: {count} of {theta.shape[0] * theta.shape[1]} particles. "
        f"A drift that grows faster than linearly overflows under {scheme} from a wide start; take a smaller step, or "
        "bound the start"
    )
