"""The properties of a head, in the order in which a report has them."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from mfcheck.conformance.head_agreement import batches, float32_agrees, gpu_agrees, index_independent
from mfcheck.conformance.head_basics import deterministic, finite, inputs_not_modified, shape_and_dtype
from mfcheck.conformance.head_gradient import gradient
from mfcheck.conformance.head_growth import growth
from mfcheck.conformance.head_law import convex_hull, law_not_list, permutation_invariant, weight_zero_ignored
from mfcheck.conformance.head_regularity import lipschitz_in_law, lipschitz_in_theta, lipschitz_in_x
from mfcheck.conformance.head_sampling import finite_variance
from mfcheck.conformance.head_subject import Subject
from mfcheck.conformance.report import PropertyResult


@dataclass(frozen=True)
class HeadProperty:
    """A property: how it is measured, the properties it rests on, and the calls that one example of it takes.

    Where one of `needs` is violated the property says nothing, and is undecided.
    """

    measure: Callable[[Subject], PropertyResult]
    needs: tuple[str, ...]
    calls: int

    @property
    def name(self) -> str:
        """The property's name: that of its function."""
        return self.measure.__name__

    @property
    def says(self) -> str:
        """The property in words."""
        return str(self.measure.__doc__).splitlines()[0]


_SAME = ("deterministic",)
_LAW = ("deterministic", "permutation_invariant", "law_not_list", "weight_zero_ignored")

PROPERTIES = (
    HeadProperty(shape_and_dtype, (), 1),
    HeadProperty(finite, (), 1),
    HeadProperty(deterministic, (), 4),
    HeadProperty(inputs_not_modified, (), 1),
    HeadProperty(permutation_invariant, _SAME, 2),
    HeadProperty(law_not_list, _SAME, 2),
    HeadProperty(weight_zero_ignored, _SAME, 2),
    HeadProperty(convex_hull, _SAME, 1),
    HeadProperty(batches, _SAME, 4),
    HeadProperty(index_independent, _SAME, 4),
    HeadProperty(float32_agrees, _SAME, 2),
    HeadProperty(gpu_agrees, _SAME, 2),
    HeadProperty(gradient, _SAME, 6),
    HeadProperty(lipschitz_in_x, _SAME, 24),
    HeadProperty(lipschitz_in_theta, _SAME, 24),
    # what is no function of the law has no modulus in it
    HeadProperty(lipschitz_in_law, _LAW, 48),
    HeadProperty(growth, _SAME, 11),
    HeadProperty(finite_variance, _SAME, 1),
)
NAMES = tuple(each.name for each in PROPERTIES)
