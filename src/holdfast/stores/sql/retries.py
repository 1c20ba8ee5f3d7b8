"""Retry policy for SQL commands: how long to retry, and when a retry is safe."""

from __future__ import annotations

import logging
import random
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import timedelta
from threading import Lock

import sqlalchemy as sa

from holdfast.errors import StoreUnavailable
from holdfast.portable.backoff import Backoff
from holdfast.stores.sql.failures import (
    is_clash,
    is_driver_error,
    is_lost,
    is_read_only,
    translate,
)

log = logging.getLogger("holdfast.store")

_MAX_CLASHES = 30
_LONGEST_PAUSE = 1.0
_LONGEST_UNLOGGED = 1.0
"""Seconds for which a database may be unavailable before that is logged."""


class Unanswered(StoreUnavailable):
    """The database has not executed a command within `answer_timeout`."""


class Timeout:
    """Timeout of a command in a thread. The caller that waits for it gives up."""

    def __init__(self, seconds: float | None) -> None:
        self.seconds = seconds
        self._given_up = False
        self._lock = Lock()
        self._stop: Callable[[], None] | None = None

    def check(self) -> None:
        """Raise Unanswered once the caller has given up."""
        if self._given_up:
            raise unanswered(self.seconds)

    @contextmanager
    def over(self, stop: Callable[[], None]) -> Iterator[None]:
        """Register `stop` to interrupt what is under way inside."""
        with self._lock:
            self.check()
            self._stop = stop
        try:
            yield
        finally:
            with self._lock:
                self._stop = None

    def give_up(self) -> None:
        """End the command, from another thread."""
        with self._lock:
            self._given_up = True
            if self._stop is not None:
                self._stop()


class Progress:
    """Progress of an operation at the time of a failure."""

    begun = False
    committing = False
    given_up = False


def unanswered(seconds: float | None) -> Unanswered:
    """Return the error for a command that has exceeded the timeout."""
    return Unanswered(
        f"the database did not complete the command within {seconds:g} s, and it was cancelled; a "
        "write may or may not have happened",
        hint="request less at once, or check that the database is not overloaded; after a write, "
        "read the entry before you retry",
    )


class Outage:
    """A time without a database, which is logged when it begins and when it ends."""

    def __init__(self) -> None:
        self.since: float | None = None
        """None while the database is available."""
        self._logged = False
        self._lock = Lock()

    def go_on(self, why: str) -> None:
        """Report that the database was unavailable just now."""
        with self._lock:
            now = time.monotonic()
            self.since = now if self.since is None else self.since
            if not self._logged and now >= self.since + _LONGEST_UNLOGGED:
                self._logged = True
                log.warning("the database is unavailable: %s; retrying", why)

    def end(self) -> None:
        """Report that the database has answered."""
        with self._lock:
            if self._logged and self.since is not None:
                seconds = time.monotonic() - self.since
                log.warning("the database is available again, after %.0f s", seconds)
            self.since, self._logged = None, False


class RetryPolicy:
    """Decides, for one command, whether and when it is retried."""

    def __init__(
        self,
        window: timedelta,
        url: sa.URL,
        outage: Outage,
        repeatable: bool,
        answer_timeout: float | None = None,
    ) -> None:
        self._deadline = time.monotonic() + window.total_seconds()
        self._url = url
        self._outage = outage
        self._repeatable = repeatable
        self._answer_timeout = answer_timeout
        self._clashes = 0
        self._backoff = Backoff(0.1, _LONGEST_PAUSE)

    def after(self, error: Exception, progress: Progress) -> float:
        """Return the seconds to wait before a retry, or raise the error for the caller."""
        if progress.given_up:
            raise unanswered(self._answer_timeout) from error
        if not is_driver_error(error):
            raise error
        if is_clash(error) and self._clashes < _MAX_CLASHES:
            self._clashes += 1
            return random.uniform(0, 0.01 * self._clashes)  # noqa: S311
        if not is_lost(error):
            raise translate(error, self._url) from error
        self._outage.go_on(translate(error, self._url).message)
        # What is refused for being a write has certainly not happened.
        if progress.committing and not self._repeatable and not is_read_only(error):
            raise StoreUnavailable(
                "the connection to the database was lost during a commit, so the write may or may "
                "not have happened",
                hint="read the entry before you retry",
            ) from error
        pause = self._backoff.pause()
        if time.monotonic() + pause > self._deadline:
            raise translate(error, self._url) from error
        return pause
