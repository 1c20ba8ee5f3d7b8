"""Spark sessions of attempts."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable
from concurrent.futures import ProcessPoolExecutor
from datetime import timedelta
from multiprocessing.context import ForkServerContext
from pathlib import Path
from typing import Any
from urllib.request import urlopen

import attempt
import msgspec
import pytest
from kept import Kept, await_true

from holdfast.model.entry import TaskWriter
from holdfast.model.scope import TaskScope
from holdfast.spark.session.session import session_id


def shown(server: Kept, what: str) -> list[dict[str, Any]]:
    """Return a list of the Spark UI."""
    base = f"{server.address.ui}/api/v1/applications"
    with urlopen(base) as answer:
        application = msgspec.json.decode(answer.read())[0]["id"]
    with urlopen(f"{base}/{application}/{what}") as answer:
        return list(msgspec.json.decode(answer.read()))


def active_tasks(server: Kept) -> int:
    """Return the number of Spark tasks that run now, from the Spark UI."""
    return sum(one["activeTasks"] for one in shown(server, "executors"))


@pytest.mark.full
def test_the_session_is_the_active_session_of_the_task(
    spark_server: Kept, in_process: Callable[..., Any]
) -> None:
    found = in_process(attempt.describe_session, spark_server.address)

    assert found == {
        "created": True,
        "active": True,
        "in another thread": True,
        "python": sys.executable,
        "utc": True,
        "zone": "UTC",
    }


@pytest.mark.full
def test_the_jobs_of_a_traced_task_have_the_trace_as_a_tag(
    spark_server: Kept, in_process: Callable[..., Any]
) -> None:
    trace = "4bf92f3577b34da6a3ce929d0e0e4736"

    in_process(attempt.count_in_trace, spark_server.address, trace)

    tags = [tag for job in shown(spark_server, "jobs") for tag in job["jobTags"]]
    assert any(tag.endswith(f"trace-{trace}") for tag in tags), tags


def test_a_task_can_use_its_session_after_stopping_it(
    spark_server: Kept, in_process: Callable[..., Any]
) -> None:
    assert in_process(attempt.stop_and_go_on, spark_server.address) == 7


def test_the_second_task_has_its_first_job_done_within_three_seconds(
    spark_server: Kept, in_process: Callable[..., Any]
) -> None:
    in_process(attempt.count_in_turn, spark_server.address, "first", time.time())

    assert in_process(attempt.count_in_turn, spark_server.address, "second", time.time()) < 3


@pytest.mark.full
def test_many_processes_forked_from_one_that_has_loaded_spark_use_it_at_once(
    spark_server: Kept, forking: ForkServerContext
) -> None:
    with ProcessPoolExecutor(6, mp_context=forking, max_tasks_per_child=1) as pool:
        waiting = [
            pool.submit(attempt.count_in_turn, spark_server.address, f"many{number}", time.time())
            for number in range(18)
        ]

        assert all(one.result(timeout=60) > 0 for one in waiting)


@pytest.mark.parametrize(
    ("work", "seconds"),
    [(attempt.compute_for_long, 1), (attempt.compute_in_python_for_long, 5)],
)
def test_the_spark_work_of_a_killed_attempt_ends_when_the_next_one_begins(
    spark_server: Kept,
    forking: ForkServerContext,
    in_process: Callable[..., Any],
    work: Callable[..., None],
    seconds: float,
) -> None:
    process = forking.Process(target=work, args=(spark_server.address, work.__name__))
    process.start()
    await_true(lambda: active_tasks(spark_server) > 0)
    process.kill()
    process.join()
    time.sleep(1)
    assert active_tasks(spark_server) > 0

    opened, computed = in_process(attempt.take_over, spark_server.address, work.__name__, 2)

    assert opened < 20  # without a kill, the work takes minutes
    assert computed < opened + seconds + 20
    await_true(lambda: active_tasks(spark_server) == 0, seconds)


def test_an_attempt_that_was_superseded_cannot_use_its_session_any_more(
    spark_server: Kept, in_process: Callable[..., Any]
) -> None:
    assert "SESSION_CLOSED" in in_process(attempt.go_on_as_a_zombie, spark_server.address)


def test_an_attempt_that_was_superseded_gets_no_session(
    spark_server: Kept, in_process: Callable[..., Any]
) -> None:
    assert "SESSION_CLOSED" in in_process(attempt.open_late, spark_server.address)


def test_a_dead_server_is_reported_soon(spark_server: Kept, in_process: Callable[..., Any]) -> None:
    gone = msgspec.structs.replace(spark_server.address, port=1)

    message, seconds = in_process(attempt.try_to_open, gone)

    assert "could not open a Spark session at localhost:1" in message
    assert seconds < 5


def test_a_connection_without_the_token_is_refused(
    spark_server: Kept, in_process: Callable[..., Any]
) -> None:
    wrong = msgspec.structs.replace(spark_server.address, token="guessed")

    message, _ = in_process(attempt.try_to_open, wrong)

    assert "could not open a Spark session" in message


@pytest.mark.full
def test_progress_counts_the_work_of_all_jobs(
    spark_server: Kept, in_process: Callable[..., Any]
) -> None:
    entries = in_process(attempt.progress_of_jobs, spark_server.address)

    progress = entries["spark_progress"]
    assert progress["jobs"] == 2
    assert progress["tasks"] == progress["done_tasks"] > 0
    assert progress["running_tasks"] == 0
    assert progress["ui"] == spark_server.address.ui


@pytest.mark.full
def test_progress_counts_the_rows_that_the_sessions_own_jobs_read_and_wrote(
    spark_server: Kept, in_process: Callable[..., Any], tmp_path: Path
) -> None:
    progress = in_process(attempt.progress_of_rows, spark_server.address, tmp_path)

    assert progress["rows_read"] == 10 + 10
    assert progress["rows_written"] == 10 + 4


def test_a_task_that_only_follows_a_stream_reports_no_jobs(
    spark_server: Kept, in_process: Callable[..., Any], tmp_path: Path
) -> None:
    entries = in_process(attempt.progress_of_a_stream, spark_server.address, tmp_path)

    assert list(entries) == ["query"]
    assert entries["query"]["rows"] == 1


def test_session_ids_differ_by_task_instance_attempt_and_run_of_the_same_name() -> None:
    scopes = [TaskScope("d", "r", "t"), TaskScope("d", "r", "t", 0)]
    runs = [attempt.BEGUN, attempt.BEGUN + timedelta(seconds=1)]

    ids = {
        session_id(TaskWriter(scope, number), begun)
        for scope in scopes
        for number in (1, 2)
        for begun in runs
    }

    assert len(ids) == 8
    assert session_id(TaskWriter(scopes[0], 1), attempt.BEGUN) in ids
