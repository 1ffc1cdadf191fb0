"""Text in the form of WikiText-2, made here: for tests and for the preset that needs no data."""

from __future__ import annotations

import numpy as np

from mfcheck.errors import InputError
from mfcheck.experiments.wikitext.data import UNKNOWN, Corpus, Lines
from mfcheck.statistics.seeds import Stream, stream

SYLLABLES = ("ba", "do", "fe", "gi", "ka", "lo", "me", "nu", "pa", "ri", "so", "ti", "va", "wo", "ze")
#: Words of the invented language; their frequencies follow Zipf's law, the first being the commonest.
VOCABULARY = tuple(a + b for a in SYLLABLES for b in SYLLABLES)
UNKNOWN_RATE = 0.03
#: A word is followed by its own successor this often, else by one of its article's words or any other.
FOLLOWED, TOPIC = 0.4, 0.3


def generated_corpus(seed: int, size: int = 20_000) -> Corpus:
    """About `size` words to train on and a quarter as many to validate and to score on, equal for equal seeds.

    Articles with titles, sections and sentences: a Markov chain over invented words, in which an article keeps coming
    back to words of its own, so that looking back pays.
    """
    if size < 200:
        raise InputError(f"generated text has at least 200 words to train on; {size} were asked for")
    root = stream(seed, "generated text")
    train, valid, test = (
        _text(root.child(name), count) for name, count in (("train", size), ("valid", size // 4), ("test", size // 4))
    )
    return Corpus("generated", train, valid, test, f"text generated from seed {seed}, not WikiText-2")


def _text(source: Stream, size: int) -> Lines:
    rng = source.numpy()
    zipf = 1.0 / np.arange(1, len(VOCABULARY) + 1)
    zipf /= zipf.sum()
    # the language itself is the same in all splits
    successor = stream(0, "generated language").numpy().permutation(len(VOCABULARY))
    lines: list[str] = []
    written = 0
    while written < size:
        topic = rng.choice(len(VOCABULARY), 6)
        lines += ["", f" = {VOCABULARY[topic[0]].capitalize()} {VOCABULARY[topic[1]]} = ", ""]
        for _ in range(rng.integers(2, 6)):
            line = _sentences(rng, zipf, successor, topic)
            lines.append(f" {' '.join(line)} ")
            written += len(line) + 1
    return tuple(lines)


def _sentences(rng: np.random.Generator, zipf: np.ndarray, successor: np.ndarray, topic: np.ndarray) -> list[str]:
    """One paragraph of one to four sentences."""
    line: list[str] = []
    for _ in range(rng.integers(1, 5)):
        word = int(rng.choice(topic))
        for _ in range(rng.integers(6, 14)):
            line.append(UNKNOWN if rng.random() < UNKNOWN_RATE else VOCABULARY[word])
            draw = rng.random()
            if draw < FOLLOWED:
                word = int(successor[word])
            else:
                word = int(rng.choice(topic)) if draw < FOLLOWED + TOPIC else int(rng.choice(len(zipf), p=zipf))
        line.append(".")
    return line
