"""How fast two flows of tokens may move apart: the Lipschitz constant of softmax attention, and its exponent."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.integrate import quad

from mfcheck.errors import InputError


def stability_constant(logit_norms: ArrayLike, value_norms: ArrayLike, radius: float) -> float:
    """L(R) = mean over heads of |V| (|A| R^2 + e^{2 |A| R^2} (1 + 2 |A| R^2)), for tokens in the ball of radius R.

    logit_norms and value_norms: operator norms |A| and |V| of one head, or of each of several [M] of equal weight.
    With G_mu(x) = E_mu[e^{x'Ay} y] / E_mu[e^{x'Ay}], the velocity of a head is V G_mu(x).
    In x: the derivative is V Cov(y) A', Cov the covariance of y under the softmax weights, of norm at most R^2. So
    |V| |A| R^2 bounds it.
    In mu: couple mu and nu by pairs (y, y'), and move along y_s = y + s (y' - y), which stays in the ball. With
    q_s(y_s) = e^{x'Ay_s} / E[e^{x'Ay_s}], d/ds G = E[q_s ((y' - y) + (x'A(y' - y)) (y_s - G))]. Logits lie between
    -|A| R^2 and |A| R^2, so that q_s <= e^{2 |A| R^2}; |y_s - G| <= 2 R and |x| <= R. The bracket is at most
    (1 + 2 |A| R^2) |y' - y|, and |G_mu(x) - G_nu(x)| at most e^{2 |A| R^2} (1 + 2 |A| R^2) E|y' - y|, with W1 <= W2 in
    the end. Source: [HL] for stability; the constant is derived here (claims T4).
    """
    logits, values = _norms(logit_norms, value_norms)
    if not radius >= 0:
        raise InputError(f"a radius is not negative; it came as {radius}")
    exponent = logits * radius**2
    return float((values * (exponent + np.exp(2 * exponent) * (1 + 2 * exponent))).mean())


def stability_exponent(logit_norms: ArrayLike, value_norms: ArrayLike, radius: float, time: float = 1.0) -> float:
    """int_0^time L(R_s) ds with R_s = R_0 e^{v s}, v the mean of |V|: bounds log W2(mu_t, nu_t) / W2(mu_0, nu_0).

    The radius: a softmax average of tokens in a ball lies in it, so that |velocity| <= v R and R' <= v R.
    The distance: let X and Y follow the flows of mu and nu from an optimal coupling of their starts. Then
    d/dt (E|X - Y|^2)^(1/2) <= L(R_t) (E|X - Y|^2)^(1/2), since the velocities differ by what x and what the law make,
    and W2(mu_t, nu_t) is at most the left side's root; Gronwall gives the exponential. For residual steps the same
    holds with R_{k+1} <= (1 + dt v) R_k and a factor 1 + dt L(R_k) a step, both below their exponentials, and L
    increases along the path: the sum of dt L(R_k) is below the integral, so that the bound holds at every dt.
    """
    logits, values = _norms(logit_norms, value_norms)
    growth = float(values.mean())
    return float(quad(lambda s: stability_constant(logits, values, radius * math.exp(growth * s)), 0.0, time)[0])


def _norms(logit_norms: ArrayLike, value_norms: ArrayLike) -> tuple[NDArray[Any], NDArray[Any]]:
    logits, values = np.atleast_1d(np.asarray(logit_norms, float)), np.atleast_1d(np.asarray(value_norms, float))
    if logits.shape != values.shape or not ((logits >= 0) & (values >= 0)).all():
        raise InputError(f"a head has the norms |A| >= 0 and |V| >= 0; they came as {logits} and {values}")
    return logits, values
