"""Family D: the noise that the update injects, and what the step size does to it."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import torch
from torch import Tensor

from mfcheck.claim import Measurements, Replicates
from mfcheck.dynamics.langevin import Drift, simulate


def _no_drift(theta: Tensor, s: float) -> Tensor:
    return torch.zeros_like(theta)


def injected_variance(settings: Mapping[str, Any], replicates: Replicates) -> Measurements:
    """D1: sums of squares of theta_T - theta_0 with the gradient off, over the predicted variance 2 beta eta T.

    settings: particles, steps T, beta, step eta, amplitude (what multiplies the noise's variance, 1 as claimed).
    """
    beta, step, steps = settings["beta"], settings["step"], settings["steps"]
    initial = torch.zeros(len(replicates), settings["particles"], 1, device=replicates.device)
    final = simulate(
        Drift(_no_drift),
        initial,
        beta=beta * settings["variance_factor"],
        step=step,
        steps=steps,
        seed=replicates.stream,
        first_replicate=replicates.start,
    ).final
    squares = final.double().square().sum((1, 2)).cpu().numpy() / (2 * beta * step * steps)
    return {"sum_of_squares": squares, "degrees": np.full(len(replicates), settings["particles"])}
