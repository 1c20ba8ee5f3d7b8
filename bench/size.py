"""The size of a run, from BENCH_SIZE: normal, full, or tiny, which shows only that all works."""

from __future__ import annotations

import os
from enum import Enum
from typing import TypeVar

T = TypeVar("T")


class Size(Enum):
    TINY = "tiny"
    NORMAL = "normal"
    FULL = "full"

    def of(self, tiny: T, normal: T, full: T) -> T:
        """Return the one for this size."""
        return {Size.TINY: tiny, Size.NORMAL: normal, Size.FULL: full}[self]


SIZE = Size(os.environ.get("BENCH_SIZE", "normal"))
