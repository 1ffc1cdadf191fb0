"""The properties of an update rule, in the order in which a report has them."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from mfcheck.conformance.sampler_bench import Answer, Bench
from mfcheck.conformance.sampler_drift import drift, scaling
from mfcheck.conformance.sampler_influences import (
    noise_unaffected_by_clipping,
    noise_unaffected_by_gradient,
    noise_unaffected_by_weight_decay,
    zero_beta,
    zero_gradient,
)
from mfcheck.conformance.sampler_law import (
    independent_coordinates,
    independent_particles,
    independent_steps,
    noise_gaussian,
    noise_isotropic,
)
from mfcheck.conformance.sampler_noise import (
    noise_accumulates,
    noise_power_of_beta,
    noise_power_of_eta,
    noise_variance,
)
from mfcheck.conformance.sampler_schedules import schedules
from mfcheck.conformance.sampler_settle import stationary_temperature
from mfcheck.conformance.sampler_state import records, reproducible, state_dict


@dataclass(frozen=True)
class Property:
    """A property: its name, what it says, how it is measured, and the properties that its intervals rest on.

    Where one of `needs` is violated, samples are not what the intervals take them for, and the property is undecided.
    """

    name: str
    measure: Callable[[Bench], Answer]
    needs: tuple[str, ...] = ()

    @property
    def says(self) -> str:
        """The property in words."""
        return str(self.measure.__doc__).splitlines()[0]


_COORDINATES = ("independent_coordinates",)
_ALL = ("independent_coordinates", "independent_particles", "independent_steps")

PROPERTIES = tuple(
    Property(measure.__name__, measure, needs)
    for measure, needs in (
        (noise_variance, _COORDINATES),
        (noise_accumulates, ("independent_coordinates", "independent_steps")),
        (noise_power_of_eta, _COORDINATES),
        (noise_power_of_beta, _COORDINATES),
        (noise_isotropic, _ALL),
        (noise_gaussian, (*_ALL, "noise_isotropic")),
        (independent_particles, _COORDINATES),
        (independent_coordinates, ()),
        (independent_steps, _COORDINATES),
        (noise_unaffected_by_gradient, _COORDINATES),
        (noise_unaffected_by_weight_decay, _COORDINATES),
        (noise_unaffected_by_clipping, _COORDINATES),
        (zero_gradient, _COORDINATES),
        (zero_beta, _COORDINATES),
        (drift, _COORDINATES),
        (stationary_temperature, _COORDINATES),
        (scaling, ("independent_coordinates", "independent_particles")),
        (schedules, _COORDINATES),
        (reproducible, ()),
        (records, ()),
        (state_dict, ()),
    )
)
NAMES = tuple(each.name for each in PROPERTIES)


def in_order_of_need() -> tuple[Property, ...]:
    """The properties, each after those that it needs."""
    left = list(PROPERTIES)
    done: list[Property] = []
    while left:
        ready = next(each for each in left if set(each.needs) <= {one.name for one in done})
        left.remove(ready)
        done.append(ready)
    return tuple(done)
