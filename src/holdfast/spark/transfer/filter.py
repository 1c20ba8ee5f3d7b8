"""Selection of the entries to transfer: all of them, or those that match a filter."""

from __future__ import annotations

from typing import Final

import msgspec
from pyspark.sql import DataFrame, SparkSession, functions

from holdfast.commands import AssetFilter, TaskFilter, Where
from holdfast.model.scope import AssetScope
from holdfast.portable.source.location import Location
from holdfast.spark.transfer.source import FORMAT

DAG: Final = "holdfast"
"""The dag under which exports, imports and copies are recorded."""
KINDS: Final = ("export", "import", "copy")

IDENTITY: Final[dict[str, tuple[str, ...]]] = {
    "task_store": ("dag_id", "run_id", "task_id", "map_index", "key"),
    "asset_store": ("asset", "key"),
}
"""The columns that identify an entry of a table, in any store."""
CONTENT: Final[dict[str, tuple[str, ...]]] = {
    "task_store": (*IDENTITY["task_store"], "value", "expires_at"),
    "asset_store": (*IDENTITY["asset_store"], "value"),
}
"""The columns that another store takes over: the identity, and the content."""


def selected(where: Where) -> dict[str, str]:
    """Return the data source's condition for each table; empty: all of its entries."""
    return {
        table: " AND ".join(equals(name, value) for name, value in columns.items())
        for table, columns in conditions(where).items()
    }


def conditions(where: Where) -> dict[str, dict[str, str | int]]:
    """Return for each table the columns of a filter, with their values; empty: all entries. An
    empty filter for task instances selects all tables."""
    match where:
        case AssetFilter():
            return {"asset_store": {}}
        case AssetScope(name=str(name)):
            return {"asset_store": {"asset": name}}
        case AssetScope():
            return {"asset_store": {"uri": where.uri or ""}}
        case TaskFilter() if where == TaskFilter():
            return {table: {} for table in CONTENT}
    given = msgspec.structs.asdict(where)
    return {"task_store": {name: value for name, value in given.items() if value is not None}}


def equals(column: str, value: str | int) -> str:
    return f"{column} = {literal(value)}"


def literal(value: str | int) -> str:
    if isinstance(value, int):
        return str(value)
    return "'" + value.replace("'", "''") + "'"


def entries(
    spark: SparkSession,
    table: str,
    where: str = "",
    *,
    columns: str = "",
    at: Location | None = None,
    resolve: bool = False,
    partitions: int = 0,
) -> DataFrame:
    """Return entries in their stored form, without the records of transfers; of the registered
    store, or of the one `at` a location."""
    reader = (
        spark.read.format(FORMAT).option("table", table).option("resolve", str(resolve).lower())
    )
    options = {"where": where, "columns": columns, **(location_options(at) if at else {})}
    if partitions:
        options["partitions"] = str(partitions)
    for name, text in options.items():
        if text:
            reader = reader.option(name, text)
    rows = reader.load()
    if table == "task_store":
        rows = rows.filter(
            ~((functions.col("dag_id") == DAG) & functions.col("task_id").isin(*KINDS))
        )
    return rows


def location_options(location: Location) -> dict[str, str]:
    """Return the data source's options for a store."""
    return {"url": location.url} | ({"token": location.token} if location.is_server else {})
