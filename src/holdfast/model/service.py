"""Services that report signs of life: schedulers and triggerers."""

from __future__ import annotations

from datetime import datetime, timedelta
from enum import StrEnum

import msgspec

from holdfast.model.run import Process


class ServiceKind(StrEnum):
    SCHEDULER = "scheduler"
    TRIGGERER = "triggerer"


class Service(msgspec.Struct, frozen=True, kw_only=True):
    """A scheduler or triggerer that has not ended cleanly."""

    kind: ServiceKind
    process: Process
    started_at: datetime
    seen_at: datetime
    """When it last reported a sign of life."""
    lease: timedelta
    """How long it counts as alive after each."""
    age: timedelta
    """The time since the last one, by the store's clock."""

    @property
    def alive(self) -> bool:
        return self.age < self.lease
