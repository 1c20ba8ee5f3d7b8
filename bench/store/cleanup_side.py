"""A process that only cleans up, so that its memory tells: URL and batch size in, JSON out."""

from __future__ import annotations

import json
import sys
import time
from pathlib import Path

from holdfast.cleanup.plan import CleanupPlan
from holdfast.stores.sql import SqlStore


def main(url: str, batch_size: int) -> None:
    with SqlStore(url) as store:
        plan = CleanupPlan.now(store)
        before = peak_memory()
        start = time.monotonic()
        deleted = sum(plan.delete(batch_size))
        end = time.monotonic()
    result = {"start": start, "end": end, "deleted": deleted, "growth": peak_memory() - before}
    print(json.dumps(result))


def peak_memory() -> int:
    """The most bytes of memory that this process has ever had at once (Linux)."""
    for line in Path("/proc/self/status").read_text().splitlines():
        if line.startswith("VmHWM:"):
            return int(line.split()[1]) * 1024
    raise OSError("/proc/self/status does not tell the peak of memory")


if __name__ == "__main__":
    main(sys.argv[1], int(sys.argv[2]))
