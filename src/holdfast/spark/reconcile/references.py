"""References to objects: in entries, their history, staged writes, and the purge queue."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from holdfast.model.scope import StoreScope, TaskScope
from holdfast.portable.json_rules import REFERENCE
from holdfast.spark.transfer.filter import selected

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

QUEUED: Final = "queued"
KINDS: Final = {
    QUEUED: "queued_references",
    "staged": "staged_references",
    "asset": "asset_references",
    "history": "history_references",
    "task": "task_references",
}
"""The tables, in the order in which a reference moves: reserved, staged, written. Read in this
order, none that moves meanwhile is missed."""
_PARTITIONS: Final = 64
_TASK: Final = ("dag_id", "run_id", "task_id", "map_index")
OWNED: Final = (
    "kind string, dag_id string, run_id string, task_id string, map_index int, asset string, "
    "key string, reference string"
)
"""The columns of references with their owners."""


def kinds_of(scope: StoreScope | None) -> list[str]:
    """Return the kinds of references that a scope can have, in the order of `KINDS`."""
    if scope is None:
        return list(KINDS)
    own = ("task",) if isinstance(scope, TaskScope) else ("staged", "asset", "history")
    return [kind for kind in KINDS if kind in (QUEUED, *own)]


def read(spark: SparkSession, kind: str, *whose: str, scope: StoreScope | None = None) -> DataFrame:
    """Return the references of a kind, of all scopes or of one, with these columns of their
    owners."""
    reader = spark.read.format("holdfast").option("table", KINDS[kind])
    if scope is not None:
        [where] = selected(scope).values()
        reader = reader.option("where", where)
    reader = reader.option("columns", ", ".join((*whose, "value")))
    found = reader.option("partitions", _PARTITIONS).load()
    reference = f"get_json_object(value, '$.{REFERENCE}') AS reference"
    return found.selectExpr(f"'{kind}' AS kind", *whose, reference).filter("reference IS NOT NULL")


def read_with_owners(spark: SparkSession, scope: StoreScope | None = None) -> DataFrame:
    """Return all references that are not in the queue, with their owners."""
    all_ = spark.createDataFrame([], OWNED)
    for kind in kinds_of(scope):
        if kind != QUEUED:
            whose = _TASK if kind == "task" else ("asset",)
            found = read(spark, kind, *whose, "key", scope=scope)
            all_ = all_.unionByName(found, allowMissingColumns=True)
    return all_
