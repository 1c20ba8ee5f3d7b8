"""Read three regions of an API at the same time, in one async task.

    holdfast run paginated_ingest_async.py --run-id today

Note the keys: each region has a cursor of its own in the task store, so each resumes at its own
page. `aget` and `aset` do not block the event loop, so the regions really overlap.
"""

from __future__ import annotations

import asyncio
import json
from datetime import timedelta
from pathlib import Path
from typing import Any

from holdfast.sdk import dag, task

REGIONS = ("east", "north", "south")
PAGES = 10
OUTPUT = Path("pages")


async def fetch(region: str, cursor: int) -> list[str]:
    """Return the rows of a page of a fake API."""
    await asyncio.sleep(0.1)
    return [f"{region}-{cursor * 10 + row}" for row in range(10)]


def write(file: str, rows: list[str]) -> None:
    OUTPUT.mkdir(exist_ok=True)
    (OUTPUT / file).write_text(json.dumps(rows))


async def ingest_region(region: str, task_store: Any) -> int:
    """Read the pages of a region; return how many were read in this attempt."""
    begin = await task_store.aget(f"cursor/{region}", 0)
    for cursor in range(begin, PAGES):
        print(f"{region} page {cursor}")
        rows = await fetch(region, cursor)
        write(f"{region}-{cursor:04}.json", rows)
        await task_store.aset(f"cursor/{region}", cursor + 1)
    return PAGES - begin


@dag(schedule="@daily")
def paginated_ingest_async() -> None:
    @task(retries=2, retry_delay=timedelta(milliseconds=100))
    async def ingest(task_store: Any) -> int:
        return sum(await asyncio.gather(*(ingest_region(each, task_store) for each in REGIONS)))

    ingest()


paginated_ingest_async()
