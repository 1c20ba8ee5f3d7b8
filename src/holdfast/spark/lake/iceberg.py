"""Iceberg tables, by the name of a catalog and an identifier."""

from __future__ import annotations

import os
import re
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, Final

from holdfast.errors import InvalidInput, InvalidType, MissingDependency
from holdfast.spark.lake.table import LakeTable, PartitionColumn

if TYPE_CHECKING:
    from pyiceberg.catalog import Catalog
    from pyspark.sql.types import StructType

    from holdfast.spark.lake.iceberg_commit import OpenIcebergTable

_TRANSFORM: Final = re.compile(r"(\w+)\(\s*(?:(\d+)\s*,\s*)?([^()]+?)\s*\)")
_SINGULAR: Final = {"years": "year", "months": "month", "days": "day", "hours": "hour"}


def iceberg(
    identifier: str,
    *,
    catalog: str | Mapping[str, str],
    create: bool = False,
    partition_by: str | Sequence[str] | None = None,
    evolve: bool = False,
) -> IcebergTable:
    """Return an Iceberg table, `namespace.name`, as a target of appends and a source of loads.

    `catalog` is the name of a catalog in PyIceberg's configuration, or its properties. With
    `create`, the first append creates the table, partitioned by columns (`"country"`) or by what is
    computed from them (`"day(ordered_at)"`). With `evolve`, it adds the columns that the table does
    not have. Raise InvalidInput or InvalidType for arguments that no table can have.
    """
    return IcebergTable(identifier, catalog, create, partition_by, evolve)


class IcebergTable(LakeTable):
    """An Iceberg table, which may not exist yet."""

    def __init__(
        self,
        identifier: str,
        catalog: str | Mapping[str, str],
        create: bool = False,
        partition_by: str | Sequence[str] | None = None,
        evolve: bool = False,
    ) -> None:
        self.identifier = _checked(identifier)
        self.creates = create
        self.evolves = evolve
        self.partition_by = None if partition_by is None else _columns(partition_by)
        if isinstance(catalog, str) and catalog.strip():
            self._catalog_name, self._properties = catalog, None
        elif isinstance(catalog, Mapping) and catalog:
            self._properties = {str(key): str(value) for key, value in catalog.items()}
            self._catalog_name = self._properties.get("name", "default")
        else:
            raise InvalidType(
                f"catalog is {type(catalog).__name__} {catalog!r}"[:100],
                hint='give the name of a catalog, catalog="prod", or its properties, '
                'catalog={"type": "rest", "uri": "https://…"}',
            )
        self._loaded: tuple[int, Catalog] | None = None

    def __getstate__(self) -> dict[str, Any]:
        return {**self.__dict__, "_loaded": None}

    @property
    def name(self) -> str:
        return f"the Iceberg table {self.identifier} of the catalog `{self._catalog_name}`"

    def catalog(self) -> Catalog:
        """Return the catalog, which this process opens once.

        Raise MissingDependency without PyIceberg, InvalidInput for an unknown catalog,
        StoreUnavailable if it does not answer.
        """
        if self._loaded is None or self._loaded[0] != os.getpid():
            try:
                from holdfast.spark.lake.iceberg_catalog import open_catalog
            except ModuleNotFoundError as error:
                raise MissingDependency(
                    f"{self.name} needs the package {error.name}, which is not installed",
                    hint='pip install "holdfast-state[iceberg]"',
                ) from None
            self._loaded = os.getpid(), open_catalog(self._catalog_name, self._properties)
        return self._loaded[1]

    def open(self) -> OpenIcebergTable | None:
        catalog = self.catalog()
        from holdfast.spark.lake.iceberg_catalog import load_table
        from holdfast.spark.lake.iceberg_commit import OpenIcebergTable

        table = load_table(catalog, self.identifier, self.name)
        return None if table is None else OpenIcebergTable(table, self.name)

    def create(
        self, schema: StructType, partition_by: Sequence[PartitionColumn]
    ) -> OpenIcebergTable:
        catalog = self.catalog()
        from holdfast.spark.lake.iceberg_catalog import create_table
        from holdfast.spark.lake.iceberg_commit import OpenIcebergTable
        from holdfast.spark.lake.iceberg_types import iceberg_schema, partition_spec
        from holdfast.spark.lake.schema import nullable

        converted = iceberg_schema(nullable(schema))
        spec = partition_spec(converted, partition_by)
        table = create_table(catalog, self.identifier, converted, spec, self.name)
        return OpenIcebergTable(table, self.name)


def _checked(identifier: Any) -> str:
    if not isinstance(identifier, str):
        raise InvalidType(
            f"the identifier of an Iceberg table is {identifier!r}", hint='iceberg("sales.orders")'
        )
    parts = identifier.split(".")
    if len(parts) < 2 or not all(part.strip() == part != "" for part in parts):
        raise InvalidInput(
            f"the identifier of an Iceberg table is {identifier!r}, without a namespace and a name",
            hint='give both, with a dot between them: iceberg("sales.orders")',
        )
    return identifier


def _columns(partition_by: str | Sequence[str]) -> tuple[PartitionColumn, ...]:
    given = [partition_by] if isinstance(partition_by, str) else partition_by
    if not isinstance(given, Sequence):
        raise InvalidType(f"partition_by is {given!r}", hint='partition_by=["country", "day"]')
    return tuple(map(_column, given))


def _column(text: Any) -> PartitionColumn:
    if not isinstance(text, str) or not text.strip():
        raise InvalidType(f"partition_by has {text!r}", hint='partition_by=["country", "day"]')
    found = _TRANSFORM.fullmatch(text.strip())
    if found is None:
        return PartitionColumn(text)
    name, width, column = found.groups()
    transform = _SINGULAR.get(name.lower(), name.lower())
    return PartitionColumn(column, transform if width is None else f"{transform}[{width}]")
