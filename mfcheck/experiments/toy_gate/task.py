"""The toy task: which class the marked tokens of a sequence belong to. It takes attention to tell them apart."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from jaxtyping import Float, Int
from torch import Tensor

from mfcheck.errors import InputError
from mfcheck.statistics.seeds import Stream, stream


@dataclass(frozen=True)
class Task:
    """A generating rule and the sizes of its samples.

    y is uniform on the classes; `marked` of the tokens, chosen at random, are marked. Token j is
    w_{c_j} + u [j marked] + noise N(0, I) in R^width, with c_j = y where marked and uniform elsewhere. The label is
    y. (u, w_0, w_1, ...) is orthonormal and the same for every seed. The mean of all tokens says little of y, the
    mean of the marked ones almost everything: a head that looks for u solves it.
    Raises InputError where the width cannot hold classes + 1 orthonormal vectors, or more are marked than there are.
    """

    width: int = 16
    tokens: int = 12
    classes: int = 4
    marked: int = 6
    noise: float = 0.35
    training: int = 512
    validation: int = 256

    def __post_init__(self) -> None:
        if self.width < self.classes + 1:
            raise InputError(
                f"{self.classes} classes and a mark need a width of at least {self.classes + 1}; got {self.width}"
            )
        if not 0 < self.marked <= self.tokens:
            raise InputError(f"between 1 and {self.tokens} of {self.tokens} tokens are marked; got {self.marked}")
        if min(self.training, self.validation) < 1 or not self.noise >= 0:
            raise InputError(
                f"samples are at least 1 and noise is not negative; got {self.training} training and "
                f"{self.validation} validation samples, noise {self.noise}"
            )


@dataclass(frozen=True)
class Sample:
    """Sequences of tokens and their labels."""

    tokens: Float[Tensor, "n N d"]
    labels: Int[Tensor, " n"]


def frame(task: Task) -> Float[Tensor, "vectors d"]:
    """The mark u and the classes' w_0, w_1, ...: orthonormal rows [classes + 1, width], float64, fixed for a width."""
    gaussian = torch.randn(
        task.width, task.width, generator=stream(0, "toy gate", "frame").torch(), dtype=torch.float64
    )
    return torch.linalg.qr(gaussian).Q.T[: task.classes + 1].contiguous()


def draw(task: Task, n: int, source: Stream) -> Sample:
    """n independent sequences of the task, float64: the same ones whenever the source is the same."""
    generator = source.torch()
    vectors = frame(task)
    labels = torch.randint(task.classes, (n,), generator=generator)
    ranks = torch.rand(n, task.tokens, generator=generator).argsort(-1).argsort(-1)
    marked = ranks < task.marked
    others = torch.randint(task.classes, (n, task.tokens), generator=generator)
    classes = torch.where(marked, labels[:, None], others)
    tokens = task.noise * torch.randn(n, task.tokens, task.width, generator=generator, dtype=torch.float64)
    tokens += vectors[1:][classes]
    tokens += marked[..., None] * vectors[0]
    return Sample(tokens, labels)
