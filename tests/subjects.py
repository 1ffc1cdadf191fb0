"""What the property tests draw: small measures, and risks with the bounds that their tolerances need."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import pytest
import torch
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp
from torch import Tensor

from mfcheck.feature_risk import FeatureRisk
from mfcheck.functional import Risk
from mfcheck.measure import Measure
from mfcheck.risks import attraction, desai_zwanzig, double_well, linear_attraction, quadratic, two_layer_network

EPS = float(np.finfo(np.float64).eps)
BOX = 2.0  # points are drawn from [-2, 2]^p and measures have mass <= 1: the bounds below hold there


@st.composite
def measures(draw: st.DrawFn, p: int, least: int = 1, most: int = 6) -> Measure:
    """A measure of `least` to `most` atoms in the box with mass at most 1; weights may be zero or tiny."""
    count = draw(st.integers(least, most))
    points = draw(hnp.arrays(np.float64, (count, p), elements=st.floats(-BOX, BOX)))
    weights = draw(hnp.arrays(np.float64, count, elements=st.floats(0.0, 1.0)))
    return Measure(torch.from_numpy(points), torch.from_numpy(weights / max(1.0, weights.sum())))


@st.composite
def places(draw: st.DrawFn, p: int, most: int = 3) -> Tensor:
    """Up to `most` points of the box, [m, p]."""
    count = draw(st.integers(1, most))
    return torch.from_numpy(draw(hnp.arrays(np.float64, (count, p), elements=st.floats(-BOX, BOX))))


@dataclass(frozen=True)
class Subject:
    """A risk on R^p and bounds over the box, for measures of mass at most 1.

    scale: of every number met on the way to R, to its first variation and to its velocity;
    third: of the third derivative of the first variation along a coordinate;
    third_in_weight: of the third derivative of eps -> R(mu + eps delta_theta).
    """

    name: str
    risk: Risk
    p: int
    scale: float
    third: float = 0.0
    third_in_weight: float = 0.0
    features: int = 0

    def rounding(self, count: int) -> float:
        """A bound of the difference between two evaluations that differ only in the order of their sums.

        Each evaluation chains at most n + p + K + 8 operations on numbers below `scale`, each rounding by eps / 2;
        its transcendental functions are right to 2 ulp, and the chain rule passes at most two of the three sums on.
        """
        return 4 * (count + self.p + self.features + 8) * EPS * self.scale


def kernel_energy(measure: Measure) -> Tensor:
    """(1/2) iint exp(-|theta - theta'|^2 / 2) dmu dmu: a risk as a user brings it, convex (a positive kernel)."""
    squared = (measure.points[..., :, None, :] - measure.points[..., None, :, :]).square().sum(-1)
    return 0.5 * torch.einsum("...i,...ij,...j->...", measure.weights, torch.exp(-0.5 * squared), measure.weights)


def log_partition_energy(measure: Measure) -> Tensor:
    """log(1 + int exp(theta_1) dmu) - int theta_1 dmu, no quadratic in the measure and no FeatureRisk (concave)."""
    first = measure.points[..., 0]
    return torch.log1p((measure.weights * first.exp()).sum(-1)) - (measure.weights * first).sum(-1)


INPUTS = torch.tensor([[0.5, -1.0], [1.0, 0.25], [-0.75, 0.5], [0.0, 1.0]], dtype=torch.float64)
TARGETS = torch.tensor([0.5, -1.0, 0.25, 1.0], dtype=torch.float64)


def logistic(prediction: Tensor) -> Tensor:
    """mean_k log(1 + exp(-y_k V_k)), convex and not quadratic."""
    return torch.nn.functional.softplus(-prediction * TARGETS.sign().to(prediction)).mean(-1)


target_of_tanh = FeatureRisk(
    "target of tanh",  # claims C5's risk, without any closed form
    potential=lambda points: 0.5 * points.square().sum(-1),
    features=lambda points: torch.tanh(2 * points),
    loss=lambda moments: 2 * (moments - 0.8).square().sum(-1),
)

# scale: by |theta_i| <= 2. A quadratic's largest number is the sum before its halving, sum_ij |A_ij| |d_i| |d_j|;
# double well: the gradient, 2 (4 + 1) a coordinate; attraction: (a + kappa) |theta|^2 + kappa |theta| |mean|;
# network: |theta . x| <= 3 and a residual <= 2 for each of the features; third: |tanh'''| <= 2 times |x_i|^3 |loss'|
SUBJECTS = [
    Subject("quadratic", quadratic(1.5), 2, 12.0),
    Subject("tilted quadratic", quadratic([[2.0, 0.5], [0.5, 1.0]], [0.5, -1.0]), 2, 30.0),
    Subject("double well", double_well(), 1, 10.0, third=13.0),
    Subject("tilted quartic", double_well(0.5, 1.0, tilt=0.3), 2, 20.0, third=7.0),
    Subject("linear attraction", linear_attraction(1.0, 3.0), 2, 60.0, features=2),
    Subject("repulsion", attraction(quadratic(2.0), -1.0), 1, 20.0, features=1),
    Subject("Desai-Zwanzig", desai_zwanzig(), 1, 20.0, third=13.0, features=1),
    Subject("network", two_layer_network(INPUTS, TARGETS, weight_decay=0.1), 2, 10.0, third=4.0, features=4),
    # d^3/dV^3 log(1 + e^-V) <= 0.1
    Subject("logistic network", two_layer_network(INPUTS, TARGETS, loss=logistic), 2, 10.0, 4.0, 0.1, features=4),
    # loss' <= 4 * 1.8, (2^3) |tanh'''| <= 16
    Subject("target of tanh", target_of_tanh, 1, 20.0, third=116.0, features=1),
    # |d^3 exp(-r^2/2)| <= 1.4; squared distances up to 32 sit in an exponent
    Subject("kernel energy", kernel_energy, 2, 32.0, third=1.4),
    # e^2 < 7.4; third in weight: 2 (e^theta / (1 + .))^3 <= 2 * 7.4^3
    Subject("log partition", log_partition_energy, 1, 10.0, third=7.4, third_in_weight=811.0),
]

every_subject = pytest.mark.parametrize("subject", SUBJECTS, ids=lambda subject: subject.name)
every_feature_risk = pytest.mark.parametrize(
    "subject", [s for s in SUBJECTS if isinstance(s.risk, FeatureRisk)], ids=lambda subject: subject.name
)
