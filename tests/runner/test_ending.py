"""What becomes of a task when an attempt has ended."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import msgspec
import pytest

from holdfast.dagspec import TaskSpec
from holdfast.run import Outcome, TaskState
from holdfast.runner.ending import Stop, ending_of, retry_delay
from holdfast.runner.messages import Failed, Skipped, Succeeded

NOW = datetime(2026, 1, 1, tzinfo=UTC)
TASK = TaskSpec(task_id="load", operator="@task", retries=2, retry_delay=timedelta(minutes=1))
TIMED = msgspec.structs.replace(TASK, execution_timeout=timedelta(seconds=5))


def test_a_success_keeps_the_result() -> None:
    ending = ending_of(TASK, 0, Succeeded(result="[1]"), 0, None, NOW)

    assert (ending.outcome, ending.state, ending.result) == (
        Outcome.SUCCESS,
        TaskState.SUCCESS,
        "[1]",
    )


def test_a_skip_says_why() -> None:
    ending = ending_of(TASK, 0, Skipped("no files"), 0, None, NOW)

    assert (ending.state, ending.error) == (TaskState.SKIPPED, "no files")


def test_a_failure_is_tried_again_after_its_delay() -> None:
    ending = ending_of(TASK, 1, Failed(error="KeyError: 'x'"), 1, None, NOW)

    assert ending.state is TaskState.UP_FOR_RETRY
    assert ending.ready_at == NOW + timedelta(minutes=1)
    assert ending.error == "KeyError: 'x'"


def test_the_last_failure_is_final() -> None:
    assert ending_of(TASK, 2, Failed(error="x"), 1, None, NOW).state is TaskState.FAILED


def test_a_failure_that_says_so_is_not_tried_again() -> None:
    report = Failed(error="x", may_retry=False)
    assert ending_of(TASK, 0, report, 1, None, NOW).state is TaskState.FAILED


def test_a_killed_process_is_a_failure_with_its_signal() -> None:
    ending = ending_of(TASK, 0, None, -9, None, NOW)

    assert (ending.outcome, ending.signal, ending.exit_status) == (Outcome.FAILED, 9, None)
    assert "killed by SIGKILL" in ending.error


def test_an_exit_before_the_end_is_a_failure_with_its_status() -> None:
    ending = ending_of(TASK, 0, None, 3, None, NOW)

    assert (ending.exit_status, ending.state) == (3, TaskState.UP_FOR_RETRY)
    assert "exit status 3 before the task returned" in ending.error


def test_a_timeout_says_how_long_it_was() -> None:
    ending = ending_of(TIMED, 0, Failed(error="stopped"), 1, Stop.TIMEOUT, NOW)

    assert "execution_timeout of 0:00:05" in ending.error


def test_a_success_just_before_its_timeout_stands() -> None:
    assert ending_of(TIMED, 0, Succeeded(), 0, Stop.TIMEOUT, NOW).state is TaskState.SUCCESS


@pytest.mark.parametrize(("report", "status"), [(None, -15), (Failed(error="stopped"), 1)])
def test_an_interruption_uses_up_no_retry(report: Failed | None, status: int) -> None:
    ending = ending_of(TASK, 2, report, status, Stop.INTERRUPT, NOW)

    assert (ending.outcome, ending.state) == (Outcome.INTERRUPTED, TaskState.SCHEDULED)


def test_an_end_that_nobody_saw_is_an_interruption() -> None:
    assert ending_of(TASK, 2, None, None, None, NOW).outcome is Outcome.INTERRUPTED


def test_delays_grow_up_to_their_limit() -> None:
    task = msgspec.structs.replace(TASK, retry_backoff=2.0, max_retry_delay=timedelta(minutes=10))
    delays = [retry_delay(task, failures).total_seconds() / 60 for failures in range(6)]

    assert delays == [1, 2, 4, 8, 10, 10]


def test_a_delay_never_overflows() -> None:
    task = msgspec.structs.replace(TASK, retry_backoff=10.0)
    assert retry_delay(task, 5000) == timedelta(days=1)
