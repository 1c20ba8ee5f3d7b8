"""Progress of Spark jobs in the task store."""

from __future__ import annotations

import time
from threading import Event
from typing import Any, TypeVar

import pytest
from attempt import scope_of, store_of
from kept import await_true
from pyspark.sql.connect.shell.progress import StageInfo

from holdfast.accessor.task_store import TaskStore
from holdfast.commands import Command
from holdfast.errors import StaleAttempt
from holdfast.model.entry import TaskWriter
from holdfast.spark.session.progress import Progress
from holdfast.spark.session.row_count import RowCount
from holdfast.testing.memory_store import MemoryStore

A = TypeVar("A")


class RefusingStore(MemoryStore):
    def execute(self, command: Command[A]) -> A:
        raise StaleAttempt("a newer attempt has started")


class BlockedStore(MemoryStore):
    def __init__(self) -> None:
        super().__init__()
        self.asked = Event()
        self.released = Event()

    def execute(self, command: Command[A]) -> A:
        self.asked.set()
        assert self.released.wait(60)
        return super().execute(command)


def stage(number: int, tasks: int, done: int, bytes_read: int = 0) -> StageInfo:
    return StageInfo(number, tasks, done, bytes_read, tasks == done)


def entry(store: TaskStore) -> Any:
    return store.get("spark_progress")


def test_stages_that_run_and_jobs_that_ended_are_counted_together() -> None:
    store = store_of("counted")

    with Progress(store, "http://localhost:4040") as report:
        report([stage(1, 4, 4, 100), stage(2, 8, 0)], 0, "one", True)
        report([stage(3, 10, 3, 50), stage(4, 2, 2, 7)], 2, "two", False)

    assert entry(store) == {
        "jobs": 2,
        "stages": 3,
        "done_stages": 2,
        "tasks": 16,
        "done_tasks": 9,
        "running_tasks": 2,
        "bytes_read": 157,
        "ui": "http://localhost:4040",
    }


def test_without_a_spark_ui_there_is_no_link() -> None:
    store = store_of("linkless")

    with Progress(store, "") as report:
        report([stage(1, 1, 1)], 0, "one", True)

    assert "ui" not in entry(store)
    assert entry(store)["jobs"] == 1


def test_a_task_that_does_nothing_on_spark_has_no_progress() -> None:
    store = store_of("idle")
    store.set("other", 1)

    with Progress(store, ""):
        pass

    assert entry(store) is None


def test_the_progress_of_the_author_is_not_overwritten() -> None:
    store = store_of("authored")
    store.set("progress", {"files": 3, "done_files": 1})

    with Progress(store, "") as report:
        report([stage(1, 4, 4)], 0, "one", True)

    assert store.get("progress") == {"files": 3, "done_files": 1}


def test_an_operation_without_stages_is_no_job() -> None:
    store = store_of("commands")
    store.set("other", 1)

    with Progress(store, "") as report:
        report([], 0, "one", True)
        report(None, 0, "two", True)

    assert entry(store) is None


def test_counts_that_spark_did_not_report_are_left_out() -> None:
    store = store_of("unreported")

    with Progress(store, "") as report:
        report([stage(1, 2, 0)], 2, "one", False)
        report([stage(1, 2, 0)], 2, "one", True)

    assert entry(store) == {"jobs": 1}


@pytest.mark.full
def test_progress_is_written_at_most_once_a_second() -> None:
    store = store_of("often")
    begin = time.monotonic()

    with Progress(store, "") as report:
        while time.monotonic() < begin + 2.5:
            report([stage(1, 10, 1)], 1, "one", False)
            time.sleep(0.01)

    written = store.entry("spark_progress")
    assert written is not None
    assert written.version <= 1 + (time.monotonic() - begin)


def test_progress_is_readable_while_the_job_runs() -> None:
    store = store_of("seen")
    store.set("other", 1)

    with Progress(store, "") as report:
        report([stage(1, 10, 1)], 1, "one", False)
        await_true(lambda: entry(store))

        assert entry(store)["running_tasks"] == 1


def test_a_store_that_refuses_progress_does_not_disturb_the_job(
    caplog: pytest.LogCaptureFixture,
) -> None:
    scope = scope_of("refused")
    store = TaskStore(RefusingStore(), scope, TaskWriter(scope, 1))

    with Progress(store, "") as report:
        report([stage(1, 1, 1)], 0, "one", True)
        await_true(lambda: caplog.text)
        report([stage(1, 1, 1)], 0, "two", True)

    assert caplog.text.count("could not store the progress of Spark") == 1


def test_a_slow_store_does_not_delay_the_job() -> None:
    scope = scope_of("slow")
    blocked = BlockedStore()

    with Progress(TaskStore(blocked, scope, TaskWriter(scope)), "") as report:
        report([stage(1, 1, 1)], 0, "one", True)
        assert blocked.asked.wait(60)
        report([stage(1, 1, 1)], 0, "two", True)

        assert not blocked.released.is_set()
        blocked.released.set()


def test_rows_that_spark_does_not_report_are_left_out() -> None:
    store = store_of("rowless")

    with Progress(store, "", RowCount("http://localhost:1", "session")) as report:
        report([stage(1, 1, 1)], 0, "one", True)

    assert entry(store)["tasks"] == 1
    assert "rows_read" not in entry(store)
