"""More heads that break one property each: regularity, growth, gradients, precision and tails."""

from __future__ import annotations

import numpy as np
import torch
from torch import Tensor

from mfcheck.conformance.broken_heads import BROKEN, D, breaks, parts, softmax
from mfcheck.conformance.head_spec import HeadSpec
from mfcheck.heads import Head
from mfcheck.heads.protocol import average_of_tokens
from mfcheck.heads.softmax import softmax_average

__all__ = ["BROKEN"]


@breaks("lipschitz_in_x")
def gate_on_x() -> Head:
    """Switches on where the first coordinate of x is positive."""
    return softmax("gate on x", after=lambda output, theta, x, *_: output * (x[..., :1] > 0))


@breaks("lipschitz_in_x")
def root_of_x() -> Head:
    """A factor sqrt(|x_1|), which is no Lipschitz function at 0."""
    return softmax("root of x", after=lambda output, theta, x, *_: output * x[..., :1].abs().sqrt())


@breaks("lipschitz_in_theta")
def gate_on_theta() -> Head:
    """Logits are counted where the first parameter is positive."""
    return softmax("gate on theta", matrices=lambda a, v: (a * (a[..., :1, :1] > 0), v))


@breaks("lipschitz_in_theta")
def root_of_theta() -> Head:
    """Values of sqrt(|V|), entry by entry, which is no Lipschitz function at 0."""
    return softmax("root of theta", matrices=lambda a, v: (a, v.abs().sqrt()))


@breaks("lipschitz_in_law")
def token_furthest_right() -> Head:
    """Attends to the tokens of the largest first coordinate alone, whatever x and theta say."""

    def average(logits: Tensor, tokens: Tensor, weights: Tensor) -> Tensor:
        first = torch.where(weights > 0, tokens[..., 0], -torch.inf)
        shares = torch.where(first == first.amax(-1, keepdim=True), weights, 0.0)
        return average_of_tokens(shares, tokens) / shares.sum(-1, keepdim=True)

    return softmax("token furthest right", average=average)


@breaks("lipschitz_in_law")
def share_of_mass() -> Head:
    """A factor that switches where 37 % of the mass have a first coordinate above 0: a jump as mass moves."""

    def after(output: Tensor, theta: Tensor, x: Tensor, tokens: Tensor, weights: Tensor) -> Tensor:
        return output * ((weights * (tokens[..., 0] > 0)).sum(-1, keepdim=True) > 0.37)

    return softmax("share of mass", after=after)


@breaks("growth")
def exponential_value() -> Head:
    """Values of e^V, entry by entry, with growth of power 1 declared."""
    return softmax("exponential value", matrices=lambda a, v: (a, v.exp()))


@breaks("growth")
def quadratic_value() -> Head:
    """Values of V^2, entry by entry, with growth of power 1 declared."""
    return softmax("quadratic value", matrices=lambda a, v: (a, v.square()))


@breaks("gradient")
def detached_value() -> Head:
    """The value matrix is cut off from the gradient."""
    return softmax("detached value", matrices=lambda a, v: (a, v.detach()))


@breaks("gradient")
def detached_logits() -> Head:
    """Gradients do not go through the softmax."""
    return softmax(
        "detached logits",
        average=lambda logits, tokens, weights: softmax_average(logits.detach(), tokens, weights),
    )


def _single(value: Tensor) -> bool:
    return value.dtype == torch.float32


@breaks("float32_agrees")
def rounding_to_half() -> Head:
    """Computes in half precision where single precision comes in."""
    return softmax("rounding to half", after=lambda output, *_: output.half().float() if _single(output) else output)


@breaks("float32_agrees")
def wide_epsilon() -> Head:
    """Adds 1e-3 below the fraction in single precision, to be safe."""
    return softmax("wide epsilon", after=lambda output, *_: output / (1 + 1e-3) if _single(output) else output)


@breaks("gpu_agrees", needs_gpu=True)
def half_on_the_gpu() -> Head:
    """Computes in half precision on the GPU, as under autocast."""
    return softmax("half on the GPU", after=lambda output, *_: output.half().to(output) if output.is_cuda else output)


@breaks("gpu_agrees", needs_gpu=True)
def constant_on_the_cpu() -> Head:
    """Holds a constant that stays on the CPU."""
    scale = torch.ones(D, dtype=torch.float64)
    return softmax("constant on the CPU", after=lambda output, *_: output * scale.to(output.dtype))


@breaks("finite_variance")
def heavy_tails() -> HeadSpec:
    """Values with a factor e^(0.4 a^2), a the first parameter: under a normal law E |v|^2 is infinite."""

    def after(output: Tensor, theta: Tensor, *_: Tensor) -> Tensor:
        return output * (0.4 * parts(theta)[0][..., 0, :1].square()).exp()

    return HeadSpec(softmax("heavy tails", after=after).function, 2 * D * D, D, batched=True, name="heavy tails")


@breaks("finite_variance")
def heavy_start() -> HeadSpec:
    """Softmax attention started from Student's law of 1.5 degrees of freedom, which has no variance."""

    def rho_0(generator: torch.Generator, count: int) -> Tensor:
        normal = torch.randn(count, 2 * D * D, generator=generator, dtype=torch.float64)
        # torch's own Student law takes no generator
        seed = int(torch.randint(2**31, (1,), generator=generator))
        chi_square = np.random.default_rng(seed).chisquare(1.5, (count, 1))
        return normal / (torch.from_numpy(chi_square) / 1.5).sqrt()

    return HeadSpec(softmax("").function, 2 * D * D, D, growth_power=1.0, rho_0=rho_0, batched=True, name="heavy start")
