"""Directories that loads are written into, and how to read those that count."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Final, NamedTuple

import msgspec

from holdfast.accessor import AssetStore
from holdfast.errors import InvalidInput, InvalidType, NotFound
from holdfast.loadchain import NO_LOADS, Chain
from holdfast.loadrecord import BACKFILLS
from holdfast.spark.edition import TRY
from holdfast.spark.loads import saved
from holdfast.spark.loads.chain import PLAN_SUFFIX, loads_that_count
from holdfast.spark.loads.column import Columns, quoted
from holdfast.spark.loads.naming import origin_of
from holdfast.spark.publication import absolute, check_path, manifest_of, publish, renames

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


class Writing(NamedTuple):
    """One try at writing rows."""

    load: str
    """The identity of the load: no other one may replace what it has written."""
    tried: str
    """The name of the try, for a directory that no other attempt writes."""
    confirm: Callable[[], None]
    """Raise unless this is still the newest try."""

    @property
    def edition(self) -> str:
        """The identity of what is written: a later one of the load replaces an earlier one."""
        return f"{self.load} {self.tried}"


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
        from pyspark.errors import AnalysisException

        directory = f"{absolute(df.sparkSession, self.path).rstrip('/')}/{name}"

        def write(to: str) -> None:
            writing.confirm()
            self._write(df, to)

        if renames(df.sparkSession, directory):
            former = str((manifest_of(directory) or {}).get("edition", writing.edition))
            if former.partition(" ")[0] != writing.load:
                raise _foreign(directory)
            publish(write, directory, edition=writing.edition, manifest=manifest)
            return directory, None
        try:
            write(f"{directory}/{TRY}={writing.tried}")
        except AnalysisException as error:
            if error.getCondition() == "PATH_ALREADY_EXISTS":
                raise _foreign(directory) from error
            raise
        return directory, writing.tried

    def check(self, df: DataFrame) -> None:
        """Raise InvalidInput or InvalidType where the rows cannot be written so."""
        check_path("the path", self.path)
        if not isinstance(self.format, str) or not self.format:
            raise InvalidType(f"format is {self.format!r}", hint='format="parquet", "orc", …')
        if not isinstance(self.options, Mapping):
            raise InvalidType(f"options is {self.options!r}", hint='options={"header": "true"}')
        for name in self._partitions(df):
            if name.startswith("."):
                raise InvalidInput(
                    f"partition_by is `{name}`, and Spark reads no directory whose name begins "
                    "with a dot",
                    hint=f'rename it before the load: withColumnRenamed("{name}", "…")',
                )
        for name in df.columns:
            if name.lower() in ("load", TRY):
                raise InvalidInput(
                    f"the column `{name}` would be hidden by the directories of the loads",
                    hint=f'rename it before the load: withColumnRenamed("{name}", "…")',
                )

    def _partitions(self, df: DataFrame) -> list[str]:
        """Return the names of the columns as the rows have them, so that readers find them."""
        names = [self.partition_by] if isinstance(self.partition_by, str) else self.partition_by
        if not isinstance(names, list | tuple):
            raise InvalidType(f"partition_by is {names!r}", hint='partition_by=["day", "country"]')
        return [Columns.of(df).find(name, "partition_by").name for name in names]

    def _write(self, df: DataFrame, directory: str) -> None:
        writer = df.write.format(self.format).options(**_in_utc(self.options))
        if names := self._partitions(df):
            writer = writer.partitionBy(*names)
        writer.mode("error").save(directory)


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
        return spark.read.format(format).options(**_in_utc(options or {}))

    try:
        # With any schema, Spark reads the names of directories only.
        directories = read("holdfast_none string").columns[1:]
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
    if "load" not in directories:
        raise _no_loads(path, "none of its directories is that of a load")
    counting = _counting(store, key)
    schemas = [found for one in counting.columns if (found := store.get(key + saved.PREFIX + one))]
    if len(schemas) < len(counting.columns) or not schemas or format.lower() not in _BY_NAME:
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


def _in_utc(options: Mapping[str, str]) -> dict[str, str]:
    """Return the options with a time zone for times in the names of partitions: not that of the
    session, which a reader need not share, and in which an hour may come twice."""
    is_named = any(name.lower() == "timezone" for name in options)
    return dict(options) if is_named else {**options, "timeZone": "UTC"}


def _foreign(directory: str) -> InvalidInput:
    return InvalidInput(
        f"{directory} is there, and was written by another load: of another store with the same "
        "asset, or of an asset or plan that was deleted",
        hint="give each store a path of its own; if the directory is a leftover, remove it",
    )


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
