"""Mapped task with one instance for each region, which together move one watermark.

    holdfast run mapped_tasks.py --run-id today

Note `advance`: the instances end in any order, and the watermark is the maximum of the values that
they write. A plain `set` would leave the value of the last one. With `on_success=True` each value
counts only when its region is loaded.

Each map index has a task store of its own, too:

    holdfast state-store list --dag-id mapped_tasks --run-id today --task-id load --map-index 0
"""

from __future__ import annotations

import json
import time
from pathlib import Path
from typing import Any

from holdfast.sdk import Asset, dag, task

WAREHOUSE = Path("warehouse")
SOURCE = {"east": 3, "north": 7, "south": 5, "west": 1}
"""A fake source: the last day of January for which a region has sent its orders."""

orders = Asset("orders", uri="file:///warehouse/orders")


@dag(schedule="@daily", max_active_tasks=4)
def mapped_tasks() -> None:
    @task
    def find_regions() -> list[str]:
        return list(SOURCE)

    @task(outlets=[orders])
    def load(region: str, task_store: Any, asset_store: Any) -> int:
        # The region with the newest data ends first, the one with the oldest last.
        time.sleep(0.1 * (8 - SOURCE[region]))
        days = [f"2026-01-{day:02}" for day in range(1, SOURCE[region] + 1)]
        WAREHOUSE.mkdir(exist_ok=True)
        (WAREHOUSE / f"{region}.json").write_text(json.dumps(days))
        task_store.set("region", region)
        asset_store.advance("newest_day", days[-1], on_success=True)
        return len(days)

    @task
    def report(loaded: list[int]) -> int:
        return sum(loaded)

    report(load.expand(region=find_regions()))


mapped_tasks()
