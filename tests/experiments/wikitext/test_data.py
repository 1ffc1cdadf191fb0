"""Text in, splits out: counts, overlap, what is refused, and where the small variant cuts."""

from __future__ import annotations

import os
import sys
import types
from pathlib import Path

import pytest

from mfcheck.errors import InputError
from mfcheck.experiments.wikitext import data
from mfcheck.experiments.wikitext.data import (
    PUBLISHED_WORDS,
    Corpus,
    lines_of,
    load_corpus,
    overlap,
    read_split,
    unknown_rate,
    words,
)

#: Where the two published splits may lie; the tests that need them are skipped elsewhere.
HERE = Path(os.environ.get("MFCHECK_WIKITEXT", Path(__file__).parents[4] / "shared" / "data" / "wikitext-2"))
published = pytest.mark.skipif(
    not (HERE / "valid.txt").is_file(), reason=f"WikiText-2 is not in {HERE} (MFCHECK_WIKITEXT names its folder)"
)


def test_words_count_one_end_of_line_a_line() -> None:
    assert words(["", " a b ", " <unk> c "]) == 7
    assert unknown_rate(["", " a b ", " <unk> c "]) == 1 / 7


def test_only_the_newline_ends_a_line() -> None:
    # str.splitlines would cut at all of these, and count more ends of lines than were published
    assert lines_of("a\x0bb\x1cc\u2028d\ne\n") == ("a\x0bb\x1cc\u2028d", "e")


def test_overlap_counts_long_lines_that_stand_in_both() -> None:
    long, other = " ".join("x" * 25), " ".join("y" * 25)
    assert overlap([long, "short"], [long, other, "short"]) == 0.5
    assert overlap([long], ["short"]) == 0.0


def test_a_test_split_that_was_trained_on_is_refused() -> None:
    lines = tuple(" ".join(f"w{i + j}" for j in range(25)) for i in range(10))
    with pytest.raises(InputError, match=r"100\.0% of the long lines of the test split"):
        Corpus("generated", lines, (" other words ",), lines, "")


def test_generated_text_is_equal_for_equal_seeds_and_has_the_published_form() -> None:
    one, same, other = (load_corpus("generated", seed=seed, size=1500) for seed in (3, 3, 4))
    assert one == same and one.train != other.train
    assert 1500 <= words(one.train) < 2000 and 0.01 < unknown_rate(one.train) < 0.06
    assert any(line.startswith(" = ") and line.endswith(" = ") for line in one.train)
    assert overlap(one.train, one.test) == 0.0


def write(folder: Path, **splits: str | bytes) -> Path:
    for name, text in splits.items():
        (folder / f"{name}.txt").write_bytes(text if isinstance(text, bytes) else text.encode())
    return folder


def test_bad_files_are_refused_with_a_sentence(tmp_path: Path) -> None:
    with pytest.raises(InputError, match=r"there is no folder .*nowhere"):
        load_corpus("wikitext-2-small", tmp_path / "nowhere")
    with pytest.raises(InputError, match=r"holds neither valid\.txt nor wiki\.valid\.tokens"):
        load_corpus("wikitext-2-small", tmp_path)
    write(tmp_path, valid="a b\n", test="c d\n")
    with pytest.raises(InputError, match=r"has 3 words .* has 217,646: the file is truncated"):
        load_corpus("wikitext-2-small", tmp_path)
    with pytest.raises(InputError, match=r"neither train\.txt .*the preset small does without"):
        load_corpus("wikitext-2", tmp_path)
    write(tmp_path, valid=b"caf\xe9\n")
    with pytest.raises(InputError, match=r"valid\.txt is not UTF-8, .*byte 3"):
        load_corpus("wikitext-2-small", tmp_path)
    with pytest.raises(InputError, match="a corpus is one of"):
        load_corpus("wikitext-103")


def test_the_other_published_file_names_are_read_too(tmp_path: Path) -> None:
    (tmp_path / "wiki.valid.tokens").write_text(" a b \n", encoding="utf-8")
    assert read_split(tmp_path, "valid") == (" a b ",)


def test_the_download_goes_through_datasets_and_is_checked(monkeypatch: pytest.MonkeyPatch) -> None:
    rows = {"train": ["", " a b \n"], "validation": [" c \n"], "test": [" d \n"]}
    library = types.ModuleType("datasets")
    library.load_dataset = lambda name, config: {key: {"text": text} for key, text in rows.items()}  # type: ignore[attr-defined]
    monkeypatch.setitem(sys.modules, "datasets", library)
    assert data._download()["valid"] == (" c ",)
    with pytest.raises(InputError, match="train split has 3 words"):
        load_corpus("wikitext-2")

    def offline(name: str, config: str) -> None:
        raise ConnectionError("no route to host")

    library.load_dataset = offline  # type: ignore[attr-defined]
    with pytest.raises(InputError, match=r"could not be downloaded \(no route to host\); give --data"):
        load_corpus("wikitext-2")
    monkeypatch.setitem(sys.modules, "datasets", None)
    with pytest.raises(InputError, match=r"pip install 'mfcheck\[lm\]'"):
        load_corpus("wikitext-2")


@published
def test_the_published_splits_have_the_published_counts_and_the_small_variant_says_what_it_is() -> None:
    corpus = load_corpus("wikitext-2-small", HERE)
    assert words(corpus.train) + words(corpus.valid) == PUBLISHED_WORDS["valid"]
    assert words(corpus.test) == PUBLISHED_WORDS["test"]
    assert words(corpus.train) / PUBLISHED_WORDS["valid"] < 0.9
    # cut where an article begins
    assert corpus.valid[0].startswith(" = ") and not corpus.valid[0].startswith(" = = ")
    assert "trained on the validation split" in corpus.said and "not comparable" in corpus.said


@published
def test_a_file_that_lost_its_end_is_refused(tmp_path: Path) -> None:
    whole = (HERE / "valid.txt").read_bytes()
    write(tmp_path, valid=whole[:-2000], test=b"x\n")
    with pytest.raises(InputError, match="truncated"):
        load_corpus("wikitext-2-small", tmp_path)
