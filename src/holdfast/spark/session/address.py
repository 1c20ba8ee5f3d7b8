"""Spark Connect servers: where one listens, and how one is started."""

from __future__ import annotations

import msgspec

from holdfast.model.run import Process


class SparkAddress(msgspec.Struct, frozen=True):
    """Where a Spark Connect server listens, and how to get in."""

    host: str
    port: int
    token: str = ""
    ui: str = ""
    """The address of its web page; empty where it has none."""
    options: str = ""
    """What else a connection string has after `;`, where the user gave one."""


class SparkStartup(msgspec.Struct, frozen=True, kw_only=True, tag="spark"):
    """Run a Spark Connect server until told to end."""

    master: str
    conf: dict[str, str]
    directory: str
    """Where it keeps its logs and scratch files."""
    runner: Process | None = None
    """The process whose tasks it serves: without it, the server has to end."""
