"""WikiText-2 from a folder or by download, the small variant without its training split, and generated text.

A split is a tuple of lines, as published: words with spaces between them, rare ones written <unk>. Its size in words
counts one end-of-line token a line, which is how the published numbers count.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path

from mfcheck.errors import InputError

Lines = tuple[str, ...]

SPLITS = ("train", "valid", "test")
#: Words of WikiText-2 with the end-of-line token counted (Merity, Xiong, Bradbury, Socher 2016, table 1).
PUBLISHED_WORDS = {"train": 2_088_628, "valid": 217_646, "test": 245_569}
#: Distinct words of its training split, <unk> and the end-of-line token counted (same table).
PUBLISHED_VOCABULARY = 33_278
UNKNOWN, END_OF_LINE = "<unk>", "<eos>"
#: Where the data may come from: the whole, the two splits that are scored on, or text made here.
SOURCES = ("wikitext-2", "wikitext-2-small", "generated")
#: Lines this long are sentences of an article, which no two articles share by chance.
LONG_LINE = 20
#: Above this share of the scored long lines found in training, a score is no score.
LARGEST_OVERLAP = 0.01


@dataclass(frozen=True)
class Corpus:
    """Three splits and what an output must say of them.

    source: one of SOURCES; said: a sentence for every output. Raises InputError where a split is empty or more than
    LARGEST_OVERLAP of the long lines of one scored split stand in the training split too.
    """

    source: str
    train: Lines
    valid: Lines
    test: Lines
    said: str

    def __post_init__(self) -> None:
        for name in SPLITS:
            if not any(line.split() for line in self.split(name)):
                raise InputError(f"the {name} split of {self.source} is empty; it needs at least one line of words")
        for name in ("valid", "test"):
            shared = overlap(self.train, self.split(name))
            if shared > LARGEST_OVERLAP:
                raise InputError(
                    f"{shared:.1%} of the long lines of the {name} split of {self.source} stand in its training split "
                    f"too; up to {LARGEST_OVERLAP:.0%} is allowed, since a score on text trained on is no score"
                )

    def split(self, name: str) -> Lines:
        """The lines of 'train', 'valid' or 'test'."""
        return {"train": self.train, "valid": self.valid, "test": self.test}[name]


def words(lines: Iterable[str]) -> int:
    """How many words the lines hold, one end-of-line token a line counted."""
    return sum(len(line.split()) + 1 for line in lines)


def unknown_rate(lines: Iterable[str]) -> float:
    """The share of words written <unk>, end-of-line tokens counted among the words."""
    lines = tuple(lines)
    return sum(line.split().count(UNKNOWN) for line in lines) / words(lines)


def overlap(train: Iterable[str], scored: Iterable[str]) -> float:
    """The share of the scored lines of LONG_LINE words or more that stand in the training lines, word for word."""
    known = {" ".join(line.split()) for line in train}
    long = [" ".join(parts) for line in scored if len(parts := line.split()) >= LONG_LINE]
    return sum(line in known for line in long) / len(long) if long else 0.0


def load_corpus(source: str, folder: Path | None = None, seed: int = 0, size: int = 20_000) -> Corpus:
    """The corpus of a source. seed and size (words of training text) are for 'generated' alone.

    'wikitext-2': from a folder, or downloaded where folder is None. 'wikitext-2-small': trains on the first nine
    tenths of the published validation split, validates on the rest of it, scores on the test split; needs only these
    two files. Raises InputError on missing, truncated or wrongly encoded files, with what was expected.
    """
    if source == "generated":
        from mfcheck.experiments.wikitext.generated import generated_corpus

        return generated_corpus(seed, size)
    if source not in SOURCES:
        raise InputError(f"a corpus is one of {', '.join(SOURCES)}; it came as {source!r}")
    needed = SPLITS if source == "wikitext-2" else SPLITS[1:]
    if folder is None:
        split = {name: lines for name, lines in _download().items() if name in needed}
    else:
        split = {name: read_split(folder, name) for name in needed}
    for name, lines in split.items():
        _check_published(name, lines)
    if source == "wikitext-2":
        return Corpus(source, split["train"], split["valid"], split["test"], "WikiText-2 as published")
    cut = _article_before(split["valid"], 0.9)
    train, valid = split["valid"][:cut], split["valid"][cut:]
    said = (
        f"{source}: trained on the validation split of WikiText-2 ({words(train):,} words of it, {words(valid):,} held "
        "out to validate on) and scored on its test split; not comparable with published WikiText-2 numbers"
    )
    return Corpus(source, train, valid, split["test"], said)


def read_split(folder: Path, name: str) -> Lines:
    """The lines of one split, from NAME.txt or wiki.NAME.tokens in a folder.

    Raises InputError where neither is there, or the file is not UTF-8.
    """
    candidates = [folder / f"{name}.txt", folder / f"wiki.{name}.tokens"]
    if not folder.is_dir():
        raise InputError(f"there is no folder {folder}: WikiText-2 lies in one, as {name}.txt or wiki.{name}.tokens")
    path = next((path for path in candidates if path.is_file()), None)
    if path is None:
        hint = " (the preset small does without the training split)" if name == "train" else ""
        raise InputError(f"{folder} holds neither {candidates[0].name} nor {candidates[1].name}{hint}")
    try:
        text = path.read_bytes().decode("utf-8")
    except UnicodeDecodeError as error:
        raise InputError(f"{path} is not UTF-8, as WikiText-2 is: {error.reason} at byte {error.start}") from error
    return lines_of(text)


def lines_of(text: str) -> Lines:
    """The lines of a text. Only the newline ends a line: WikiText-2 holds other characters that splitlines cuts at."""
    return tuple(text.removesuffix("\n").split("\n"))


def _check_published(name: str, lines: Lines) -> None:
    count, published = words(lines), PUBLISHED_WORDS[name]
    if count != published:
        what = "truncated" if count < published else "another text"
        raise InputError(
            f"the {name} split has {count:,} words with ends of lines counted, and WikiText-2's has {published:,}: "
            f"the file is {what}, or was changed"
        )


def _article_before(lines: Lines, share: float) -> int:
    """Index of the last title of an article before a share of the words has passed."""
    wanted, passed, cut = share * words(lines), 0, 0
    for index, line in enumerate(lines):
        if passed > wanted:
            break
        if re.fullmatch(r" ?= [^=].* = ?", line):
            cut = index
        passed += len(line.split()) + 1
    return cut


def _download() -> Mapping[str, Lines]:
    """The three splits through the `datasets` library, which keeps them in its own cache."""
    try:
        from datasets import load_dataset
    except ModuleNotFoundError as error:
        raise InputError(
            "no folder with WikiText-2 was given and the library that downloads it is not installed: give --data "
            "FOLDER, or pip install 'mfcheck[lm]'"
        ) from error
    try:
        loaded = load_dataset("Salesforce/wikitext", "wikitext-2-v1")
    except Exception as error:  # whatever the network or the hub raises
        raise InputError(f"WikiText-2 could not be downloaded ({error}); give --data FOLDER instead") from error
    names = {"train": "train", "valid": "validation", "test": "test"}
    return {name: lines_of("".join(loaded[key]["text"])) for name, key in names.items()}
