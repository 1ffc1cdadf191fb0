"""Many heads at once: by the function's own leading axes, by torch.func.vmap, or one after the other."""

from __future__ import annotations

import torch
from jaxtyping import Float
from torch import Tensor
from torch.func import vmap

from mfcheck.conformance.head_subject import Call, HeadFailure, Subject, ordinary_call

NATIVE, VMAP, LOOP = "leading axes", "torch.func.vmap", "a loop"


def way_of_batching(subject: Subject) -> str:
    """NATIVE where leading axes are promised or an ordinary batch works, else VMAP where that works, else LOOP."""
    known = subject.facts.get("batching")
    if known is None:
        known = subject.facts["batching"] = _found(subject)
    return str(known)


def values_of(subject: Subject, heads: Float[Tensor, "M p"], call: Call) -> Float[Tensor, "M d"]:
    """v_theta(x; mu) of each head at the query and in the law of `call`, [M, d] in float64. Raises HeadFailure."""
    way = way_of_batching(subject)
    trusted = not {"batches", "index_independent"} & subject.violated
    if way == NATIVE and trusted:
        return subject.together((heads, *call.arguments[1:]), (len(heads),))
    if way == VMAP:
        _, x, tokens, weights = subject.place(call)
        with torch.no_grad():
            mapped = vmap(subject.function, in_dims=(0, None, None, None), randomness="different")
            output = mapped(heads.to(subject.device, subject.dtype), x, tokens, weights)
        return output.to("cpu", torch.float64).reshape(len(heads), subject.token_dimension)
    return torch.stack([subject.value(Call(theta, call.x, call.tokens, call.shares)) for theta in heads])


def _found(subject: Subject) -> str:
    p, d = subject.parameter_dimension, subject.token_dimension
    if subject.batched:
        return NATIVE
    call = ordinary_call(p, d, d + 3)
    theta, x, tokens, weights = call.arguments
    several = (torch.stack([theta, -theta]), torch.stack([x, x]), torch.stack([tokens, tokens]), weights.expand(2, -1))
    if subject.batched is None:
        try:
            paired = subject.together(several, (2,))
            crossed = subject.together((several[0][:, None], *several[1:]), (2, 2))
            alone = [subject.value(Call(sign * theta, *call.arguments[1:3], call.shares)) for sign in (1, -1)]
        except HeadFailure:
            pass
        else:
            # nothing was promised: leading axes that mean something else to it are no fault
            if torch.allclose(paired, torch.stack(alone), 1e-3) and torch.allclose(crossed[:, 0], paired, 1e-3):
                return NATIVE
    try:
        with torch.no_grad():
            placed = [part.to(subject.device, subject.dtype, copy=True) for part in several]
            vmap(subject.function, randomness="different")(*placed)
    except Exception:
        return LOOP
    return VMAP
