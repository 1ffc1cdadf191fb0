"""Family K's experiments: what each comparison sees and what it does not."""

import numpy as np
import pytest
import torch

from mfcheck.experiments import scaling
from mfcheck.measure import Measure
from mfcheck.replicates import Replicates, concatenate
from mfcheck.statistics.seeds import stream
from paper_checks.claims_scaling import K1, K2

FEW = {**K2.settings, "coordinates": 128, "path_steps": 5}


def _look(name: str) -> dict[str, float]:
    settings = {**K1.settings, "risks": (name,), "particles": 6}
    measured = scaling.weights_and_points(settings, Replicates(stream(5), 0, 1))
    return {key: float(values[0, 0]) for key, values in measured.items()}


CONTROLS = ("index-dependent", "attention layer: index-dependent")


def test_every_subject_but_the_controls_is_looked_at() -> None:
    assert {*K1.settings["risks"], *CONTROLS} == set(scaling.SUBJECTS)


@pytest.mark.parametrize("name", K1.settings["risks"])
def test_weights_and_points_agree_for_a_function_of_the_measure(name: str) -> None:
    assert max(_look(name).values()) < 1e-6


@pytest.mark.parametrize("name", CONTROLS)
def test_a_difference_in_the_existing_weight_does_not_see_an_index_and_appending_does(name: str) -> None:
    found = _look(name)
    assert found["existing_weight"] < 1e-6
    assert found["potential"] > 0.1
    assert found["drift"] > 0.1


def test_kernel_energy_is_a_function_of_the_measure_and_the_control_is_not() -> None:
    measure = Measure.uniform(torch.randn(5, 2, dtype=torch.float64, generator=stream(1).torch()))
    split = measure.split(2, 0.3)
    assert float(scaling.kernel_energy(split)) == pytest.approx(float(scaling.kernel_energy(measure)))
    assert float(scaling.index_dependent(split)) != pytest.approx(float(scaling.index_dependent(measure)))


def test_replicates_bought_in_two_looks_are_those_bought_in_one() -> None:
    replicates = [Replicates(stream(2), *ends) for ends in ((0, 5), (0, 2), (2, 5))]
    at_once, *parts = [scaling.two_scalings(FEW, chosen) for chosen in replicates]
    for name, values in concatenate(parts).items():
        np.testing.assert_allclose(values, at_once[name], rtol=1e-12)


def test_the_scalings_agree_bit_by_bit_and_exchanged_they_part() -> None:
    replicates = Replicates(stream(2), 0, 2)
    assert scaling.two_scalings(FEW, replicates)["path_difference"].tolist() == [0.0, 0.0]
    exchanged = scaling.two_scalings({**FEW, "exchanged": True}, replicates)
    assert exchanged["path_difference"].min() > 0.1
    # one particle cannot tell them apart
    alone = scaling.two_scalings({**FEW, "path_particles": 1, "exchanged": True}, replicates)
    assert alone["path_difference"].tolist() == [0.0, 0.0]
