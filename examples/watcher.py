"""Files that others put into a directory start a DAG, each of them once.

    holdfast standalone DIRECTORY_OF_THIS_FILE
    echo 17 > inbox/orders-1.csv

The trigger polls the directory and keeps the names that it has seen in the asset store. Look at the
order: what it writes before a `yield` becomes visible together with that event, in one transaction.
Kill the triggerer whenever you like; started again, it goes on from the names, and no file is
lost or told twice.

A file counts once it has its last name: write it under another name and rename it.
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
    """An event for each new file of a directory."""

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
        """A run takes all events since the run before."""
        files = [event.extra["payload"]["file"] for event in triggering_asset_events[inbox]]
        LOADED.mkdir(exist_ok=True)
        for file in files:
            with (LOADED / file).open("a") as loaded:
                loaded.write(f"{(INBOX / file).read_text().strip()} by {run_id}\n")
        return files

    load()


load_inbox()
