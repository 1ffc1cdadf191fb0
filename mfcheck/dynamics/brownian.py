"""Brownian paths that can be coarsened, sliced and shared between runs; never in memory as a whole.

The numbers of a path come from generators that belong to REPLICATES, not to runs: replicate r reads the same numbers
alone and in a batch of any size. Small replicates share a generator (`lanes` of them, a function of the system's
shape alone), so that one fill is long enough to amortise its call. On the CPU torch fills in groups of 16 numbers:
since every fill here is a multiple of 16 long, its length never shows in the numbers.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass, replace
from numbers import Integral, Real

import torch
from jaxtyping import Float
from torch import Tensor

from mfcheck.errors import InputError
from mfcheck.statistics.seeds import Stream, stream

LAWS = ("gaussian", "uniform")
GROUP = 16  # numbers that torch's CPU normal_ makes at a time
FILL = {"cpu": 1024, "cuda": 1 << 20}  # numbers a generator makes a step at least: shorter fills cost their call
AHEAD = 4096  # numbers a generator makes in one go, where a step needs fewer


@dataclass(frozen=True)
class BrownianPath:
    """A standard Brownian path in R^{M p} for each replicate r = 0, 1, ..., known by its increments on a step.

    seed: a Stream or a root seed; step: the length of one increment in time; shape (M, p); refinement: each increment
    is the sum of this many on the finest step, step / refinement. noise_dtype float32 (made five times faster than
    float64, cast exactly into a float64 state; its normals end at 5.8 standard deviations) or float64.
    shared=True gives all particles one noise; law="uniform" has the increments' variance right and their law wrong:
    both are for controls. Numbers differ between CPU and CUDA. Raises InputError on a bad step, shape or law.
    """

    seed: Stream | int
    step: float
    shape: tuple[int, int]
    refinement: int = 1
    shared: bool = False
    law: str = "gaussian"
    noise_dtype: torch.dtype = torch.float32
    selection: tuple[int, int] | None = None

    def __post_init__(self) -> None:
        if not (isinstance(self.step, Real) and math.isfinite(self.step) and self.step > 0):
            raise InputError(f"a path's step is a finite number > 0; it came as {self.step!r}")
        if len(self.shape) != 2 or not all(_is_count(n) for n in self.shape):
            raise InputError(f"a path's shape is (M, p), both whole numbers >= 1; it came as {self.shape!r}")
        if not _is_count(self.refinement):
            raise InputError(f"a path's refinement is a whole number >= 1; it came as {self.refinement!r}")
        if self.law not in LAWS:
            raise InputError(f"a path's law is one of {', '.join(LAWS)}; it came as {self.law!r}")
        if self.noise_dtype not in (torch.float32, torch.float64):
            raise InputError(f"noise is float32 or float64; it came as {self.noise_dtype}")

    @property
    def particle_count(self) -> int:
        """How many particles read this path: M, or fewer where it was sliced."""
        return self.shape[0] if self.selection is None else self.selection[1] - self.selection[0]

    def coarsen(self, factor: int) -> BrownianPath:
        """The same path on a step `factor` times longer: its increments are sums of this one's."""
        if not _is_count(factor):
            raise InputError(f"a path is coarsened by a whole number >= 1; it came as {factor!r}")
        return replace(self, step=self.step * factor, refinement=self.refinement * factor)

    def particles(self, chosen: slice) -> BrownianPath:
        """The path of some of the particles, a slice of step 1: same numbers, as if the others were not there."""
        start, stop, stride = chosen.indices(self.particle_count)
        if stride != 1 or stop <= start:
            raise InputError(f"a slice of particles has step 1 and is not empty; it came as {chosen}")
        offset = 0 if self.selection is None else self.selection[0]
        return replace(self, selection=(offset + start, offset + stop))

    def increments(
        self, start: int, stop: int, *, replicates: int = 1, first_replicate: int = 0, device: str = "cpu"
    ) -> Float[Tensor, "R T M p"]:
        """W((k+1) step) - W(k step) for k = start..stop-1, float64 [R, stop - start, M, p]: to look at, or to test."""
        reader = NoiseReader(self, first_replicate, replicates, torch.float64, torch.device(device))
        for _ in range(start):
            reader.skip()
        scale = math.sqrt(self.step)
        rows = [reader.step().clone().mul_(scale) for _ in range(stop - start)]
        if not rows:
            return torch.empty(replicates, 0, self.particle_count, self.shape[1], dtype=torch.float64, device=device)
        return torch.stack(rows, 1)


