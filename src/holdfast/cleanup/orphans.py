"""Cleanup of assets that no DAG declares any more, once their grace period has passed."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Self

from holdfast import commands as c
from holdfast.model.entry import AssetInfo
from holdfast.store import Store


@dataclass(frozen=True)
class OrphanPlan:
    """The entries and history of all assets deactivated by the cut-off."""

    store: Store
    cutoff: datetime

    @classmethod
    def now(cls, store: Store, grace: timedelta) -> Self:
        """Return the plan as of now, by the store's own clock."""
        return cls(store, store.execute(c.Now()) - grace)

    def assets(self) -> tuple[AssetInfo, ...]:
        """Return the assets that still have state to delete."""
        return self.store.execute(c.ListOrphans(self.cutoff))

    def sweep(self) -> int:
        """Delete that state; return how many assets had any. The assets stay registered."""
        return self.store.execute(c.DeleteOrphans(self.cutoff))
