"""Watcher that starts a DAG for each new file in a directory, exactly once.

    holdfast standalone DIRECTORY_OF_THIS_FILE
    echo 17 > inbox/orders-1.csv

The trigger polls the directory and stores the names that it has seen in the asset store. Note the
order: writes before a `yield` become visible together with that event, in one transaction. You may
kill the triggerer at any time; after a restart it continues from the stored names, and no file is
lost or reported twice.

A file is detected as soon as its name ends in `.csv`: write it under another name and rename it.
"""

from __future__ import annotations

import asyncio
import os
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

from holdfast.sdk import Asset, AssetWatcher, BaseEventTrigger, TriggerEvent, dag, task

INBOX = Path("inbox")
LOADED = Path("loaded")


class NewFiles(BaseEventTrigger):
    """Yield an event for each new file of a directory."""

    def __init__(self, directory: str, seconds: float) -> None:
        super().__init__()
        self.directory = directory
        self.seconds = seconds

    async def run(self) -> AsyncIterator[TriggerEvent]:
        while True:
            seen = await self.asset_store.aget("seen", [])
            for name in sorted(os.listdir(self.directory)):
                if name.endswith(".csv") and name not in seen:
                    seen.append(name)
                    await self.asset_store.aset("seen", seen)
                    yield TriggerEvent({"file": name})
            await asyncio.sleep(self.seconds)


inbox = Asset(
    "inbox",
    uri="file:///inbox",
    watchers=[AssetWatcher(name="new_files", trigger=NewFiles(str(INBOX), seconds=0.2))],
)


@dag(schedule=[inbox])
def load_inbox() -> None:
    @task(inlets=[inbox])
    def load(triggering_asset_events: Any, run_id: str) -> list[str]:
        """Load the files of all events since the previous run."""
        files = [event.extra["payload"]["file"] for event in triggering_asset_events[inbox]]
        LOADED.mkdir(exist_ok=True)
        for file in files:
            with (LOADED / file).open("a") as loaded:
                loaded.write(f"{(INBOX / file).read_text().strip()} by {run_id}\n")
        return files

    load()


load_inbox()
