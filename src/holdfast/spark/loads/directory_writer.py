"""Output of a load: writing its rows into files."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from holdfast.errors import InvalidInput, InvalidType
from holdfast.spark.checkpoints.edition import TRY
from holdfast.spark.error_translation import has_raised
from holdfast.spark.loads import readback, saved_format
from holdfast.spark.loads.column_lookup import Columns, quoted
from holdfast.spark.loads.observation import observed
from holdfast.spark.loads.text_formats import TextFormat
from holdfast.spark.paths import absolute, check_path, renames, without_links
from holdfast.spark.publication import foreign, is_there, owner_of, publish

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame

_LOST: Final = r"\x00|\._COPYING_\z"
"""Parts of a directory's name that Spark cannot write, or does not read."""
_LOST_IN_NAMES: Final = (
    "empty text, NUL, __HIVE_DEFAULT_PARTITION__, invalid UTF-8 and text that ends in ._COPYING_ "
    "cannot be in a directory's name: replace them, or remove the column from partition_by="
)
_NO_FORMAT: Final = ("DATA_SOURCE_NOT_FOUND", "AVRO_DATA_SOURCE_NOT_ENABLED")
_NO_FILE_SYSTEM: Final = re.compile(
    r"No FileSystem for scheme \S+|Class org\.apache\.hadoop\.fs\.\S+ not found"
)


class Writing(NamedTuple):
    """One try at writing rows."""

    load: str
    """The identity of the load: no other load may replace its output."""
    tried: str
    """The name of the try, for a directory that no other attempt writes."""
    confirm: Callable[[], None]
    """Raises unless this is still the newest try."""

    @property
    def edition(self) -> str:
        """The identity of the output: a later one of the load replaces an earlier one."""
        return f"{self.load} {self.tried}"


class Output(NamedTuple):
    """The path, format, partitions and options with which rows are written."""

    path: str
    format: str
    partition_by: str | Sequence[str] | None
    options: Mapping[str, str]

    def publish(
        self, df: DataFrame, name: str, writing: Writing, manifest: Mapping[str, Any]
    ) -> tuple[str, str | None]:
        """Write `df` so that it appears as a whole, once; return the directory, and the try that
        counts.

        If directories can be renamed, the newest try replaces others. Otherwise each try has a
        directory of its own, and the store records which one counts. Raise InvalidInput if the
        directory is not of this load.
        """
        from pyspark.errors import AnalysisException

        directory = f"{absolute(df.sparkSession, self.path).rstrip('/')}/{name}"

        def write(to: str) -> None:
            writing.confirm()
            self._write(df, to)

        if renames(df.sparkSession, directory):
            if is_there(directory) and owner_of(directory) != writing.load:
                raise foreign(directory)
            edition = writing.edition
            publish(write, directory, edition=edition, manifest=manifest, owner=writing.load)
            return without_links(directory), None
        try:
            write(f"{directory}/{TRY}={writing.tried}")
        except AnalysisException as error:
            if error.getCondition() == "PATH_ALREADY_EXISTS":
                raise foreign(directory) from error
            raise
        return directory, writing.tried

    def check(self, df: DataFrame) -> None:
        """Raise InvalidInput or InvalidType if the rows cannot be written this way."""
        from pyspark.sql.types import BinaryType

        check_path("the path", self.path)
        if not isinstance(self.format, str) or not self.format:
            raise InvalidType(f"format is {self.format!r}", hint='format="parquet", "orc", …')
        if not isinstance(self.options, Mapping):
            raise InvalidType(f"options is {self.options!r}", hint='options={"header": "true"}')
        for name in self._partitions(df):
            if isinstance(df.schema[name].dataType, BinaryType):
                raise InvalidInput(
                    f"partition_by is `{name}`, which is binary and cannot be in a directory's "
                    "name",
                    hint=f'convert it to text before the load: withColumn("{name}", hex("{name}"))',
                )
            if name.startswith("."):
                raise InvalidInput(
                    f"partition_by is `{name}`, but Spark does not read directories whose names "
                    "begin with a dot",
                    hint=f'rename it before the load: withColumnRenamed("{name}", "…")',
                )
        for name in df.columns:
            if name.lower() in ("load", TRY):
                raise InvalidInput(
                    f"the column `{name}` has the same name as a directory of the loads",
                    hint=f'rename it before the load: withColumnRenamed("{name}", "…")',
                )

    def saves(self, df: DataFrame) -> saved_format.Saved:
        """Return the description of the files of these rows for readers."""
        options = self._text.for_reader() if self._text else {}
        return saved_format.saved_as(df.schema, self.format, self._partitions(df), options)

    @property
    def _text(self) -> TextFormat | None:
        """The format, if it is a text format."""
        kind = self.format.lower()
        return TextFormat.of(kind, self.options) if kind in saved_format.TEXTS else None

    def _partitions(self, df: DataFrame) -> list[str]:
        """Return the names of the columns as the rows have them, so that readers find them."""
        names: Any = self.partition_by
        names = [names] if isinstance(names, str) else () if names is None else names
        if not isinstance(names, list | tuple):
            raise InvalidType(f"partition_by is {names!r}", hint='partition_by=["day", "country"]')
        found = [Columns.of(df).find(name, "partition_by") for name in names]
        for column in found:
            if len(column.path) > 1:
                raise InvalidInput(
                    f"partition_by is `{column.name}`, a field of a struct",
                    hint=f'make it a column before the load: withColumn("…", "{column.name}")',
                )
        if (found and len(found) >= len(df.columns)) or len(set(found)) < len(found):
            raise InvalidInput(
                f"partition_by is {', '.join(names)}, and the columns are {', '.join(df.columns)}",
                hint="name each column once, and leave at least one for the files",
            )
        return [column.name for column in found]

    def _write(self, df: DataFrame, directory: str) -> None:
        from pyspark.sql.types import StringType, TimestampType

        names = self._partitions(df)
        texts = [name for name in names if isinstance(df.schema[name].dataType, StringType)]
        times = [name for name in names if isinstance(df.schema[name].dataType, TimestampType)]
        columns = {name: _as_directory(name) for name in texts} | {
            name: _in_utc(name) for name in times
        }
        options = saved_format.in_utc(self._text.for_writer() if self._text else self.options)

        def write(rows: DataFrame) -> None:
            rows = rows.withColumns(columns) if columns else rows
            writer = rows.write.format(self.format).options(**options)
            with name_mistakes(self.path, self.format, map(_unkept, texts)):
                writer.partitionBy(*names).mode("error").save(directory)

        if self.format.lower() not in readback.FORMATS:
            write(df)
            return
        rows, name = readback.hashed(df)
        with (
            observed(rows, *readback.digest(name)) as handed,
            readback.writing(self.format.lower(), self.path),
        ):
            write(handed.df.drop(name))
        # Spark reports nothing if the result does not depend on the rows, as when there are none.
        written = handed.seen[0] if handed.seen else readback.digest_of(df)
        readback.check(df, written, self.saves(df), directory, self.path)


