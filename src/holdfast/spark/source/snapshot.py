"""Shared PostgreSQL snapshot for all ranges of a query, across workers.

The first worker creates it, and the others join. It lives as long as a transaction of any of them:
each Python worker of Spark keeps one open for the ranges to come, until it reads for another query,
or PostgreSQL ends the transaction after it was idle for a minute.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager, suppress
from hashlib import sha256
from typing import Any

import psycopg
import sqlalchemy as sa
from psycopg import errors
from pyspark import TaskContext

from holdfast.stores.sql.dialects import connect

BEGIN = "BEGIN ISOLATION LEVEL REPEATABLE READ READ ONLY"
IDLE = "60s"


class Snapshot:
    """A transaction that holds a snapshot, and the id under which others may join it."""

    def __init__(self, engine: sa.Engine, name: str) -> None:
        self.name = name
        pooled = connect(engine)
        self._connection: Any = pooled.driver_connection
        pooled.detach()
        try:
            self.id = self._join()
        except BaseException:  # the lock of those who join ends with the connection
            self.close()
            raise

    def is_alive(self) -> bool:
        try:
            self._connection.execute("SELECT 1")
        except psycopg.Error:
            return False
        return True

    def close(self) -> None:
        self._connection.close()

    @contextmanager
    def kept(self) -> Iterator[None]:
        """Keep the snapshot open during the block, however slowly Spark consumes the rows."""
        self._idle("0")
        try:
            yield
        finally:
            with suppress(psycopg.Error):
                self._idle(IDLE)

    def rows(self, query: str, params: dict[str, Any]) -> list[tuple[Any, ...]]:
        """Return the result of a query in the snapshot."""
        found: list[tuple[Any, ...]] = self._connection.execute(query, params).fetchall()
        return found

    def _idle(self, most: str) -> None:
        self._connection.execute(f"SET idle_in_transaction_session_timeout = '{most}'")

    def _join(self) -> str:
        """Join the snapshot of this name, or create it, and export its id for those who come later.

        They find it in the application name of a session.
        """
        execute = self._connection.execute
        prefix = f"holdfast {self.name} "
        lock = int(self.name, 16) - 2**63
        self._idle(IDLE)
        execute("SELECT pg_advisory_lock(%s)", [lock])
        known = execute(
            "SELECT substr(application_name, %s) FROM pg_stat_activity "
            "WHERE datname = current_database() AND starts_with(application_name, %s)",
            [len(prefix) + 1, prefix],
        ).fetchall()
        if not any(self._enter(id) for (id,) in known):
            execute(BEGIN)
        (id,) = execute("SELECT pg_export_snapshot()").fetchone()
        execute("SELECT set_config('application_name', %s, true)", [prefix + id])
        execute("SELECT pg_advisory_unlock(%s)", [lock])
        return str(id)

    def _enter(self, id: str) -> bool:
        """Begin a transaction in the snapshot; return False if the snapshot is gone."""
        self._connection.execute(BEGIN)
        try:
            self._connection.execute(f"SET TRANSACTION SNAPSHOT '{id}'")
        except (errors.UndefinedObject, errors.InvalidParameterValue):
            self._connection.execute("ROLLBACK")
            return False
        return True


_held: list[Snapshot] = []
"""The snapshot that this worker uses, if any."""


def shared_snapshot(engine: sa.Engine, plan: str) -> Snapshot:
    """Return the snapshot in which the running query reads a plan's ranges."""
    name = _name(plan)
    if _held and (_held[0].name != name or not _held[0].is_alive()):
        _held.pop().close()
    if not _held:
        _held.append(Snapshot(engine, name))
    return _held[0]


def _name(plan: str) -> str:
    """Return a name for this execution of the plan, which may be executed many times."""
    context = TaskContext.get()
    assert context is not None
    execution = context.getLocalProperty("spark.sql.execution.id") or context.stageId()
    return sha256(f"{plan} {execution}".encode()).hexdigest()[:16]
