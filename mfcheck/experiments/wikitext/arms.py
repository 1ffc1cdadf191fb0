"""What is compared: the arms of an experiment, and the settings that all of them share."""

from __future__ import annotations

import math
from dataclasses import dataclass

from mfcheck.dynamics.schedules import Schedule, constant, linear
from mfcheck.errors import InputError
from mfcheck.experiments.wikitext.data import SOURCES
from mfcheck.experiments.wikitext.model import ATTENTIONS
from mfcheck.experiments.wikitext.tokenizers import KINDS

SCHEDULES = ("constant", "annealed")
SCALINGS = ("mean_field", "raw")
#: By which count an arm whose heads are wider than d / M is held to the reference, by the width of its MLP.
MATCHES = ("parameters", "flops")
PRECISIONS = ("float32", "bfloat16")


@dataclass(frozen=True)
class Arm:
    """One way of attention: heads M of head_width h (d / M unless given), and how its particles diffuse.

    name: a short word for folders, tables and figures. beta: the diffusion at the start; schedule: 'constant', or
    'annealed' linearly to 0 at the last step. scaling: of the drift, 'mean_field' or 'raw' (the scaling trap of the
    catalogue; under Adam the two are the same up to its epsilon). match: by which count the MLP is narrowed where
    M h is not d. Raises InputError on anything else.
    """

    name: str
    attention: str
    heads: int
    head_width: int | None = None
    match: str = "parameters"
    beta: float = 0.0
    schedule: str = "constant"
    scaling: str = "mean_field"

    def __post_init__(self) -> None:
        choose("attention", self.attention, ATTENTIONS)
        choose("match", self.match, MATCHES)
        choose("schedule", self.schedule, SCHEDULES)
        choose("scaling", self.scaling, SCALINGS)
        if not self.name or not set(self.name) <= set("abcdefghijklmnopqrstuvwxyz0123456789-."):
            raise InputError(
                f"an arm's name is of small letters, digits, dots and hyphens, since a folder is called so; it came "
                f"as {self.name!r}"
            )
        if not (math.isfinite(self.beta) and self.beta >= 0):
            raise InputError(f"beta is finite and >= 0; arm {self.name} has {self.beta}")
        if self.attention != "particles" and self.beta:
            raise InputError(f"only particles diffuse; arm {self.name} is {self.attention} with beta {self.beta}")

    def diffusion(self, steps: int) -> Schedule:
        """beta_k for a run of `steps` steps; annealed, the last step has beta / steps and a next one would have 0."""
        if self.schedule == "constant":
            return constant(self.beta)
        return linear(self.beta, 0.0, steps)


@dataclass(frozen=True)
class ModelSettings:
    """Sizes that all arms share; hidden is the MLP's width with M h = d."""

    context: int
    width: int
    layers: int
    hidden: int
    dropout: float = 0.0


@dataclass(frozen=True)
class Training:
    """AdamW: batch (windows), steps, rate at its highest after `warmup` steps, then a half cosine down to
    floor * rate; weight_decay on matrices, clip on the gradient's norm. precision, compile and device: where and how.
    """

    batch: int
    steps: int
    rate: float
    warmup: int
    floor: float = 0.1
    weight_decay: float = 0.01
    clip: float = 1.0
    precision: str = "float32"
    compile: bool = False
    device: str = "cpu"

    def __post_init__(self) -> None:
        choose("precision", self.precision, PRECISIONS)
        if self.batch < 1 or self.steps < 1 or not 0 <= self.warmup < self.steps:
            raise InputError(
                f"training needs a batch and steps >= 1 and fewer steps of warm-up than steps; they came as "
                f"{self.batch}, {self.steps} and {self.warmup}"
            )
        if not (0 < self.rate < math.inf and 0 <= self.floor <= 1 and self.weight_decay >= 0 and self.clip > 0):
            raise InputError(f"a rate and a clip are positive, a floor lies in [0, 1], weight_decay >= 0; got {self}")

    def rate_at(self, step: int) -> float:
        """eta at a step: a line from 0 to `rate` over the warm-up, then the half cosine."""
        if step < self.warmup:
            return self.rate * (step + 1) / self.warmup
        share = (step - self.warmup) / max(self.steps - self.warmup, 1)
        return self.rate * (self.floor + (1 - self.floor) * 0.5 * (1 + math.cos(math.pi * share)))

    def exposure(self, arm: Arm) -> float:
        """sum_k beta_k eta_k, so that the noise put into each coordinate in all has variance twice this."""
        beta = arm.diffusion(self.steps)
        return math.fsum(beta(k) * self.rate_at(k) for k in range(self.steps))


@dataclass(frozen=True)
class Scoring:
    """How a trained model is measured: windows of a batch, subsets of particles drawn for each number kept, tokens
    scored with each subset, batches for the gradient's variance, windows for the attention maps."""

    batch: int = 32
    subsets: int = 6
    subset_tokens: int = 8192
    gradient_batches: int = 8
    map_windows: int = 16


@dataclass(frozen=True)
class Text:
    """The corpus (one of SOURCES), its tokeniser and how many tokens it has; size: words where text is generated."""

    corpus: str
    tokenizer: str
    vocabulary: int | None = None
    size: int = 20_000

    def __post_init__(self) -> None:
        choose("corpus", self.corpus, SOURCES)
        choose("tokenizer", self.tokenizer, KINDS)


def choose(what: str, value: str, among: tuple[str, ...]) -> None:
    """Raises InputError where a value is none of those there are."""
    if value not in among:
        raise InputError(f"{what} is one of {', '.join(among)}; it came as {value!r}")
