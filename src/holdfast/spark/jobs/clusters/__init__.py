"""Where drivers run: one small interface to each kind of cluster."""

from __future__ import annotations

from abc import ABC, abstractmethod
from enum import StrEnum
from typing import ClassVar, NamedTuple

from holdfast.spark.jobs.submission import Submission


class State(StrEnum):
    """What becomes of a driver."""

    WAITING = "waiting"
    RUNNING = "running"
    SUCCEEDED = "succeeded"
    FAILED = "failed"
    CANCELLED = "cancelled"
    UNKNOWN = "unknown"
    """The cluster does not know the driver, or cannot say how it ended."""

    @property
    def active(self) -> bool:
        return self in (State.WAITING, State.RUNNING)


class Status(NamedTuple):
    """A driver's state, and what the cluster says about it."""

    state: State
    detail: str = ""


class Cluster(ABC):
    """Submits drivers and tells what becomes of them.

    Raises SparkUnavailable where it does not answer, and InvalidInput where it refuses.
    """

    streams: ClassVar[tuple[str, ...]] = ()
    """The names of a driver's logs; none where they cannot be read from here."""

    def driver_id(self, intent: str) -> str:
        """The id of the driver of an intent, where that is known before there is one. A cluster
        where it is runs no two drivers of one intent."""
        return ""

    def is_driver_of(self, driver: str, intent: str) -> bool:
        """Whether the driver may be one of the intent, as far as the cluster can tell. Its id comes
        from the task store, where whoever has a token of the task could write any."""
        return driver == self.driver_id(intent)

    @abstractmethod
    def submit(self, submission: Submission) -> str:
        """Start a driver, and return its id."""

    @abstractmethod
    def find(self, intent: str) -> str | None:
        """The driver that was submitted with this intent, as far as the cluster can tell."""

    @abstractmethod
    def status(self, driver: str) -> Status:
        """What the driver is doing."""

    @abstractmethod
    def cancel(self, driver: str) -> None:
        """End the driver. Nothing happens where it has ended."""

    def where_logs_are(self, driver: str) -> str:
        """What to tell people who look for a log that cannot be read from here."""
        return ""

    def read(self, driver: str, stream: str, offset: int | None) -> tuple[bytes, int]:
        """What a log holds from an offset on, or its end without one; and where that ends."""
        return b"", offset or 0
