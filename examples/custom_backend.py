"""Store values in files instead of the database, with a backend of four methods.

    export PYTHONPATH=. HOLDFAST__STATE_STORE__BACKEND=custom_backend.FileBackend
    holdfast run custom_backend.py

Note what the class does not need: async methods (the base class has them), fencing, staged writes,
and the check that a task or asset is known. All of that is done before the backend is called, and
the DAG does not depend on it. In `holdfast.toml` the setting is

    [state_store]
    backend = "custom_backend.FileBackend"
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from holdfast.sdk import Asset, dag, task
from holdfast.sdk.state import BaseStoreBackend, StoreScope, TaskScope


class FileBackend(BaseStoreBackend):
    """One file for each entry, in a directory for each task instance or asset."""

    def __init__(
        self,
        root: Path = Path("values"),
        clock: Callable[[], datetime] = lambda: datetime.now(UTC),
    ) -> None:
        self.root = root
        self.clock = clock

    def get(self, scope: StoreScope, key: str, *, session: Any = None) -> str | None:
        try:
            entry = json.loads(self._file(scope, key).read_text())
        except FileNotFoundError:
            return None
        expires_at = entry["expires_at"]
        if expires_at and datetime.fromisoformat(expires_at) <= self.clock():
            return None
        return str(entry["value"])

    def set(
        self,
        scope: StoreScope,
        key: str,
        value: str,
        *,
        expires_at: datetime | None = None,
        session: Any = None,
    ) -> None:
        file = self._file(scope, key)
        file.parent.mkdir(parents=True, exist_ok=True)
        entry = {
            "scope": str(scope),
            "key": key,
            "value": value,
            "expires_at": expires_at and expires_at.isoformat(),
        }
        # A rename is all or nothing: a reader sees the old file or the new one.
        draft = file.with_suffix(".draft")
        draft.write_text(json.dumps(entry))
        draft.replace(file)

    def delete(self, scope: StoreScope, key: str, *, session: Any = None) -> None:
        self._file(scope, key).unlink(missing_ok=True)

    def clear(
        self, scope: StoreScope, *, all_map_indices: bool = False, session: Any = None
    ) -> None:
        directory = self._directory(scope)
        every = all_map_indices and isinstance(scope, TaskScope)
        for file in directory.parent.glob("*/*" if every else f"{directory.name}/*"):
            file.unlink(missing_ok=True)

    def _directory(self, scope: StoreScope) -> Path:
        if isinstance(scope, TaskScope):
            task = digest(scope.dag_id, scope.run_id, scope.task_id)
            return self.root / "tasks" / task / str(scope.map_index)
        return self.root / "assets" / str(scope.asset_id)

    def _file(self, scope: StoreScope, key: str) -> Path:
        return self._directory(scope) / f"{digest(key)}.json"


def digest(*parts: str) -> str:
    """Return a file name for ids and keys, which may be long and contain slashes."""
    return hashlib.sha256(json.dumps(parts).encode()).hexdigest()


orders = Asset("orders", uri="file:///warehouse/orders")


@dag(schedule=None)
def custom_backend() -> None:
    @task(outlets=[orders])
    def load(task_store: Any, asset_store: Any) -> None:
        task_store.set("job_id", "app_17")
        asset_store.set("watermark", "2026-01-31", on_success=True)

    load()


custom_backend()
