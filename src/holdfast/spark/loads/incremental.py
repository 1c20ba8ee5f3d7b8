"""Incremental loads: only the rows that are new since the asset's watermark."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from inspect import signature
from os import PathLike
from typing import TYPE_CHECKING, Any, NamedTuple, get_args

from holdfast.accessor.asset_store import AssetStore
from holdfast.errors import InvalidInput, InvalidType
from holdfast.sdk.asset_stores import AssetStores
from holdfast.spark.lake.table import LakeTable
from holdfast.spark.loads.arguments import (
    Closed,
    Contract,
    LoadRules,
    OnNull,
    check_choice,
    load_rules,
    version_rules,
)
from holdfast.spark.loads.load import Load, Loaded
from holdfast.spark.loads.table_versions import OnChange, TableVersions

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

__all__ = ["Load", "Loaded", "incremental", "portions"]


def incremental(
    source: DataFrame | LakeTable,
    asset_store: AssetStore | AssetStores,
    *,
    cursor: str | None = None,
    initial: Any = None,
    lag: Any = None,
    until: Any = None,
    max_rows: int | None = None,
    end_value: Any = None,
    closed: Closed = "left",
    on_null: OnNull = "error",
    primary_key: str | Sequence[str] | None = None,
    remember: int = 5000,
    expect: Mapping[str, Any] | None = None,
    quarantine: str | PathLike[str] | None = None,
    contract: Contract | None = None,
    materialize: bool | None = None,
    on_change: OnChange = "error",
    key: str = "watermark",
) -> Load:
    """Return the rows of a source that are new since the watermark that the asset store has as
    `key`.

    The load is bounded now: it has the rows after the watermark up to the highest `cursor` value
    there is, or up to `until` (a value, a `timedelta` before now, or a function that returns
    either), or about `max_rows` of them. `write`, `save` and `sql` write them; then the watermark
    is that end. Rows before `initial` are never loaded, and rows in the future are left for later.

    With `primary_key` (one or more columns), rows that arrive late, by up to `lag` and at the
    watermark itself, are loaded, and of rows with the same key and cursor value only one, ever; up
    to `remember` loaded rows are remembered for that. With `primary_key=()` such rows are read
    again each time, for a write that replaces them. Without it, a load begins after the watermark.

    `end_value` makes it a backfill of the range from `initial` to there, which neither reads nor
    moves the watermark. `closed` determines which of these two ends belong to the range. A row
    whose cursor is null is an error, or is skipped, or is included each time (`primary_key=()`
    only), as `on_null` says.

    `expect` are checks of the rows; those that fail go to `quarantine`, or fail the load.
    `contract` stores the source's schema with the watermark, and warns or fails if it changes.
    `materialize` determines whether the rows are read once and kept; by default, they are if the
    source can change while they are read.

    A Delta or Iceberg table as the source needs no `cursor`: the load has what was appended to the
    table since the version that the watermark is, up to its newest version or the version `until`;
    the first load has the whole table. If rows were changed or removed since, or the versions since
    are gone, `on_change="error"` raises TableChanged, and with `"reload"` the load has the whole
    table again.
    """
    found = _source(
        source,
        on_change,
        cursor=cursor,
        initial=initial,
        lag=lag,
        until=until,
        max_rows=max_rows,
        end_value=end_value,
        closed=closed,
        on_null=on_null,
        primary_key=primary_key,
        remember=remember,
        expect=expect,
        quarantine=quarantine,
        contract=contract,
        materialize=materialize,
    )
    return Load(found.source, store_of(asset_store), key, found.rules)


def portions(
    source: DataFrame | LakeTable,
    asset_store: AssetStore | AssetStores,
    *,
    max_rows: int,
    key: str = "watermark",
    **rules: Any,
) -> Iterator[Load]:
    """Yield loads of about `max_rows` rows each, until nothing is left.

    Each moves the watermark as soon as it is written, even inside an attempt, so that a retry
    continues with the next portion. Portions of a Delta or Iceberg table end with a commit, and the
    first has the whole table. The other arguments are those of `incremental`.
    """
    store = store_of(asset_store)
    if max_rows is None:
        raise InvalidInput(
            "max_rows is None", hint="give the number of rows of a portion: 1_000_000"
        )
    if unknown := rules.keys() - signature(incremental).parameters.keys():
        raise TypeError(f"portions() got an unexpected keyword argument {min(unknown)!r}")
    load: Load | None = None
    while True:
        found = _source(source, max_rows=max_rows, **rules)
        begins, load = load is None, Load(found.source, store, key, found.rules, at_once=True)
        if load.end == load.watermark and not (begins and load.has_rows):
            return
        yield load
        if not load.is_written:
            raise InvalidInput(
                "the last portion was not written", hint="call write, save or sql on each portion"
            )


class _Source(NamedTuple):
    source: DataFrame | TableVersions
    rules: LoadRules


def _source(
    source: DataFrame | LakeTable,
    on_change: OnChange = "error",
    cursor: str | None = None,
    **rules: Any,
) -> _Source:
    """Validate the arguments of a load. Raise InvalidInput or InvalidType, which name one."""
    check_choice("on_change", on_change, get_args(OnChange))
    if isinstance(source, LakeTable):
        versions = TableVersions(source, _active_session(), on_change)
        spark, schema = versions.sparkSession, versions.schema
        return _Source(
            versions, version_rules(versions.kind, spark, schema, cursor=cursor, **rules)
        )
    if on_change != "error":
        raise InvalidInput(
            f"on_change is {on_change!r}, but the source is a DataFrame",
            hint="remove on_change: it is for Delta and Iceberg tables",
        )
    if cursor is None and hasattr(source, "isStreaming"):
        raise InvalidInput(
            "a DataFrame is loaded by a cursor, and none is given",
            hint='give the column whose values grow: cursor="changed_at"',
        )
    return _Source(source, load_rules(source, cursor=cursor, **rules))  # type: ignore[arg-type]


def _active_session() -> SparkSession:
    """Return the session of the caller. Raise InvalidInput if there is none."""
    from pyspark.errors import PySparkRuntimeError
    from pyspark.sql import SparkSession

    try:
        return SparkSession.active()
    except PySparkRuntimeError:
        raise InvalidInput(
            "no Spark session is active, and a table has none of its own",
            hint="create it first: spark = SparkSession.builder.getOrCreate()",
        ) from None


def store_of(asset_store: AssetStore | AssetStores) -> AssetStore:
    """Return the store of one asset. Raise InvalidType if it is something else."""
    if isinstance(asset_store, AssetStores):
        asset_store = asset_store.only()
    if not isinstance(asset_store, AssetStore):
        raise InvalidType(
            f"the asset store is a {type(asset_store).__name__}",
            hint='context["asset_store"][my_asset], or connection.asset_store(name=…)',
        )
    return asset_store
