"""beta_k: the values at the first, middle and last step, and their sums."""

from __future__ import annotations

import math
import pickle

import pytest

from mfcheck.dynamics.schedules import Schedule, as_schedule, constant, cosine, exponential, linear, logarithmic
from mfcheck.errors import InputError

EPS = 2.0**-52

# closed forms of sum_{k < n} beta_k for a schedule that lasts n = 20 steps, from b0 = 0.8 to b1 = 0.1
N, B0, B1 = 20, 0.8, 0.1
SUMS = [
    (constant(B0), N * B0),
    (linear(B0, B1, N), N * B0 + (B1 - B0) * (N - 1) / 2),
    # sum_{k<n} cos(pi k / n) = 1 (all but k = 0 cancel in pairs)
    (cosine(B0, B1, N), N * B1 + (B0 - B1) * (N + 1) / 2),
    (exponential(B0, B1, N), B0 * (1 - B1 / B0) / (1 - (B1 / B0) ** (1 / N))),
    (logarithmic(B0), sum(B0 * math.log(2) / math.log(2 + k) for k in range(N))),
]


@pytest.mark.parametrize(("schedule", "total"), SUMS, ids=lambda value: getattr(value, "name", ""))
def test_total_is_the_closed_form(schedule: Schedule, total: float) -> None:
    # each of the N terms is off by a few roundings of size B0; the closed form by a few more
    assert abs(schedule.total(N) - total) <= 8 * N * EPS * B0
    assert schedule.total(N) == math.fsum(schedule.betas(N))


@pytest.mark.parametrize("make", [linear, cosine, exponential])
def test_starts_at_the_start_and_stays_at_the_end(make) -> None:
    schedule = make(B0, B1, N)
    assert schedule(0) == B0
    assert schedule(N) == schedule(N + 1) == schedule(10 * N) == B1
    assert B1 < schedule(N - 1) < schedule(1) < B0


def test_values_in_the_middle() -> None:
    half = N // 2
    assert linear(B0, B1, N)(half) == pytest.approx((B0 + B1) / 2, rel=4 * EPS)
    assert cosine(B0, B1, N)(half) == pytest.approx((B0 + B1) / 2, rel=4 * EPS)
    assert exponential(B0, B1, N)(half) == pytest.approx(math.sqrt(B0 * B1), rel=4 * EPS)
    assert logarithmic(B0)(2) == pytest.approx(B0 / 2, rel=4 * EPS)  # log 2 / log 4
    assert logarithmic(B0, offset=10.0)(90) == pytest.approx(B0 / 2, rel=4 * EPS)  # log 10 / log 100
    assert linear(B0, 0.0, N)(N) == 0.0


def test_numbers_and_functions_are_schedules() -> None:
    def falling(k: int) -> float:
        return 1.0 / (k + 1)

    assert as_schedule(0.3).betas(2) == [0.3, 0.3]
    assert as_schedule(falling).name == "falling"
    assert as_schedule(falling)(1) == 0.5
    given = constant(0.2)
    assert as_schedule(given) is given


@pytest.mark.parametrize("schedule", [case[0] for case in SUMS], ids=lambda s: s.name)
def test_schedules_travel_to_other_processes(schedule: Schedule) -> None:
    assert pickle.loads(pickle.dumps(schedule)).betas(N) == schedule.betas(N)


@pytest.mark.parametrize(
    "make",
    [
        lambda: constant(-0.1),
        lambda: constant(math.nan),
        lambda: linear(-1.0, 0.0, 5),
        lambda: linear(1.0, 0.0, 0),
        lambda: cosine(1.0, math.inf, 5),
        lambda: exponential(1.0, 0.0, 5),
        lambda: logarithmic(1.0, offset=1.0),
        lambda: as_schedule("warm"),  # type: ignore[arg-type]
        lambda: as_schedule(True),
        lambda: Schedule("own", lambda k: -float(k)).betas(3),
    ],
)
def test_bad_schedules_are_refused(make) -> None:
    with pytest.raises(InputError):
        make()
