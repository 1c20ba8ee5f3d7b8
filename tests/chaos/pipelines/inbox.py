"""Pipeline that counts incoming files: a watcher reports them, and a DAG sums them up."""

from __future__ import annotations

import asyncio
from datetime import timedelta
from pathlib import Path

from holdfast.sdk import Asset, AssetWatcher, BaseEventTrigger, TriggerEvent, dag, task

INBOX = Path(__file__).parent / "inbox"


class NewFiles(BaseEventTrigger):
    """Watcher with one event for each file, in order of name."""

    async def run(self):
        while True:
            last = await self.asset_store.aget("last", "")
            for path in sorted(INBOX.glob("*.txt")):
                if path.name > last:
                    await self.asset_store.aset("last", path.name)
                    yield TriggerEvent(int(path.read_text()))
            await asyncio.sleep(0.05)


files = Asset("files", watchers=[AssetWatcher("new files", NewFiles())])
total = Asset("total")


@dag(schedule=[files], max_active_runs=1)
def adding():
    @task(outlets=[total], retries=9, retry_delay=timedelta(0))
    def add(asset_store=None, triggering_asset_events=None):
        before = asset_store.entry("sum")
        seen = [event.extra["payload"] for event in triggering_asset_events[files]]
        version = before.version if before else 0
        start = before.value if before else 0
        asset_store.set("sum", start + sum(seen), on_success=True, if_version=version)
        asset_store.set("seen", len(seen), on_success=True)

    add()


adding()
