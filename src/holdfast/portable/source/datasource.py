"""The data source class that Spark registers as `holdfast`."""

from __future__ import annotations

from collections.abc import Collection, Iterable
from typing import ClassVar, Final

from pyspark.sql.datasource import DataSource, DataSourceArrowWriter, DataSourceReader
from pyspark.sql.types import StructType

from holdfast.errors import InvalidInput
from holdfast.portable.report_tables import check_table
from holdfast.portable.source.error_display import plainly
from holdfast.portable.source.location import Location, locate
from holdfast.portable.source.reading import make_reader
from holdfast.portable.source.schema import check_schema, field_of, full_schema
from holdfast.portable.source.writing import make_writer

WRITING: Final = ("table", "url", "token")
READING: Final = (*WRITING, "where", "columns", "partitions")
"""The options for writing, and for reading."""


class HoldfastSource(DataSource):
    """`spark.read.format("holdfast").option("table", …)`, and the same with `df.write`."""

    default: ClassVar[Location | None] = None
    """The store to use unless the options name one. None: the one configured where Spark plans."""
    reading: ClassVar[tuple[str, ...]] = READING

    @classmethod
    def name(cls) -> str:
        return "holdfast"

    @plainly()
    def schema(self) -> StructType:
        check_options(self.options, self.reading, "reading")
        table = check_table(self.options.get("table"))
        columns = self.options.get("columns")
        if columns is None:
            return full_schema(table)
        return StructType([field_of(table, name.strip()) for name in columns.split(",")])

    @plainly()
    def reader(self, schema: StructType) -> DataSourceReader:
        check_options(self.options, self.reading, "reading")
        table = check_table(self.options.get("table"))
        check_schema(table, schema)
        return make_reader(locate(self.options, self.default), table, schema, self.options)

    @plainly()
    def writer(self, schema: StructType, overwrite: bool) -> DataSourceArrowWriter:
        check_options(self.options, WRITING, "writing")
        table = check_table(self.options.get("table"))
        location = locate(self.options, self.default)
        return make_writer(location, table, schema, overwrite)


def check_options(given: Iterable[str], known: Collection[str], doing: str) -> None:
    """Raise InvalidInput unless all the options are known. Spark adds options of its own only for a
    table in its catalog."""
    unknown = sorted(set(given) - set(known))
    if "provider" in unknown:
        raise InvalidInput(
            "Spark's catalog cannot hold a Holdfast table, because it loses the options",
            hint="CREATE TEMPORARY VIEW runs USING holdfast OPTIONS (table 'runs')",
        )
    if unknown:
        named = ", ".join(f"`{name}`" for name in unknown)
        raise InvalidInput(
            f"there is no option {named} for {doing}", hint=f"known options: {', '.join(known)}"
        )
