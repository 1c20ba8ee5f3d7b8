"""Running task instance, as the task sees it in its context."""

from __future__ import annotations

import asyncio
import hashlib
import logging
from collections.abc import Iterable, Mapping
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any, Final

import msgspec

from holdfast.commands import PutResult, TakeItem
from holdfast.model.entry import TaskWriter
from holdfast.model.run import RETURN_VALUE
from holdfast.model.value import encode
from holdfast.sdk.results import Results
from holdfast.store import Store

if TYPE_CHECKING:
    from holdfast.sdk.node import TaskNode

UNSET: Final = object()

log = logging.getLogger("holdfast.task")


class TaskInstance:
    """`ti` in the context: the identity of the task instance, and the results of others."""

    def __init__(self, writer: TaskWriter, max_tries: int, store: Store, task: TaskNode) -> None:
        scope = writer.scope
        self.dag_id = scope.dag_id
        self.run_id = scope.run_id
        self.task_id = scope.task_id
        self.map_index = scope.map_index
        self.id = scope.ti_id
        self.try_number = writer.attempt or 1
        self.max_tries = max_tries - 1
        """How many retries there are."""
        self.start_date = datetime.now(UTC)
        self.task = task
        self.results = Results(store, self.dag_id, self.run_id)
        self._store = store
        self._writer = writer

    def __repr__(self) -> str:
        return f"<TaskInstance: {self._writer.scope}, try {self.try_number}>"

    @property
    def key(self) -> str:
        return f"{self.dag_id}__{self.task_id}__{self.run_id}"

    def xcom_push(self, key: str, value: Any) -> None:
        """Store a value, which is JSON, for other tasks of the run."""
        text = "null" if value is None else encode(value)
        self._store.execute(PutResult(self._writer, key, text))

    def take_item(self, arguments: Mapping[str, Any]) -> None:
        """Record the item of a mapped instance; discard its task store if it had another item."""
        try:
            item = msgspec.json.encode(arguments, order="sorted")
        except (TypeError, ValueError):
            return  # a literal that is not JSON: it cannot be distinguished from another
        if self._store.execute(TakeItem(self._writer, hashlib.sha256(item).hexdigest())):
            log.warning(
                "map index %s now has another item: its task store was about the previous "
                "item, and is discarded",
                self.map_index,
            )

    async def axcom_push(self, key: str, value: Any) -> None:
        await asyncio.to_thread(self.xcom_push, key, value)

    def xcom_pull(
        self,
        task_ids: str | Iterable[str] | None = None,
        dag_id: str | None = None,
        key: str = RETURN_VALUE,
        *,
        map_indexes: Any = UNSET,
        default: Any = None,
        run_id: str | None = None,
    ) -> Any:
        """Return a task's result or the value under a key; a list for several tasks or map indices.

        Without `map_indexes`, return the values of all map indices of a mapped task.
        """
        results = Results(self._store, dag_id or self.dag_id, run_id or self.run_id)
        one_task = task_ids is None or isinstance(task_ids, str)
        tasks: list[Any] = [task_ids or self.task_id] if one_task else list(task_ids or ())
        if map_indexes is UNSET:
            found = [
                value for task in tasks for _, value in results.get(task, key) or [(-1, default)]
            ]
            return found[0] if one_task and len(found) == 1 else found
        one_index = map_indexes is None or isinstance(map_indexes, int)
        indices = [-1 if map_indexes is None else map_indexes] if one_index else map_indexes
        found = [
            (results.get(task, key, index) or [(index, default)])[0][1]
            for task in tasks
            for index in indices
        ]
        return found[0] if one_task and one_index else found

    async def axcom_pull(self, *args: Any, **kwargs: Any) -> Any:
        return await asyncio.to_thread(self.xcom_pull, *args, **kwargs)
