"""The table: the same outcomes whoever runs its cells, failures that stop nothing, workers that are lost."""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from joblib.externals.loky.process_executor import TerminatedWorkerError

from mfcheck.errors import InputError
from mfcheck.experiments.wikitext import sweep as sweeping
from mfcheck.experiments.wikitext.arms import Arm
from mfcheck.experiments.wikitext.cell import Cell, Failure
from mfcheck.experiments.wikitext.sweep import notes, sweep, table
from tests.experiments.wikitext.tables import tiny, without_clock

ROOT = Path(__file__).parents[3]


def outcomes(swept: sweeping.Swept) -> list[dict[str, Any]]:
    assert not swept.failures
    return [without_clock(outcome) for outcome in swept.outcomes]


@contextmanager
def cluster(folder: Path) -> Iterator[tuple[str, list[subprocess.Popen[bytes]]]]:
    """A Dask scheduler and two workers of one thread, each a process of its own, on the loopback."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        address = f"tcp://127.0.0.1:{free.getsockname()[1]}"
    environment = os.environ | {"PYTHONPATH": str(ROOT), "OMP_NUM_THREADS": "1"}

    def start(name: str, *options: str) -> subprocess.Popen[bytes]:
        log = (folder / f"{name}.log").open("wb")
        # as `dask scheduler` and `dask worker`
        command = [sys.executable, "-m", "dask", *options, "--no-dashboard"]
        return subprocess.Popen(command, stdout=log, stderr=log, env=environment, cwd=folder)

    host, port = address.removeprefix("tcp://").split(":")
    processes = [start("scheduler", "scheduler", "--host", host, "--port", port)]
    try:
        workers = [
            start(f"worker-{k}", "worker", address, "--nthreads", "1", "--no-nanny", "--local-directory", str(folder))
            for k in range(2)
        ]
        processes += workers
        yield address, workers
    finally:
        for process in reversed(processes):
            process.kill()
            process.wait()


def wait_for_workers(address: str, count: int) -> None:
    from distributed import Client

    for attempt in range(60):
        try:
            with Client(address, timeout="5s", set_as_default=False) as client:
                client.wait_for_workers(count, timeout=90)
                return
        except OSError:
            if attempt == 59:
                raise
            time.sleep(0.5)


PRESET = tiny(steps=40)


@pytest.fixture(scope="module")
def serial(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, sweeping.Swept]:
    """The table run here, one cell after another."""
    folder = tmp_path_factory.mktemp("serial")
    return folder, sweep(table(PRESET, folder))


def test_a_dask_cluster_that_loses_a_worker_comes_to_the_serial_outcomes(
    tmp_path: Path, serial: tuple[Path, sweeping.Swept]
) -> None:
    pytest.importorskip("distributed", reason="a Dask cluster needs the extra cluster")
    preset = PRESET
    with cluster(tmp_path) as (address, workers):
        wait_for_workers(address, 2)
        killed: list[int] = []

        def kill_one(result: object) -> None:
            """After the first cell: kills the worker that is in the middle of another one."""
            cells = table(preset, tmp_path / "dask")
            deadline = time.monotonic() + 60
            while not killed and time.monotonic() < deadline:
                for note in notes(cells).values():
                    victim = int(note["process"])
                    if any(worker.pid == victim for worker in workers) and note["step"] > 0:
                        os.kill(victim, signal.SIGKILL)
                        killed.append(victim)
                        return
                time.sleep(0.02)

        cells = table(preset, tmp_path / "dask", checkpoint_every=0.0, note_every=0.0)
        spread = sweep(cells, scheduler=address, finished=kill_one)
        assert killed and sum(worker.poll() is None for worker in workers) == 1
        assert outcomes(spread) == outcomes(serial[1])


def test_processes_come_to_the_serial_outcomes(tmp_path: Path, serial: tuple[Path, sweeping.Swept]) -> None:
    assert outcomes(sweep(table(PRESET, tmp_path), workers=2)) == outcomes(serial[1])


def test_the_same_table_twice_does_nothing(serial: tuple[Path, sweeping.Swept]) -> None:
    folder, first = serial
    assert [outcome["arm"]["name"] for outcome in first.outcomes] == [arm.name for arm in PRESET.arms]
    before = {path: path.stat().st_mtime_ns for path in folder.rglob("outcome.json")}
    seen: list[Any] = []
    assert sweep(table(PRESET, folder), finished=seen.append).outcomes == first.outcomes and not seen
    assert before == {path: path.stat().st_mtime_ns for path in folder.rglob("outcome.json")}
    assert len((folder / "cells.jsonl").read_text(encoding="utf-8").splitlines()) == len(PRESET.arms)


def test_a_failed_cell_is_reported_and_does_not_stop_the_others(tmp_path: Path) -> None:
    cells = table(tiny(), tmp_path)
    (cells[1].place).mkdir(parents=True)
    (cells[1].place / "checkpoint.pt").write_bytes(b"damaged")
    swept = sweep(cells)
    assert [failure.cell for failure in swept.failures] == [cells[1].name]
    assert "cannot be read" in swept.failures[0].reason and len(swept.outcomes) == 2
    (cells[1].place / "checkpoint.pt").unlink()
    assert len(sweep(cells).outcomes) == 3


@pytest.fixture
def losing(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Cells run here, but the worker of a cell named in the list is lost each time, until it is taken off the list."""
    names: list[str] = []

    def results(cells: list[Cell], workers: int, scheduler: str | None) -> Iterator[Any]:
        for cell in cells:
            if cell.name in names:
                names.remove(cell.name)
                raise TerminatedWorkerError("killed")
            yield sweeping.run_cell(cell)

    monkeypatch.setattr(sweeping, "_results", results)
    return names


