"""One `set` or `get` at a time: through the store, and through the driver alone."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from random import Random

import msgspec

from bench.store.databases import Databases, connect
from bench.store.driver import Driver
from bench.store.rounds import Work, rates, timed
from holdfast.accessor import TaskStore
from holdfast.command import Get, RegisterTask, Set, StartAttempt
from holdfast.entry import TaskWriter
from holdfast.scope import TaskScope
from holdfast.stores.sql import SqlStore

KEYS = 100
SCOPE = TaskScope("orders", "scheduled__2026-01-01", "load")
ALPHABET = "abcdefghijklmnopqrstuvwxyz0123456789 "


def values() -> list[str]:
    """JSON strings of 50 to 200 bytes, the same in every run."""
    random = Random(1)
    return ["".join(random.choices(ALPHABET, k=random.randint(48, 198))) for _ in range(KEYS)]
