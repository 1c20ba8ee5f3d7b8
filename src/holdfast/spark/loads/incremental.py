"""Incremental loads: only what is new since the asset's watermark."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from holdfast.accessor import AssetStore
from holdfast.errors import InvalidInput, InvalidType
from holdfast.sdk.asset_stores import AssetStores
from holdfast.spark.loads.load import Load, Loaded
from holdfast.spark.loads.rules import Closed, OnNull, load_rules

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

__all__ = ["Load", "Loaded", "incremental"]


def incremental(
    df: DataFrame,
    asset_store: AssetStore | AssetStores,
    *,
    cursor: str,
    initial: Any = None,
    lag: Any = None,
    end_value: Any = None,
    closed: Closed = "left",
    on_null: OnNull = "error",
    primary_key: str | Sequence[str] | None = None,
    remember: int = 5000,
    key: str = "watermark",
) -> Load:
    """The rows of `df` that are new since the watermark that the asset store has under `key`.

    `cursor` is the column that grows; rows before `initial` are never loaded. With `primary_key`
    (one or more columns), rows that come late, by up to `lag` and at the watermark itself, are
    loaded, and of rows with the same key and cursor value only one, ever; up to `remember` loaded
    rows are remembered for that. With `primary_key=()` such rows are read again each time, for a
    write that replaces them. Without it, a load begins after the watermark.

    `end_value` makes it a backfill of the range from `initial` to there, which neither reads nor
    moves the watermark. `closed` says which of these two ends belong to the range. A row whose
    cursor is null is an error, or is skipped, or is included each time (`primary_key=()` only).
    """
    if df.isStreaming:
        raise InvalidInput(
            "a streaming DataFrame has its own progress", hint="use holdfast.spark.foreach_batch"
        )
    rules = load_rules(
        df.schema, cursor, initial, lag, end_value, closed, on_null, primary_key, remember
    )
    return Load(df, _store_of(asset_store), key, rules)


def _store_of(asset_store: AssetStore | AssetStores) -> AssetStore:
    if isinstance(asset_store, AssetStores):
        # Its only asset's; with several, this says that one has to be chosen.
        bound: Any = asset_store.entry
        asset_store = bound.__self__
    if not isinstance(asset_store, AssetStore):
        raise InvalidType(
            f"an incremental load needs an asset store, not {type(asset_store).__name__}",
            hint='context["asset_store"][my_asset], or connection.asset_store(name=…)',
        )
    return asset_store
