"""How long to go on trying when the database is away, and when trying again is safe."""

from __future__ import annotations

import random
import time
from datetime import timedelta

import sqlalchemy as sa

from holdfast.errors import StoreUnavailable
from holdfast.stores.sql.failures import is_clash, is_driver_error, is_lost, shown, translate

_MAX_CLASHES = 30
_LONGEST_PAUSE = 1.0


class Progress:
    """How far an operation came before it failed."""

    begun = False
    committing = False
    given_up = False


def unanswered(url: sa.URL) -> StoreUnavailable:
    """It holds the connection, and is silent for longer than `answer_timeout`."""
    return StoreUnavailable(
        f"the database {shown(url)} does not answer, so a write may or may not have happened",
        hint="check that it is not overloaded; read the entry to find out, then decide anew",
    )


class Patience:
    """Decides, for one command, whether and when it is tried again."""

    def __init__(self, window: timedelta, url: sa.URL, repeatable: bool) -> None:
        self._deadline = time.monotonic() + window.total_seconds()
        self._url = url
        self._repeatable = repeatable
        self._clashes = 0
        self._pause = 0.05

    def after(self, error: Exception, progress: Progress) -> float:
        """The seconds to wait before the next try, or the error for the caller."""
        if progress.given_up:
            raise unanswered(self._url) from error
        if not is_driver_error(error):
            raise error
        if is_clash(error) and self._clashes < _MAX_CLASHES:
            self._clashes += 1
            return random.uniform(0, 0.01 * self._clashes)  # noqa: S311
        if not is_lost(error):
            raise translate(error, self._url) from error
        if progress.committing and not self._repeatable:
            raise StoreUnavailable(
                "the database went away during a commit, so the write may or may not have happened",
                hint="read the entry to find out, then decide anew",
            ) from error
        self._pause = min(self._pause * 2, _LONGEST_PAUSE)
        if time.monotonic() + self._pause > self._deadline:
            raise translate(error, self._url) from error
        return self._pause
