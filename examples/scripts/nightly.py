"""State for a script that something else starts, such as cron: `python nightly.py 2026-01-31`.

Look at `attempt()`: it gives a plain script what the runner gives a task. Start it as often as you
like. A day that broke off goes on where it stopped, a start that hung and wakes up later may not
write any more, and the watermark moves only when the whole day was loaded.
"""

from __future__ import annotations

import sys
import time
from pathlib import Path

import holdfast

FILES = [f"orders-{number}.csv" for number in range(8)]
"""Stands in for the files of a day."""
WAREHOUSE = Path("warehouse")


def load(file: str, day: str) -> None:
    """Stands in for the work. Doing it twice changes nothing."""
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
