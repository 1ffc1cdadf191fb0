"""Equal parameters and equal FLOPs: what each arm has of them, and the width of the MLP that makes them equal."""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import lru_cache

import torch
from torch.nn.attention import SDPBackend, sdpa_kernel
from torch.utils.flop_counter import FlopCounterMode

from mfcheck.errors import InputError
from mfcheck.experiments.wikitext.arms import Arm, ModelSettings
from mfcheck.experiments.wikitext.model import LanguageModel, Shape

#: Arms are said to match where a count is within this share of the reference's.
TOLERANCE = 0.02
#: Heads of the ordinary attention that every arm is held to.
REFERENCE_HEADS = 8


@dataclass(frozen=True)
class Matched:
    """An arm's model and its counts beside the reference's: parameters, FLOPs a token (forward and backward)."""

    shape: Shape
    parameters: int
    flops: float
    parameter_ratio: float
    flop_ratio: float

    @property
    def parameters_match(self) -> bool:
        return abs(self.parameter_ratio - 1) <= TOLERANCE

    @property
    def flops_match(self) -> bool:
        return abs(self.flop_ratio - 1) <= TOLERANCE


def reference_shape(vocabulary: int, model: ModelSettings) -> Shape:
    """Ordinary attention with REFERENCE_HEADS heads. Raises InputError where they do not divide the width."""
    if model.width % REFERENCE_HEADS:
        raise InputError(
            f"the width is a multiple of {REFERENCE_HEADS}, the reference's heads; it came as {model.width}"
        )
    return Shape(
        vocabulary,
        model.context,
        model.width,
        model.layers,
        model.hidden,
        "multihead",
        REFERENCE_HEADS,
        model.width // REFERENCE_HEADS,
        model.dropout,
    )


def match(arm: Arm, vocabulary: int, model: ModelSettings) -> Matched:
    """The arm's model at the reference's parameters or FLOPs, by the width of its MLP.

    With M h = d nothing needs to change and both counts match. Otherwise the count that the arm names is matched: the
    other cannot be too, since attention spends FLOPs on pairs of tokens for which it has no parameters. Raises
    InputError where no width of the MLP brings the count within TOLERANCE.
    """
    reference = reference_shape(vocabulary, model)
    h = arm.head_width if arm.head_width is not None else model.width // arm.heads
    if arm.head_width is None and model.width % arm.heads:
        raise InputError(f"arm {arm.name}: without a head_width, {arm.heads} heads divide the width {model.width}")
    shape = replace(reference, attention=arm.attention, heads=arm.heads, head_width=h)
    if arm.heads * h != model.width:
        count = parameters if arm.match == "parameters" else flops_per_token
        # both counts are linear in the MLP's width
        slope = count(replace(shape, hidden=2)) - count(replace(shape, hidden=1))
        hidden = round(1 + (count(reference) - count(replace(shape, hidden=1))) / slope)
        if hidden < 1:
            raise InputError(
                f"arm {arm.name}: {arm.heads} heads of width {h} alone have more {arm.match} than the whole reference"
            )
        shape = replace(shape, hidden=hidden)
    made = Matched(
        shape,
        parameters(shape),
        flops_per_token(shape),
        parameters(shape) / parameters(reference),
        flops_per_token(shape) / flops_per_token(reference),
    )
    if not (made.parameters_match if arm.match == "parameters" else made.flops_match):
        raise InputError(
            f"arm {arm.name} cannot be matched by {arm.match} within {TOLERANCE:.0%}: it has "
            f"{made.parameter_ratio:.3f} of the reference's parameters and {made.flop_ratio:.3f} of its FLOPs"
        )
    return made


@lru_cache(maxsize=256)
def parameters(shape: Shape) -> int:
    """How many trainable numbers a model has; the tied embedding counts once."""
    with torch.device("meta"):
        return sum(parameter.numel() for parameter in LanguageModel(shape).parameters())


@lru_cache(maxsize=256)
def flops_per_token(shape: Shape) -> float:
    """FLOPs of one forward and backward pass over a full window, by torch's counter, over its tokens.

    Counted on the meta device with attention written out, so that no kernel hides its products; a causal kernel that
    skips the masked half would save the same share in every arm of equal M h.
    """
    with torch.device("meta"):
        model = LanguageModel(replace(shape, dropout=0.0))
        tokens = torch.zeros(1, shape.context + 1, dtype=torch.long)
    with sdpa_kernel(SDPBackend.MATH), FlopCounterMode(display=False) as counter:
        model.loss(tokens).backward()
    return counter.get_total_flops() / shape.context
