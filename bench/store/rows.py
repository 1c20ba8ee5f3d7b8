"""Tables full of entries: task instances with five keys each, values of 50 to 200 bytes."""

from __future__ import annotations

import sqlite3
import time
from typing import Any

import psycopg

from bench.store.databases import connect
from holdfast.model.scope import TaskScope

KEYS = [f"key_{number}" for number in range(5)]

_RUN = """
    INSERT INTO hf_run (id, dag_id, run_id, created_at)
    VALUES (1, 'orders', 'scheduled__2026-01-01', 0)
"""
_INSTANCE = ("ti_id", "run", "task_id", "map_index", "revision", "attempt")
_ENTRIES = """
    INSERT INTO hf_task_entry (ti_id, key, value, version, updated_at, expires_at)
    SELECT ti_id, key, substr('{filler}', 1, 50 + number % 151), 1, {now},
        CASE WHEN {half_expired} AND number % 2 = 0 THEN {yesterday} ELSE {next_month} END + number
    FROM (
        SELECT ti_id, 'key_' || step AS key, map_index * 5 + step AS number
        FROM hf_task_instance
        CROSS JOIN (
            SELECT 0 AS step UNION ALL SELECT 1 UNION ALL SELECT 2 UNION ALL SELECT 3
            UNION ALL SELECT 4
        ) AS steps
    ) AS numbered
"""


def scope(number: int) -> TaskScope:
    """The n-th task instance: all are mapped from one task."""
    return TaskScope("orders", "scheduled__2026-01-01", "load_partition", number)


def load(url: str, rows: int, *, half_expired: bool) -> None:
    """Fill an empty store with that many entries. If half expired: every second of them."""
    connection = connect(url)
    # The rows fit together as they are made; checking each would take most of the time.
    if isinstance(connection, sqlite3.Connection):
        connection.execute("PRAGMA foreign_keys = OFF")
        connection.execute("PRAGMA cache_size = -2000000")
    else:
        connection.execute("SET session_replication_role = replica")
    connection.execute(_RUN)
    load_instances(connection, rows // len(KEYS))
    now, day = time.time_ns() // 1000, 86_400_000_000
    connection.execute(
        _ENTRIES.format(
            filler="state of a partition " * 10,
            now=now,
            yesterday=now - day,
            next_month=now + 30 * day,
            half_expired=half_expired,
        )
    )
    settle(connection)
    connection.close()


def load_instances(connection: Any, count: int) -> None:
    instances = (
        (str(scope(number).ti_id), 1, "load_partition", number, 0, 0) for number in range(count)
    )
    columns = ", ".join(_INSTANCE)
    if isinstance(connection, sqlite3.Connection):
        connection.execute("BEGIN")
        connection.executemany(
            f"INSERT INTO hf_task_instance ({columns}) VALUES (?, ?, ?, ?, ?, ?)", instances
        )
        connection.execute("COMMIT")
        return
    with connection.cursor().copy(f"COPY hf_task_instance ({columns}) FROM STDIN") as copy:
        for instance in instances:
            copy.write_row(instance)


def settle(connection: Any) -> None:
    """Do now what the database would otherwise do in the middle of a measurement."""
    if isinstance(connection, psycopg.Connection):
        connection.execute("VACUUM ANALYZE")
        connection.execute("CHECKPOINT")
    else:
        connection.execute("ANALYZE")
        connection.execute("PRAGMA wal_checkpoint(TRUNCATE)")
