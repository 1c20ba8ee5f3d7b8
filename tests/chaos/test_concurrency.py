"""Concurrent processes on the same entries: the outcome is that of serial execution."""

from __future__ import annotations

import os
import signal
from collections.abc import Iterator
from pathlib import Path

import pytest
import workloads as w
from processes import start_together, workers

from holdfast import commands as c
from holdfast.stores.sql import SqlStore, schema

pytestmark = pytest.mark.chaos

PROCESSES = 16


@pytest.fixture
def store(database_url: str) -> Iterator[SqlStore]:
    with SqlStore(database_url, history_limit=w.KEEP_ALL) as store:
        w.prepare(store)
        yield store


def test_sixteen_processes_advance_to_the_maximum_and_count_to_the_exact_sum(
    database_url: str, store: SqlStore, rounds: int
) -> None:
    times = 4 + rounds
    with workers(PROCESSES, w.advance_and_count, database_url, times) as processes:
        start_together(processes)
        proposed = [max(process.finish()) for process in processes]

    assert store.execute(c.Get(w.FIRST, "mark")) == str(max(proposed))
    assert store.execute(c.Get(w.FIRST, "counter")) == str(PROCESSES * times)
    counted = store.execute(c.History(w.FIRST, "counter"))
    assert [step.value for step in counted] == [str(n) for n in range(PROCESSES * times, 0, -1)]


def test_no_attempt_writes_after_a_newer_one(
    database_url: str, store: SqlStore, rounds: int
) -> None:
    with workers(4, w.supersede_each_other, database_url, 10 + rounds) as processes:
        start_together(processes)
        in_task_store = [write for process in processes for write in process.finish()]

    by_version = sorted(in_task_store, key=lambda write: write[1])
    attempts = [attempt for attempt, _ in by_version]
    assert attempts == sorted(attempts)
    history = store.execute(c.History(w.FIRST, "attempt"))
    attempts = [int(step.value or 0) for step in reversed(history)]
    assert attempts == sorted(attempts)
    assert len(set(attempts)) > 1


def test_a_process_that_slept_through_a_newer_attempt_may_not_write(
    database_url: str, store: SqlStore
) -> None:
    with workers(1, w.write_before_and_after_a_pause, database_url) as [zombie]:
        assert zombie.pipe.recv() == "written"
        os.kill(zombie.pid, signal.SIGSTOP)
        store.execute(c.StartAttempt(w.TASK))
        zombie.pipe.send("go on")
        os.kill(zombie.pid, signal.SIGCONT)
        outcomes = zombie.finish()

    assert outcomes == ["stale"] * 8
    assert store.execute(c.List(w.TASK)).found == ()
    assert store.execute(c.List(w.FIRST)).found == ()


def test_cleanup_removes_no_entry_that_was_written_again(
    database_url: str, store: SqlStore, rounds: int
) -> None:
    turns = 10 + rounds
    with (
        workers(3, w.clean_up_until_told, database_url) as cleaners,
        workers(4, w.rewrite_expired, database_url, turns) as writers,
    ):
        start_together([*cleaners, *writers])
        for writer in writers:
            writer.finish()
        for cleaner in cleaners:
            cleaner.pipe.send("enough")
        gone = sum(sum(cleaner.finish()) for cleaner in cleaners)

    values = [found.entry.value for found in store.execute(c.List(w.TASK)).found]
    assert values == [str(turns - 1)] * 20
    assert gone > 0


def test_a_version_is_never_assigned_twice(database_url: str, store: SqlStore, rounds: int) -> None:
    times = 20 + 5 * rounds
    with workers(4, w.set_delete_and_expire, database_url, times) as processes:
        start_together(processes)
        given = [process.finish() for process in processes]

    for versions in given:
        assert versions == sorted(versions)
    everything = [version for versions in given for version in versions]
    assert len(everything) == len(set(everything)) == 4 * times


@pytest.mark.parametrize("count", [2, 8])
def test_processes_that_open_a_new_file_concurrently_all_succeed(
    tmp_path: Path, count: int, rounds: int
) -> None:
    for round in range(1 + rounds // 5):
        url = f"sqlite:///{tmp_path / f'{round}.db'}"
        with workers(count, w.open_together, url) as processes:
            start_together(processes)
            for process in processes:
                process.finish()

        assert schema.check(url) == (schema.HEAD, schema.HEAD)
        with SqlStore(url) as store:
            assert store.execute(c.List(w.TASK)).total == count
