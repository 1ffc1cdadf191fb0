"""Two tokenisations of the same words, whole words and byte pairs, and the perplexity per word that compares them.

A split of W words (ends of lines counted) becomes T tokens. A model gives the negative logarithm of the probability of
each; with their sum S in nats,

    perplexity per word = exp((S + U log(V_U)) / W),

whatever T is. U counts the words that the tokeniser does not know and V_U the distinct ones among them: a model that
gives <unk> a probability has said nothing of which unknown word stands there, so that a uniform draw among those there
are is charged for it (Ueberla 1994). Byte pairs know every word, U = 0; so do the published splits of WikiText-2, in
which <unk> is a word as any other. The sum runs over one way of cutting the text into byte pairs, hence its perplexity
is an upper bound of that of the text.
"""

from __future__ import annotations

import json
import math
from abc import ABC, abstractmethod
from collections import Counter
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from mfcheck.errors import InputError
from mfcheck.experiments.wikitext.data import END_OF_LINE, UNKNOWN, Lines, words
from mfcheck.statistics.seeds import digest

KINDS = ("word", "byte-pair")


@dataclass(frozen=True)
class Encoded:
    """A split as tokens [T + 1], an end of line before the first so that every token of the text is predicted.

    words: W, ends of lines counted. unknown: U, how many of them the tokeniser does not know; charge: U log(V_U).
    """

    tokens: NDArray[np.int32]
    words: int
    unknown: int = 0
    charge: float = 0.0

    def perplexity(self, nats: float) -> float:
        """Perplexity per word for a sum of negative log-probabilities over all T tokens, in nats."""
        return math.exp(self.log_perplexity(nats))

    def log_perplexity(self, nats: float) -> float:
        """The same as its logarithm, nats per word, which is what differences are taken of."""
        return (nats + self.charge) / self.words


class Tokenizer(ABC):
    """Lines to token numbers. size: how many tokens there are; fingerprint: a digest of all of them in order."""

    kind: str

    @property
    @abstractmethod
    def size(self) -> int: ...

    @property
    @abstractmethod
    def fingerprint(self) -> str: ...

    @abstractmethod
    def encode(self, lines: Lines) -> Encoded:
        """The lines, each with its end of line."""

    @abstractmethod
    def decode(self, tokens: NDArray[np.int32]) -> Lines:
        """The lines again, words with one space between them; unknown words come back as <unk>."""

    @abstractmethod
    def written(self) -> str:
        """All that `read` needs to make the same tokeniser again."""

    def save(self, path: Path) -> None:
        """Written whole: beside its place, then moved there."""
        partial = path.with_name(f".{path.name}.partial")
        partial.write_text(json.dumps({"kind": self.kind, "vocabulary": self.written()}), encoding="utf-8")
        partial.replace(path)


class WordTokenizer(Tokenizer):
    """Every word of the training lines is a token, the commonest first; <unk> is always among them."""

    kind = "word"

    def __init__(self, vocabulary: tuple[str, ...]) -> None:
        self.vocabulary = vocabulary
        self._index = {word: index for index, word in enumerate(vocabulary)}
        if len(self._index) < len(vocabulary) or UNKNOWN not in self._index or END_OF_LINE not in self._index:
            raise InputError(f"a vocabulary holds each word once, {UNKNOWN} and {END_OF_LINE} among them")

    @classmethod
    def trained(cls, lines: Lines, size: int | None = None) -> WordTokenizer:
        """The vocabulary of the lines: all of it, or the `size` commonest tokens. Ties go by the alphabet."""
        counts = Counter(word for line in lines for word in line.split())
        counts[END_OF_LINE] += len(lines)
        counts[UNKNOWN] += 0
        ordered = sorted(counts, key=lambda word: (-counts[word], word))
        if size is not None:
            special = [END_OF_LINE, UNKNOWN]
            ordered = special + [word for word in ordered if word not in special][: max(size - 2, 0)]
        return cls(tuple(ordered))

    @property
    def size(self) -> int:
        return len(self.vocabulary)

    @property
    def fingerprint(self) -> str:
        return digest(self.kind, *self.vocabulary)

    def encode(self, lines: Lines) -> Encoded:
        unknown, end = self._index[UNKNOWN], self._index[END_OF_LINE]
        tokens, missed = [end], Counter[str]()
        for line in lines:
            for word in line.split():
                index = self._index.get(word)
                if index is None:
                    missed[word] += 1
                    index = unknown
                tokens.append(index)
            tokens.append(end)
        count = sum(missed.values())
        charge = count * math.log(len(missed)) if missed else 0.0
        return Encoded(np.array(tokens, dtype=np.int32), words(lines), count, charge)

    def decode(self, tokens: NDArray[np.int32]) -> Lines:
        text = " ".join(self.vocabulary[token] for token in tokens[1:])
        return tuple(line.strip() for line in text.split(END_OF_LINE)[:-1])

    def written(self) -> str:
        return "\n".join(self.vocabulary)


