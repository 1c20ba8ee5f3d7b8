"""Reading of the directories of loads that count."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Final, NamedTuple

import msgspec

from holdfast.accessor.asset_store import AssetStore
from holdfast.errors import InvalidInput, NotFound
from holdfast.model.load_chain import NO_LOADS, Chain
from holdfast.model.load_record import BACKFILLS
from holdfast.spark.checkpoints.edition import TRY
from holdfast.spark.loads import readback, saved_format
from holdfast.spark.loads.backfill import Backfill, backfills_at
from holdfast.spark.loads.directory_writer import name_mistakes
from holdfast.spark.loads.load_history import PLAN_SUFFIX, loads_that_count
from holdfast.spark.loads.naming import origin_of
from holdfast.spark.paths import absolute, check_path, is_same, path_digest, renames, unseen
from holdfast.spark.publication import manifest_of

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame, DataFrameReader, SparkSession

_COLUMN_NAMES: Final = re.compile(r"Partition column name list #\d+: ([^\n]*)")
_PLACE: Final = re.compile(rf".*/load=([^/]+)/(?:{TRY}=([^/]+)/)?")
"""The load and the try to which a file belongs."""


def read_loads(
    spark: SparkSession,
    asset_store: AssetStore,
    path: str,
    *,
    key: str = "watermark",
    format: str | None = None,
    options: Mapping[str, str] | None = None,
) -> DataFrame:
    """Read the rows that finished loads have saved below `path`, with the load of each row as
    `load`.

    An attempt also sees its own load. Format and options are those with which the loads were saved;
    the given options take precedence. Raise NotFound if there are no loads, and InvalidInput if
    they cannot be read together.
    """
    from pyspark.errors import AnalysisException, PySparkException
    from pyspark.sql import functions as f
    from pyspark.sql.types import TimestampType

    from holdfast.spark.loads.incremental import store_of

    store = store_of(asset_store)
    root = absolute(spark, check_path("the path", path))
    where = f"`{key}` of {store.binding.scope}"

    def digest_in(directory: str) -> str:
        """Return the digest of how a directory was saved, if this process can see it."""
        found = manifest_of(f"{root}/{directory}") if renames(spark, root) else None
        return str((found or {}).get("saved", ""))

    def published(name: str) -> Backfill | None:
        digest = digest_in(f"load={name}")
        return Backfill(saved=digest) if digest else None

    counting = _counting(store, key, path_digest(spark, root), published, where)
    kept = {
        one: msgspec.convert(found, saved_format.Saved)
        for one in counting.saved
        if one != saved_format.NOT and (found := store.get(key + saved_format.PREFIX + one))
    }
    all_kept = kept.values()
    aside = [one for one in all_kept if one.quarantine and is_same(spark, one.quarantine, path)]
    every = aside or [one for one in all_kept if not one.quarantine]
    kind = saved_format.format_of(every, format, where)
    loads = [load for load in every if load.format == kind]
    is_mixed = len(loads) < len(every)
    using = saved_format.in_utc(saved_format.options_of(loads, options or {}, where))

    def reader() -> DataFrameReader:
        return spark.read.format(kind).options(**using)

    def listed(of: str) -> DataFrame:
        # With any schema given, Spark reads only the names of directories.
        return reader().schema("holdfast_none string").load(of)

    def is_there(name: str) -> bool:
        try:
            listed(f"{root}/load={name}").columns  # noqa: B018
        except AnalysisException:
            return False
        return True

    try:
        with name_mistakes(path, kind):
            listing = listed(root)
            directories = listing.columns[1:]
    except AnalysisException as error:
        raise _no_loads(path, str(error).partition("\n")[0]) from error
    except PySparkException as error:
        if "CONFLICTING_PARTITION_COLUMN_NAMES" not in str(error):
            raise
        raise _mixed(path, str(error)) from error
    if "load" not in directories and not any(map(is_there, counting.names())):
        raise _no_loads(path, "none of its directories belongs to a load")
    tried = f.col(TRY) if TRY in directories else None
    counts = counting.is_load(tried) | counting.is_backfill(tried)
    if lost := _files(spark, unseen(spark, root), counts):
        raise InvalidInput(
            f"Spark cannot read the name of {min(lost)!a}: the locale of its Java is not UTF-8",
            hint="start Spark with LC_ALL=C.UTF-8 in the environment",
        )
    files: dict[str, str] = {}
    authored: list[str] = []
    is_known = loads and kept.keys() == set(counting.saved) and kind in saved_format.WITH_SCHEMA
    # A file of another format is an error in Parquet and ORC, but rows of nulls in text.
    may_differ = is_mixed or (loads and kind in saved_format.TEXTS)
    if "load" in directories and (may_differ or not is_known):
        files = _files(spark, listing.inputFiles(), counts)
    if may_differ:
        saved_format.check_files(files, kind, using, path)
    described = loads
    if "load" in directories and not is_known:
        # The columns are inferred from files: those of loads that count, if there are any.
        within = [
            f"{root}/{name}"
            for name in dict.fromkeys(files.values())
            if kind not in saved_format.WITH_SCHEMA or digest_in(name) not in kept
        ]
        authored = [name for name in within if loads and f"/{TRY}=" not in name]
        if within or not loads:
            found = reader().options(basePath=root, mergeSchema="true").load(within or [root])
            inferred = found.drop("load", TRY).schema
            described = saved_format.with_found(loads, inferred, kind, directories, using)
    schema = saved_format.schema_of(described, spark, where)
    in_names = {name for load in loads for name in load.partitions if name in directories}
    times = [name for name in in_names if isinstance(schema[name].dataType, TimestampType)]
    if times and authored:
        raise InvalidInput(
            f"{authored[0]} was written without new.save, so the time zone of `{times[0]}` in its "
            "directory names is unknown; saved loads use UTC",
            hint="read such directories separately, or do not partition by the time",
        )
    more = ("load", TRY) if tried is not None else ("load",)
    return readback.read(spark, kind, using, schema, in_names, root, more).where(counts).drop(TRY)


def _files(spark: SparkSession, files: Sequence[str], counts: Column) -> dict[str, str]:
    """Return the files that count, with the directory below the path of each."""
    found = {file: match for file in files if (match := _PLACE.match(file))}
    if not found:
        return {}
    tried = spark.createDataFrame(
        sorted({(match[1], match[2] or "") for match in found.values()}),
        f"load string, {TRY} string",
    )
    counting = {(row["load"], row[TRY]) for row in tried.where(counts).collect()}
    return {
        file: f"load={match[1]}" + (f"/{TRY}={match[2]}" if match[2] else "")
        for file, match in found.items()
        if (match[1], match[2] or "") in counting
    }


def _mixed(path: str, said: str) -> InvalidInput:
    found = [set(names.split(", ")) for names in _COLUMN_NAMES.findall(said)]
    if any(TRY in names for names in found):
        return InvalidInput(
            f"{path} has loads of two kinds: some were saved by renaming directories, others by a "
            "Spark that does not share this file system",
            hint="give each its own path, or read their directories separately",
        )
    shown = " and by ".join(", ".join(sorted(names - {"load"})) or "nothing" for names in found)
    return InvalidInput(
        f"{path} has directories that were saved with different partition_by: by {shown}",
        hint="remove the leftovers of failed attempts; use another path for loads with another "
        "partition_by",
    )


def _no_loads(path: str, why: str) -> NotFound:
    return NotFound(
        f"{path} has no loads: {why}",
        hint="read it after the first load.save(…), in the same format",
    )


class _Counting(NamedTuple):
    """The loads and backfills of an asset that count."""

    prefix: str
    """The prefix of the names of its loads."""
    chain: Chain
    backfills: dict[str, list[Backfill]]
    """The tries of each backfill that count."""

    @property
    def saved(self) -> list[str]:
        """The digests of how they were saved; an empty one for loads that `save` has not
        written."""
        of_backfills = (one.saved for tries in self.backfills.values() for one in tries)
        return [*dict.fromkeys([*self.chain.saved, *of_backfills])]

    def names(self) -> list[str]:
        """Return the names of the backfills, and of the newest load."""
        newest = [] if self.chain.number < 0 else [f"{self.prefix}{self.chain.number:012}"]
        return [*newest, *self.backfills]

    def is_load(self, tried: Column | None) -> Column:
        """Return the condition that a row belongs to a load that counts."""
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
        """Return the condition that a row belongs to a backfill that succeeded."""
        from pyspark.sql import functions as f

        if tried is None:
            return f.col("load").isin([*self.backfills])
        chosen = [f"{name}/{one.tried}" for name, tries in self.backfills.items() for one in tries]
        return f.concat("load", f.lit("/"), tried).isin(chosen)


def _counting(
    store: AssetStore,
    key: str,
    digest: str,
    published: Callable[[str], Backfill | None],
    where: str,
) -> _Counting:
    """Return the loads and backfills that count. Raise NotFound if no loads are known, InvalidInput
    if it cannot be determined which count."""
    entry, keys = store.entry(key), store.keys()
    is_backfilled = any(one.startswith(key + BACKFILLS) for one in keys)
    if entry is None and not is_backfilled and store.entry(key + PLAN_SUFFIX) is None:
        raise NotFound(
            f"{where} has no loads",
            hint="check the asset and key=; read after the first load.save(…)",
        )
    chain = loads_that_count(store, key, entry) or NO_LOADS
    if chain.guessed:
        raise InvalidInput(
            f"cannot determine which loads count: {where} was set by hand, and the history of it "
            "is not in this store",
            hint='set it again with its loads, such as {…, "load": {"number": 7, "out": [[2, '
            "3]]}}, where those up to 7 count, except 2 and 3; `holdfast assets loads` lists them "
            "in the store that has the history",
        )
    backfills = backfills_at(store, key, keys, digest, published)
    if is_backfilled and not backfills and chain.number < 0:
        raise NotFound(
            f"{where} has no loads below this path: its backfills failed there, or quarantined "
            "nothing when they ran again",
            hint="read it after the first load.save(…) that succeeds",
        )
    return _Counting(f"{origin_of(store, key)}.", chain, backfills)
