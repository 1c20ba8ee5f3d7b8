"""Which entries are on their way: all of them, or those that a filter finds."""

from __future__ import annotations

from typing import Final

import msgspec
from pyspark.sql import DataFrame, SparkSession, functions

from holdfast.commands import AssetFilter, TaskFilter, Where
from holdfast.model.scope import AssetScope
from holdfast.portable.source.location import Location
from holdfast.spark.transfer.source import FORMAT

DAG: Final = "holdfast"
"""What exports, imports and copies are recorded under."""
KINDS: Final = ("export", "import", "copy")

IDENTITY: Final[dict[str, tuple[str, ...]]] = {
    "task_store": ("dag_id", "run_id", "task_id", "map_index", "key"),
    "asset_store": ("asset", "key"),
}
"""What tells one entry of a table from another, wherever it is."""
CONTENT: Final[dict[str, tuple[str, ...]]] = {
    "task_store": (*IDENTITY["task_store"], "value", "expires_at"),
    "asset_store": (*IDENTITY["asset_store"], "value"),
}
"""And what it holds: all that another store takes over."""


def selected(where: Where) -> dict[str, str]:
    """For each table the condition that the data source takes; empty: all of its entries."""
    return {
        table: " AND ".join(equals(name, value) for name, value in columns.items())
        for table, columns in conditions(where).items()
    }


def conditions(where: Where) -> dict[str, dict[str, str | int]]:
    """For each table the columns that a filter is about, with their values; empty: all entries. A
    filter for task instances that says nothing is everything there is."""
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
    """Entries as they are kept, without the records of transfers; of the store that is registered,
    or `at` another."""
    reader = (
        spark.read.format(FORMAT).option("table", table).option("resolve", str(resolve).lower())
    )
    options = {"where": where, "columns": columns, **(place(at) if at else {})}
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


def place(location: Location) -> dict[str, str]:
    """A store, as the options of the data source."""
    return {"url": location.url} | ({"token": location.token} if location.is_server else {})
