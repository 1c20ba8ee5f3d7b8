"""The driver alone: what the store sends to it, listened to once, then only sent again."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, NamedTuple

import psycopg
import sqlalchemy as sa

from bench.store.databases import connect


class Sent(NamedTuple):
    """What a cursor was given."""

    args: tuple[Any, ...]
    many: bool = False
    """By `executemany`."""


@contextmanager
def listening() -> Iterator[list[Sent]]:
    """A list that grows by all that connections send that are opened in the meantime."""
    tape: list[Sent] = []

    class Listener:
        def execute(self, *args: Any) -> Any:
            tape.append(Sent(args))
            return super().execute(*args)  # type: ignore[misc]

        def executemany(self, *args: Any) -> Any:
            tape.append(Sent(args, many=True))
            return super().executemany(*args)  # type: ignore[misc]

    class PostgresCursor(Listener, psycopg.Cursor[Any]):  # type: ignore[misc]
        pass

    class LiteCursor(Listener, sqlite3.Cursor):
        pass

    class LiteConnection(sqlite3.Connection):
        def cursor(self, *args: Any) -> Any:
            return super().cursor(LiteCursor)

    def open_connection(dialect: Any, record: Any, args: Any, options: dict[str, Any]) -> Any:
        lite = dialect.name == "sqlite"
        ours = {"factory": LiteConnection} if lite else {"cursor_factory": PostgresCursor}
        return dialect.connect(*args, **{**options, **ours})

    sa.event.listen(sa.Engine, "do_connect", open_connection)
    try:
        yield tape
    finally:
        sa.event.remove(sa.Engine, "do_connect", open_connection)


class Driver:
    """One connection that commits each statement by itself and prepares what it can."""

    def __init__(self, url: str) -> None:
        self._cursor = connect(url).cursor()
        self._has_answer: dict[str, bool] = {}

    def replay(self, tape: list[Sent]) -> None:
        for args, many in tape:
            if many:
                self._cursor.executemany(*args)
            else:
                self._cursor.execute(*args)
            if args[0] not in self._has_answer:
                self._has_answer[args[0]] = self._cursor.description is not None
            if self._has_answer[args[0]]:
                self._cursor.fetchall()
