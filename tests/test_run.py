"""run: looks, what is bought, how the error rate is spent, and what decides a claim and a control."""

from __future__ import annotations

import dataclasses
import functools
from collections.abc import Mapping
from typing import Any

import numpy as np
import pytest

from mfcheck.claim import Claim, Control, Criterion
from mfcheck.errors import InputError
from mfcheck.replicates import Measurements, Replicates
from mfcheck.run import PROFILES, Plan, identity, look_level, run
from mfcheck.statistics.estimate import Estimate, exact
from mfcheck.statistics.seeds import stream
from mfcheck.statistics.verdict import Region, Verdict
from tests.synthetic import claim, columns_of_noise

NEVER = Region.around(0.0, absolute=1e-9)  # too narrow to be reached: every look is taken
WIDE = Region.around(0.0, absolute=4.0)  # decided at the first look, as is the control at 10


class Recorded:
    """An experiment that keeps what it was asked for."""

    def __init__(self) -> None:
        self.asked: list[Replicates] = []
        self.settings: list[Mapping[str, Any]] = []

    def __call__(self, settings: Mapping[str, Any], replicates: Replicates) -> Measurements:
        self.asked.append(replicates)
        self.settings.append(settings)
        return columns_of_noise(settings, replicates)


def verdicts_in_turn(*looks: tuple[Verdict, ...]) -> Claim:
    """A claim whose criteria get these verdicts at the first look, the second, ...: one a criterion."""
    values = {Verdict.SUPPORTED: (0.0, 0.0), Verdict.REFUTED: (9.0, 9.0), Verdict.INCONCLUSIVE: (-9.0, 9.0)}

    def criterion(column: int) -> Criterion:
        def estimate(measured: Measurements, level: float) -> Estimate:
            look = {16: 0, 64: 1, 256: 2}[len(measured["x"])]
            lower, upper = values[looks[look][column]]
            return Estimate((lower + upper) / 2, lower, upper, level, 16)

        return Criterion(f"mean {column}", estimate, Region.around(0.0, absolute=1.0))

    columns = len(looks[0])
    return dataclasses.replace(claim(columns=columns), criteria=tuple(criterion(c) for c in range(columns)))


S, R, I = Verdict.SUPPORTED, Verdict.REFUTED, Verdict.INCONCLUSIVE  # noqa: E741


# --- looks and what they buy ---


@pytest.mark.parametrize(("profile", "factor"), PROFILES.items())
def test_looks_hold_n_4n_and_16n_replicates_and_buy_exactly_the_missing_ones(profile: str, factor: int) -> None:
    experiment = Recorded()
    outcome = run(claim(region=NEVER, experiment=experiment), Plan(profile=profile))
    n = 16 * factor
    assert [(asked.start, asked.stop) for asked in experiment.asked] == [(0, n), (n, 4 * n), (4 * n, 16 * n)]
    assert (outcome.n, outcome.looks, outcome.verdict) == (16 * n, 3, I)
    assert outcome.criteria[0].estimate.n == 16 * n


def test_a_claim_that_is_decided_buys_no_more() -> None:
    experiment = Recorded()
    outcome = run(claim(region=Region.around(0.0, absolute=10.0), experiment=experiment), Plan())
    assert (outcome.verdict, outcome.n, outcome.looks, len(experiment.asked)) == (S, 16, 1, 1)


def test_a_claim_without_randomness_runs_once_whatever_the_profile() -> None:
    experiment = Recorded()
    deterministic = dataclasses.replace(
        claim(experiment=experiment, replicates=0),
        criteria=(Criterion("mean 0", lambda m, level: exact(0.5, 5.0), Region.around(0.0, absolute=1.0)),),
    )
    outcome = run(deterministic, Plan(profile="full"))
    assert (outcome.verdict, outcome.n, outcome.looks) == (I, 1, 1)
    assert [(asked.start, asked.stop) for asked in experiment.asked] == [(0, 1)]


def test_a_measurement_without_randomness_may_have_any_shape() -> None:
    def constants(settings: Mapping[str, Any], replicates: Replicates) -> Measurements:
        return {"a": np.float64(1.0), "ladder": np.arange(5.0)}

    deterministic = dataclasses.replace(
        claim(experiment=constants, replicates=0),
        criteria=(Criterion("mean 0", lambda m, level: exact(float(m["a"])), Region.around(1.0, absolute=1.0)),),
    )
    assert run(deterministic, Plan()).verdict is S


