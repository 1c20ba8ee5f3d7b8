"""The supervisor's purges of objects that nothing refers to."""

from __future__ import annotations

from pathlib import Path
from threading import Event, Thread

import pytest

from holdfast.runner.supervisor.purger import Purger
from holdfast.settings import ObjectStore
from holdfast.stores.offload.configuration import Offloading
from holdfast.stores.offload.purging import Purged
from holdfast.testing.memory_store import MemoryStore


def test_a_purger_that_is_stopped_during_a_pass_makes_another(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    backend = "holdfast.sdk.state.ObjectStoreBackend"
    purger = Purger(MemoryStore(), Offloading(backend, ObjectStore(url=f"file://{tmp_path}")))
    begun, stopping = Event(), Event()
    passes: list[None] = []

    def purge() -> Purged:
        passes.append(None)
        begun.set()
        stopping.wait()
        return Purged(0, 0, False)

    monkeypatch.setattr(purger._store, "purge", purge)
    purger.start()
    purger.wake()
    begun.wait()

    stop = Thread(target=purger.stop)
    stop.start()
    purger._woken.wait()
    stopping.set()
    stop.join()

    assert len(passes) == 2
