"""Pools: named limits on what runs at once, shared by all schedulers."""

from __future__ import annotations

from datetime import timedelta
from typing import Final

import msgspec

DEFAULT_POOL: Final = "default_pool"
"""The pool of tasks that name no other."""
NO_LIMIT: Final = -1
"""Slots of a pool that limits nothing."""
STOPPING: Final = timedelta(seconds=15)
"""How long an attempt that somebody stopped takes up its slots: its process has 10 seconds to end,
from the moment at which its supervisor notices."""


class Pool(msgspec.Struct, frozen=True, kw_only=True):
    """A pool, and how much of it is in use."""

    name: str
    slots: int
    """The number of slots; NO_LIMIT: any number."""
    description: str
    used: int
    """Slots that running attempts take up. More than there are, if the pool was made smaller."""

    @property
    def free(self) -> int | None:
        """The number of free slots; None for any number."""
        return None if self.slots == NO_LIMIT else max(0, self.slots - self.used)


UNUSED_DEFAULT_POOL: Final = Pool(
    name=DEFAULT_POOL,
    slots=128,
    description="Tasks that name no pool",
    used=0,
)
"""The default pool before its first use."""
