"""Randomness derived from names: stream(root, claim, ...), never from the order in which things run."""

from __future__ import annotations

import hashlib
import operator
from dataclasses import dataclass

import numpy as np
import torch

from mfcheck.errors import InputError

#: Stands between the names that are hashed: no name holds it, so ("ab", "c") and ("a", "bc") stay apart.
SEPARATOR = "\x1f"


@dataclass(frozen=True)
class Stream:
    """A named source of randomness. Equal root and names give equal numbers, whatever ran before."""

    root: int
    names: tuple[str, ...] = ()

    def child(self, *names: object) -> Stream:
        """The stream of a part: child("noise", 3) differs from child("noise", 4) and from its parent.

        A name is a word or a number, known by how it is written: child(3) is child("3"). Raises InputError on
        anything else, since an object may be written with its address, which differs from run to run.
        """
        return Stream(self.root, self.names + tuple(_written(name) for name in names))

    def integer(self, bits: int = 64) -> int:
        """A whole number in [0, 2^bits), bits <= 64: a keyed hash of root and names."""
        text = SEPARATOR.join((str(self.root), *self.names)).encode()
        return int.from_bytes(hashlib.blake2b(text, digest_size=8).digest(), "little") >> (64 - bits)

    def numpy(self) -> np.random.Generator:
        """A fresh NumPy generator at the head of this stream."""
        return np.random.Generator(np.random.PCG64(self.integer()))

    def torch(self, device: str | torch.device = "cpu") -> torch.Generator:
        """A fresh torch generator at the head of this stream, on a device.

        torch's CPU generator keeps 32 bits of its seed: among k generators some pair is equal with probability
        k^2 / 2^33, which is nothing for k of a few thousand; with one generator for each of 1e5 replicates expect one
        pair of equal replicates. Where that matters use one generator for a batch, or `numpy`, which keeps 64 bits.
        """
        return torch.Generator(device=device).manual_seed(self.integer(63))


def stream(root: int, *names: object) -> Stream:
    """The stream of a root seed and names, such as stream(plan.seed, claim.id, replicate)."""
    try:
        whole = operator.index(root)
    except TypeError:
        raise InputError(f"a root seed is a whole number; it came as {root!r}") from None
    return Stream(whole).child(*names)


def digest(*parts: object) -> str:
    """A short digest of settings and names, equal for equal representations."""
    return hashlib.blake2b(repr(parts).encode(), digest_size=8).hexdigest()


def _written(name: object) -> str:
    if not isinstance(name, (str, int, float, np.generic)):
        raise InputError(f"a stream's name is a word or a number; it came as {type(name).__name__}")
    text = str(name)
    if SEPARATOR in text:
        raise InputError(f"a stream's name may not hold the separator {SEPARATOR!r}; it came as {text!r}")
    return text
