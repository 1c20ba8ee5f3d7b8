"""Clock that tests advance."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta


class Clock:
    """Clock that stands still until it is advanced. It starts at the real time, because an accessor
    computes `expires_at` by the worker's clock."""

    def __init__(self) -> None:
        self.now = datetime.now(UTC)

    def __call__(self) -> datetime:
        return self.now

    def forward(self, by: timedelta) -> None:
        """Advance the clock."""
        self.now += by
