"""The text of a run, tokenised once, in a folder that every cell reads."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from pathlib import Path

import numpy as np
import torch
from jaxtyping import Int
from numpy.typing import NDArray
from torch import Tensor

from mfcheck.errors import InputError
from mfcheck.experiments.wikitext.arms import Text
from mfcheck.experiments.wikitext.data import SPLITS, load_corpus, unknown_rate
from mfcheck.experiments.wikitext.tokenizers import Encoded, read_tokenizer, trained_tokenizer
from mfcheck.statistics.seeds import Stream

#: Written last: a folder without it was not finished and is made again.
ABOUT = "text.json"


@dataclass(frozen=True)
class Prepared:
    """Three splits as tokens, how many tokens there are, and what an output says of them.

    fingerprint: the tokeniser's, by which a checkpoint of another vocabulary is known.
    """

    text: Text
    fingerprint: str
    vocabulary: int
    said: str
    splits: Mapping[str, Encoded]
    unknown_rates: Mapping[str, float]


def prepare(text: Text, folder: Path, data: Path | None = None) -> Prepared:
    """Loads, checks and tokenises the text into a folder, or reads it from there where that was done before.

    Raises InputError as load_corpus does, and where the folder holds other text, or its vocabulary is of another run.
    """
    if (folder / ABOUT).exists():
        return read_prepared(folder, text)
    corpus = load_corpus(text.corpus, data, size=text.size)
    tokenizer = trained_tokenizer(text.tokenizer, corpus.train, text.vocabulary)
    splits = {name: tokenizer.encode(corpus.split(name)) for name in SPLITS}
    folder.mkdir(parents=True, exist_ok=True)
    tokenizer.save(folder / "tokenizer.json")
    for name, split in splits.items():
        partial = folder / f".{name}.partial.npy"
        np.save(partial, split.tokens)
        partial.replace(folder / f"{name}.npy")
    about = {
        "text": asdict(text),
        "fingerprint": tokenizer.fingerprint,
        "vocabulary": tokenizer.size,
        "said": corpus.said,
        "unknown_rates": {name: unknown_rate(corpus.split(name)) for name in SPLITS},
        "splits": {
            name: {"words": split.words, "unknown": split.unknown, "charge": split.charge}
            for name, split in splits.items()
        },
    }
    partial = folder / f".{ABOUT}.partial"
    partial.write_text(json.dumps(about, indent=1), encoding="utf-8")
    partial.replace(folder / ABOUT)
    return read_prepared(folder, text)


def read_prepared(folder: Path, text: Text | None = None) -> Prepared:
    """What `prepare` wrote. Raises InputError where it is other text, another vocabulary, or damaged."""
    try:
        about = json.loads((folder / ABOUT).read_text(encoding="utf-8"))
        found = Text(**about["text"])
        splits = {
            name: Encoded(np.load(folder / f"{name}.npy", mmap_mode="r"), **about["splits"][name]) for name in SPLITS
        }
        made = Prepared(found, about["fingerprint"], about["vocabulary"], about["said"], splits, about["unknown_rates"])
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise InputError(f"{folder} holds no text that this version of mfcheck prepared ({error})") from error
    if text is not None and found != text:
        raise InputError(f"{folder} holds {found}, and {text} is asked for: take another folder for it")
    if read_tokenizer(folder / "tokenizer.json").fingerprint != made.fingerprint:
        raise InputError(f"the vocabulary in {folder / 'tokenizer.json'} is of another run than the tokens beside it")
    return made


class Windows:
    """The training split as windows of context + 1 tokens, in an order that depends on the seed and the step alone.

    Every epoch lays the windows anew, from another first token, and goes through them in another order. Where a run
    stands in the data is therefore its step, and nothing else needs to be kept.
    """

    def __init__(self, tokens: NDArray[np.int32], context: int, batch: int, source: Stream) -> None:
        # one window less than fits leaves room for the shift of an epoch
        self.per_epoch = (len(tokens) - 1) // context - 1
        if self.per_epoch < batch:
            raise InputError(
                f"{len(tokens):,} tokens make {max(self.per_epoch, 0)} windows of {context}; a batch takes {batch}"
            )
        self._tokens = torch.from_numpy(np.array(tokens, dtype=np.int64))
        self._reach = torch.arange(context + 1)
        self.context, self.batch, self.source = context, batch, source
        self._epoch, self._starts = -1, np.empty(0, dtype=np.int64)

    def at(self, step: int) -> Int[Tensor, "B N1"]:
        """The batch of a step."""
        steps_an_epoch = self.per_epoch // self.batch
        epoch, within = divmod(step, steps_an_epoch)
        if epoch != self._epoch:
            rng = self.source.child("epoch", epoch).numpy()
            shift = int(rng.integers(self.context))
            self._starts, self._epoch = rng.permutation(self.per_epoch) * self.context + shift, epoch
        starts = torch.from_numpy(self._starts[within * self.batch : (within + 1) * self.batch])
        return self._tokens[starts[:, None] + self._reach]
