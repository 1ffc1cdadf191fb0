"""The potential dL/drho on the cells as a function of the masses: all that the solver asks of a risk."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Protocol

import numpy as np
import torch
from torch import Tensor

from mfcheck.dynamics.fokker_planck.generator import Layout, check_finite
from mfcheck.errors import InputError
from mfcheck.feature_risk import FeatureRisk
from mfcheck.functional import Risk, first_variation
from mfcheck.measure import Measure


class Landscape(Protocol):
    """The first variation through a `state`: moments of features, or the potential itself for a general risk.

    A state is smooth in time and small for a feature risk; the time stepping interpolates states.
    """

    linear: bool
    layout: Layout

    def state(self, masses: np.ndarray) -> np.ndarray:
        """The state of masses [cells]."""

    def derivative(self, masses: np.ndarray, state: np.ndarray, change: np.ndarray) -> np.ndarray:
        """The state's derivative as the masses move along `change` [cells]."""

    def potentials(self, states: np.ndarray) -> np.ndarray:
        """dL/drho [n, cells] in n states, stacked along the first axis."""


@dataclass
class FeatureLandscape:
    """U and the features once, then only h . loss'(V): one matrix-vector product each way an evaluation."""

    risk: FeatureRisk
    layout: Layout
    device: str
    linear: bool = field(init=False)

    def __post_init__(self) -> None:
        self.linear = self.risk.is_linear
        points = torch.from_numpy(self.layout.nodes).to(self.device)
        with torch.no_grad():
            self.base = (
                np.zeros(self.layout.size)
                if self.risk.potential is None
                else _values(self.risk.potential(points), (self.layout.size,), "potential", self.risk.name)
            )
            check_finite(self.base)
            if self.risk.features is None:
                self.features = np.zeros((self.layout.size, 0))
                return
            raw = self.risk.features(points)
            self.features = _values(raw, (self.layout.size, raw.shape[-1]), "features", self.risk.name)
        check_finite(self.features)
        # one block a grid, so that all grids take one product
        grids, (cells, count) = len(self.layout.grids), self.features.shape
        blocks = (self.layout.members[:, None, :] * self.features.T[None]).reshape(grids * count, cells)
        self._blocks = np.ascontiguousarray(blocks)
        self._shape = (grids, count)

    def state(self, masses: np.ndarray) -> np.ndarray:
        if self.linear:
            return np.zeros((0,))
        return (self._blocks @ masses).reshape(self._shape)

    def derivative(self, masses: np.ndarray, state: np.ndarray, change: np.ndarray) -> np.ndarray:
        return self.state(change)

    def potentials(self, states: np.ndarray) -> np.ndarray:
        if self.linear:
            return np.broadcast_to(self.base, (len(states), self.base.size))
        moments = torch.from_numpy(states)
        pull = self.risk.field_at(moments if self.device == "cpu" else moments.to(self.device))
        fields = pull.detach().cpu().numpy()
        values = fields.reshape(len(states), -1) @ self._blocks
        values += self.base
        return checked(values)


@dataclass
class CallableLandscape:
    """A user's risk: its state is the potential, one backward pass with respect to the weights an evaluation."""

    risk: Risk
    layout: Layout
    device: str
    linear: bool = False

    def __post_init__(self) -> None:
        self._points = [torch.from_numpy(grid.nodes).to(self.device) for grid in self.layout.grids]

    def state(self, masses: np.ndarray) -> np.ndarray:
        parts = []
        for points, weights in zip(self._points, self.layout.split(masses), strict=True):
            measure = Measure(points, torch.from_numpy(weights.copy()).to(self.device))
            parts.append(first_variation(self.risk, measure).detach().cpu().numpy().astype(np.float64))
        values = np.concatenate(parts)
        check_finite(values)
        return values

    def derivative(self, masses: np.ndarray, state: np.ndarray, change: np.ndarray) -> np.ndarray:
        # a forward difference: the length balances its own error against rounding in the risk's double precision,
        # and the weights stay a measure where `change` is a generator's (an explicit step far below its limit)
        size = float(np.abs(change).sum())
        if size == 0.0:
            return np.zeros_like(state)
        length = 1e-6 / size
        return (self.state(masses + length * change) - state) / length

    def potentials(self, states: np.ndarray) -> np.ndarray:
        return states


def landscape(risk: Risk, layout: Layout, device: str) -> Landscape:
    """The landscape of a risk on a layout: the fast path for a FeatureRisk, autograd for any other callable."""
    if isinstance(risk, FeatureRisk):
        return FeatureLandscape(risk, layout, device)
    if not callable(risk):
        raise InputError(f"a risk is a FeatureRisk or a callable Measure -> scalar; it came as {type(risk).__name__}")
    return CallableLandscape(risk, layout, device)


def _values(values: Tensor, shape: tuple[int, ...], what: str, name: str) -> np.ndarray:
    if not isinstance(values, Tensor) or tuple(values.shape) != shape:
        came = tuple(values.shape) if isinstance(values, Tensor) else type(values).__name__
        raise InputError(f"the {what} of risk {name!r} on {shape[0]} points has shape {shape}; it came as {came}")
    return values.detach().cpu().numpy().astype(np.float64)


def potential_of(risk: Risk, layout: Layout, masses: np.ndarray, device: str = "cpu") -> np.ndarray:
    """dL/drho [cells] at masses [cells]."""
    land = landscape(risk, layout, device)
    return land.potentials(land.state(masses)[None])[0]


def checked(potentials: np.ndarray) -> np.ndarray:
    """Potentials passed on; raises InputError on NaN or infinity (a sum is finite only where its terms are)."""
    if not np.isfinite(potentials.sum()):
        check_finite(potentials)
    return potentials
