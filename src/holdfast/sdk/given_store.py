"""The task store that a context has, which a unit test may have made itself."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from holdfast.accessor.task_store import TaskStore
from holdfast.sdk.context import TASK_STORE


class GivenStore:
    """An author's own object with `get` and `set`, by what a resumable job needs of a task store.

    Only the job's id goes there. There are no attempts, and the intent is forgotten.
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
        """Renew the retention, which such a store does not have."""

    def delete(self, key: str) -> None:
        """Leave the id of a failed job: the next one's takes its place."""


def task_store(context: Mapping[str, Any], id_key: str) -> TaskStore | GivenStore | None:
    """Find the task store by any of its names; None where the context has none."""
    found = next((store for name in TASK_STORE if (store := context.get(name)) is not None), None)
    if isinstance(found, TaskStore):
        # Inline: a job's driver is let in while the server finds the intent in the store.
        return found.inline()
    return None if found is None else GivenStore(found, id_key)
