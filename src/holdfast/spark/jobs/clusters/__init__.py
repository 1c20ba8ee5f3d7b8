"""The interface to clusters that run drivers."""

from __future__ import annotations

from abc import ABC, abstractmethod
from enum import StrEnum
from typing import ClassVar, NamedTuple

from holdfast.spark.jobs.submission import Submission


class State(StrEnum):
    """The state of a driver."""

    WAITING = "waiting"
    RUNNING = "running"
    SUCCEEDED = "succeeded"
    FAILED = "failed"
    CANCELLED = "cancelled"
    UNKNOWN = "unknown"
    """The cluster does not know the driver, or how it ended."""

    @property
    def active(self) -> bool:
        return self in (State.WAITING, State.RUNNING)


class Status(NamedTuple):
    """A driver's state, with details from the cluster."""

    state: State
    detail: str = ""


class Cluster(ABC):
    """Submits drivers and reports their status.

    Raises SparkUnavailable if the cluster does not respond, and InvalidInput if it refuses.
    """

    streams: ClassVar[tuple[str, ...]] = ()
    """The names of a driver's logs; empty if they cannot be read from here."""

    def driver_id(self, intent: str) -> str:
        """Return the id of the driver of an intent if it is known before submission, or else an
        empty string. A cluster that knows it never runs two drivers of one intent."""
        return ""

    def is_driver_of(self, driver: str, intent: str) -> bool:
        """Return whether the driver may belong to the intent, as far as the cluster can tell. Its
        id comes from the task store, where anyone with a token of the task could have written any
        text."""
        return driver == self.driver_id(intent)

    @abstractmethod
    def submit(self, submission: Submission) -> str:
        """Start a driver, and return its id."""

    @abstractmethod
    def find(self, intent: str) -> str | None:
        """Return the driver that was submitted with this intent, as far as the cluster can tell."""

    @abstractmethod
    def status(self, driver: str) -> Status:
        """Return the status of the driver."""

    @abstractmethod
    def cancel(self, driver: str) -> None:
        """End the driver; do nothing if it has ended."""

    def where_logs_are(self, driver: str) -> str:
        """Return where people find a driver's whole log, for messages."""
        return ""

    def read(self, driver: str, stream: str, offset: int | None) -> tuple[bytes, int]:
        """Return the content of a log from an offset on, or without one its end, and the end's
        offset."""
        return b"", offset or 0
