"""What a task raises to say how it ends, by the names that Airflow has for it."""

from __future__ import annotations


class AirflowException(Exception):
    """The task has failed; it is tried again while it has retries."""


class AirflowSkipException(AirflowException):
    """There is nothing to do: the task ends as skipped."""


class AirflowFailException(AirflowException):
    """The task has failed, and trying again would not help."""
