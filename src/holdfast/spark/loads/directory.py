"""Directories of loads: how to read those that count."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Final, NamedTuple

import msgspec

from holdfast.accessor import AssetStore
from holdfast.errors import InvalidInput, NotFound
from holdfast.loadchain import NO_LOADS, Chain
from holdfast.loadrecord import BACKFILLS
from holdfast.spark.edition import TRY
from holdfast.spark.loads import saved
from holdfast.spark.loads.chain import PLAN_SUFFIX, loads_that_count
from holdfast.spark.loads.column import quoted
from holdfast.spark.loads.naming import origin_of
from holdfast.spark.loads.output import in_utc, name_mistakes
from holdfast.spark.publication import absolute, check_path

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame, DataFrameReader, SparkSession
    from pyspark.sql.types import StructType

BACKFILLING: Final = "/backfilling/"
"""The newest try of a backfill is stored as `orders/backfilling/NAME`."""

_BY_NAME: Final = frozenset({"json", "orc", "parquet"})
"""Formats whose files can be read with more columns than they have, and wider ones."""


class Backfill(msgspec.Struct, frozen=True, omit_defaults=True):
    """A backfill that counts."""

    tried: str = ""
    """The try of it that counts, where directories cannot be renamed."""
    columns: str = ""
    """The digest of the schema with which it was saved."""


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
    from pyspark.errors import AnalysisException, PySparkException
    from pyspark.sql import functions as f

    from holdfast.spark.loads.incremental import store_of

    store = store_of(asset_store)
    place = absolute(spark, check_path("the path", path))

    def read(schema: StructType | str) -> DataFrame:
        return reader().schema(schema).load(place)

    def reader() -> DataFrameReader:
        return spark.read.format(format).options(**in_utc(options or {}))

    def partitions(of: str) -> list[str]:
        # With any schema, Spark reads the names of directories only.
        return reader().schema("holdfast_none string").load(of).columns[1:]

    def is_there(name: str) -> bool:
        try:
            partitions(f"{place}/load={name}")
        except AnalysisException:
            return False
        return True

    try:
        with name_mistakes(path, format):
            directories = partitions(place)
    except AnalysisException as error:
        raise _no_loads(path, str(error).partition("\n")[0]) from error
    except PySparkException as error:
        if "CONFLICTING_PARTITION_COLUMN_NAMES" not in str(error):
            raise
        raise InvalidInput(
            f"{path} has directories that were saved with another partition_by: "
            f"{str(error).partition('Spark UI')[0][:1000]}",
            hint="remove what is left of attempts that failed; loads with another partition_by "
            "need a path of their own",
        ) from error
    counting = _counting(store, key)
    if "load" not in directories and not any(map(is_there, counting.names())):
        raise _no_loads(path, "none of its directories is that of a load")
    schemas = [found for one in counting.columns if (found := store.get(key + saved.PREFIX + one))]
    is_known = len(schemas) == len(counting.columns) and schemas
    if "load" in directories and not (is_known and format.lower() in _BY_NAME):
        # Nothing was saved, or the files have to tell their columns: those of CSV go by place.
        inferred = saved.columns_of(reader().load(place).drop("load", TRY).schema)
        known = {name: kind for schema in schemas for name, kind in schema.items()}
        schemas = [inferred | {name: known[name] for name in directories if name in known}]
    schema = saved.schema_of(schemas, spark, where=f"`{key}` of {store._scope}")
    names = [*schema.names, "load"]
    tried = f.col(TRY) if TRY in directories else None
    for name in ("load", TRY) if tried is not None else ("load",):
        schema = schema.add(name, "string")
    rows = read(schema).where(counting.is_load(tried) | counting.is_backfill(tried))
    return rows.select(*map(quoted, names))


def _no_loads(path: str, why: str) -> NotFound:
    return NotFound(
        f"{path} has no loads: {why}",
        hint="read it after the first load.save(…), with the format in which that wrote",
    )


class _Counting(NamedTuple):
    """What counts of an asset: its loads, and its backfills."""

    prefix: str
    """That of the names of its loads."""
    chain: Chain
    backfills: dict[str, Backfill]

    @property
    def columns(self) -> list[str]:
        """The digests of the schemas with which all of it was saved."""
        of_backfills = (one.columns for one in self.backfills.values() if one.columns)
        return list(dict.fromkeys([*self.chain.columns, *of_backfills]))

    def names(self) -> list[str]:
        """Return the names of the backfills, and of the newest load."""
        newest = [] if self.chain.number < 0 else [f"{self.prefix}{self.chain.number:012}"]
        return [*newest, *self.backfills]

    def is_load(self, tried: Column | None) -> Column:
        """The condition that a row is of a load that counts."""
        from pyspark.sql import functions as f

        number = f.expr(f"try_cast(substr(load, {len(self.prefix) + 1}) AS bigint)")
        counts = f.col("load").startswith(self.prefix) & (number <= self.chain.number)
        for first, last in self.chain.out:
            counts &= ~number.between(first, last)
        if tried is not None:
            tries = self.chain.tries
            later = [f"{one}/{name}" for one, name in tries.items()]
            is_first = (tried == "1") & ~number.isin([int(one) for one in tries])
            is_later = f.concat(number.cast("string"), f.lit("/"), tried).isin(later)
            counts &= is_first | is_later
        return f.coalesce(counts, f.lit(False))

    def is_backfill(self, tried: Column | None) -> Column:
        """The condition that a row is of a backfill that succeeded."""
        from pyspark.sql import functions as f

        if tried is None:
            return f.col("load").isin([*self.backfills])
        chosen = [f"{name}/{one.tried}" for name, one in self.backfills.items()]
        return f.concat("load", f.lit("/"), tried).isin(chosen)


def _counting(store: AssetStore, key: str) -> _Counting:
    """Find what counts. Raise NotFound where nothing is known of loads, InvalidInput where it
    cannot be known."""
    entry, prefix, keys = store.entry(key), key + BACKFILLS, store.keys()
    names = [one.removeprefix(prefix) for one in keys if one.startswith(prefix)]
    if entry is None and not names and store.entry(key + PLAN_SUFFIX) is None:
        raise NotFound(
            f"`{key}` of {store._scope} knows of no loads",
            hint="check the asset and key=; read after the first load.save(…)",
        )
    chain = loads_that_count(store, key, entry) or NO_LOADS
    if chain.guessed:
        raise InvalidInput(
            f"which loads count is not known: `{key}` of {store._scope} was set by hand, and the "
            "history that says so is not here",
            hint='set it again with its loads, as {…, "load": {"number": 7, "out": [[2, 3]]}}: '
            "those up to 7 count, but for 2 and 3; `holdfast assets loads` lists them where the "
            "history is",
        )
    backfills = {name: msgspec.convert(store.get(prefix + name), Backfill) for name in names}
    return _Counting(f"{origin_of(store, key)}.", chain, backfills)
