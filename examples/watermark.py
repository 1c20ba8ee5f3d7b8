"""Load what is new since the last load, and move the watermark only if the load succeeded.

Look at `on_success=True`: the new watermark waits for the end of the block. With `--fail` the load
breaks off after the data was written; the watermark stays, and the next load does the work again.
`if_version` makes sure that nobody else has moved the watermark since it was read.

    python watermark.py RUN_ID UNTIL [--fail]
"""

from __future__ import annotations

import json
import sys
from pathlib import Path

import holdfast

SOURCE = {f"2026-01-{day:02}": day * 100 for day in range(1, 11)}
"""Stands in for the source: the amount of each day."""
WAREHOUSE = Path("warehouse")


def main(run_id: str, until: str, *options: str) -> None:
    WAREHOUSE.mkdir(exist_ok=True)
    with (
        holdfast.connect() as connection,
        connection.task_store("sales", run_id, "load").attempt() as attempt,
    ):
        orders = attempt.asset_store(name="orders", declare=True)
        entry = orders.entry("watermark")
        since, version = (entry.value, entry.version) if entry else ("", 0)

        days = [day for day in SOURCE if since < day <= until]
        for day in days:
            (WAREHOUSE / f"{day}.json").write_text(json.dumps(SOURCE[day]))
        print(f"loaded {len(days)} days since {since or 'the beginning'}")

        if days:
            orders.set("watermark", max(days), on_success=True, if_version=version)
        if "--fail" in options:
            raise SystemExit("failed before the end")


if __name__ == "__main__":
    main(*sys.argv[1:])
