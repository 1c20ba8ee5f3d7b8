"""Read three regions of an API at the same time, each with a cursor of its own.

Look at `map_index`: each region is one map index of the task, so they never see each other's
entries. The `a…` methods do not block the event loop, so the regions really overlap.
"""

from __future__ import annotations

import asyncio
import json
from pathlib import Path

import holdfast

REGIONS = ("east", "north", "south")
PAGES = 10
OUTPUT = Path("pages")


async def fetch(region: str, cursor: int) -> tuple[list[str], int | None]:
    """Stands in for the API: the rows of a page, and the cursor of the next."""
    await asyncio.sleep(0.05)
    rows = [f"{region}-{cursor * 10 + row}" for row in range(10)]
    return rows, cursor + 1 if cursor + 1 < PAGES else None


async def ingest(connection: holdfast.Connection, region: str, map_index: int) -> None:
    task = connection.task_store("sales", "2026-01-31", "ingest", map_index)
    async with task.attempt() as attempt:
        progress = await attempt.task_store.aget("progress", {"cursor": 0})
        print(f"{region} begins at {progress['cursor']}", flush=True)
        while (cursor := progress["cursor"]) is not None:
            rows, following = await fetch(region, cursor)
            (OUTPUT / f"{region}-{cursor:04}.json").write_text(json.dumps(rows))
            progress = {"cursor": following}
            await attempt.task_store.aset("progress", progress)
            print(f"{region} page {cursor}", flush=True)


async def ingest_all() -> None:
    with holdfast.connect() as connection:
        regions = enumerate(REGIONS)
        await asyncio.gather(*(ingest(connection, region, index) for index, region in regions))


def main() -> None:
    OUTPUT.mkdir(exist_ok=True)
    asyncio.run(ingest_all())


if __name__ == "__main__":
    main()
