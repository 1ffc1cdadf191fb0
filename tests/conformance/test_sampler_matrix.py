"""Broken rules: each caught by its own property, and by none that was not declared to fall with it."""

from __future__ import annotations

from collections import Counter

import pytest

from mfcheck.conformance.broken import BROKEN
from mfcheck.conformance.check_sampler import check_sampler
from mfcheck.conformance.mutant import Broken
from mfcheck.conformance.report import HOLDS, VIOLATED
from mfcheck.conformance.sampler_matrix import GOOD, statuses
from mfcheck.conformance.sampler_properties import NAMES

#: So few samples decide little, but what they call violated is violated.
FEW = 1 / 32


def test_every_property_has_two_mutants_that_break_it_alone() -> None:
    alone = Counter(each.breaks for each in BROKEN if not each.also)
    # what makes the temperature wrong some other way is declared; drift, too, has two that break it alone
    assert {name for name in NAMES if alone[name] < 2} == set()


@pytest.mark.parametrize("broken", BROKEN, ids=lambda broken: broken.name)
def test_its_own_property_catches_it(broken: Broken) -> None:
    result = check_sampler(broken.brought, only=[broken.breaks], budget=None)[broken.breaks]
    assert result.status == VIOLATED, result.detail


@pytest.mark.parametrize("broken", BROKEN, ids=lambda broken: broken.name)
def test_no_unrelated_property_catches_it(broken: Broken) -> None:
    found = statuses(broken.brought, budget=None, samples=FEW)
    assert {name for name, status in found.items() if status == VIOLATED} <= {broken.breaks, *broken.also}


@pytest.mark.parametrize("name", GOOD)
def test_a_rule_that_is_right_has_every_property(name: str) -> None:
    report = check_sampler(GOOD[name], seed=1, budget=None)
    assert report.passed, str(report)
    assert sum(result.status == HOLDS for result in report.results) >= 19