@contextmanager
def name_mistakes(path: str, format: str, refused: Iterable[str] = ()) -> Iterator[None]:
    """Raise InvalidInput for an error of Spark about such a path or format, and for values in the
    names of directories that are refused with these messages."""
    from py4j.protocol import Py4JJavaError  # type: ignore[import-untyped]
    from pyspark.errors import PySparkException

    try:
        yield
    except (PySparkException, Py4JJavaError) as error:
        text = str(error)
        if any(condition in text for condition in _NO_FORMAT):
            raise InvalidInput(
                f"Spark does not know the format `{format}` here",
                hint="parquet, orc, json and csv are built in; others need a jar (spark.jars)",
            ) from error
        if found := _NO_FILE_SYSTEM.search(text):
            raise InvalidInput(
                f"Spark has no file system for {path} here: {found[0]}",
                hint="check the scheme; s3a://, gs:// and abfss:// need a jar (spark.jars)",
            ) from error
        for message in refused:
            if has_raised(error, message):
                raise InvalidInput(message, hint=_LOST_IN_NAMES) from error
        raise


def _as_directory(name: str) -> Column:
    """Return a text column that raises for values that Spark loses in a directory's name."""
    from pyspark.sql import functions as f

    value = f.col(quoted(name))
    is_lost = value.isin("", "__HIVE_DEFAULT_PARTITION__") | value.rlike(_LOST)
    is_lost |= ~f.is_valid_utf8(value)
    return f.when(is_lost, f.raise_error(f.lit(_unkept(name)))).otherwise(value)


def _in_utc(name: str) -> Column:
    """Return the text of a time column in UTC, whatever the time zones of session and files."""
    from pyspark.sql import functions as f

    epoch, since = "TIMESTAMP_NTZ'1970-01-01 00:00:00'", f"unix_micros({quoted(name)})"
    return f.expr(f"CAST({epoch} + {since} * INTERVAL '0.000001' SECOND AS STRING)")


def _unkept(name: str) -> str:
    return f"`{name}` in partition_by has a value that cannot be in a directory's name"
