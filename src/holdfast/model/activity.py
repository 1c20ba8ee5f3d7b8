"""Current activity of a store, for monitoring."""

from __future__ import annotations

from datetime import datetime

import msgspec


class WatcherActivity(msgspec.Struct, frozen=True):
    """A watcher that ran within the last day."""

    asset: str
    watcher: str
    alive: bool
    """Whether a triggerer runs it."""
    last_event_at: datetime | None
    """The time of the newest event of its asset."""


class Activity(msgspec.Struct, frozen=True, kw_only=True):
    tasks: dict[str, int]
    """The number of task instances in each state that is not final, without external runs."""
    dags: int
    import_errors: int
    """The number of DAG files that cannot be used."""
    watchers: tuple[WatcherActivity, ...]
    undelivered_alerts: int
