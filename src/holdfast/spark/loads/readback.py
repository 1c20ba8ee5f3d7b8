"""Verification that Spark reads the same rows from files as it has written, before they count.

Which values a format loses depends on the rows, the options and Spark's version, so the files are
read back.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Iterator, Mapping
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, Final
from uuid import uuid4

from holdfast.errors import InvalidInput
from holdfast.spark.loads import saved_format
from holdfast.spark.loads.column_lookup import quoted
from holdfast.spark.loads.row_identity import text_of

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame, SparkSession
    from pyspark.sql.types import DataType, StructField, StructType

FORMATS: Final = saved_format.TEXTS | {"orc"}
"""Formats that may lose values. Parquet is not read back."""
_LOSES: Final = {
    "csv": "a null in the only column, nulls with quoteAll=, values equal to nullValue=, bytes, "
    "arrays and maps, and text that the encoding= cannot represent",
    "json": "maps whose keys are not text, and text that is not UTF-8",
    "orc": "the dates from 1582-10-05 to 1582-10-14, and text with a collation",
    "text": "null, line breaks, and a byte order mark at the beginning",
    "xml": "control characters, empty arrays and maps, and arrays in arrays",
}
"""The most common losses of each format, for hints."""
_CAUSE: Final = re.compile(r"Caused by: (.*)")
_NO_XML: Final = re.compile(r"(?:wstx|xml\.stream)\.\S+: (.*)")


def hashed(df: DataFrame) -> tuple[DataFrame, str]:
    """Return the rows with a hash of each in a column that the caller drops, and its name."""
    name = f"holdfast_{uuid4().hex}"
    return df.withColumn(name, _hash(df.schema)), name


def digest(name: str) -> list[Column]:
    """Return aggregates of the hashes that differ if the rows do, independent of their order."""
    from pyspark.sql import functions as f

    # In halves, whose sums do not overflow.
    low = f.sum(f.shiftright(f.shiftleft(name, 32), 32))
    high = f.sum(f.shiftright(name, 32))
    return [f.count(f.lit(1)).alias("rows"), high.alias("high"), low.alias("low")]


def digest_of(df: DataFrame) -> dict[str, Any]:
    """Return the digest of all rows."""
    rows, name = hashed(df)
    [row] = rows.agg(*digest(name)).collect()
    return row.asDict()


def _hash(fields: Iterable[StructField]) -> Column:
    from pyspark.sql import functions as f

    values = ", ".join(_hashed(quoted(field.name), field.dataType) for field in fields)
    return f.expr(f"xxhash64({values})")


def _hashed(sql: str, spark_type: DataType) -> str:
    """Return SQL for the hash input of a value: Spark's hash skips nulls, at any depth."""
    from pyspark.sql import types as t

    if isinstance(spark_type, t.NumericType | t.DateType | t.TimestampType | t.BooleanType):
        return f"{sql}, {sql} IS NULL"
    return text_of(sql, spark_type)


def check(
    df: DataFrame, written: Mapping[str, Any], how: saved_format.Saved, directory: str, path: str
) -> None:
    """Raise InvalidInput unless a directory, read the way it was saved, holds the rows of `df`, of
    which `written` is the digest."""
    from py4j.protocol import Py4JJavaError  # type: ignore[import-untyped]
    from pyspark.errors import PySparkException
    from pyspark.sql import functions as f

    kind, failed, hint = how.format.upper(), f"nothing was saved below {path}", _hint(how.format)
    schema = saved_format.schema_of([how], df.sparkSession, path)
    try:
        found = read(df.sparkSession, how.format, how.options, schema, how.partitions, directory)
        read_again = digest_of(found)
    except (PySparkException, Py4JJavaError) as error:
        raise InvalidInput(
            f"Spark cannot read these rows back from {kind}: {_reason(error)}; {failed}", hint=hint
        ) from error
    if read_again == written:
        return
    if read_again["rows"] != written["rows"]:
        raise InvalidInput(
            f"Spark reads back {read_again['rows']:,} of {written['rows']:,} rows from {kind}; "
            f"{failed}",
            hint=hint,
        )
    names = [quoted(field.name) for field in schema]
    each = [f.sum(f.shiftright(_hash([field]), 32)) for field in schema]
    sums = zip(names, *(rows.agg(*each).collect()[0] for rows in (df, found)), strict=True)
    differing = [name for name, before, after in sums if before != after]
    raise InvalidInput(
        f"{', '.join(differing) or 'a row'} has a value that {kind} cannot represent; {failed}",
        hint=hint,
    )


@contextmanager
def writing(format: str, path: str) -> Iterator[None]:
    """Raise InvalidInput for rows that the XML writer itself refuses."""
    from py4j.protocol import Py4JJavaError
    from pyspark.errors import PySparkException

    try:
        yield
    except (PySparkException, Py4JJavaError) as error:
        if format != "xml" or not (found := _NO_XML.search(str(error))):
            raise
        raise InvalidInput(
            f"XML cannot represent these rows: {found[1]}; nothing was saved below {path}",
            hint=_hint(format),
        ) from error


def read(
    spark: SparkSession,
    format: str,
    options: Mapping[str, str],
    schema: StructType,
    in_names: Collection[str],
    path: str,
    more: Collection[str] = (),
) -> DataFrame:
    """Read files with the columns of a schema, some of them `in_names` of directories, and with
    `more` columns that exist only in names of directories."""
    from pyspark.sql.types import StructType, TimestampType

    times = {name for name in in_names if isinstance(schema[name].dataType, TimestampType)}
    fields = StructType()
    for field in schema:
        fields = fields.add(field.name, "string") if field.name in times else fields.add(field)
    for name in more:
        fields = fields.add(name, "string")
    rows = (
        spark.read.format(format).options(**saved_format.in_utc(options)).schema(fields).load(path)
    )
    columns = (_from_utc(name) if name in times else quoted(name) for name in schema.names)
    return rows.select(*columns, *more)


def _from_utc(name: str) -> Column:
    """Return a time column from its text in the names of directories, in UTC."""
    from pyspark.sql import functions as f

    return f.concat(f.col(quoted(name)), f.lit("Z")).cast("timestamp").alias(name)


def _hint(format: str) -> str:
    return f'use format="parquet", other options=, or replace what is lost: {_LOSES[format]}'


def _reason(error: Exception) -> str:
    """Return Spark's message, shortened."""
    said = str(error)
    causes: list[str] = _CAUSE.findall(said)
    return (causes[-1] if causes else said.strip().partition("\n")[0])[:300]
