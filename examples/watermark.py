"""Load what is new since the last load, and move the watermark only if the load succeeded.

    holdfast run watermark.py --conf '{"until": "2026-01-05"}'

Note `on_success=True`: the new watermark takes effect when the task succeeds. With
`"fail": true` in the conf, the load fails after the data was written; the watermark does not move,
and the next run does the work again. `if_version` ensures that no other writer has moved the
watermark since it was read.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from holdfast.sdk import Asset, dag, task

SOURCE = {f"2026-01-{day:02}": day * 100 for day in range(1, 11)}
"""A fake source: the amount of each day."""
WAREHOUSE = Path("warehouse")

orders = Asset("orders", uri="file:///warehouse/orders")


@dag(schedule="@daily", params={"until": "2026-01-10", "fail": False})
def watermark() -> None:
    @task(outlets=[orders])
    def load(params: dict[str, Any], asset_store: Any) -> dict[str, Any]:
        entry = asset_store.entry("watermark")
        since, version = (entry.value, entry.version) if entry else ("", 0)

        WAREHOUSE.mkdir(exist_ok=True)
        days = [day for day in SOURCE if since < day <= params["until"]]
        for day in days:
            (WAREHOUSE / f"{day}.json").write_text(json.dumps(SOURCE[day]))

        if days:
            asset_store.set("watermark", max(days), on_success=True, if_version=version)
        if params["fail"]:
            raise RuntimeError("failed after the data was written")
        return {"since": since, "days": len(days)}

    load()


watermark()
