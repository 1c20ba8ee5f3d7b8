"""Registration of the data source with Spark sessions."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from holdfast.accessor.task_store import TaskStore
from holdfast.portable.source.datasource import HoldfastSource
from holdfast.portable.source.location import Location, configured, locate
from holdfast.spark.code_shipping import ship
from holdfast.stores.pipe import PipeStore
from holdfast.wire.purpose import Tables


def register(spark: Any, url: str | None = None, *, token: str | None = None) -> None:
    """Register `format("holdfast")` with a session of any kind, for reading and writing.

    Without options the source uses the store at `url`: a database, or a server with a token for it.
    By default that is the store which is configured for this process.
    """
    given = {name: value for name, value in (("url", url), ("token", token)) if value is not None}
    register_at(spark, locate(given, configured()))


def register_at(spark: Any, location: Location) -> None:
    """Register the source for a known location."""
    ship()
    spark.dataSource.register(type("RegisteredSource", (HoldfastSource,), {"default": location}))


def discovered() -> type[HoldfastSource]:
    """Return the source for Spark's discovery: its store is the one in the options, or the one
    configured where Spark plans."""
    ship()
    return HoldfastSource


def register_in_task(spark: Any, task_store: TaskStore) -> None:
    """Let the session of a task read all tables, and write what the task may, through the task's
    supervisor. This happens on first use of the format, because it starts a server."""

    def locate() -> Location:
        binding = task_store.binding
        store = binding.store
        assert isinstance(store, PipeStore)
        endpoint = store.endpoint(Tables())
        retention = binding.rules.default_retention
        return Location(endpoint.url, endpoint.token, retention=retention)

    register_on_use(spark, locate)


def register_on_use(spark: Any, locate: Callable[[], Location]) -> None:
    """Register with a session of Spark Connect when this process first uses the format, because the
    store has to be served only from then on."""
    from pyspark.sql.connect.readwriter import DataFrameReader, DataFrameWriter

    registered: list[Location] = []

    def first_named(source: str) -> None:
        if source.lower() == HoldfastSource.name() and not registered:
            registered.append(locate())
            register_at(spark, registered[0])

    for kind in (DataFrameReader, DataFrameWriter):
        kind.format = _noticing(kind.format, first_named)  # type: ignore[method-assign]


def _noticing(format: Callable[..., Any], notice: Callable[[str], None]) -> Callable[..., Any]:
    def noticing(self: Any, source: str) -> Any:
        notice(source)
        return format(self, source)

    return noticing
