"""A cell: resumed to the same bits, written once and whole, and refused where the checkpoint is of something else."""

from __future__ import annotations

import errno
import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch

from mfcheck.attention.optim import Langevin
from mfcheck.attention.particles import ParticleAttention
from mfcheck.errors import InputError
from mfcheck.experiments.wikitext import cell as cells
from mfcheck.experiments.wikitext import checkpoint
from mfcheck.experiments.wikitext.cell import Cell, Failure, read_outcome, run_cell
from mfcheck.experiments.wikitext.prepared import prepare
from mfcheck.experiments.wikitext.train import Run, train
from tests.experiments.wikitext.tables import tiny, without_clock

NOISY = "particles-8-beta-1e-3"


class Killed(BaseException):
    """Stands for a SIGKILL: nothing catches it."""


@pytest.fixture
def cell(tmp_path: Path) -> Cell:
    preset = tiny(dropout=0.1)
    prepare(preset.text, tmp_path / "text")
    return Cell(preset, NOISY, 0, tmp_path)


def killed_at(step: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """From now on a run dies after that many steps."""

    def dying(run: Run, each_step: Any) -> None:
        def then(run: Run) -> None:
            each_step(run)
            if run.step == step:
                raise Killed

        train(run, then)

    monkeypatch.setattr(cells, "train", dying)


def ran(cell: Cell) -> dict[str, Any]:
    outcome = run_cell(cell)
    assert isinstance(outcome, dict), outcome
    return outcome


@pytest.mark.parametrize("step", [1, 7, 12])
def test_a_killed_cell_goes_on_to_the_same_bits(
    cell: Cell, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, step: int
) -> None:
    # dropout, noise and order of the data all go on: the outcome is that of a run that nobody killed
    uninterrupted = ran(cell)
    prepare(cell.preset.text, tmp_path / "again" / "text")
    other = replace(cell, folder=tmp_path / "again", checkpoint_every=0.0)
    with monkeypatch.context() as patched:
        killed_at(step, patched)
        with pytest.raises(Killed):
            run_cell(other)
    assert (other.place / "checkpoint.pt").exists() and not (other.place / "outcome.json").exists()
    assert without_clock(ran(other)) == without_clock(uninterrupted)
    # what is left is the outcome alone
    assert [path.name for path in other.place.iterdir()] == ["outcome.json"]


def test_arms_of_a_seed_are_paired_and_seeds_are_not(cell: Cell) -> None:
    losses = {
        (arm, seed): ran(replace(cell, arm=arm, seed=seed))["training_curve"]["loss"]
        for arm, seed in (("multihead-8", 0), ("particles-8", 0), ("multihead-8", 1))
    }
    assert losses["multihead-8", 0][0] == pytest.approx(losses["particles-8", 0][0], abs=1e-5)
    assert abs(losses["multihead-8", 0][0] - losses["multihead-8", 1][0]) > 1e-3


def test_ordinary_heads_with_the_step_of_a_mean_are_measured_as_ordinary_ones(cell: Cell) -> None:
    arm = replace(cell.preset.arm("multihead-8"), name="mean", attention="multihead_mean")
    cell = replace(cell, preset=replace(cell.preset, arms=(*cell.preset.arms, arm)), arm="mean")
    outcome = ran(cell)
    assert [row["kept"] for row in outcome["kept"]] == [
        row["kept"] for row in ran(replace(cell, arm="multihead-8"))["kept"]
    ]
    assert outcome["parameter_ratio"] == 1 and outcome["gradient"]["across_particles"] > 0
    # taken up at its last step it is measured again to the same numbers
    (cell.place / cells.OUTCOME).unlink()
    assert without_clock(ran(cell)) == without_clock(outcome)


def test_noise_goes_to_particles_alone_and_the_exposure_is_as_applied(
    cell: Cell, monkeypatch: pytest.MonkeyPatch
) -> None:
    seen: list[Run] = []
    monkeypatch.setattr(cells, "measure", lambda run, *rest: seen.append(run) or {})
    outcome = ran(cell)
    optimiser = seen[0].optimiser
    assert isinstance(optimiser, Langevin) and optimiser.scaling == "mean_field"
    assert outcome["exposure"] == pytest.approx(optimiser.exposure[0], rel=1e-12)
    assert set(optimiser._counts) == {
        parameter
        for module in seen[0].model.modules()
        if isinstance(module, ParticleAttention)
        for parameter in module.particle_parameters()
    }


def test_the_callers_random_state_and_threads_are_left_alone(cell: Cell) -> None:
    torch.manual_seed(3)
    expected = torch.rand(1)
    threads = torch.get_num_threads()
    torch.manual_seed(3)
    ran(replace(cell, threads=2))
    assert torch.equal(torch.rand(1), expected) and torch.get_num_threads() == threads


def test_a_second_outcome_does_not_replace_the_first(cell: Cell) -> None:
    first = ran(cell)
    cells._write_once(cell.place / "outcome.json", {"another": "worker"})
    assert read_outcome(cell, first["identity"]["vocabulary"]) == json.loads(json.dumps(first))


def checkpoint_of(cell: Cell, monkeypatch: pytest.MonkeyPatch) -> Cell:
    eager = replace(cell, checkpoint_every=0.0)
    with monkeypatch.context() as patched:
        killed_at(3, patched)
        with pytest.raises(Killed):
            run_cell(eager)
    return eager


def failure(cell: Cell) -> str:
    result = run_cell(cell)
    assert isinstance(result, Failure)
    return result.reason


def test_a_checkpoint_of_something_else_is_refused_and_kept(cell: Cell, monkeypatch: pytest.MonkeyPatch) -> None:
    eager = checkpoint_of(cell, monkeypatch)
    longer = replace(cell.preset, training=replace(cell.preset.training, steps=15))
    assert "checkpoint.pt is of another configuration" in failure(replace(eager, preset=longer))
    path = eager.place / "checkpoint.pt"
    state = torch.load(path, weights_only=True)
    for name in ("vocabulary", "seed"):
        torch.save(state | {"identity": state["identity"] | {name: "x"}}, path)
        assert f"is of another {name}: it says 'x'" in failure(eager)
    whole = path.read_bytes()
    path.write_bytes(whole[: len(whole) // 2])
    assert "cannot be read" in failure(eager) and "its cell begins again" in failure(eager)
    assert path.exists()


def test_an_outcome_of_another_table_is_refused(cell: Cell) -> None:
    ran(cell)
    hotter = replace(cell.preset, training=replace(cell.preset.training, rate=0.02))
    assert "outcome.json is of another configuration; take another folder" in failure(replace(cell, preset=hotter))
    (cell.place / "outcome.json").write_text("{", encoding="utf-8")
    with pytest.raises(InputError, match=r"outcome\.json is no outcome"):
        read_outcome(cell, "")


def test_a_full_disk_fails_the_cell_and_loses_nothing(cell: Cell, monkeypatch: pytest.MonkeyPatch) -> None:
    eager = checkpoint_of(cell, monkeypatch)
    before = (eager.place / "checkpoint.pt").read_bytes()

    def full(state: object, path: Path) -> None:
        path.write_bytes(b"half")
        raise OSError(errno.ENOSPC, "No space left on device", str(path))

    with monkeypatch.context() as patched:
        patched.setattr(checkpoint.torch, "save", full)
        assert "No space left on device" in failure(eager) and "its checkpoint stands" in failure(eager)
    assert (eager.place / "checkpoint.pt").read_bytes() == before
    assert [path.name for path in eager.place.iterdir()] == ["checkpoint.pt"]
    ran(eager)


def test_a_diverging_run_says_at_which_step(cell: Cell) -> None:
    wild = replace(cell.preset, training=replace(cell.preset.training, rate=1e30))
    assert "the training loss is nan at step" in failure(replace(cell, preset=wild))


@pytest.mark.skipif(torch.cuda.is_available(), reason="there is a GPU here")
def test_no_gpu_where_one_was_asked_for(cell: Cell) -> None:
    elsewhere = replace(cell.preset, training=replace(cell.preset.training, device="cuda"))
    assert "the device asked for is cuda, and torch sees none here" in failure(replace(cell, preset=elsewhere))


@pytest.mark.gpu
@pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a CUDA device")
def test_bfloat16_on_a_gpu(cell: Cell) -> None:
    training = replace(cell.preset.training, device="cuda", precision="bfloat16")
    assert ran(replace(cell, preset=replace(cell.preset, training=training)))["test"]["perplexity"] < 300


def test_bfloat16_keeps_parameters_in_float32(cell: Cell, monkeypatch: pytest.MonkeyPatch) -> None:
    seen: list[Run] = []
    monkeypatch.setattr(cells, "measure", lambda run, *rest: seen.append(run) or {})
    training = replace(cell.preset.training, precision="bfloat16")
    ran(replace(cell, preset=replace(cell.preset, training=training)))
    assert {parameter.dtype for parameter in seen[0].model.parameters()} == {torch.float32}
    assert bool(torch.isfinite(seen[0].losses).all())
