"""Count and checksum of entries."""

from __future__ import annotations

from collections.abc import Iterable
from decimal import Decimal

import msgspec
from pyspark.sql import Column, DataFrame, functions

from holdfast.spark.transfer.filter import CONTENT


class Total(msgspec.Struct, frozen=True):
    """The count and checksum of entries. The checksum is the sum of the entries' hashes, so that
    neither their order nor their partitions matter: Spark's `xxhash64` of the columns in
    `CONTENT`."""

    count: int
    checksum: str

    @classmethod
    def of(cls, rows: DataFrame, table: str) -> Total:
        row = rows.agg(*columns(table)).first()
        assert row is not None
        return cls(row["count"], row["checksum"])

    @classmethod
    def sum(cls, parts: Iterable[Total]) -> Total:
        counts, sums = 0, Decimal(0)
        for part in parts:
            counts += part.count
            sums += Decimal(part.checksum)
        return cls(counts, str(sums))


def columns(table: str) -> tuple[Column, Column]:
    """Return the aggregates of a total: count and checksum."""
    # A sum of longs would overflow.
    hashed = functions.xxhash64(*CONTENT[table]).cast("decimal(38,0)")
    checksum = functions.coalesce(functions.sum(hashed), functions.lit(0)).cast("string")
    return functions.count("*").alias("count"), checksum.alias("checksum")
