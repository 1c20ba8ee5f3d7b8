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


def can_plan(store: Store) -> bool:
    """Return False for a custom backend, whose rows only its own `cleanup()` can see."""
    return store.supports(c.DeleteExpired)