@pytest.mark.parametrize("returned", [{"x": np.zeros(15)}, {"x": np.zeros((1, 16))}, {"x": np.float64(0.0)}])
def test_anything_but_one_row_a_replicate_is_refused(returned: dict[str, Any]) -> None:
    with pytest.raises(InputError, match=r"claim D1: every measurement has one row a replicate, \[16, \.\.\.\]; 'x'"):
        run(claim(experiment=lambda settings, replicates: returned), Plan())


@pytest.mark.parametrize("returned", [None, {}, np.zeros(16)])
def test_an_experiment_returns_a_dict_of_arrays(returned: Any) -> None:
    with pytest.raises(InputError, match="returns a dict of arrays"):
        run(claim(experiment=lambda settings, replicates: returned), Plan())


# --- the error rate ---


def test_the_error_rate_is_spent_over_looks_criteria_and_registered_claims() -> None:
    plan = Plan(alpha=0.01, registered=5)
    outcome = run(claim(region=NEVER, columns=3), plan)
    assert outcome.alpha == pytest.approx(0.002)
    levels = [look_level(plan.share, 3, look) for look in (1, 2, 3)]
    assert levels == pytest.approx([1 - 0.002 / 6, 1 - 0.002 / 12, 1 - 0.002 / 24], abs=1e-15)
    assert {c.estimate.level for c in outcome.criteria} == {levels[2]}
    # all looks of all criteria of all claims together spend less than alpha
    assert 5 * 3 * sum(1 - level for level in levels) == pytest.approx(7 / 8 * 0.01)


def test_selecting_claims_or_running_them_in_another_order_changes_no_verdict() -> None:
    plan = Plan(registered=3)
    claims = [claim(id=id, region=Region.around(0.0, absolute=0.4)) for id in ("D1", "D2", "D3")]
    forwards = {c.id: run(c, plan).criteria for c in claims}
    backwards = {c.id: run(c, plan).criteria for c in reversed(claims)}
    np.random.seed(5)  # noqa: NPY002
    assert forwards == backwards
    assert run(claims[1], plan).criteria == forwards["D2"]
    assert len({criteria[0].estimate.point for criteria in forwards.values()}) == 3


def test_randomness_is_named_by_seed_claim_and_control() -> None:
    experiment = Recorded()
    tried = claim(experiment=experiment, region=WIDE)
    run(tried, Plan(seed=3))
    run(tried, Plan(seed=3), tried.controls[0])
    run(tried, Plan(seed=4))
    streams = [asked.stream for asked in experiment.asked]
    assert streams == [stream(3, "D1"), stream(3, "D1", "shifted"), stream(4, "D1")]


def test_a_seed_and_a_profile_change_the_numbers() -> None:
    points = {run(claim(), Plan(seed=seed)).criteria[0].estimate.point for seed in range(5)}
    assert len(points) == 5


# --- what decides ---


@pytest.mark.parametrize(
    ("looks", "verdict", "taken"),
    [
        ([(S, S)], S, 1),
        ([(S, R)], R, 1),  # one criterion refuted is enough
        ([(I, R)], R, 1),
        ([(S, I), (S, S)], S, 2),
        ([(I, I), (S, I), (R, I)], R, 3),
        ([(I, S), (I, S), (I, S)], I, 3),
        ([(S, I), (I, S), (I, I)], I, 3),  # all in one look, or not at all
    ],
)
def test_a_claim_is_supported_where_all_criteria_are_and_refuted_where_one_is(
    looks: list[tuple[Verdict, ...]], verdict: Verdict, taken: int
) -> None:
    outcome = run(verdicts_in_turn(*looks), Plan())
    assert (outcome.verdict, outcome.looks) == (verdict, taken)
    assert tuple(c.verdict for c in outcome.criteria) == looks[taken - 1]


@pytest.mark.parametrize(
    ("looks", "verdict", "taken"),
    [
        ([(R, R, S)], R, 1),  # the third is not named: what it says does not matter
        ([(R, R, I)], R, 1),
        ([(R, S, R)], S, 1),  # a named criterion that is supported: the control is missed, and it is seen
        ([(R, I, R), (R, R, S)], R, 2),
        ([(R, I, R), (I, I, R), (R, I, R)], I, 3),
    ],
)
def test_a_control_is_refuted_where_all_the_criteria_that_it_names_are(
    looks: list[tuple[Verdict, ...]], verdict: Verdict, taken: int
) -> None:
    tried = verdicts_in_turn(*looks)
    control = Control("broken", {"mean": 1.0}, refutes=("mean 0", "mean 1"))
    outcome = run(dataclasses.replace(tried, controls=(control,)), Plan(), control)
    assert (outcome.verdict, outcome.looks, outcome.expected) == (verdict, taken, R)
    assert outcome.passed is (verdict is R)
    assert outcome.name == "D1: broken"