def test_the_cell_of_a_lost_worker_is_run_again(tmp_path: Path, losing: list[str]) -> None:
    cells = table(tiny(), tmp_path)
    losing += [cells[0].name, cells[2].name]
    swept = sweep(cells, workers=2)
    assert len(swept.outcomes) == 3 and not swept.failures and not losing


def test_a_cell_that_always_loses_its_worker_fails_in_the_end(tmp_path: Path, losing: list[str]) -> None:
    cells = table(tiny(), tmp_path)
    losing += [cells[2].name] * 10
    told: list[Any] = []
    swept = sweep(cells, workers=2, finished=told.append)
    assert len(swept.outcomes) == 2
    assert swept.failures == (Failure(cells[2].name, "its worker was lost 4 times (out of memory, or killed)"),)
    assert told[-1] == swept.failures[0]


def test_what_cannot_be_swept_is_refused(tmp_path: Path) -> None:
    preset = tiny()
    with pytest.raises(InputError, match="at least one cell"):
        sweep([])
    with pytest.raises(InputError, match="at least one process"):
        sweep(table(preset, tmp_path), workers=0)
    wide = Arm("wide", "particles", 32, head_width=16)
    with pytest.raises(InputError, match="alone have more parameters"):
        sweep(table(replace(preset, arms=(*preset.arms, wide)), tmp_path))


def test_a_scheduler_that_is_not_reached_is_a_sentence(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with monkeypatch.context() as patched:
        patched.setitem(sys.modules, "distributed", None)
        with pytest.raises(InputError, match=r"pip install 'mfcheck\[cluster\]'"):
            sweep(table(tiny(), tmp_path), scheduler="tcp://127.0.0.1:9")
    pytest.importorskip("distributed", reason="a Dask cluster needs the extra cluster")
    with pytest.raises(InputError, match=r"no Dask scheduler is reached at tcp://127\.0\.0\.1:9"):
        sweep(table(tiny(), tmp_path), scheduler="tcp://127.0.0.1:9")
    with pytest.raises(InputError, match="no Dask scheduler is reached at nonsense"):
        sweep(table(tiny(), tmp_path), scheduler="nonsense://x")
