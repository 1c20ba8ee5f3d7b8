"""What the figures depend on: cores, versions, the day."""

from __future__ import annotations

import os
import platform
import sqlite3
from datetime import UTC, datetime

import psutil


def facts() -> list[tuple[str, str]]:
    return [
        ("date", f"{datetime.now(UTC):%Y-%m-%d}"),
        ("machine", f"{os.cpu_count()} cores, {psutil.virtual_memory().total / 2**30:.0f} GiB"),
        ("system", f"{platform.system()} {platform.machine()}, Python {platform.python_version()}"),
        ("SQLite", f"{sqlite3.sqlite_version}, a file, WAL, synchronous FULL"),
    ]