@pytest.mark.parametrize(
    ("looks", "verdict", "taken"),
    [([(S, R)], S, 1), ([(I, S), (S, S)], S, 2), ([(R, S)], R, 1), ([(I, S)] * 3, I, 3)],
)
def test_a_control_that_is_to_be_supported_is_so_where_the_criteria_that_it_names_are(
    looks: list[tuple[Verdict, ...]], verdict: Verdict, taken: int
) -> None:
    tried = dataclasses.replace(verdicts_in_turn(*looks), on_record=R)
    control = Control("made true", {"mean": 1.0}, supports=("mean 0",))
    outcome = run(dataclasses.replace(tried, controls=(control,)), Plan(), control)
    assert (outcome.verdict, outcome.looks, outcome.passed) == (verdict, taken, verdict is S)


def test_a_control_runs_with_its_changes_and_the_claim_without() -> None:
    experiment = Recorded()
    tried = claim(experiment=experiment, region=WIDE)
    run(tried, Plan())
    run(tried, Plan(), tried.controls[0])
    assert [settings["mean"] for settings in experiment.settings] == [0.0, 10.0]
    assert tried.settings["mean"] == 0.0


def test_a_control_that_breaks_nothing_is_seen() -> None:
    tried = claim(shifted=0.01)
    outcome = run(tried, Plan(), tried.controls[0])
    assert outcome.verdict is S
    assert not outcome.passed


def test_a_verdict_on_record_is_the_one_expected() -> None:
    hypothesis = dataclasses.replace(claim(mean=5.0), on_record=R)
    outcome = run(hypothesis, Plan())
    assert (outcome.verdict, outcome.expected, outcome.passed) == (R, R, True)
    assert not run(dataclasses.replace(claim(), on_record=R), Plan()).passed


def test_the_record_sees_all_looks() -> None:
    recorded = dataclasses.replace(claim(region=NEVER), record=lambda m: {"rows": len(m["x"])})
    assert run(recorded, Plan()).data == {"rows": 256}


# --- plans and identities ---


@pytest.mark.parametrize(
    ("fields", "sentence"),
    [
        ({"profile": "slow"}, "a profile is one of quick, standard, full; it came as 'slow'"),
        ({"alpha": 0.0}, "an error rate lies between 0 and 1; alpha came as 0.0"),
        ({"alpha": float("nan")}, "alpha came as nan"),
        ({"registered": 0}, "at least one claim is registered; the plan says 0"),
    ],
)
def test_a_plan_refuses(fields: dict[str, Any], sentence: str) -> None:
    with pytest.raises(InputError, match=sentence):
        Plan(**fields)


def test_an_identity_knows_everything_that_a_verdict_depends_on() -> None:
    whole = claim()
    same = identity(whole, Plan())
    assert identity(claim(), Plan()) == same == run(whole, Plan()).identity
    others = [
        identity(whole, Plan(seed=1)),
        identity(whole, Plan(profile="standard")),
        identity(whole, Plan(device="cuda")),
        identity(whole, Plan(alpha=0.02)),
        identity(whole, Plan(registered=2)),
        identity(whole, Plan(), whole.controls[0]),
        identity(claim(shifted=11.0), Plan(), claim(shifted=11.0).controls[0]),
        identity(claim(sd=2.0), Plan()),
        identity(claim(replicates=32), Plan()),
        identity(claim(region=Region.around(0.0, absolute=2.0)), Plan()),
        identity(claim(id="D2"), Plan()),
    ]
    assert len({same, *others}) == 1 + len(others)


def test_an_identity_sees_the_files_that_declare_a_claim(tmp_path: Any) -> None:
    source = "def experiment(settings, replicates):\n    return {}\n"

    def declared(text: str, name: str) -> Claim:
        file = tmp_path / name
        file.write_text(text)
        space: dict[str, Any] = {}
        exec(compile(text, str(file), "exec"), space)
        return claim(experiment=functools.partial(space["experiment"]))

    one, two = declared(source, "one.py"), declared(source + "# edited\n", "two.py")
    assert identity(one, Plan()) != identity(two, Plan())
    assert identity(one, Plan()) == identity(declared(source, "three.py"), Plan())
