"""State of a task instance after an attempt: success, skip, interruption, retry or failure."""

from __future__ import annotations

import signal
from datetime import datetime
from enum import StrEnum

from holdfast.model.dag import TaskSpec
from holdfast.model.run import Ending, Outcome, TaskInstance, TaskState
from holdfast.process import signal_name
from holdfast.runner.protocol.messages import Failed, Report, Skipped, Succeeded
from holdfast.runner.protocol.parameters import MOST_INTERRUPTIONS
from holdfast.runner.supervisor.retry_delay import interruption_pause, retry_delay


class StopReason(StrEnum):
    """The reason for which a supervisor stops an attempt early."""

    INTERRUPT = "interrupt"
    """The supervisor itself stops."""
    TIMEOUT = "timeout"
    LOST = "lost"
    """The attempt is no longer the newest."""
    SPARK = "spark"
    """The Spark server that the task used has died."""
    SILENT = "silent"
    """The task has closed its channel and keeps running."""


def ending_of(
    task: TaskSpec,
    instance: TaskInstance,
    report: Report | None,
    status: int | None,
    stop: StopReason | None,
    now: datetime,
) -> Ending:
    """Return the outcome of an attempt and the next state of its task instance.

    `report` is the task's report, and `status` its exit status or the negative number of a signal.
    """
    exit_status = status if status is not None and status >= 0 else None
    number = -status if status is not None and status < 0 else None
    if isinstance(report, Succeeded):
        return Ending(
            outcome=Outcome.SUCCESS,
            state=TaskState.SUCCESS,
            exit_status=exit_status,
            result=report.result,
            events=report.events,
        )
    if isinstance(report, Skipped):
        return Ending(outcome=Outcome.SKIPPED, state=TaskState.SKIPPED, error=report.reason)
    if stop is StopReason.INTERRUPT:
        return Ending(
            outcome=Outcome.INTERRUPTED,
            state=TaskState.SCHEDULED,
            error="the supervisor stopped",
            signal=number,
            orderly=True,
        )
    if stop is StopReason.SPARK or (report is None and status is None):
        reason = "Spark died" if stop is StopReason.SPARK else "the launcher died"
        if isinstance(report, Failed) and report.spark_is_busy:
            reason = f"Spark was stopped, because {report.error}"
        return _interrupted(instance, reason, now)
    if isinstance(report, Failed) and report.file_is_broken:
        return _interrupted(instance, f"the DAG file cannot be imported: {report.error}", now)
    if isinstance(report, Failed) and report.store_was_away:
        return _interrupted(instance, f"the store was unavailable: {report.error}", now)
    failures = instance.failures
    retry = failures < task.retries and not (isinstance(report, Failed) and not report.may_retry)
    return Ending(
        outcome=Outcome.FAILED,
        state=TaskState.UP_FOR_RETRY if retry else TaskState.FAILED,
        ready_at=now + retry_delay(task, failures) if retry else None,
        error=_failure(task, report, status, stop),
        exit_status=exit_status,
        signal=number,
    )


def _interrupted(instance: TaskInstance, reason: str, now: datetime) -> Ending:
    """Return the ending of an attempt whose task is not to blame: it is retried with backoff.

    After `MOST_INTERRUPTIONS` in a row the task has failed.
    """
    before = instance.interruptions
    if before + 1 >= MOST_INTERRUPTIONS:
        error = f"{reason}, {MOST_INTERRUPTIONS} times in a row"
        return Ending(outcome=Outcome.INTERRUPTED, state=TaskState.FAILED, error=error)
    return Ending(
        outcome=Outcome.INTERRUPTED,
        state=TaskState.SCHEDULED,
        ready_at=now + interruption_pause(before),
        error=reason,
    )


def _failure(
    task: TaskSpec, report: Report | None, status: int | None, stop: StopReason | None
) -> str:
    if stop is StopReason.TIMEOUT:
        return f"it took longer than its execution_timeout of {task.execution_timeout}"
    if isinstance(report, Failed):
        return report.error
    if stop is StopReason.SILENT:
        return "the task closed its connection to its supervisor"
    why = exit_text(status)
    return why if status is not None and status < 0 else f"{why} before the task returned"


def exit_text(status: int | None) -> str:
    """Describe the end of a process: its exit status, or the signal that killed it."""
    if status is None or status >= 0:
        return f"its process ended with exit status {status}"
    killed = f"its process was killed by {signal_name(-status)}"
    return f"{killed}, perhaps for lack of memory" if status == -signal.SIGKILL else killed
