"""Read an API page by page, and go on at the right page after a crash.

Look at the order: a page is written to a file of its own, then the cursor of the next page is
stored. A crash in between repeats that one page, and writing it again changes nothing.
"""

from __future__ import annotations

import json
import time
from pathlib import Path

import holdfast

PAGES = 20
OUTPUT = Path("pages")


def fetch(cursor: int) -> tuple[list[int], int | None]:
    """Stands in for the API: the rows of a page, and the cursor of the next."""
    time.sleep(0.02)
    return [cursor * 10 + row for row in range(10)], cursor + 1 if cursor + 1 < PAGES else None


def main() -> None:
    OUTPUT.mkdir(exist_ok=True)
    with (
        holdfast.connect() as connection,
        connection.task_store("sales", "2026-01-31", "ingest").attempt() as attempt,
    ):
        progress = attempt.task_store.get("progress", {"cursor": 0})
        print(f"attempt {attempt.number} begins at {progress['cursor']}", flush=True)
        while (cursor := progress["cursor"]) is not None:
            rows, following = fetch(cursor)
            (OUTPUT / f"{cursor:04}.json").write_text(json.dumps(rows))
            progress = {"cursor": following}
            attempt.task_store.set("progress", progress)
            print(f"page {cursor}", flush=True)


if __name__ == "__main__":
    main()
