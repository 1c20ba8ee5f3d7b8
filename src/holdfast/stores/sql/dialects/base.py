"""Base class of the SQL dialects."""

from __future__ import annotations

from abc import ABC, abstractmethod
from functools import cache
from typing import Any, ClassVar

import sqlalchemy as sa
from sqlalchemy.sql.functions import FunctionElement


class DatabaseClock(FunctionElement[int]):
    """The database's own clock, in microseconds since 1970."""

    type = sa.BigInteger()
    inherit_cache = True


now: sa.ColumnElement[int] = sa.func.coalesce(
    sa.bindparam("now", type_=sa.BigInteger()), DatabaseClock()
)
"""The current time for a statement: the database's, unless the store was given a clock."""


class Dialect(ABC):
    """One kind of database."""

    driver: ClassVar[str]
    """SQLAlchemy's name for dialect and driver."""
    paramstyle: ClassVar[str] = "pyformat"
    begin: ClassVar[str]
    snapshot: ClassVar[tuple[str, ...]]
    """Statements that begin a transaction whose queries all read the same snapshot."""
    native_async: ClassVar[bool] = False
    embedded: ClassVar[bool] = False
    """Whether the database is a file of ours, with no clock of its own and nobody to migrate it."""
    migration_lock: ClassVar[tuple[str, ...]] = ()
    migration_unlock: ClassVar[tuple[str, ...]] = ()
    """Statements that let only one process migrate at a time; SQLite's transaction is enough."""
    compares_rows: ClassVar[bool] = True
    """Whether `(a, b) > (x, y)` finds its rows through an index."""
    connect_args: ClassVar[dict[str, Any]] = {}
    extra: ClassVar[str] = ""
    """The extra to install for its driver."""

    def engine_options(self, answer_timeout: float | None) -> dict[str, Any]:
        """Return the arguments of `create_engine`. The driver enforces the timeout if it can."""
        return {"isolation_level": "AUTOCOMMIT", "connect_args": self.connect_args}

    async def connect_async(self, engine: sa.Engine) -> Any:
        """Return a new connection for an event loop, if `native_async` is set."""
        raise NotImplementedError

    def before_connect(self, url: sa.URL) -> None:  # noqa: B027  (most need nothing)
        """Prepare the location that the URL names."""

    def on_connect(  # noqa: B027  (most need nothing)
        self, connection: Any, answer_timeout: float | None
    ) -> None:
        """Prepare a new connection of the driver, so that no statement exceeds the timeout."""

    def interrupt(self, connection: Any) -> None:  # noqa: B027  (most drivers enforce the timeout)
        """Interrupt the statement that another thread executes on the connection."""

    def streaming_cursor(self, connection: Any) -> Any:
        """Return a cursor of the driver that fetches rows on demand, not all at once."""
        return connection.cursor()

    @abstractmethod
    def insert(self, table: sa.Table) -> Any:
        """Return SQLAlchemy's INSERT for this database."""

    def upsert(self, table: sa.Table, unique: list[str]) -> Any:
        """Return an INSERT of all but the id, or UPDATE of the row with the same unique columns."""
        return self.or_update(self.insert(table).values(given(*columns(table))), table, unique)

    def upsert_from(self, table: sa.Table, unique: list[str], rows: sa.Select[Any]) -> Any:
        """Return an `upsert` of all rows of a select, whose columns are named like the table's."""
        new = self.insert(table).from_select(rows.selected_columns.keys(), rows)
        return self.or_update(new, table, unique)

    def or_update(self, new: Any, table: sa.Table, unique: list[str]) -> Any:
        """Return the INSERT, or UPDATE of the row with the same unique columns."""
        changes = {name: new.excluded[name] for name in columns(table) if name not in unique}
        return new.on_conflict_do_update(index_elements=unique, set_=changes)

    def insert_new(self, table: sa.Table) -> Any:
        """Return an INSERT that does nothing if a row with the same unique columns exists."""
        return self.insert(table).on_conflict_do_nothing()

    def insert_many(self, table: sa.Table, rows: list[tuple[Any, ...]]) -> tuple[Any, Any]:
        """Return the query that inserts rows, with cells in the order of the columns, into a table
        without an id. No text among them may be empty or have control characters."""
        names = columns(table)
        return _insert(table), [dict(zip(names, row, strict=True)) for row in rows]

    def set_in_one_statement(self, once: bool = False) -> Any | None:
        """Return a write to a task store as a single statement, if the database supports that: one
        round trip instead of five. It writes nothing if the attempt may not write, nor, with
        `once`, if the client's request is not a new one."""
        return None

    def delete_batch(self, table: sa.Table, batch: sa.Select[Any]) -> sa.Delete:
        """Return a DELETE of the rows whose ids the batch selects."""
        return sa.delete(table).where(table.c.id.in_(batch))

    def lock(self, select: sa.Select[Any], table: sa.Table, skip: bool = False) -> sa.Select[Any]:
        """Return the select with its rows of that table locked; `skip` omits those of others."""
        return select.with_for_update(skip_locked=skip)


@cache
def _insert(table: sa.Table) -> Any:
    return sa.insert(table).values(given(*columns(table)))


def given(*names: str) -> dict[str, Any]:
    """Return values for these columns, from the parameters of the same names."""
    return {name: sa.bindparam(name) for name in names}


def columns(table: sa.Table) -> list[str]:
    return [column.name for column in table.columns if column.name != "id"]
