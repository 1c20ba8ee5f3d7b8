"""DAG that waits for an asset, and a watcher of files that land in a directory."""

from __future__ import annotations

from pathlib import Path
from threading import Event, Thread

DAG = """
    import asyncio, os
    from holdfast.sdk import DAG, Asset, AssetWatcher, BaseEventTrigger, TriggerEvent, task

    class Landing(BaseEventTrigger):
        def __init__(self, directory):
            super().__init__()
            self.directory = directory

        async def run(self):
            while True:
                last = await self.asset_store.aget("cursor", "")
                for name in sorted(os.listdir(self.directory)):
                    if name > last:
                        await self.asset_store.aset("cursor", name)
                        yield TriggerEvent({"file": name})
                await asyncio.sleep(0.05)

    landed = Asset(
        "landed",
        uri="file:///landed",
        watchers=[AssetWatcher(name="landing", trigger=Landing("landing"))],
    )

    with DAG("d", schedule=[landed]):

        @task(inlets=[landed])
        def load(triggering_asset_events=None, asset_store=None):
            events = triggering_asset_events[landed]
            return [event.extra["payload"]["file"] for event in events]

        load()
    """


class Files:
    """Files that land one after the other until this is closed."""

    def __init__(self, directory: Path) -> None:
        self._directory = directory
        self._over = Event()
        self._thread = Thread(target=self._land)
        self.names: list[str] = []

    def __enter__(self) -> Files:
        self._directory.mkdir(exist_ok=True)
        self._thread.start()
        return self

    def __exit__(self, *exception: object) -> None:
        self.end()

    def end(self) -> None:
        self._over.set()
        self._thread.join()

    def _land(self) -> None:
        while not self._over.wait(0.01):
            name = f"{len(self.names):06}"
            (self._directory / name).touch()
            self.names.append(name)
