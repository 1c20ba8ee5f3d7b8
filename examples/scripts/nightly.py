"""State for a script that another tool starts, such as cron: `python nightly.py 2026-01-31`.

Note `attempt()`: it gives a plain script the guarantees that the runner gives a task. Start it as
often as you like. A day that was interrupted resumes where it stopped, a process that hung and
resumes later can no longer write, and the watermark moves only when the whole day is loaded.
"""

from __future__ import annotations

import sys
import time
from pathlib import Path

import holdfast

FILES = [f"orders-{number}.csv" for number in range(8)]
"""The files of a day, for this example."""
WAREHOUSE = Path("warehouse")


def load(file: str, day: str) -> None:
    """Simulate the work, which is idempotent."""
    time.sleep(0.1)
    (WAREHOUSE / f"{day}-{file}").touch()


def main(day: str) -> None:
    WAREHOUSE.mkdir(exist_ok=True)
    with (
        holdfast.connect() as connection,
        connection.task_store("nightly", day, "load").attempt() as attempt,
    ):
        orders = attempt.asset_store(name="orders", declare=True)
        for number in range(attempt.task_store.get("loaded", 0), len(FILES)):
            load(FILES[number], day)
            attempt.task_store.set("loaded", number + 1)
            print(f"loaded {FILES[number]}", flush=True)
        orders.advance("watermark", day, on_success=True)


if __name__ == "__main__":
    main(sys.argv[1])
