"""Randomness derived from names: stream(root, claim, ...), never from the order in which things run."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass

import numpy as np
import torch


@dataclass(frozen=True)
class Stream:
    """A named source of randomness. Equal root and names give equal numbers, whatever ran before."""

    root: int
    names: tuple[str, ...] = ()

    def child(self, *names: object) -> Stream:
        """The stream of a part: child("noise", 3) differs from child("noise", 4) and from its parent."""
        return Stream(self.root, self.names + tuple(str(name) for name in names))

    def integer(self, bits: int = 64) -> int:
        """A whole number in [0, 2^bits), bits <= 64: a keyed hash of root and names."""
        # a separator that no name holds keeps ("ab", "c") apart from ("a", "bc")
        text = "\x1f".join((str(self.root), *self.names)).encode()
        return int.from_bytes(hashlib.blake2b(text, digest_size=8).digest(), "little") >> (64 - bits)

    def numpy(self) -> np.random.Generator:
        """A fresh NumPy generator at the head of this stream."""
        return np.random.Generator(np.random.PCG64(self.integer()))

    def torch(self, device: str | torch.device = "cpu") -> torch.Generator:
        """A fresh torch generator at the head of this stream, on a device."""
        return torch.Generator(device=device).manual_seed(self.integer(63))


def stream(root: int, *names: object) -> Stream:
    """The stream of a root seed and names, such as stream(plan.seed, claim.id, replicate)."""
    return Stream(int(root)).child(*names)
