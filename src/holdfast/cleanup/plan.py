"""Cleanup plans: a fixed cut-off that preview and deletion share."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from datetime import datetime
from typing import Self

from holdfast import commands as c
from holdfast.model.entry import Expired
from holdfast.store import Store

PAGE = 1000


@dataclass(frozen=True)
class CleanupPlan:
    """All task entries of the store that had expired by the cut-off."""

    store: Store
    cutoff: datetime

    @classmethod
    def now(cls, store: Store) -> Self:
        """Return the plan as of now, by the store's own clock."""
        return cls(store, store.execute(c.Now()))

    def count(self) -> int:
        return self.store.execute(c.CountExpired(self.cutoff))

    def rows(self) -> Iterator[Expired]:
        """Yield each row, in order of expiry, with one page in memory at a time."""
        last: Expired | None = None
        while page := self.store.execute(c.ListExpired(self.cutoff, PAGE, last)):
            yield from page
            last = page[-1]

    def delete(self, batch_size: int = 0) -> Iterator[int]:
        """Delete the rows; yield how many each batch deleted. 0: one single batch.

        Each batch is a transaction of its own. Rows that a writer has locked are skipped at first,
        and waited for once all others are gone.
        """
        if not batch_size:
            yield self.store.execute(c.DeleteExpired(self.cutoff))
            return
        for skip_held in (True, False):
            batch = c.DeleteExpired(self.cutoff, batch_size, skip_held)
            while gone := self.store.execute(batch):
                yield gone

    def take(self, batch_size: int = 0) -> Iterator[Expired]:
        """Delete the rows in batches; yield each deleted row."""
        batch = c.TakeExpired(self.cutoff, batch_size or PAGE)
        while rows := self.store.execute(batch):
            yield from rows


def can_plan(store: Store) -> bool:
    """Return False for a custom backend, whose rows only its own `cleanup()` can see."""
    return store.supports(c.DeleteExpired)
