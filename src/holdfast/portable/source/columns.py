"""The columns of a DataFrame that is written: the scope, key, value and expiry of each entry."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from itertools import repeat
from typing import Any, Final, NamedTuple, TypeAlias

import pyarrow as pa
from pyspark.sql.types import DataType, IntegralType, StringType, StructType, TimestampType

from holdfast.errors import InvalidInput, InvalidType
from holdfast.portable.identifier import MAX_ASSET_LENGTH, check_id, check_map_index

Owner: TypeAlias = tuple[Any, ...]
"""The values of a row's scope columns."""
Entry: TypeAlias = tuple[str, str, str | None]
"""Key, value and expiry time, as in the wire format."""

_TASK: Final = ("dag_id", "run_id", "task_id", "map_index")
_MADE: Final = ("version", "updated_at", "writer", "asset_id")
"""Columns that appear when reading the tables, and that the store generates itself."""
_OPTIONAL: Final = ("map_index", "expires_at")
_EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)


class Columns(NamedTuple):
    """The scope columns of a DataFrame, and whether it has the optional ones."""

    scope: tuple[str, ...]
    has_map_index: bool
    has_expiry: bool

    @property
    def is_task(self) -> bool:
        return self.scope == _TASK

    def rows(self, batch: pa.RecordBatch, expires_at: str | None) -> Iterator[tuple[Owner, Entry]]:
        """Yield the owner and the entry of each row. `expires_at` applies if there is no such
        column.

        Raise InvalidInput for a row with a null.
        """
        owners = zip(*(self._part_of_scope(batch, name) for name in self.scope), strict=True)
        keys, values = (batch.column(name).to_pylist() for name in ("key", "value"))
        times: Any = repeat(None)
        if self.has_expiry:
            times = batch.column("expires_at").cast(pa.int64()).to_pylist()
        for owner, key, value, micros in zip(owners, keys, values, times, strict=False):
            if key is None or value is None or None in owner:
                raise self._incomplete(owner, key, value)
            if micros is not None:
                expires_at = self._time(micros, owner, key)
            elif self.has_expiry:
                expires_at = None
            yield owner, (key, value, expires_at)

    def scope_of(self, owner: Owner, key: str) -> dict[str, Any]:
        """Return the scope as in the wire format; `key` is that of a row, to name it in errors."""
        try:
            if self.is_task:
                *names, index = owner
                for column, name in zip(_TASK, names, strict=False):
                    check_id(column, name)
                check_map_index(index)
                return {"type": "task", **dict(zip(_TASK, owner, strict=True))}
            check_id(f"the asset's {self.scope[0]}", owner[0], MAX_ASSET_LENGTH)
            by = "name" if self.scope == ("asset",) else "uri"
            return {"type": "asset", by: owner[0]}
        except (InvalidInput, InvalidType) as error:
            row = self._row_text(owner, key)
            raise type(error)(f"{error.message}, in the row {row}", hint=error.hint) from None

    def _part_of_scope(self, batch: pa.RecordBatch, name: str) -> list[Any]:
        if name != "map_index":
            found: list[Any] = batch.column(name).to_pylist()
            return found
        if not self.has_map_index:
            return [-1] * batch.num_rows
        return [-1 if index is None else index for index in batch.column(name).to_pylist()]

    def _time(self, micros: int, owner: Owner, key: str) -> str:
        try:
            return (_EPOCH + timedelta(microseconds=micros)).isoformat()
        except OverflowError:
            raise InvalidInput(
                f"expires_at is out of range, in the row {self._row_text(owner, key)}",
                hint="use null for entries that never expire",
            ) from None

    def _incomplete(self, owner: Owner, key: Any, value: Any) -> InvalidInput:
        row = dict(zip((*self.scope, "key", "value"), (*owner, key, value), strict=True))
        missing = next(name for name, part in row.items() if part is None)
        return InvalidInput(
            f"{missing} is null, in the row {self._row_text(owner, key)}",
            hint="leave such rows out; JSON's own null cannot be stored either",
        )

    def _row_text(self, owner: Owner, key: Any) -> str:
        named = zip((*self.scope, "key"), (*owner, key), strict=True)
        return ", ".join(f"{name}={_short(part)}" for name, part in named)


def columns_of(table: str, schema: StructType) -> Columns:
    """Return the columns of a DataFrame of this schema; raise InvalidInput or InvalidType unless it
    fits the table."""
    names = schema.fieldNames()
    scope = _scope_columns(table, names)
    wanted = (*scope, "key", "value", *(("expires_at",) if scope == _TASK else ()))
    for name in wanted:
        if name not in names and name not in _OPTIONAL:
            raise InvalidInput(
                f"there is no column `{name}`, which the table `{table}` needs",
                hint=f"the columns are {', '.join(wanted)}; {' and '.join(_OPTIONAL)} may be "
                "left out"
                if scope == _TASK
                else f"the columns are {', '.join(wanted)}",
            )
    for field in schema.fields:
        if field.name not in wanted:
            raise _unwanted(field.name, table, wanted)
        _check_type(field.name, field.dataType)
    return Columns(scope, "map_index" in names, "expires_at" in names)


def _scope_columns(table: str, names: list[str]) -> tuple[str, ...]:
    if table == "task_store":
        return _TASK
    if table != "asset_store":
        raise InvalidInput(
            f"the table `{table}` can be read only",
            hint="entries are written to task_store or asset_store",
        )
    if "asset" in names and "uri" in names:
        raise InvalidInput(
            "the columns `asset` and `uri` both identify the asset",
            hint="keep one of them: df.drop('uri')",
        )
    return ("uri",) if "uri" in names else ("asset",)


def _unwanted(name: str, table: str, wanted: tuple[str, ...]) -> InvalidInput:
    if name in _MADE:
        return InvalidInput(
            f"the store sets `{name}` itself", hint=f"leave it out: df.drop('{name}')"
        )
    return InvalidInput(
        f"the table `{table}` does not take a column `{name}`", hint=f"it takes {', '.join(wanted)}"
    )


def _check_type(name: str, given: DataType) -> None:
    kind: type[DataType] = StringType
    hint = f"write it as JSON text: to_json({name})" if name == "value" else f"cast `{name}`"
    if name == "map_index":
        kind = IntegralType
    elif name == "expires_at":
        kind = TimestampType
        hint = "cast it to a timestamp, which has a time zone"
    if not isinstance(given, kind):
        expected = kind.typeName() if kind is not IntegralType else "an integer"
        raise InvalidType(
            f"the column `{name}` is {given.simpleString()}, but must be {expected}", hint=hint
        )


def _short(part: Any) -> str:
    text = repr(part)
    return text if len(text) <= 60 else f"{text[:60]}…"
