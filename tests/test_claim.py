"""A claim that lacks what makes it checkable does not construct."""

from __future__ import annotations

import dataclasses
import math
from typing import Any

import numpy as np
import pytest
import torch

from mfcheck.claim import Claim, Control, registry
from mfcheck.errors import InputError
from mfcheck.replicates import Replicates, concatenate
from mfcheck.statistics.seeds import stream
from mfcheck.statistics.verdict import Verdict
from tests.synthetic import claim

WHOLE = claim()


def with_control(**fields: Any) -> Claim:
    return dataclasses.replace(WHOLE, controls=(dataclasses.replace(WHOLE.controls[0], **fields),))


def test_a_claim_without_a_control_does_not_construct() -> None:
    with pytest.raises(InputError, match="claim D1: a claim without a control that must be refuted is not finished"):
        dataclasses.replace(WHOLE, controls=())


def test_a_claim_without_a_criterion_does_not_construct() -> None:
    with pytest.raises(InputError, match="no criterion was given, so nothing is measured"):
        dataclasses.replace(WHOLE, criteria=())


@pytest.mark.parametrize("refutes", [(), ("slope",), ("mean 0", "slope"), "mean 0"])
def test_a_control_names_criteria_of_its_claim_in_a_tuple(refutes: Any) -> None:
    with pytest.raises(InputError, match=r"must name, in a tuple, the criteria that refute it among \['mean 0'\]"):
        with_control(refutes=refutes)


@pytest.mark.parametrize("changes", [{}, {"beta": 1.0}, {"mean": 5.0, "beta": 1.0}])
def test_a_control_changes_settings_of_its_claim(changes: dict[str, Any]) -> None:
    with pytest.raises(InputError, match=r"must change some of the settings \['columns', 'law', 'mean', 'sd'\]"):
        with_control(changes=changes)


def test_a_control_that_changes_nothing_does_not_construct() -> None:
    with pytest.raises(InputError, match="control 'shifted': it changes nothing"):
        with_control(changes={"mean": 0.0, "sd": 1.0})
    assert with_control(changes={"mean": 0.0, "sd": 2.0})
    assert with_control(changes={"mean": math.nan})


@pytest.mark.parametrize("value", [np.ones(2), torch.ones(1), [1, 2], {"a": 1}, (1, [2]), print])
def test_settings_are_plain_values(value: Any) -> None:
    with pytest.raises(InputError, match="settings are numbers, words, booleans or tuples of them"):
        claim(extra=value)
    with pytest.raises(InputError, match=f"mean is {type(value).__name__}"):
        with_control(changes={"mean": value})


def test_numbers_words_booleans_and_tuples_are_plain() -> None:
    assert claim(a=1, b=0.5, c="linear", d=True, e=None, f=(1, ("x", 2.0))).settings["f"] == (1, ("x", 2.0))


@pytest.mark.parametrize("replicates", [1, -2, 2.5])
def test_replicates_are_none_or_at_least_two(replicates: Any) -> None:
    with pytest.raises(InputError, match="replicates is 0"):
        claim(replicates=replicates)


def test_names_are_there_once() -> None:
    with pytest.raises(InputError, match="criterion 'mean 0' is there twice"):
        dataclasses.replace(WHOLE, criteria=WHOLE.criteria * 2)
    with pytest.raises(InputError, match="control 'shifted' is there twice"):
        dataclasses.replace(WHOLE, controls=WHOLE.controls * 2)
    with pytest.raises(InputError, match="claim id 'D1' is there twice"):
        registry([claim(id="D1"), claim(id="D2")], [claim(id="D1")])


def test_a_registry_keeps_the_order_of_the_catalogue() -> None:
    assert list(registry([claim(id="P1")], (claim(id=id) for id in ("D10", "D2")))) == ["D2", "D10", "P1"]


def test_replicates_are_the_indices_that_were_asked_for() -> None:
    replicates = Replicates(stream(0, "D1"), 4, 7)
    assert (len(replicates), list(replicates)) == (3, [4, 5, 6])


def test_looks_are_joined_along_the_replicate_axis() -> None:
    joined = concatenate([{"x": np.zeros((2, 3))}, {"x": np.ones((4, 3))}])
    assert joined["x"].shape == (6, 3)
    assert concatenate([{"x": np.float64(1.0)}])["x"] == 1.0  # a number, of an experiment without replicates
    with pytest.raises(InputError, match=r"first \['x'\], now \['x', 'y'\]"):
        concatenate([{"x": np.zeros(2)}, {"x": np.zeros(2), "y": np.zeros(2)}])


def test_a_control_is_data() -> None:
    assert Control("shifted", {"mean": 10.0}, ("mean 0",)) == WHOLE.controls[0]


def test_a_control_either_refutes_or_supports() -> None:
    both = Control("both", {"mean": 1.0}, refutes=("mean 0",), supports=("mean 0",))
    with pytest.raises(InputError, match="not both"):
        dataclasses.replace(claim(), controls=(both,))
    assert Control("true", {"mean": 1.0}, supports=("mean 0",)).expected is Verdict.SUPPORTED
