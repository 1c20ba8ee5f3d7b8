"""Processes for tests: forked from one that has loaded what they need, they start at once."""

from __future__ import annotations

import multiprocessing
from typing import Final

from holdfast.spark.preload import MODULES

FORKS: Final = multiprocessing.get_context("forkserver")
FORKS.set_forkserver_preload(
    [
        *MODULES,
        "alembic.command",
        "holdfast.cleanup.run",
        "holdfast.stores.sql",
        "psycopg",
        "pymysql",
        "pytest",
    ]
)
