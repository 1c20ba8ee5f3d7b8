"""Stores to export from and copy to, and their entries."""

from __future__ import annotations

from datetime import datetime
from pathlib import Path
from typing import Any, NoReturn

from pyspark.sql import SparkSession

import holdfast
from holdfast import Connection
from holdfast.accessor.binding import Rules
from holdfast.commands import AssetFilter, List, TaskFilter
from holdfast.portable.source.location import Location
from holdfast.settings import ObjectStore
from holdfast.spark.transfer.source import register_kept
from holdfast.store import Store
from holdfast.stores.offload.configuration import Offloading
from holdfast.stores.sql import SqlStore

EVERYTHING = {"task_store": "", "asset_store": ""}
LOOKALIKE = {"__holdfast_ref__": "file:///somebody's own"}
SMALL = 4
"""Number of entries in a chunk, which are those of a DAG."""


def offloading(place: Path) -> Offloading:
    """Return a backend that offloads values of ten bytes or more to files."""
    settings = ObjectStore(url=f"file://{place}", threshold_bytes=10)
    return Offloading("holdfast.sdk.state.ObjectStoreBackend", settings)


def worker(url: str, place: Path) -> Connection:
    """Return a connection of a worker that offloads values."""
    kept = offloading(place)
    return Connection(kept.over(SqlStore(url)), Rules(offloading=kept))


def fill(url: str) -> None:
    """Write three DAGs with two runs of two entries each, and two assets."""
    with holdfast.connect(url) as connection:
        for dag in ("sales", "it's", "räume"):
            for run in ("one", "two"):
                store = connection.task_store(dag, run, "load", 4)
                store.set("file a/ü", {"rows": [1, 2.5, None], "of": dag})
                store.set("kept", run, retention=holdfast.NEVER_EXPIRE)
        for name in ("orders", "customers"):
            asset = connection.asset_store(name=name, uri=f"s3://lake/{name}", declare=True)
            asset.set("watermark", "2026-01-31")
        connection.asset_store(name="orders").set("look", LOOKALIKE)


def held(store: Store) -> set[tuple[Any, ...]]:
    """Return all entries, without what another store sets itself."""
    rows: set[tuple[str, str, str, datetime | None]] = set()
    for where in (TaskFilter(), AssetFilter()):
        for found in store.execute(List(where)).found:
            scope = found.scope if isinstance(where, TaskFilter) else found.scope.name  # type: ignore[union-attr]
            rows.add((str(scope), found.entry.key, found.entry.value, found.entry.expires_at))
    return rows


def registered(spark: SparkSession, url: str, kept: Offloading | None = None) -> Location:
    location = Location(url)
    register_kept(spark, location, kept or Offloading())
    return location


def never(question: str) -> NoReturn:
    raise AssertionError(question)


def silent(text: str) -> None:
    """Confirm everything, and print nothing."""
