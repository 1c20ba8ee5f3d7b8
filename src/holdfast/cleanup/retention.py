"""Retention plans: runs and asset events to be deleted by age, with a fixed cut-off that preview
and deletion share."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from datetime import datetime, timedelta
from itertools import islice
from typing import Final, Self, TypeVar

from holdfast import commands as c
from holdfast.model.run import PrunableEvent, PrunableRun
from holdfast.store import Store

PAGE: Final = 1000
RUNS_AT_ONCE: Final = 20
"""Runs that are deleted in one transaction, while others wait to write."""
EVENTS_AT_ONCE: Final = 500

T = TypeVar("T")


@dataclass(frozen=True)
class RunPlan:
    """The runs that had ended by a cut-off, and that nothing needs any more."""

    store: Store
    which: c.RunsToPrune

    @classmethod
    def now(cls, store: Store, runs: timedelta, external_runs: timedelta) -> Self:
        """Return the plan as of now, by the store's own clock. 0: runs of that kind are kept."""
        now = store.execute(c.Now())
        before, external = (now - age if age else None for age in (runs, external_runs))
        which = c.RunsToPrune(
            now=now, before=before, external_before=external, abandoned_before=external
        )
        return cls(store, which)

    def rows(self) -> Iterator[PrunableRun]:
        """Yield each run, oldest first, with one page in memory at a time."""
        last = 0
        while page := self.store.execute(c.ListPrunableRuns(self.which, PAGE, last)):
            yield from page
            last = page[-1].id

    def delete(self) -> Iterator[PrunableRun]:
        """Delete the runs in batches, each a transaction of its own; yield each deleted run. Runs
        that were cleared or written to meanwhile are left."""
        for batch in _batches(self.rows(), RUNS_AT_ONCE):
            ids = tuple(run.id for run in batch)
            gone = self.store.execute(c.PruneRuns(self.which, ids))
            yield from (run for run in batch if run.id in gone)


@dataclass(frozen=True)
class EventPlan:
    """The asset events that were recorded by a cut-off, and that nothing needs any more."""

    store: Store
    before: datetime

    @classmethod
    def now(cls, store: Store, age: timedelta) -> Self:
        """Return the plan as of now, by the store's own clock."""
        return cls(store, store.execute(c.Now()) - age)

    def rows(self) -> Iterator[PrunableEvent]:
        """Yield each event, with one page in memory at a time."""
        last: PrunableEvent | None = None
        while page := self.store.execute(c.ListPrunableEvents(self.before, PAGE, last)):
            yield from page
            last = page[-1]

    def delete(self) -> Iterator[int]:
        """Delete the events in batches, each a transaction of its own; yield how many each one
        deleted."""
        for batch in _batches(self.rows(), EVENTS_AT_ONCE):
            yield self.store.execute(c.PruneEvents(self.before, batch))


def _batches(items: Iterable[T], size: int) -> Iterator[tuple[T, ...]]:
    remaining = iter(items)
    while batch := tuple(islice(remaining, size)):
        yield batch
