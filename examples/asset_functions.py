"""Asset functions: each is an asset, a DAG, and the task that writes the asset.

    holdfast standalone DIRECTORY_OF_THIS_FILE
    holdfast runs trigger invoices

Note `schedule=invoices`: each time `invoices` is written, `revenue` is written again. `self` is
the asset itself; a parameter with the name of another asset makes that one an inlet, so that the
task can use both in its asset store.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from holdfast.sdk import asset


@asset(schedule=None, uri="file:///warehouse/invoices.json")
def invoices(self: Any, asset_store: Any) -> None:
    """Write the invoices, a few more with each run."""
    amounts = [10 * number for number in range(asset_store.get("rows", 0) + 3)]
    Path("invoices.json").write_text(json.dumps(amounts))
    asset_store.set("rows", len(amounts), on_success=True)


@asset(schedule=invoices, uri="file:///warehouse/revenue.json")
def revenue(self: Any, invoices: Any, asset_store: Any) -> None:
    """Write the total of the invoices."""
    amounts = json.loads(Path("invoices.json").read_text())
    Path("revenue.json").write_text(json.dumps(sum(amounts)))
    asset_store[self].set("from_rows", asset_store[invoices].get("rows"), on_success=True)
