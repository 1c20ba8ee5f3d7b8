"""MySQL and MariaDB, with PyMySQL."""

from __future__ import annotations

from typing import Any, ClassVar

import sqlalchemy as sa
from sqlalchemy.dialects import mysql
from sqlalchemy.ext.compiler import compiles

from holdfast.stores.sql.dialects.base import DatabaseClock, Dialect, columns


@compiles(DatabaseClock, "mysql", "mariadb")
def _mysql_clock(element: DatabaseClock, compiler: Any, **options: Any) -> str:
    return "CAST(UNIX_TIMESTAMP(NOW(6)) * 1000000 AS SIGNED)"


class MySQL(Dialect):
    driver = "mysql+pymysql"
    begin = "START TRANSACTION"
    snapshot = (
        "SET TRANSACTION ISOLATION LEVEL REPEATABLE READ",
        "START TRANSACTION WITH CONSISTENT SNAPSHOT, READ ONLY",
    )
    # Its DDL commits implicitly, so the lock is not bound to the transaction.
    migration_lock = ("SELECT GET_LOCK('holdfast_migration', 60)",)
    migration_unlock = ("SELECT RELEASE_LOCK('holdfast_migration')",)
    compares_rows = False
    extra = "mysql"

    connect_args: ClassVar[dict[str, Any]] = {"charset": "utf8mb4", "connect_timeout": 10}

    def engine_options(self, answer_timeout: float | None) -> dict[str, Any]:
        options = super().engine_options(answer_timeout)
        limits = {"read_timeout": answer_timeout, "write_timeout": answer_timeout}
        return options | {"connect_args": self.connect_args | limits}

    def on_connect(self, connection: Any, answer_timeout: float | None) -> None:
        with connection.cursor() as cursor:
            if answer_timeout is not None:
                # The server does not notice that a client has gone, and keeps its locks.
                if "MariaDB" in connection.get_server_info():
                    cursor.execute(f"SET max_statement_time = {answer_timeout:g}")
                else:
                    cursor.execute(f"SET max_execution_time = {answer_timeout * 1000:.0f}")
                seconds = max(1, round(answer_timeout))
                cursor.execute(f"SET innodb_lock_wait_timeout = {seconds}")
            cursor.execute("SET SESSION TRANSACTION ISOLATION LEVEL READ COMMITTED")
            cursor.execute("SET time_zone = '+00:00', sql_mode = 'TRADITIONAL'")

    def streaming_cursor(self, connection: Any) -> Any:
        from pymysql.cursors import SSCursor

        return connection.cursor(SSCursor)

    def insert(self, table: sa.Table) -> Any:
        return mysql.insert(table)

    def or_update(self, new: Any, table: sa.Table, unique: list[str]) -> Any:
        return new.on_duplicate_key_update(
            {name: new.inserted[name] for name in columns(table) if name not in unique}
        )

    def insert_new(self, table: sa.Table) -> Any:
        column = list(table.primary_key.columns)[-1]
        return mysql.insert(table).on_duplicate_key_update({column.name: column})

    def delete_batch(self, table: sa.Table, batch: sa.Select[Any]) -> sa.Delete:
        # MariaDB would execute IN as a scan of the whole table; a join uses the ids.
        rows = batch.subquery("batch")
        return sa.delete(table).where(table.c.id == rows.c.id)
