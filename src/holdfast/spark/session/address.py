"""Addresses of Spark Connect servers, and the request to start one."""

from __future__ import annotations

import msgspec

from holdfast.model.run import Process

CONNECT_VARIABLES = ("SPARK_REMOTE", "SPARK_LOCAL_REMOTE", "SPARK_CONNECT_MODE_ENABLED")
"""Environment variables that make PySpark use a Spark Connect server."""


class SparkAddress(msgspec.Struct, frozen=True):
    """The address of a Spark Connect server, with the token for it."""

    host: str
    port: int
    token: str = ""
    ui: str = ""
    """The URL of its web UI; empty if it has none."""
    options: str = ""
    """Further options after `;` in the user's connection string, if there is one."""


class SparkStartup(msgspec.Struct, frozen=True, kw_only=True, tag="spark"):
    """The request to run a Spark Connect server until it is ended."""

    master: str
    conf: dict[str, str]
    directory: str
    """The directory for its logs and scratch files."""
    runner: Process | None = None
    """The process whose tasks it serves; when that ends, the server has to end, too."""
