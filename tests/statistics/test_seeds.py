"""Streams: equal names give equal numbers, whatever ran before; other names give others."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats

from mfcheck.errors import InputError
from mfcheck.statistics.seeds import Stream, stream

NAMES = st.lists(st.text(st.characters(exclude_characters="\x1f", codec="utf-8")) | st.integers(), max_size=3)


@given(st.integers(), NAMES)
def test_equal_names_give_equal_numbers(root: int, names: list[str | int]) -> None:
    one, two = stream(root, *names), stream(root).child(*names)
    assert one == two
    assert one.integer() == two.integer()
    assert np.array_equal(one.numpy().random(3), two.numpy().random(3))
    assert torch.equal(torch.rand(3, generator=one.torch()), torch.rand(3, generator=two.torch()))


@given(st.integers(), NAMES, NAMES)
def test_other_names_give_other_numbers(root: int, names: list[str | int], others: list[str | int]) -> None:
    a, b = stream(root, *names), stream(root, *others)
    assert (a.integer() == b.integer()) == ([str(name) for name in names] == [str(name) for name in others])


def test_names_do_not_run_together() -> None:
    assert stream(0, "ab", "c").integer() != stream(0, "a", "bc").integer()
    assert stream(0, "").integer() != stream(0).integer()
    assert stream(1, "a").integer() != stream(0, "a").integer()
    assert stream(1, 2).integer() != stream(12).integer()


def test_numbers_are_the_same_in_every_process_and_release() -> None:
    # a recorded value: Python's own hash of a word would differ from process to process
    assert stream(3, "D1", 7).integer() == 5302075855695556789


def test_a_generator_starts_at_the_head_of_its_stream_each_time() -> None:
    named = stream(0, "D1")
    named.numpy().random(10)
    assert named.numpy().random() == named.numpy().random()


def test_neighbouring_streams_are_independent() -> None:
    # 4,000 first numbers of neighbouring names: uniform, and uncorrelated with the next name's
    first = np.array([stream(0, "D1", k).numpy().random() for k in range(4_000)])
    by_torch = np.array([torch.rand((), generator=stream(0, "D1", k).torch()).item() for k in range(4_000)])
    for numbers in (first, by_torch):
        assert stats.kstest(numbers, "uniform").pvalue > 1e-6
        assert stats.pearsonr(numbers[1:], numbers[:-1]).pvalue > 1e-6
    assert stats.pearsonr(first, by_torch).pvalue > 1e-6


def test_the_bits_of_an_integer() -> None:
    named = stream(0, "bits")
    assert named.integer(63) == named.integer() >> 1
    assert all(stream(0, k).integer(8) < 256 for k in range(100))


def test_torch_keeps_32_bits_of_a_seed_on_the_cpu() -> None:
    # what the docstring of Stream.torch warns of; where torch changes it the warning can go
    low = torch.rand(4, generator=torch.Generator().manual_seed(5))
    assert torch.equal(low, torch.rand(4, generator=torch.Generator().manual_seed(5 + 2**40)))


def test_numpy_numbers_are_names_too() -> None:
    assert stream(0, np.int64(3)) == stream(0, 3) == stream(0, "3")


@pytest.mark.parametrize("name", [object(), None, ("a", 1), torch.zeros(2)])
def test_an_object_is_no_name(name: object) -> None:
    with pytest.raises(InputError, match="a word or a number"):
        stream(0, name)


def test_a_name_may_not_hold_the_separator() -> None:
    with pytest.raises(InputError, match="separator"):
        stream(0, "a\x1fb")


def test_a_root_seed_is_a_whole_number() -> None:
    assert stream(np.int64(4)) == Stream(4)
    with pytest.raises(InputError, match=r"whole number; it came as 1\.5"):
        stream(1.5)  # type: ignore[arg-type]
