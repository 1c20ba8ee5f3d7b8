"""Changes of a lake table: what was appended between two of its versions."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from holdfast.errors import TableChanged
from holdfast.spark.lake.table import Storage

if TYPE_CHECKING:
    from pyspark.sql.types import StructField, StructType

FIELD_ID: Final = "parquet.field.id"
"""The name of a column's id in the metadata of Spark's schemas."""
NAMES: Final = "holdfast.names"
"""The name of the list of names that a column has or had in files without ids."""


class Position(NamedTuple):
    """A version of a table, with what it takes to notice that history before it has changed."""

    version: int
    """The version of a Delta table, the snapshot's id of an Iceberg table."""
    table: str = ""
    """The id that a table gets when it is created; empty: not known, as in a watermark that was set
    by hand."""
    commit: str = ""
    """The digest of a Delta table's commit; empty: not known."""
    sequence: int = 0
    """The sequence number of an Iceberg snapshot; 0: not known."""


class TableFile(NamedTuple):
    """A Parquet file that a version of a table has."""

    path: str
    """Relative to the table's location, or absolute; without escapes of a URL."""
    size: int
    rows: int | None
    """None if the table's metadata do not say it."""
    values: Mapping[str, str | None] = {}
    """The values of partition columns, named as in the file, as `partition_text` writes them. They
    count instead of those in the file."""


class Step(NamedTuple):
    """A commit that changed no row that was there before."""

    to: Position
    appended: Sequence[TableFile]
    rewritten: frozenset[str] = frozenset()
    """Paths of files whose rows are in others now. They may be deleted at any time."""


class Layout(NamedTuple):
    """How the rows of a table are in its files."""

    schema: StructType
    """The columns of the table, in Spark's types."""
    stored: StructType
    """The same columns as they are in the files: by other names, or with field ids."""


class History(ABC):
    """The versions of a table up to the newest one at the time when it was opened."""

    kind: str
    """The name of the table's format."""
    name: str
    """The table in messages: ``the Delta table s3://lake/orders``."""
    storage: Storage

    @abstractmethod
    def newest(self) -> Position | None:
        """Return the newest version; None if the table has none yet."""

    @abstractmethod
    def find(self, version: int) -> Position:
        """Return a version. Raise InvalidInput if the table does not have it, or no longer."""

    @abstractmethod
    def check(self, position: Position) -> None:
        """Raise TableChanged if it was not a version of this table, or is not in its past now."""

    @abstractmethod
    def includes(self, one: Position, other: Position) -> bool:
        """Return whether the other version is the same one or an earlier one."""

    @abstractmethod
    def steps(self, after: Position, to: Position) -> Iterator[Step]:
        """Yield the commits between two versions, the oldest first.

        Raise TableChanged at a commit that changed or removed rows, and for commits that history no
        longer has.
        """

    @abstractmethod
    def files(self, at: Position) -> Sequence[TableFile]:
        """Return all files of a version. Raise TableChanged if history no longer has it."""

    @abstractmethod
    def layout(self, at: Position | None) -> Layout:
        """Return the schema of a version; None: of the table. Raise NotSupported if it has a type
        that Spark does not have."""

    @abstractmethod
    def absent(self, paths: Sequence[str]) -> list[str]:
        """Return those of the files that do not exist any more."""


class Appended(NamedTuple):
    """The files that were appended up to a version."""

    to: Position
    files: Sequence[TableFile]

    @property
    def rows(self) -> int | None:
        """The number of their rows; None if it is not known."""
        return rows_of(self.files)


def appended(
    history: History, after: Position, to: Position, *, max_rows: int | None = None
) -> Appended:
    """Return what was appended between two versions; with `max_rows`, up to the first version at
    which it is at least that many rows, or an unknown number.

    Raise TableChanged if anything else than appends and rewrites of the same rows happened, or if
    that is not known any more.
    """
    history.check(after)
    found: list[TableFile] = []
    rewritten: set[str] = set()
    reached = after
    for step in history.steps(after, to):
        found += step.appended
        rewritten |= step.rewritten
        reached = step.to
        if max_rows is not None and not _is_less(found, max_rows):
            break
    if gone := history.absent([file.path for file in found if file.path in rewritten]):
        raise TableChanged(
            f"{len(gone):,} files that were appended to {history.name} after version "
            f"{after.version} were compacted and then deleted, such as {gone[0]}",
            hint='on_change="reload" reads the whole table again; load more often than a vacuum '
            "deletes files",
        )
    return Appended(reached, found)


def rows_of(files: Sequence[TableFile]) -> int | None:
    """Return the number of rows in files; None if it is not known."""
    counts = [file.rows for file in files]
    known = [count for count in counts if count is not None]
    return sum(known) if len(known) == len(counts) else None


def _is_less(files: Sequence[TableFile], rows: int) -> bool:
    count = rows_of(files)
    return count is not None and count < rows


def plain(field: StructField) -> tuple[str, dict[str, Any]]:
    """Return a field's name, and no metadata."""
    return field.name, {}


def with_fields(
    kind: Any, change: Callable[[StructField], tuple[str, dict[str, Any]]] = plain
) -> Any:
    """Return a type of Spark in which all fields have the names and the metadata that `change`
    returns."""
    from pyspark.sql.types import ArrayType, MapType, StructField, StructType

    match kind:
        case StructType():
            fields = []
            for field in kind.fields:
                name, metadata = change(field)
                inner = with_fields(field.dataType, change)
                fields.append(StructField(name, inner, field.nullable, metadata))
            return StructType(fields)
        case ArrayType():
            return ArrayType(with_fields(kind.elementType, change), kind.containsNull)
        case MapType():
            key, value = (with_fields(one, change) for one in (kind.keyType, kind.valueType))
            return MapType(key, value, kind.valueContainsNull)
    return kind
