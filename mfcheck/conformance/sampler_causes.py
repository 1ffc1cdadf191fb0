"""The likely cause of what an update rule does wrong, where the numbers have a signature that is known."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from mfcheck.conformance.sampler_bench import BETA, ETA
from mfcheck.statistics.estimate import Estimate

#: How near a number has to be to a signature, beside lying in its interval: within a twentieth.
NEAR = 0.05


@dataclass(frozen=True)
class Evidence:
    """Estimates by property and check, as they were judged; facts by name; which properties are violated."""

    estimates: Mapping[str, Mapping[str, Estimate]]
    facts: Mapping[str, Any] = field(default_factory=dict)
    violated: frozenset[str] = frozenset()
    n_train: int | None = None

    def points(self, name: str, holding: str = "") -> list[float]:
        """The points of a property's checks whose name holds a word."""
        return [e.point for key, e in self.estimates.get(name, {}).items() if holding in key and e.problem is None]

    def one(self, name: str, holding: str = "") -> float | None:
        """The points' common value, None where there is none or they disagree."""
        found = self.points(name, holding)
        return found[0] if found and all(_near(point, found[0]) for point in found) else None


def likely_causes(evidence: Evidence) -> tuple[str, ...]:
    """Sentences on what is probably wrong in the code, most specific first; none where no signature fits."""
    found = [sentence for rule in _RULES for sentence in rule(evidence)]
    return tuple(dict.fromkeys(found))


def _noise(e: Evidence) -> Sequence[str]:
    """Size and powers of the noise name what multiplies the normal draw."""
    if not {"noise_variance", "noise_power_of_eta", "noise_power_of_beta"} & e.violated:
        return ()
    ratio, eta, beta = e.one("noise_variance"), e.one("noise_power_of_eta"), e.one("noise_power_of_beta")
    if ratio is None or eta is None or beta is None:
        return ["there is no noise: the rule descends, and samples nothing"] if ratio == 0 else ()
    variance = ratio * 2 * BETA * ETA
    for (p, q), wrong in _AMPLITUDES.items():
        if abs(eta - p) < NEAR and abs(beta - q) < NEAR:
            for value, sentence in wrong(e.n_train):
                if _near(variance, value):
                    return [sentence]
    return ()


def _amplitude(written: str, cause: str) -> str:
    return f"the noise is {written} xi where sqrt(2 beta eta) xi was expected: {cause}"


def _first_powers(n_train: int | None) -> list[tuple[float, str]]:
    unit = BETA * ETA
    found = [
        (unit, _amplitude("sqrt(beta eta)", "the factor 2 under the root is missing")),
        (4 * unit, _amplitude("sqrt(4 beta eta) = 2 sqrt(beta eta)", "the factor 2 stands outside of the root")),
        (unit / 2, _amplitude("sqrt(beta eta / 2)", "the factor 2 divides instead of multiplying")),
        (8 * unit, _amplitude("2 sqrt(2 beta eta)", "the factor 2 is there twice")),
    ]
    if n_train:
        found += [
            (2 * unit / n_train, _amplitude("sqrt(2 beta eta / N)", f"it is divided by N_train = {n_train}")),
            (2 * unit * n_train, _amplitude("sqrt(2 beta eta N)", f"it is multiplied by N_train = {n_train}")),
        ]
    return found


#: By the powers of eta and beta in the variance: what the variance then is, and what that says.
_AMPLITUDES: dict[tuple[int, int], Callable[[int | None], list[tuple[float, str]]]] = {
    (1, 1): _first_powers,
    (2, 1): lambda n: [
        (2 * BETA * ETA**2, _amplitude("sqrt(2 beta) eta", "eta stands outside of the square root")),
        (BETA * ETA**2, _amplitude("sqrt(beta) eta", "eta stands outside of the square root, and the 2 is missing")),
    ],
    (3, 1): lambda n: [
        (
            2 * BETA * ETA**3,
            _amplitude("sqrt(2 beta eta) eta", "lr is applied twice (noise put in the gradient is multiplied by lr)"),
        )
    ],
    (2, 2): lambda n: [
        ((2 * BETA * ETA) ** 2, _amplitude("2 beta eta", "the square root is missing")),
        ((BETA * ETA) ** 2, _amplitude("beta eta", "the square root is missing, and so is the 2")),
    ],
    (1, 2): lambda n: [
        (2 * BETA**2 * ETA, _amplitude("beta sqrt(2 eta)", "the square root of beta is missing")),
        (4 * BETA**2 * ETA, _amplitude("2 beta sqrt(eta)", "the square root of 2 beta is missing")),
    ],
    (0, 1): lambda n: [
        (2 * BETA, _amplitude("sqrt(2 beta)", "eta is missing: the noise does not shrink with the step"))
    ],
    (1, 0): lambda n: [
        (2 * ETA, _amplitude("sqrt(2 eta)", "beta is missing, or divides the drift instead (time runs 1/beta faster)"))
    ],
    (1, -1): lambda n: [
        (2 * ETA / BETA, _amplitude("sqrt(2 eta / beta)", "beta was taken for an inverse temperature"))
    ],
}


