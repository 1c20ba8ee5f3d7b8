"""What the figures depend on: cores, versions, the day."""

from __future__ import annotations

import os
import platform
import sqlite3
from datetime import UTC, datetime

import psutil
import psycopg

from bench.store.databases import connect


def facts(server: str) -> list[tuple[str, str]]:
    with connect(server) as connection:
        settings = {
            name: connection.execute(f"SHOW {name}").fetchone()[0]
            for name in ("server_version", "fsync", "synchronous_commit", "shared_buffers")
        }
    return [
        ("date", f"{datetime.now(UTC):%Y-%m-%d}"),
        ("machine", f"{os.cpu_count()} cores, {psutil.virtual_memory().total / 2**30:.0f} GiB"),
        ("system", f"{platform.system()} {platform.machine()}, Python {platform.python_version()}"),
        ("PostgreSQL", ", ".join(f"{name} {value}" for name, value in settings.items())),
        ("psycopg", f"{psycopg.__version__}, over a Unix socket"),
        ("SQLite", f"{sqlite3.sqlite_version}, a file, WAL, synchronous FULL"),
    ]
