"""Task store of a context, which may be an object made by a unit test."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from holdfast.accessor.task_store import TaskStore
from holdfast.sdk.context import TASK_STORE


class StoreAdapter:
    """Adapter that gives an author's object with `get` and `set` the interface of a task store, as
    far as a resumable job needs it.

    Only the job's id is stored. There are no attempts, and the intent is discarded.
    """

    def __init__(self, given: Any, id_key: str) -> None:
        self._given = given
        self._id_key = id_key

    def get(self, key: str) -> Any:
        return self._given.get(key) if key == self._id_key else None

    def set(self, key: str, value: Any, **options: Any) -> None:
        if key == self._id_key:
            self._given.set(key, value)

    def set_many(self, values: Mapping[str, Any]) -> None:
        """Do nothing: it would renew the retention, which such a store does not have."""

    def delete(self, key: str) -> None:
        """Do nothing: the id of the next job replaces that of a failed one."""


def task_store(context: Mapping[str, Any], id_key: str) -> TaskStore | StoreAdapter | None:
    """Return the task store by any of its names; None if the context has none."""
    found = next((store for name in TASK_STORE if (store := context.get(name)) is not None), None)
    if isinstance(found, TaskStore):
        # Not offloaded: a job's driver is admitted while the server finds the intent in the store.
        return found.inline()
    return None if found is None else StoreAdapter(found, id_key)
