"""Attention heads trained by noisy gradient descent: particles against the grid (C6), and against each other (V5)."""

from typing import Any

import numpy as np

from mfcheck.claim import Claim, Control, Criterion
from mfcheck.experiments import attention_particles, trained_particles
from mfcheck.replicates import Measurements
from mfcheck.statistics.estimate import Estimate, largest_deviation, mean, order
from mfcheck.statistics.verdict import Region

#: The risk of C6 and V5: K = 6 sequences of N = 3 scalar tokens, one teacher head, beta = lambda.
LAYER: dict[str, Any] = {
    "data": 6,
    "tokens": 3,
    "token_scale": 1.3,
    "query_scale": 1.5,
    "teacher": 2.0,
    "weight_decay": 0.2,
    "beta": 0.2,
}

LADDER = (32, 64, 128, 256, 512)
#: The comparison is made at the last; the others are the figure's and its animation's frames.
TIMES = (0.0, 0.1, 0.2, 0.3, 0.4, 0.5, 0.7, 0.9, 1.2, 1.6, 2.0, 2.5, 3.0, 3.5, 4.0, 4.5, 5.0)


def _against_grid(index: int) -> Criterion:
    """A moment of the largest number of heads over the grid's, within 3 %."""

    def estimate(m: Measurements, level: float) -> Estimate:
        expected, bar = m["expected"][0, index], m["expected_bars"][0, index]
        return mean(m["moments"][:, -1, index] / expected, level, float(bar / abs(expected)))

    name = attention_particles.MOMENTS[index]
    return Criterion(f"{name} over the grid's", estimate, Region.around(1.0, relative=0.03))


def _w2_slope(m: Measurements, level: float) -> Estimate:
    # |W2(mu, a)^2 - W2(mu, b)^2| <= 2 W2(mu, b) W2(a, b) + W2(a, b)^2, and so for means over directions
    bar = m["w2_bar"][0]
    errors = 2 * bar * np.sqrt(m["w2_squared"].mean(0)) + bar**2
    return order(LADDER, m["w2_squared"], level, reference_errors=errors, power=0.5)


MOMENT_CRITERIA = tuple(_against_grid(index) for index in range(len(attention_particles.MOMENTS)))

C6 = Claim(
    id="C6",
    statement="M attention heads trained by noisy gradient descent follow the mean-field equation: risk and moments "
    "are the grid's, and the sliced W2 between them falls like M^(-1/2)",
    prediction="risk, means and second moments of M = 512 within 3 % of the grid's; slope -0.5 +- 0.1",
    formula=r"\Big(\mathbb{E}\,SW_2(\rho_M,\rho_s)^2\Big)^{1/2}\sim M^{-1/2},\quad "
    r"\partial_s\rho=\nabla\cdot\Big(\rho\nabla\frac{\delta L_\lambda}{\delta\rho}\Big)+\beta\Delta\rho",
    source="Sznitman 1991; Fournier and Guillin 2015; [HL]",
    hypotheses="heads theta = (a, v) with value tanh(v) and softmax(a x y); beta, weight decay > 0; Heun's scheme",
    experiment=attention_particles.heads_against_grid,
    settings=LAYER
    | {
        "start_mean": 0.5,
        "start_variance": 0.25,
        # halving it moves no moment by more than 0.03 % (the same noise)
        "step": 0.1,
        "times": TIMES,
        "particles": LADDER,
        "particles_each": 2**12,
        "directions": 6,
        "scaling": "mean_field",
    },
    replicates=32,
    criteria=(Criterion("sliced W2 slope", _w2_slope, Region.around(-0.5, absolute=0.1)), *MOMENT_CRITERIA),
    controls=(
        Control(
            "gradient without the factor M (raw scaling)",
            {"scaling": "raw"},
            refutes=("sliced W2 slope", *(criterion.name for criterion in MOMENT_CRITERIA)),
        ),
    ),
    record=lambda m: {
        "times": list(TIMES),
        "box": list(attention_particles.BOX),
        "heads": np.round(m["heads"][0], 3).tolist(),
        "density": np.round(m["density"][0], 4).tolist(),
        "moments": m["moments"].mean(0).tolist(),
        "expected": m["expected"][0].tolist(),
    },
)

TRAINED = (16, 32, 64)


def _traces(m: Measurements) -> np.ndarray:
    """M tr Cov(V_M) over the constant's trace, [n, ladder]."""
    return np.trace(m["covariance"], axis1=-2, axis2=-1) / np.trace(m["expected"][0])


def _entries(m: Measurements, level: float) -> Estimate:
    """The largest entry of M Cov(V_M) (mean over the ladder) minus the constant, over the constant's trace."""
    trace = np.trace(m["expected"][0])
    rows = (m["covariance"].mean(1) - m["expected"]) / trace
    upper = np.triu_indices(rows.shape[-1])
    values = rows[:, upper[0], upper[1]]
    n = len(values)
    return largest_deviation(values.mean(0), values.std(0, ddof=1) / np.sqrt(n), level, n, m["expected_bar"][0])


SLOPE, CONSTANT, ENTRIES = (
    "slope of the root mean square of V_M - E V_M",
    "M tr Cov(V_M) over the constant",
    "largest entry of M Cov(V_M) minus the constant, over its trace",
)

V5 = Claim(
    id="V5",
    statement="heads trained together are not independent: in stationarity M Cov(V_M) across trainings is the linear "
    "response (C^-1 + I/(K beta))^-1 of their Gibbs law, C = Cov_{rho*}(h), and not C",
    prediction="slope -0.5 +- 0.05; trace within 10 % of the constant, entries within 10 % of that trace",
    formula=r"M\operatorname{Cov}(V_M)\to\Big(C^{-1}+\frac{1}{K\beta}I\Big)^{-1},\quad "
    r"C=\operatorname{Cov}_{\rho^{*}}(h)",
    source="linear response of the Gibbs law exp(-M R / beta); [HRSS] for rho*",
    hypotheses="mean squared error over K data, beta and weight decay > 0; stationarity; Leimkuhler and Matthews",
    experiment=trained_particles.operator_of_trained_heads,
    settings=LAYER
    | {
        "particles": TRAINED,
        "systems": 32,
        # twice and half this step give the same constants within 1.5 %, the noise of that comparison
        "step": 0.1,
        "burn_in": 12.0,
        "snapshots": 9,
        "spacing": 1.0,
        "cells": 64,
        "constant": "linear response",
        "shared_noise": False,
    },
    replicates=64,
    criteria=(
        Criterion(
            SLOPE,
            lambda m, level: order(TRAINED, _traces(m) / np.array(TRAINED), level, power=0.5),
            Region.around(-0.5, absolute=0.05),
        ),
        Criterion(
            CONSTANT,
            lambda m, level: mean(_traces(m).mean(1), level, m["expected_bar"][0]),
            Region.around(1.0, relative=0.1),
        ),
        Criterion(ENTRIES, _entries, Region.at_most(0.1)),
    ),
    controls=(
        Control("the constant of independent heads", {"constant": "independent"}, refutes=(CONSTANT, ENTRIES)),
        Control("one noise for all heads", {"shared_noise": True}, refutes=(SLOPE, CONSTANT, ENTRIES)),
    ),
    record=lambda m: {
        "particles": list(TRAINED),
        "covariance": m["covariance"].mean(0).tolist(),
        "expected": m["expected"][0].tolist(),
    },
)

CLAIMS = (C6, V5)
