"""The arms of the gate: which noise, drift and heads a model is trained with. Arms are data; names are written once."""

from __future__ import annotations

import math
from dataclasses import dataclass

from mfcheck.dynamics.schedules import constant, linear
from mfcheck.errors import InputError

OPTIMIZERS, SCALINGS, HEADS = ("sgd", "adam"), ("raw", "mean_field"), ("particles", "ordinary")
AFTER = ("", "noise", "norms")


@dataclass(frozen=True)
class Recipe:
    """How every arm is trained. Tuned at beta = 0 alone, to land where both directions can be seen.

    particles M of head_width dh on tokens of the task's width d; the particles' mean, residual, layer norm, mean over
    tokens, linear classifier. query_scale, ...: standard deviation of initial entries times sqrt(fan in). Step sizes
    are those of the drift as automatic differentiation gives it (`raw`). No weight decay.
    """

    particles: int = 8
    head_width: int = 4
    batch: int = 64
    steps: int = 340
    sgd_step: float = 0.03
    adam_step: float = 0.0004
    query_scale: float = 2.47
    value_scale: float = 1.0
    classifier_scale: float = 0.1

    def __post_init__(self) -> None:
        if min(self.particles, self.head_width, self.batch, self.steps) < 1:
            raise InputError(f"particles, widths, batches and steps are at least 1; got {self}")
        if not min(self.sgd_step, self.adam_step) > 0:
            raise InputError(f"step sizes are positive; got {self.sgd_step} and {self.adam_step}")


@dataclass(frozen=True)
class Arm:
    """One way to train: diffusion beta (constant, or linear to 0), its scaling, the base optimiser, the heads.

    scaling: the drift's displacement is the same under both, eta g. `raw` reads it as a step eta of drift g and adds
    sqrt(2 beta eta); `mean_field` reads it as a step eta / M of drift M g, the equation's, and adds
    sqrt(2 beta eta / M). longer: training time as a multiple of the recipe's. mirrored: with minus the noise, which has
    the same law: the mean of an arm and its mirror image has the arm's expectation and less spread.
    after: not trained but made of the net at beta = 0, which is where redundancy without training under noise shows:
    "noise" adds all at once the noise that this arm's exposure comes to; "norms" multiplies all of W_Q by one number
    and all of W_K by another, so that their norms are those of the net trained at this beta with the same seed.
    """

    beta: float = 0.0
    annealed: bool = False
    scaling: str = "raw"
    optimizer: str = "sgd"
    heads: str = "particles"
    longer: float = 1.0
    mirrored: bool = False
    after: str = ""

    def __post_init__(self) -> None:
        if not (math.isfinite(self.beta) and self.beta >= 0):
            raise InputError(f"beta is finite and >= 0; it came as {self.beta}")
        for value, known in (
            (self.scaling, SCALINGS),
            (self.optimizer, OPTIMIZERS),
            (self.heads, HEADS),
            (self.after, AFTER),
        ):
            if value not in known:
                raise InputError(f"an arm's scaling, optimizer, heads and after are among {known}; got {value!r}")

    def steps(self, recipe: Recipe) -> int:
        """How many steps the arm is trained for."""
        return round(self.longer * recipe.steps)

    def time_step(self, recipe: Recipe) -> float:
        """eta of the update rule as the arm's scaling reads it."""
        step = recipe.sgd_step if self.optimizer == "sgd" else recipe.adam_step
        return step / recipe.particles if self.scaling == "mean_field" else step

    def betas(self, recipe: Recipe) -> list[float]:
        """beta_0, beta_1, ...: one a step."""
        steps = self.steps(recipe)
        return (linear(self.beta, 0.0, steps) if self.annealed else constant(self.beta)).betas(steps)

    def exposure(self, recipe: Recipe) -> float:
        """sum_k beta_k eta: half the variance of the noise that a coordinate is given in all."""
        return math.fsum(self.betas(recipe)) * self.time_step(recipe)


RECIPE = Recipe()
#: beta whose noise comes to the same under Adam's smaller steps: exposure beta eta T, T being equal.
EQUAL_EXPOSURE = RECIPE.sgd_step / RECIPE.adam_step

#: Every arm of the gate by the name under which tables and files know it.
ARMS = {
    "beta 0": Arm(),
    "beta 0.001": Arm(0.001),
    "beta 0.005": Arm(0.005),
    "noise after, 0.005": Arm(0.005, after="noise"),
    "norms of 0.005": Arm(0.005, after="norms"),
    "annealed 0.001": Arm(0.001, annealed=True),
    "annealed 0.005": Arm(0.005, annealed=True),
    "beta 0.0005": Arm(0.0005),
    "beta 0.0025": Arm(0.0025),
    "mean-field 0.005": Arm(0.005, scaling="mean_field"),
    f"mean-field {RECIPE.particles} x 0.005": Arm(RECIPE.particles * 0.005, scaling="mean_field"),
    "Adam, beta 0": Arm(optimizer="adam"),
    "Adam, beta 0.005": Arm(0.005, optimizer="adam"),
    "Adam, exposure of 0.001": Arm(0.001 * EQUAL_EXPOSURE, optimizer="adam"),
    "Adam, exposure of 0.005": Arm(0.005 * EQUAL_EXPOSURE, optimizer="adam"),
    "ordinary heads": Arm(heads="ordinary"),
}
#: The arms that the gate itself is about, and the two controls that cost nothing to train.
MAIN = tuple(ARMS)[:5]
