"""Delays before the next attempt: after a failure the task's own, and after interruptions."""

from __future__ import annotations

from datetime import timedelta

from holdfast.model.dag import TaskSpec

LONGEST_DELAY = timedelta(days=1)
FIRST_PAUSE = timedelta(seconds=2)
"""Pause before the next attempt after two interruptions in a row; it doubles with each further."""
LONGEST_PAUSE = timedelta(seconds=30)


def retry_delay(task: TaskSpec, failures: int) -> timedelta:
    """Return the delay before the retry that follows one more failure than `failures`."""
    if not task.retry_backoff:
        return min(task.retry_delay, task.max_retry_delay or task.retry_delay)
    longest = min(task.max_retry_delay or LONGEST_DELAY, LONGEST_DELAY)
    try:
        return min(task.retry_delay * task.retry_backoff**failures, longest)
    except OverflowError:
        return longest


def interruption_pause(before: int) -> timedelta:
    """Return the pause after an interruption that follows so many others."""
    return min(FIRST_PAUSE * 2 ** (before - 1), LONGEST_PAUSE) if before else timedelta(0)
