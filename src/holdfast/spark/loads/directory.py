"""Directories that loads are written into, and how to read those that count."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from holdfast.accessor import AssetStore
from holdfast.errors import InvalidInput, NotFound
from holdfast.spark.edition import TRY
from holdfast.spark.loads.naming import origin_of
from holdfast.spark.loads.standing import left_out
from holdfast.spark.publication import absolute, publish, renames

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

TRIES_SUFFIX: Final = "/tries"
"""Where directories cannot be renamed: which try of a load counts, if it is not the first."""


class Writing(NamedTuple):
    """One try at writing rows."""

    edition: str
    """The identity of what is written: a later one replaces an earlier one."""
    tried: str
    """The name of the try, for a directory that no other attempt writes."""
    confirm: Callable[[], None]
    """Raise unless this is still the newest try."""


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
        writing: Writing,
        manifest: Mapping[str, Any],
    ) -> tuple[str, str | None]:
        """Write `df` so that it appears as a whole, once; return where, and the try that counts.

        Where directories can be renamed, that of the newest try stands. Elsewhere each try has a
        directory of its own, and the store says which counts.
        """
        directory = f"{absolute(df.sparkSession, self.path).rstrip('/')}/{name}"

        def write(to: str) -> None:
            writing.confirm()
            self._write(df, to)

        if renames(df.sparkSession, directory):
            publish(write, directory, edition=writing.edition, manifest=manifest)
            return directory, None
        write(f"{directory}/{TRY}={writing.tried}")
        return directory, writing.tried

    def check(self, df: DataFrame) -> None:
        """Raise InvalidInput where a column has the name of a directory that loads have."""
        for name in df.columns:
            if name.lower() in ("load", TRY):
                raise InvalidInput(
                    f"the column `{name}` would be hidden by the directories of the loads",
                    hint=f'rename it before the load: withColumnRenamed("{name}", "…")',
                )

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
    from pyspark.errors import AnalysisException
    from pyspark.sql import functions as f

    from holdfast.spark.loads.incremental import store_of

    store = store_of(asset_store)
    origin, out = origin_of(store, key), left_out(store, key)
    load = f.col("load")
    try:
        rows = spark.read.format(format).options(**options or {}).load(absolute(spark, str(path)))
        rows = rows.where(load.startswith(f"{origin}."))
        names = rows.columns
    except AnalysisException as error:
        raise NotFound(
            f"{path} has no loads: {str(error).partition(chr(10))[0]}",
            hint="read it after the first load.save(…), with the format in which that wrote",
        ) from error
    if out:
        rows = rows.where(~load.isin([name.removeprefix("load=") for name in out]))
    if TRY not in names:
        return rows
    later: dict[str, str] = store.get(key + TRIES_SUFFIX, {})
    tried, again = f.col(TRY).cast("string"), [name.removeprefix("load=") for name in later]
    first = (tried == "1") & ~load.isin(again) if again else tried == "1"
    chosen = [f"{name.removeprefix('load=')}/{number}" for name, number in later.items()]
    counted = first | f.concat(load, f.lit("/"), tried).isin(chosen) if chosen else first
    return rows.where(counted).drop(TRY)
