"""What names objects: entries, their history, staged writes, and the purge queue."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from holdfast.plain import REFERENCE

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
"""The tables, in the order in which a name moves on: reserved, staged, written. Read one after the
other, they miss none that moves meanwhile."""
_PARTITIONS: Final = 64
_TASK: Final = ("dag_id", "run_id", "task_id", "map_index")
OWNED: Final = (
    "kind string, dag_id string, run_id string, task_id string, map_index int, asset string, "
    "key string, reference string"
)
"""The columns of references with whose they are."""


def read(spark: SparkSession, kind: str, *whose: str) -> DataFrame:
    """The references of a kind, with columns that say whose they are."""
    reader = spark.read.format("holdfast").option("table", KINDS[kind])
    reader = reader.option("columns", ", ".join((*whose, "value")))
    found = reader.option("partitions", _PARTITIONS).load()
    reference = f"get_json_object(value, '$.{REFERENCE}') AS reference"
    return found.selectExpr(f"'{kind}' AS kind", *whose, reference).filter("reference IS NOT NULL")


def read_with_owners(spark: SparkSession) -> DataFrame:
    """All that are not in the queue, with whose they are."""
    all_ = read(spark, "task", *_TASK, "key")
    for kind in ("asset", "history", "staged"):
        all_ = all_.unionByName(read(spark, kind, "asset", "key"), allowMissingColumns=True)
    return all_.select("kind", *_TASK, "asset", "key", "reference")