class BytePairTokenizer(Tokenizer):
    """Byte pairs merged by frequency on the training lines, by the `tokenizers` library (extra lm).

    <unk> and the end of line are tokens of their own; any other text is spelt out, so that no word is unknown.
    """

    kind = "byte-pair"

    def __init__(self, tokenizer: Any) -> None:
        self._tokenizer = tokenizer
        self._end = tokenizer.token_to_id(END_OF_LINE)
        if self._end is None or tokenizer.token_to_id(UNKNOWN) is None:
            raise InputError(f"a byte-pair vocabulary holds {UNKNOWN} and {END_OF_LINE}")

    @classmethod
    def trained(cls, lines: Lines, size: int) -> BytePairTokenizer:
        """A vocabulary of at most `size` tokens from the lines. Raises InputError where the library is not there."""
        library = _library()
        alphabet = library.pre_tokenizers.ByteLevel.alphabet()
        if size < len(alphabet) + 2:
            raise InputError(f"byte pairs start from {len(alphabet)} bytes and 2 tokens of their own; size is {size}")
        tokenizer = library.Tokenizer(library.models.BPE())
        tokenizer.pre_tokenizer = library.pre_tokenizers.ByteLevel(add_prefix_space=True)
        tokenizer.decoder = library.decoders.ByteLevel()
        trainer = library.trainers.BpeTrainer(
            vocab_size=size,
            # with the space before it, which is no token of its own
            special_tokens=[library.AddedToken(UNKNOWN, lstrip=True), END_OF_LINE],
            initial_alphabet=sorted(alphabet),
            show_progress=False,
        )
        tokenizer.train_from_iterator((" ".join(line.split()) for line in lines), trainer)
        return cls(tokenizer)

    @property
    def size(self) -> int:
        return int(self._tokenizer.get_vocab_size())

    @property
    def fingerprint(self) -> str:
        return digest(self.kind, self.written())

    def encode(self, lines: Lines) -> Encoded:
        tokens = [self._end]
        for encoding in self._tokenizer.encode_batch([" ".join(line.split()) for line in lines]):
            tokens += encoding.ids
            tokens.append(self._end)
        return Encoded(np.array(tokens, dtype=np.int32), words(lines))

    def decode(self, tokens: NDArray[np.int32]) -> Lines:
        ends = np.flatnonzero(tokens[1:] == self._end)
        parts = np.split(tokens[1:], ends + 1)[: len(ends)]
        decoded = [self._tokenizer.decode(part[:-1].tolist(), skip_special_tokens=False) for part in parts]
        return tuple(" ".join(line.replace(UNKNOWN, f" {UNKNOWN} ").split()) for line in decoded)

    def written(self) -> str:
        return str(self._tokenizer.to_str())


def trained_tokenizer(kind: str, lines: Lines, size: int | None) -> Tokenizer:
    """The tokeniser of a kind, trained on the training lines alone. Raises InputError on an unknown kind."""
    if kind == "word":
        return WordTokenizer.trained(lines, size)
    if kind == "byte-pair":
        if size is None:
            raise InputError("a byte-pair vocabulary has a size; none was given")
        return BytePairTokenizer.trained(lines, size)
    raise InputError(f"a tokeniser is one of {', '.join(KINDS)}; it came as {kind!r}")


def read_tokenizer(path: Path) -> Tokenizer:
    """The tokeniser that `save` wrote. Raises InputError where the file is missing or something else."""
    try:
        written = json.loads(path.read_text(encoding="utf-8"))
        kind, vocabulary = written["kind"], written["vocabulary"]
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise InputError(f"{path} is no tokeniser of this version of mfcheck ({error})") from error
    if kind == "word":
        return WordTokenizer(tuple(vocabulary.split("\n")))
    if kind == "byte-pair":
        return BytePairTokenizer(_library().Tokenizer.from_str(vocabulary))
    raise InputError(f"{path}: a tokeniser is one of {', '.join(KINDS)}; it came as {kind!r}")


def _library() -> Any:
    try:
        import tokenizers
    except ModuleNotFoundError as error:
        raise InputError(
            "byte pairs need the library tokenizers, which is not installed: pip install 'mfcheck[lm]', or take the "
            "word tokeniser"
        ) from error
    return tokenizers
