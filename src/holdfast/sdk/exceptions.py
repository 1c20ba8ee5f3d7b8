"""Exceptions that a task raises to determine its outcome, under Airflow's names."""

from __future__ import annotations


class AirflowException(Exception):
    """The task has failed; it is retried while it has retries left."""


class AirflowSkipException(AirflowException):
    """There is nothing to do: the task ends as skipped."""


class AirflowFailException(AirflowException):
    """The task has failed, and a retry would not help."""