def _drift(e: Evidence) -> Sequence[str]:
    if "drift" not in e.violated:
        return ()
    found = e.estimates["drift"]
    single = [estimate for name, estimate in found.items() if "eta 0" not in name and "steps" not in name]
    many = e.points("drift", "steps")
    if len(single) < 3 or not many:
        return ()
    # the largest gradient's is the most precise
    c, c_many = single[-1].point, many[-1]
    at_small = next(found[name] for name in reversed(list(found)) if "eta 0" in name)
    if any(c > one.upper * (1 + NEAR) or c < one.lower * (1 - NEAR) for one in single if c > 0):
        if _near(abs(single[1].point / c), 10.0):
            return [
                "preconditioned drift with isotropic noise: the drift is divided by the gradient's own size (Adam, "
                "RMSprop, sign) and the noise is not, so that no temperature is sampled; precondition the noise too"
            ]
        return ["the gradient is clipped or squashed inside: the drift is not proportional to it"]
    if _near(c, -1.0):
        return ["the sign of the gradient is wrong: the rule ascends"]
    # what the smaller step leaves of a factor eta drowns in the noise: its interval says whether the factor is there
    if _near(c, ETA) and at_small.lower <= c / 10 <= at_small.upper < c:
        return ["lr is applied twice to the gradient: the drift is eta^2 g"]
    if _near(c, 1.0) and not _near(c_many, 1.0):
        return [
            f"momentum: over several steps the drift adds up to {c_many:.3g} g a step and more, and the noise does "
            "not: as eta goes to 0 the temperature is (1 - mu) beta"
        ]
    if e.n_train and _near(c, float(e.n_train)):
        return [f"the gradient is multiplied by N_train = {e.n_train}: a sum over the data where the mean was expected"]
    if e.n_train and _near(c, 1 / e.n_train):
        return [f"the gradient is divided by N_train = {e.n_train}: its mean was taken twice"]
    if _near(c, 1 / BETA):
        return ["the gradient is divided by beta: time runs 1/beta faster"]
    if c > 1.5 and _near(c, float(round(c))):
        return [
            f"the gradient is multiplied by {round(c)}: a number of data points N_train (a sum where the mean was "
            "expected), or of particles, that stands in the code"
        ]
    if 0 < c < 0.7 and _near(1 / c, float(round(1 / c))):
        return [f"the gradient is divided by {round(1 / c)}: a mean taken twice, over N_train data points say"]
    return ()


def _particles(e: Evidence) -> Sequence[str]:
    if "scaling" not in e.violated:
        return ()
    found = []
    drift = {m: e.one("scaling", f"drift at M = {m} ") for m in (8, 64)}
    noise = {m: e.one("scaling", f"noise variance at M = {m} ") for m in (8, 64)}
    expected = 1 if e.facts.get("convention") == "raw" else None
    for power, words in _POWERS.items():
        if all(value is not None and _near(value, m**power) for m, value in noise.items()):
            found.append(f"M factor: the noise's variance is {words} the number of particles M")
    for power, words in _POWERS.items():
        factor = {m: (value if expected else None if value is None else value * m) for m, value in drift.items()}
        if all(value is not None and _near(value, m**power) for m, value in factor.items()):
            declared = " where the convention declared is another" if power == 1 or expected is None else ""
            found.append(f"M factor: the drift is {words} the number of particles M{declared}")
    if expected is None and all(value is not None and _near(value, 1 / m) for m, value in drift.items()):
        found.append(
            "M factor: the drift is g (raw) where M g (mean_field) was declared: on a risk averaged over particles it "
            "runs M times slower and samples at M beta"
        )
    return found


_POWERS = {-1: "divided by", -0.5: "divided by the root of", 0.5: "multiplied by the root of", 1: "multiplied by"}


def _randomness(e: Evidence) -> Sequence[str]:
    found = []
    if "reproducible" in e.violated and e.facts.get("global"):
        found.append("the noise is drawn from a global generator: pass generator= to the draw")
    for name, what in (
        ("independent_particles", "one draw is shared by particles (broadcast over the first axis)"),
        (
            "independent_coordinates",
            "one draw is shared by coordinates (a number, or a short row, broadcast or repeated)",
        ),
        ("independent_steps", "a draw is used again in a later step (a generator seeded at every step, or kept noise)"),
    ):
        if name in e.violated:
            found.append(what)
    return found


def _near(value: float, expected: float) -> bool:
    return abs(value - expected) <= NEAR * abs(expected)


_RULES = (_noise, _drift, _particles, _randomness)
