"""Directories that loads are written into, and how to read those that count."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from holdfast.accessor import AssetStore
from holdfast.errors import InvalidInput, NotFound
from holdfast.spark.edition import TRY
from holdfast.spark.loads.chain import standing
from holdfast.spark.loads.naming import origin_of
from holdfast.spark.publication import absolute, publish, renames

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame, SparkSession

BACKFILLS: Final = "/backfills/"
"""A backfill that counts has an entry `orders/backfills/NAME`: the try of it that counts, or no
text where directories are renamed."""


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
    try:
        rows = spark.read.format(format).options(**options or {}).load(absolute(spark, str(path)))
        names = rows.select("load", "*").columns
    except AnalysisException as error:
        raise NotFound(
            f"{path} has no loads: {str(error).partition(chr(10))[0]}",
            hint="read it after the first load.save(…), with the format in which that wrote",
        ) from error
    tried = f.col(TRY).cast("string") if TRY in names else None
    rows = rows.where(_is_counted(store, key, tried) | _is_backfill(store, key, tried))
    return rows.drop(TRY)


def _is_counted(store: AssetStore, key: str, tried: Column | None) -> Column:
    """The condition that a row is of a load that counts."""
    from pyspark.sql import functions as f

    chain = standing(store, key)
    if chain is None:
        return f.lit(False)
    prefix = f"{origin_of(store, key)}."
    number = f.expr(f"try_cast(substr(load, {len(prefix) + 1}) AS bigint)")
    counts = f.col("load").startswith(prefix) & (number <= chain.number)
    for first, last in chain.out:
        counts &= ~number.between(first, last)
    if tried is not None:
        later = [f"{one}/{name}" for one, name in chain.tries.items()]
        is_first = (tried == "1") & ~number.isin([int(one) for one in chain.tries])
        is_later = f.concat(number.cast("string"), f.lit("/"), tried).isin(later)
        counts &= is_first | is_later
    return f.coalesce(counts, f.lit(False))


def _is_backfill(store: AssetStore, key: str, tried: Column | None) -> Column:
    """The condition that a row is of a backfill that succeeded."""
    from pyspark.sql import functions as f

    prefix, keys = key + BACKFILLS, store.keys()
    names = [one.removeprefix(prefix) for one in keys if one.startswith(prefix)]
    if tried is None:
        return f.col("load").isin(names)
    chosen = [f"{name}/{store.get(prefix + name)}" for name in names]
    return f.concat("load", f.lit("/"), tried).isin(chosen)
