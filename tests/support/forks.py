"""Processes for tests, forked from one that has loaded their imports, for a quick start."""

from __future__ import annotations

import multiprocessing
import os
from multiprocessing import forkserver
from multiprocessing.context import ForkServerContext

from holdfast.spark.session.preload import MODULES

_CONNECT = "SPARK_CONNECT_MODE_ENABLED"


def forks() -> ForkServerContext:
    """Return a context whose processes do not inherit whether the first test uses Spark Connect."""
    context = multiprocessing.get_context("forkserver")
    context.set_forkserver_preload(
        [
            *MODULES,
            "alembic.command",
            "holdfast.cleanup.plan",
            "holdfast.stores.sql",
            "psycopg",
            "pymysql",
            "pytest",
        ]
    )
    found = os.environ.pop(_CONNECT, None)
    try:
        forkserver.ensure_running()
    finally:
        if found is not None:
            os.environ[_CONNECT] = found
    return context
