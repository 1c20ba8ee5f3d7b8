"""The state of assets that no DAG declares any more, once their grace has passed."""

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
        """The plan as of now, by the store's own clock."""
        return cls(store, store.execute(c.Now()) - grace)

    def assets(self) -> tuple[AssetInfo, ...]:
        """Those that still have state to lose."""
        return self.store.execute(c.ListOrphans(self.cutoff))

    def sweep(self) -> int:
        """Delete that state; answers how many assets lost it. They stay known."""
        return self.store.execute(c.DeleteOrphans(self.cutoff))