class NoiseReader:
    """Reads a path's noise of unit variance step by step, for `count` replicates from number `first` on.

    step() gives [R, M, p] in the state's dtype, valid until the next call. Where `tileable`, fill() gives the same
    numbers in pieces that fit the cache: rows of particles, first to last, step after step.
    """

    def __init__(self, path: BrownianPath, first: int, count: int, dtype: torch.dtype, device: torch.device) -> None:
        self.path, self.count, self.dtype, self.device = path, count, dtype, device
        drawn = 1 if path.shared else path.shape[0]
        self._row = (drawn, path.shape[1])
        self._gaussian = path.law == "gaussian"
        width = drawn * path.shape[1]
        self._lanes = max(1, -(-FILL.get(device.type, FILL["cuda"]) // width))
        self._used = self._lanes * width
        self._stride = -(-self._used // GROUP) * GROUP
        lowest, highest = first // self._lanes, (first + count - 1) // self._lanes
        self._offset = first - lowest * self._lanes
        seed = path.seed if isinstance(path.seed, Stream) else stream(path.seed)
        key = seed.child("brownian path").integer(64)
        self._generators = [
            torch.Generator(device=device).manual_seed(_seed_of(key, index)) for index in range(lowest, highest + 1)
        ]
        self._ahead = max(1, AHEAD // self._stride) if device.type == "cpu" else 1
        self._block: Iterator[Tensor] = iter(())
        plain = path.refinement == 1 and not path.shared and path.selection is None
        self.tileable = plain and device.type == "cpu" and len(self._generators) == 1 and self._lanes == 1
        self._buffers: dict[int, tuple[Tensor, Tensor, Tensor]] = {}

    def step(self) -> Float[Tensor, "R M p"]:
        """The next step's noise [R, M, p], unit variance."""
        path = self.path
        noise = self._fine()
        if path.refinement > 1:
            total = noise.to(self.dtype, copy=True)
            for _ in range(path.refinement - 1):
                total.add_(self._fine())
            noise = total.div_(math.sqrt(path.refinement))
        if path.selection is not None and not path.shared:
            noise = noise[:, path.selection[0] : path.selection[1]]
        noise = noise.to(self.dtype)
        return noise.expand(-1, path.particle_count, -1) if path.shared else noise

    def skip(self) -> None:
        """Pass over one step."""
        for _ in range(self.path.refinement):
            self._fine()

    def fill(self, particles: int) -> Float[Tensor, "1 m p"]:
        """The next `particles` rows of one replicate's step; a multiple of 16 numbers except at the step's end."""
        if particles not in self._buffers:
            size = particles * self._row[1]
            raw = torch.empty(-(-size // GROUP) * GROUP, dtype=self.path.noise_dtype, device=self.device)
            cast = raw if self.dtype == raw.dtype else torch.empty_like(raw, dtype=self.dtype)
            self._buffers[particles] = (raw, cast, cast[:size].view(1, particles, self._row[1]))
        raw, cast, noise = self._buffers[particles]
        self._draw(raw, self._generators[0])
        if cast is not raw:
            cast.copy_(raw)
        return noise

    def _fine(self) -> Tensor:
        """The next noise on the finest step, [R, M or 1, p] in the noise's dtype."""
        step = next(self._block, None)
        if step is None:
            self._block = iter(self._read(self._ahead).unbind(0))
            step = next(self._block)
        return step

    def _read(self, steps: int) -> Tensor:
        """The next `steps` fine steps [steps, R, M or 1, p]."""
        raw = torch.empty(len(self._generators), steps, self._stride, dtype=self.path.noise_dtype, device=self.device)
        for piece, generator in zip(raw.unbind(0), self._generators, strict=True):
            self._draw(piece, generator)
        lanes = raw[..., : self._used].unflatten(-1, (self._lanes, *self._row)).transpose(0, 1)
        return lanes.flatten(1, 2)[:, self._offset : self._offset + self.count]

    def _draw(self, out: Tensor, generator: torch.Generator) -> None:
        if self._gaussian:
            out.normal_(generator=generator)
        else:
            out.uniform_(-math.sqrt(3.0), math.sqrt(3.0), generator=generator)


def _seed_of(key: int, index: int) -> int:
    """A 32-bit seed for generator `index` of the stream with this 64-bit key: for one key a bijection of the index.

    torch's CPU generator looks at 32 bits of a seed only, so hashed seeds would collide among 1e5 replicates; under
    a bijection two replicates of one stream never share a seed. The mixer is MurmurHash3's, twice, keyed.
    """
    x = (index ^ key) & 0xFFFFFFFF
    for word in (key >> 32, 0):
        x = ((x ^ (x >> 16)) * 0x85EBCA6B) & 0xFFFFFFFF
        x = ((x ^ (x >> 13)) * 0xC2B2AE35) & 0xFFFFFFFF
        x ^= (x >> 16) ^ word
    return x


def _is_count(n: object) -> bool:
    return not isinstance(n, bool) and isinstance(n, Integral) and int(n) >= 1
