"""Delay before a retry: the task's own, with backoff."""

from __future__ import annotations

from datetime import timedelta

from holdfast.model.dag import TaskSpec

LONGEST_DELAY = timedelta(days=1)


def retry_delay(task: TaskSpec, failures: int) -> timedelta:
    """Return the delay before the retry that follows one more failure than `failures`."""
    if not task.retry_backoff:
        return min(task.retry_delay, task.max_retry_delay or task.retry_delay)
    longest = min(task.max_retry_delay or LONGEST_DELAY, LONGEST_DELAY)
    try:
        return min(task.retry_delay * task.retry_backoff**failures, longest)
    except OverflowError:
        return longest
