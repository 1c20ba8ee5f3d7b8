"""Appends whose process is killed or paused at each step, and appends at the same time."""

from __future__ import annotations

import signal
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ProcessPoolExecutor
from concurrent.futures.process import BrokenProcessPool
from multiprocessing.context import ForkServerContext
from pathlib import Path
from typing import Any

import psutil
import pytest
from appending import STEPS, append_in_process, ids, new_table
from deltalake import DeltaTable
from kept import Kept

from holdfast.spark.lake.delta import DeltaLake


@pytest.fixture
def facts(tmp_path: Path) -> DeltaLake:
    return new_table(tmp_path)


@pytest.fixture
def append(
    spark_server: Kept, tmp_path: Path, facts: DeltaLake, in_process: Callable[..., Any]
) -> Callable[..., str]:
    """Return a function that appends a load in another process, and returns its error."""

    def call(count: int, step: str = "", number: int = 0) -> str:
        arguments = (spark_server.address, tmp_path, facts, count, step, number)
        return str(in_process(append_in_process, *arguments))

    return call


@pytest.fixture
def pool(forking: ForkServerContext) -> Iterator[ProcessPoolExecutor]:
    with ProcessPoolExecutor(3, mp_context=forking) as pool:
        yield pool


@pytest.mark.parametrize("step", STEPS)
def test_a_driver_that_is_killed_neither_loses_nor_repeats_rows(
    append: Callable[..., str], facts: DeltaLake, step: str
) -> None:
    assert append(3) == ""
    with pytest.raises(BrokenProcessPool):
        append(7, step, signal.SIGKILL)

    assert append(7) == ""
    assert append(12) == ""
    assert ids(facts) == [*range(12)]


@pytest.mark.parametrize("step", ["written", "confirmed", "committed", "appended"])
@pytest.mark.parametrize("later", [0, 1])
def test_a_zombie_neither_loses_nor_repeats_rows(
    append: Callable[..., str],
    pool: ProcessPoolExecutor,
    spark_server: Kept,
    tmp_path: Path,
    facts: DeltaLake,
    step: str,
    later: int,
) -> None:
    """It resumes after its successor's commit, or after that of a later load, too."""
    assert append(3) == ""
    arguments = (spark_server.address, tmp_path, facts, 7, step, signal.SIGSTOP)
    zombie = pool.submit(append_in_process, *arguments)
    process = paused(pool)

    assert append(7) == ""
    if later:
        assert append(9) == ""
    process.resume()
    error = zombie.result(60)

    assert error.startswith(("VersionConflict", "TableChanged"))
    assert append(12) == ""
    assert ids(facts) == [*range(12)]


def paused(pool: ProcessPoolExecutor) -> psutil.Process:
    """Return the process of a pool that has paused itself."""
    deadline = time.monotonic() + 60
    while time.monotonic() < deadline:
        for process in map(psutil.Process, pool._processes):
            if process.status() == psutil.STATUS_STOPPED:
                return process
        time.sleep(0.05)
    raise AssertionError("no process has paused")


def test_of_several_runs_at_once_one_appends(
    pool: ProcessPoolExecutor,
    append: Callable[..., str],
    spark_server: Kept,
    tmp_path: Path,
    facts: DeltaLake,
) -> None:
    assert append(3) == ""
    for count in (6, 9):
        arguments = (spark_server.address, tmp_path, facts, count, "", 0)
        errors = [pool.submit(append_in_process, *arguments) for _ in range(3)]
        kinds = [error.result(120).partition(":")[0] for error in errors]
        assert set(kinds) <= {"", "VersionConflict", "SparkBusy"}
        assert append(count) == ""

    assert ids(facts) == [*range(9)]
    stamps = [commit.get("holdfast") for commit in DeltaTable(facts.location).history()]
    assert [stamp["number"] for stamp in stamps if stamp] == [2, 1, 0]
