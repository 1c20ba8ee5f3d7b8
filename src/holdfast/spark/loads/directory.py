"""Directories that loads are written into, and how to read those that count."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from holdfast.accessor import AssetStore
from holdfast.spark.edition import TRY
from holdfast.spark.loads.naming import load_name
from holdfast.spark.publication import absolute, publish, renames

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

TRIES_SUFFIX: Final = "/tries"
"""Where directories cannot be renamed: which try of a load counts, if it is not the first."""


class Edition(NamedTuple):
    """The identity of what is written."""

    id: str
    begin: Callable[[], str]
    """Begin a try, and return its number."""
    confirm: Callable[[], None]
    """Raise unless this is still what shall be written."""


class Output(NamedTuple):
    """Where and how rows are written."""

    path: str
    format: str
    partition_by: str | Sequence[str]
    options: Mapping[str, str]

    def publish(
        self,
        df: DataFrame,
        name: str,
        edition: Edition,
        manifest: Mapping[str, Any],
    ) -> tuple[str, str | None]:
        """Write `df` so that it appears as a whole, once; return where, and the try that counts.

        Where directories can be renamed, the first attempt that is done publishes its own.
        Elsewhere each attempt writes a directory of its own, and the store says which counts.
        """
        directory = f"{absolute(df.sparkSession, self.path).rstrip('/')}/{name}"

        def write(to: str) -> None:
            edition.confirm()
            self._write(df, to)

        if renames(df.sparkSession, directory):
            publish(write, directory, edition=edition.id, manifest=manifest)
            return directory, None
        tried = edition.begin()
        self._write(df, f"{directory}/{TRY}={tried}")
        return directory, tried

    def _write(self, df: DataFrame, directory: str) -> None:
        writer = df.write.format(self.format).options(**self.options)
        if self.partition_by:
            names = [self.partition_by] if isinstance(self.partition_by, str) else self.partition_by
            writer = writer.partitionBy(*names)
        # Whole: in dynamic mode, partitions that this write does not have would stay.
        writer.option("partitionOverwriteMode", "static").mode("overwrite").save(directory)


def read_loads(
    spark: SparkSession,
    asset_store: AssetStore,
    path: str,
    *,
    key: str = "watermark",
    format: str = "parquet",
    options: Mapping[str, str] | None = None,
) -> DataFrame:
    """Read what finished loads have saved below `path`, with the load of each row as `load`.

    An attempt sees its own load, too.
    """
    from pyspark.sql import functions as f

    from holdfast.spark.loads.incremental import store_of

    store = store_of(asset_store)
    rows = spark.read.format(format).options(**options or {}).load(absolute(spark, path))
    entry = store.entry(key)
    unfinished = load_name(store._scope, key, entry.version if entry else 0).removeprefix("load=")
    own = unfinished.rpartition(".")[0]
    rows = rows.where(f.col("load").startswith(f"{own}."))
    if entry is None or not entry.staged:
        rows = rows.where(f.col("load") != unfinished)
    if TRY not in rows.columns:
        return rows
    counts = f.lit("1")
    for name, tried in store.get(key + TRIES_SUFFIX, {}).items():
        counts = f.when(f.col("load") == name.removeprefix("load="), tried).otherwise(counts)
    return rows.where(f.col(TRY).cast("string") == counts).drop(TRY)
