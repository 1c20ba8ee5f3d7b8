"""Appends of checkpointed work to lake tables: each chunk once, one commit for each.

The commits of a task's chunks are a sequence, in which a chunk's number is higher than that of any
chunk before it. The task store's record of completed chunks may be behind the table by some of the
last ones: their commits name them.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable
from datetime import timedelta
from typing import TYPE_CHECKING, Any, TypeVar
from uuid import uuid4

from holdfast.accessor.task_store import TaskStore
from holdfast.errors import Conflict, InvalidInput, InvalidType, TableChanged, UnknownTaskInstance
from holdfast.spark.checkpoints.checkpoint import Record, digest
from holdfast.spark.checkpoints.item import name_of, named
from holdfast.spark.lake.append import Append, append_once
from holdfast.spark.lake.table import Identity, LakeTable
from holdfast.spark.loads.naming import plain

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

T = TypeVar("T")

log = logging.getLogger("holdfast")


def append_chunks(
    items: Iterable[T],
    task_store: TaskStore,
    table: LakeTable,
    make: Callable[[T], DataFrame],
    *,
    key: str,
    name: Callable[[T], str] = name_of,
    retention: timedelta | None = None,
) -> int:
    """Append the DataFrame that `make` makes of each item to a Delta or Iceberg table, each exactly
    once for all attempts of the task; return the number of chunks that this attempt has appended.

    A chunk is one commit. Chunks that earlier attempts have appended are skipped. Raise
    InvalidInput if the rows do not fit the table, TableChanged if it has chunks that cannot be told
    apart any more, Conflict if another attempt of the task has begun.
    """
    if not isinstance(table, LakeTable):
        raise InvalidType(
            f"the table is a {type(table).__name__}",
            hint='append_chunks(days, task_store, delta("s3://lake/days"), make, key="days")',
        )
    if table.replaces:
        raise InvalidInput(
            "with replace=, each chunk would replace the one before it",
            hint="remove replace=, or use append",
        )
    record = Record(task_store, key, retention)
    sequence = _Sequence(task_store, key, table.name, retention)
    chunks = {digest(one): item for one, item in named(items, name).items()}
    with record:
        number = sequence.add_committed(table, record)
        record.say(len(chunks), len(chunks.keys() & record.done))
        rest = [one for one in chunks if one not in record.done]
        for count, one in enumerate(rest):
            append_once(table, sequence.append(one, number + count, _frame(make, chunks[one])))
            record.add(one)
    return len(rest)


def _frame(make: Callable[[T], DataFrame], item: T) -> Callable[[], DataFrame]:
    def rows() -> DataFrame:
        made = make(item)
        if getattr(made, "isStreaming", None) is not False:
            raise InvalidType(
                f"the function returned a {type(made).__name__} for {item!r}",
                hint="return the DataFrame with the rows of the chunk",
            )
        return made

    return rows


class _Sequence:
    """The entry `key/sequence`: the table, an id that all attempts share, the newest attempt."""

    def __init__(self, store: TaskStore, key: str, table: str, retention: timedelta | None) -> None:
        self._store = store
        self._key = f"{key}/sequence"
        self._retention = retention
        found = self._read() or {"id": uuid4().hex, "table": table}
        if not isinstance(found, dict) or not {"id", "table"} <= found.keys():
            raise InvalidInput(
                f"`{self._key}` of {store.binding.scope} is not the record of appended chunks",
                hint="choose another key, or delete that entry",
            )
        if found["table"] != table:
            raise InvalidInput(
                f"an earlier attempt has appended chunks as `{key}` to {found['table']}",
                hint="append the others there, too, or give another key=",
            )
        self._value = {**found, "attempt": uuid4().hex}
        scope = store.binding.scope
        self._name = ".".join((plain(scope.dag_id), plain(scope.task_id), plain(key), found["id"]))
        self._write()

    def add_committed(self, table: LakeTable, record: Record) -> int:
        """Record the chunks that the table has and the record does not; return the number of the
        next chunk."""
        opened, known = table.open(), len(record.order)
        newest = None if opened is None else opened.newest(self._sequence)
        if opened is None or newest is None:
            return known
        for number in range(known, newest + 1):
            found = opened.commit_of(Identity(self._sequence, number, ""))
            if found is None:
                continue  # the chunk had no rows
            if found.stamp is None or found.is_undone:
                state = "was taken back" if found.is_undone else "is no longer in its history"
                raise TableChanged(
                    f"chunk {number} of `{self._key}` in {table.name} {state}, and the task store "
                    "does not know which one it was",
                    hint="find out which rows the table has; append the others with another key=",
                )
            if found.stamp.id not in record.done:
                log.info("%s has chunk %s from an earlier attempt", table.name, number)
                record.add(found.stamp.id)
        return max(len(record.order), newest + 1)

    def append(self, one: str, number: int, rows: Callable[[], DataFrame]) -> Append:
        """Return the append of the chunk with that digest."""
        return Append(
            identity=Identity(self._sequence, number, one),
            name=f"{self._name}.{number:08}",
            watermark=None,
            rows=rows,
            check_rows=lambda count: None,
            counted=number - 1,
            begin=lambda: self._confirm,
            reset="give another key=",
        )

    @property
    def _sequence(self) -> str:
        return f"holdfast.chunks.{self._name}"

    def _confirm(self) -> None:
        """Raise Conflict unless this attempt is the newest one."""
        if self._read() != self._value:
            raise Conflict(
                f"another attempt has begun to append the chunks of `{self._key}`, or the entry no "
                "longer exists",
                hint="run one attempt at a time, and set retention= to more than a chunk takes",
            )
        self._write()  # keeps it from expiring

    def _read(self) -> Any:
        try:
            return self._store.get(self._key)
        except UnknownTaskInstance:
            return None  # a script's first write creates it

    def _write(self) -> None:
        self._store.set(self._key, self._value, retention=self._retention)
