"""Two tokenisations of the same words, and the one perplexity that compares them."""

from __future__ import annotations

import math
import sys
from pathlib import Path

import numpy as np
import pytest

from mfcheck.errors import InputError
from mfcheck.experiments.wikitext.data import load_corpus
from mfcheck.experiments.wikitext.tokenizers import (
    BytePairTokenizer,
    Encoded,
    Tokenizer,
    WordTokenizer,
    read_tokenizer,
    trained_tokenizer,
)

CORPUS = load_corpus("generated", size=1200)
LINES = tuple(" ".join(line.split()) for line in CORPUS.test)


@pytest.fixture(params=["word", "byte-pair"])
def tokenizer(request: pytest.FixtureRequest) -> Tokenizer:
    if request.param == "byte-pair":
        pytest.importorskip("tokenizers", reason="byte pairs need the extra lm")
    return trained_tokenizer(request.param, CORPUS.train, None if request.param == "word" else 300)


def test_decoding_gives_the_lines_back(tokenizer: Tokenizer) -> None:
    encoded = tokenizer.encode(CORPUS.train)
    assert tokenizer.decode(encoded.tokens) == tuple(" ".join(line.split()) for line in CORPUS.train)
    assert encoded.unknown == 0 and encoded.tokens.max() < tokenizer.size


def test_a_tokeniser_is_read_back_as_it_was_written(tokenizer: Tokenizer, tmp_path: Path) -> None:
    tokenizer.save(tmp_path / "t.json")
    again = read_tokenizer(tmp_path / "t.json")
    assert again.fingerprint == tokenizer.fingerprint
    np.testing.assert_array_equal(again.encode(LINES).tokens, tokenizer.encode(LINES).tokens)


def test_uniform_predictions_have_the_perplexity_that_the_formula_says(tokenizer: Tokenizer) -> None:
    encoded = tokenizer.encode(CORPUS.train)
    tokens = len(encoded.tokens) - 1
    # each token costs log V, and there are T / W tokens a word
    assert encoded.perplexity(tokens * math.log(tokenizer.size)) == pytest.approx(
        tokenizer.size ** (tokens / encoded.words)
    )


def test_cutting_words_into_pieces_changes_no_perplexity_if_the_model_is_the_same() -> None:
    # a model of words with p = 1/8 a word; of pieces with p = 1/8 for the first and 1 for the others
    words, pieces = Encoded(np.zeros(101, dtype=np.int32), 100), Encoded(np.zeros(251, dtype=np.int32), 100)
    assert words.perplexity(100 * math.log(8)) == pieces.perplexity(100 * math.log(8) + 150 * 0.0) == pytest.approx(8)


def test_unknown_words_are_charged_a_uniform_draw_among_them() -> None:
    tokenizer = WordTokenizer.trained(("a a b", "a c"), size=3)
    assert tokenizer.vocabulary == ("<eos>", "<unk>", "a")
    encoded = tokenizer.encode(("a b c d b",))
    # b, c, d, b are four unknown words of three kinds
    assert encoded.unknown == 4 and encoded.charge == pytest.approx(4 * math.log(3))
    # a model that knows that every other token comes with p = 1/2, and unknown words with p = 1/2 each too
    assert encoded.log_perplexity(6 * math.log(2)) == pytest.approx((6 * math.log(2) + 4 * math.log(3)) / 6)
    # merging all words into <unk> does not make the text easier than naming them uniformly
    everything = WordTokenizer.trained(("x",), size=2).encode(("p q r s",))
    assert everything.perplexity(0.0) == pytest.approx(4 ** (4 / 5))


def test_bad_input_is_refused_with_a_sentence(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(InputError, match="a tokeniser is one of word, byte-pair"):
        trained_tokenizer("letters", CORPUS.train, None)
    with pytest.raises(InputError, match="each word once"):
        WordTokenizer(("a", "a", "<unk>", "<eos>"))
    (tmp_path / "t.json").write_text("{", encoding="utf-8")
    with pytest.raises(InputError, match="is no tokeniser of this version"):
        read_tokenizer(tmp_path / "t.json")
    with pytest.raises(InputError, match="has a size; none was given"):
        trained_tokenizer("byte-pair", CORPUS.train, None)
    monkeypatch.setitem(sys.modules, "tokenizers", None)
    with pytest.raises(InputError, match=r"pip install 'mfcheck\[lm\]'"):
        BytePairTokenizer.trained(CORPUS.train, 300)


def test_a_byte_pair_vocabulary_has_room_for_every_byte() -> None:
    pytest.importorskip("tokenizers", reason="byte pairs need the extra lm")
    with pytest.raises(InputError, match="start from 256 bytes"):
        BytePairTokenizer.trained(CORPUS.train, 100)
    tokenizer = BytePairTokenizer.trained(CORPUS.train, 300)
    assert tokenizer.decode(tokenizer.encode(("Zürich <unk> 東京 x",)).tokens) == ("Zürich <unk> 東京 x",)
