"""Resumable transfers: each is a task instance, so that a restart does only the remaining
chunks."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from hashlib import sha256
from typing import Any, Final
from uuid import uuid4

import msgspec

from holdfast import commands as c
from holdfast.accessor.task_store import TaskStore
from holdfast.connection import Connection
from holdfast.errors import Conflict, Forbidden, UnknownTaskInstance
from holdfast.model.scope import TaskScope
from holdfast.model.value import encode
from holdfast.spark.transfer.filter import DAG
from holdfast.spark.transfer.plan import Chunk
from holdfast.store import Store

_PLAN: Final = "plan"
_MARK: Final = "mark"
_ATTEMPT: Final = "attempt"


class Record:
    """The progress of a transfer, in the configured store. It is found again by the same transfer,
    which `what` identifies."""

    def __init__(self, connection: Connection, kind: str, what: Any) -> None:
        self._connection = connection
        self.run_id = sha256(msgspec.json.encode(what)).hexdigest()[:16]
        self._scope = TaskScope(DAG, self.run_id, kind)
        self._task = connection.task_store(DAG, self.run_id, kind)
        self._attempt = uuid4().hex

    def plan(self) -> list[Chunk] | None:
        """Return the chunks of an unfinished attempt; None if there is none."""
        try:
            recorded = self._task.get(_PLAN)
        except UnknownTaskInstance:
            return None
        return None if recorded is None else msgspec.convert(recorded, list[Chunk])

    def is_in(self, store: Store) -> bool:
        """Return whether the record is in that store, whatever its URL."""
        mark = uuid4().hex
        self._task.set(_MARK, mark)
        try:
            return store.execute(c.Get(self._scope, _MARK)) == encode(mark)
        except UnknownTaskInstance:
            return False
        finally:
            if self.plan() is None:
                self.forget()

    @contextmanager
    def attempt(self, chunks: Sequence[Chunk]) -> Iterator[TaskStore]:
        """Yield the task store of an attempt to transfer these chunks. An earlier attempt that
        still runs cannot record anything more, and stops. When all is done, the record is
        deleted."""
        with self._task.attempt() as attempt:
            plan = msgspec.to_builtins(list(chunks))
            attempt.task_store.set_many({_PLAN: plan, _ATTEMPT: self._attempt})
            yield attempt.task_store
            self.confirm(attempt.task_store)
        self.forget()

    def confirm(self, task_store: TaskStore) -> None:
        """Raise Conflict unless this attempt is the newest. A record that was deleted and created
        again counts attempts from the start, so that their number cannot be compared."""
        if task_store.get(_ATTEMPT) != self._attempt:
            raise Conflict(
                "the same transfer was started again, so this one stops",
                hint="let the other one finish",
            )
        task_store.set(_ATTEMPT, self._attempt)

    def forget(self) -> None:
        try:
            self._connection.store.execute(c.DeleteRun(DAG, self.run_id))
        except Forbidden:  # on a server, only an admin may delete runs
            self._task.clear()


def resumed(
    record: Record, make: Callable[[], list[Chunk]], say: Callable[[str], None]
) -> list[Chunk]:
    """Return the chunks of an unfinished attempt, or new ones."""
    chunks = record.plan()
    if chunks is None:
        return make()
    say("Resuming where an earlier attempt stopped.")
    return chunks
