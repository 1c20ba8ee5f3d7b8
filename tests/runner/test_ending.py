"""State of a task after an attempt has ended."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import msgspec
import pytest

from holdfast.model.dag import TaskSpec
from holdfast.model.run import Outcome, TaskInstance, TaskState
from holdfast.model.scope import TaskScope
from holdfast.runner.protocol.messages import Failed, Skipped, Succeeded
from holdfast.runner.protocol.parameters import MOST_INTERRUPTIONS
from holdfast.runner.supervisor.ending import StopReason, ending_of
from holdfast.runner.supervisor.retry_delay import retry_delay

NOW = datetime(2026, 1, 1, tzinfo=UTC)
TASK = TaskSpec(task_id="load", operator="@task", retries=2, retry_delay=timedelta(minutes=1))
INSTANCE = TaskInstance(
    scope=TaskScope("sales", "monday", "load"),
    state=TaskState.RUNNING,
    attempt=1,
    failures=0,
    interruptions=0,
    ready_at=None,
    started_at=NOW,
    ended_at=None,
    error="",
)
ONCE = msgspec.structs.replace(INSTANCE, failures=1)
TWICE = msgspec.structs.replace(INSTANCE, failures=2)
TIMED = msgspec.structs.replace(TASK, execution_timeout=timedelta(seconds=5))


def test_a_success_keeps_the_result() -> None:
    ending = ending_of(TASK, INSTANCE, Succeeded(result="[1]"), 0, None, NOW)

    assert (ending.outcome, ending.state, ending.result) == (
        Outcome.SUCCESS,
        TaskState.SUCCESS,
        "[1]",
    )


def test_a_skip_has_its_reason() -> None:
    ending = ending_of(TASK, INSTANCE, Skipped("no files"), 0, None, NOW)

    assert (ending.state, ending.error) == (TaskState.SKIPPED, "no files")


def test_a_failure_is_retried_after_its_delay() -> None:
    ending = ending_of(TASK, ONCE, Failed(error="KeyError: 'x'"), 1, None, NOW)

    assert ending.state is TaskState.UP_FOR_RETRY
    assert ending.ready_at == NOW + timedelta(minutes=1)
    assert ending.error == "KeyError: 'x'"


def test_an_outage_of_the_store_uses_up_no_retry() -> None:
    away = Failed(error="StoreUnavailable: no answer", store_was_away=True)

    ending = ending_of(TASK, TWICE, away, 0, None, NOW)

    assert (ending.outcome, ending.state) == (Outcome.INTERRUPTED, TaskState.SCHEDULED)
    assert ending.error == "the store was unavailable: StoreUnavailable: no answer"


def test_the_last_failure_is_final() -> None:
    assert ending_of(TASK, TWICE, Failed(error="x"), 1, None, NOW).state is TaskState.FAILED


def test_a_failure_without_retry_is_final() -> None:
    report = Failed(error="x", may_retry=False)
    assert ending_of(TASK, INSTANCE, report, 1, None, NOW).state is TaskState.FAILED


def test_a_killed_process_is_a_failure_with_its_signal() -> None:
    ending = ending_of(TASK, INSTANCE, None, -9, None, NOW)

    assert (ending.outcome, ending.signal, ending.exit_status) == (Outcome.FAILED, 9, None)
    assert "killed by SIGKILL" in ending.error


def test_a_signal_without_a_name_is_shown_by_its_number() -> None:
    assert "killed by signal 40" in ending_of(TASK, INSTANCE, None, -40, None, NOW).error


def test_the_end_of_the_launcher_during_a_timeout_is_not_blamed_on_spark() -> None:
    ending = ending_of(TIMED, INSTANCE, None, None, StopReason.TIMEOUT, NOW)

    assert (ending.outcome, ending.error) == (Outcome.INTERRUPTED, "the launcher died")


def test_an_exit_before_the_end_is_a_failure_with_its_status() -> None:
    ending = ending_of(TASK, INSTANCE, None, 3, None, NOW)

    assert (ending.exit_status, ending.state) == (3, TaskState.UP_FOR_RETRY)
    assert "exit status 3 before the task returned" in ending.error


def test_a_timeout_names_its_length() -> None:
    ending = ending_of(TIMED, INSTANCE, Failed(error="stopped"), 1, StopReason.TIMEOUT, NOW)

    assert "execution_timeout of 0:00:05" in ending.error


def test_a_success_just_before_its_timeout_is_a_success() -> None:
    ending = ending_of(TIMED, INSTANCE, Succeeded(), 0, StopReason.TIMEOUT, NOW)

    assert ending.state is TaskState.SUCCESS


@pytest.mark.parametrize(("report", "status"), [(None, -15), (Failed(error="stopped"), 1)])
def test_an_interruption_uses_no_retry(report: Failed | None, status: int) -> None:
    ending = ending_of(TASK, TWICE, report, status, StopReason.INTERRUPT, NOW)

    assert (ending.outcome, ending.state) == (Outcome.INTERRUPTED, TaskState.SCHEDULED)
    assert ending.orderly


def test_an_attempt_whose_spark_died_is_retried_with_backoff() -> None:
    pauses = []
    for before in range(MOST_INTERRUPTIONS - 1):
        instance = msgspec.structs.replace(INSTANCE, interruptions=before)
        ending = ending_of(TASK, instance, Failed(error="x"), 1, StopReason.SPARK, NOW)
        assert (ending.state, ending.orderly) == (TaskState.SCHEDULED, False)
        assert ending.ready_at is not None
        pauses.append((ending.ready_at - NOW).total_seconds())

    assert pauses == [0, 2, 4, 8]


def test_a_repeatedly_interrupted_attempt_has_failed() -> None:
    instance = msgspec.structs.replace(INSTANCE, interruptions=MOST_INTERRUPTIONS - 1)

    ending = ending_of(TASK, instance, None, None, None, NOW)

    assert (ending.state, ending.error) == (
        TaskState.FAILED,
        "the launcher died, 5 times in a row",
    )


def test_a_file_that_breaks_before_its_task_starts_uses_no_retry() -> None:
    report = Failed(error="SyntaxError: invalid syntax", file_is_broken=True)

    ending = ending_of(TASK, TWICE, report, 0, None, NOW)

    assert (ending.outcome, ending.state) == (Outcome.INTERRUPTED, TaskState.SCHEDULED)
    assert ending.error == "the DAG file cannot be imported: SyntaxError: invalid syntax"


def test_an_unobserved_end_is_an_interruption() -> None:
    assert ending_of(TASK, TWICE, None, None, None, NOW).outcome is Outcome.INTERRUPTED


def test_delays_grow_up_to_their_limit() -> None:
    task = msgspec.structs.replace(TASK, retry_backoff=2.0, max_retry_delay=timedelta(minutes=10))
    delays = [retry_delay(task, failures).total_seconds() / 60 for failures in range(6)]

    assert delays == [1, 2, 4, 8, 10, 10]


def test_a_delay_without_backoff_is_constant() -> None:
    task = msgspec.structs.replace(TASK, retry_delay=timedelta(days=3))
    assert retry_delay(task, 0) == timedelta(days=3)


def test_a_delay_never_overflows() -> None:
    task = msgspec.structs.replace(TASK, retry_backoff=10.0)
    assert retry_delay(task, 5000) == timedelta(days=1)
