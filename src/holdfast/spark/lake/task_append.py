"""Appends of DataFrames to lake tables, once per task instance."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Final
from uuid import uuid4

from holdfast.accessor.task_store import TaskStore
from holdfast.errors import Conflict, InvalidInput, InvalidType, UnknownTaskInstance
from holdfast.model.entry import TaskWriter
from holdfast.model.value import check_key
from holdfast.spark.lake.append import Append, Appended, append_once
from holdfast.spark.lake.table import Identity, LakeTable
from holdfast.spark.loads.naming import plain

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

PROCESS: Final = uuid4().hex
"""The id of this process, by which two appends of one attempt are told from those of two."""


def append(
    df: DataFrame, table: LakeTable, task_store: TaskStore, *, key: str = "append"
) -> Appended:
    """Append the rows to a Delta or Iceberg table, exactly once for all attempts of the task.

    The table's own commit names the task instance and `key`; an attempt that finds it there writes
    nothing. Several appends of a task need different keys. Raise InvalidInput for a key that is
    used twice, or if the rows do not fit the table; TableChanged if the table has rows of which
    the task store does not know.
    """
    if getattr(df, "isStreaming", None) is not False:
        raise InvalidType(f"append got {type(df).__name__}", hint="pass a DataFrame, not a stream")
    if not isinstance(table, LakeTable):
        raise InvalidType(
            f"the table is a {type(table).__name__}",
            hint='append(df, delta("s3://lake/orders"), task_store)',
        )
    if not isinstance(task_store, TaskStore):
        raise InvalidType(
            f"the task store is a {type(task_store).__name__}", hint="pass the task's task_store"
        )
    record = _Record(task_store, key, table.name)
    appended = append_once(table, record.append_of(df))
    record.finish()
    return appended


class _Record:
    """The entry of an append in the task store: its id, its table, and the newest try."""

    def __init__(self, store: TaskStore, key: str, table: str) -> None:
        check_key(key, store.binding.scope)
        self._store = store
        self._key = f"append/{key}"
        writer = store.binding.writer
        attempt = writer.attempt if isinstance(writer, TaskWriter) else None
        self._mark = f"{attempt or 0}.{PROCESS}"
        found, self._version = self._read()
        self._value = found or {"id": uuid4().hex, "table": table, "tries": 0, "done": ""}
        scope = store.binding.scope
        parts = (plain(scope.dag_id), plain(scope.task_id), scope.ti_text, plain(key))
        self._name = ".".join(parts)
        hint = f'give each append of the task its own key: key="{key}-2"'
        if self._value["done"] == self._mark:
            raise InvalidInput(f"this attempt has already appended as `{key}`", hint=hint)
        if self._value["table"] != table:
            raise InvalidInput(
                f"an earlier attempt may have appended as `{key}` to {self._value['table']}",
                hint=hint,
            )

    def append_of(self, df: DataFrame) -> Append:
        return Append(
            identity=Identity(f"holdfast.{self._name}", 0, self._value["id"]),
            name=self._name,
            watermark=None,
            rows=lambda: df,
            check_rows=lambda rows: None,
            counted=-1,
            begin=self._begin,
            reset="give another key=",
        )

    def finish(self) -> None:
        """Record that this attempt has appended."""
        self._value = {**self._value, "done": self._mark}
        self._store.set(self._key, self._value)

    def _begin(self) -> Callable[[], None]:
        self._value = {**self._value, "tries": self._value["tries"] + 1, "try": uuid4().hex}
        self._store.set(self._key, self._value, if_version=self._version)
        return self._confirm

    def _confirm(self) -> None:
        """Raise Conflict unless this attempt is the newest one that has begun."""
        if self._read()[0] != self._value:
            raise Conflict(
                f"another attempt has begun the append `{self._key}` of "
                f"{self._store.binding.scope}, or the entry no longer exists",
                hint="run one attempt at a time",
            )
        self._store.set(self._key, self._value)  # refused for an attempt that is superseded

    def _read(self) -> tuple[Any, int]:
        """Return the value of the entry and its version; None and 0 if there is none."""
        try:
            entry = self._store.entry(self._key)
        except UnknownTaskInstance:
            entry = None  # a script's first write creates it
        if entry is None:
            return None, 0
        if not isinstance(entry.value, dict) or "id" not in entry.value:
            raise InvalidInput(
                f"`{self._key}` of {self._store.binding.scope} is not the record of an append",
                hint="choose another key, or delete that entry",
            )
        return entry.value, entry.version
