"""Read an API page by page, and resume at the right page after a crash.

    holdfast run paginated_ingest.py --run-id today

Note the order: a page is written to a file of its own, then the cursor of the next page is
stored. A crash in between repeats that one page, and writing it again changes nothing.
"""

from __future__ import annotations

import json
import time
from datetime import timedelta
from pathlib import Path
from typing import Any

from holdfast.sdk import dag, task

PAGES = 20
OUTPUT = Path("pages")


def fetch(cursor: int) -> tuple[list[int], int | None]:
    """Return the rows of a page of a fake API, and the cursor of the next page."""
    time.sleep(0.05)
    return [cursor * 10 + row for row in range(10)], cursor + 1 if cursor + 1 < PAGES else None


@dag(schedule="@daily")
def paginated_ingest() -> None:
    @task(retries=2, retry_delay=timedelta(seconds=1))
    def ingest(task_store: Any) -> None:
        OUTPUT.mkdir(exist_ok=True)
        # In a dict, because a stored value cannot be None, and None is "no more pages".
        progress = task_store.get("progress", {"cursor": 0})
        while (cursor := progress["cursor"]) is not None:
            print(f"page {cursor}")
            rows, following = fetch(cursor)
            (OUTPUT / f"{cursor:04}.json").write_text(json.dumps(rows))
            progress = {"cursor": following}
            task_store.set("progress", progress)

    ingest()


paginated_ingest()
