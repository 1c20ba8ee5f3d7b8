"""What every contender writes and reads: a hundred keys of one task, values of 50 to 200 bytes."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from random import Random

from holdfast.model.scope import TaskScope
from holdfast.model.value import encode

SCOPE = TaskScope("orders", "scheduled__2026-01-01", "load")
RETENTION = timedelta(days=30)

_random = Random(1)
_letters = "abcdefghijklmnopqrstuvwxyz0123456789 "

KEYS = [f"key_{number:03}" for number in range(100)]
VALUES = ["".join(_random.choices(_letters, k=_random.randint(48, 198))) for _ in KEYS]
TEXTS = [encode(value) for value in VALUES]
"""The values as JSON: two bytes longer."""


def expiry() -> datetime:
    return datetime.now(UTC) + RETENTION
