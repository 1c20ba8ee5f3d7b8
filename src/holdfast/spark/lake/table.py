"""The interface of Delta and Iceberg tables to appends and incremental reads.

A commit of a table carries the identity of the write that made it, as a *stamp*. Each table format
keeps the newest number of a sequence of writes apart from its history, which may be expired: Delta
as an application transaction, Iceberg as a table property that is set in the same commit.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

import msgspec

from holdfast.errors import Conflict

if TYPE_CHECKING:
    from pyspark.sql.types import StructType


class Identity(NamedTuple):
    """The identity of a write: the same for every attempt at it."""

    sequence: str
    """The sequence of writes that it belongs to, such as the loads of an asset's watermark."""
    number: int
    """Its number in the sequence, higher than those of all earlier writes."""
    id: str
    """A random id, by which a write of another store with the same number is told apart."""


class Stamp(msgspec.Struct, frozen=True, omit_defaults=True):
    """What a commit records about the write that made it, as JSON."""

    sequence: str
    number: int
    id: str
    rows: int
    place: str
    """The directory of its files, relative to the table, named by write and attempt."""
    watermark: Any = None
    """The value of the watermark's entry once the write has succeeded."""
    writer: str = ""

    @property
    def identity(self) -> Identity:
        return Identity(self.sequence, self.number, self.id)


class Found(NamedTuple):
    """The commit of a write."""

    version: str
    """The table's version or snapshot; empty if history no longer has it."""
    stamp: Stamp | None
    """None if history no longer has the commit."""
    is_undone: bool = False
    """Its rows were taken back, as by a restore or a rollback of the table."""


class DataFile(NamedTuple):
    """A Parquet file that an executor has written, and that no commit names yet."""

    path: str
    """Relative to the table's location, with slashes, in characters that no URL escapes."""
    size: int
    partition: tuple[str | None, ...]
    """The value of each partition column, as `partition_text` of `holdfast.portable.lake`."""
    footer: bytes
    """The file's Parquet footer, from which statistics are computed without reading the file."""


class PartitionColumn(NamedTuple):
    """A column by which a table is partitioned."""

    name: str
    transform: str = "identity"


class CommitConflict(Conflict):
    """The commit was not made, because of another commit since the table was opened."""


class UnknownOutcome(Conflict):
    """The commit may have been made: the response was lost. Open the table again and look."""


class Storage(NamedTuple):
    """Where the files of a table are, for executors."""

    location: str
    """The URL or the absolute local path of the table's directory."""
    options: dict[str, str]
    """Configuration of the object store, in obstore's names; empty for local files."""


class LakeTable(ABC):
    """A table in a lake, which may not exist yet. It is pickled to other processes."""

    creates: bool
    """Whether the first append creates the table."""
    partition_by: tuple[PartitionColumn, ...] | None
    """The partitioning of a new table; None: not given."""
    evolves: bool
    """Whether new columns of the rows are added to the table."""
    replaces: bool = False
    """Whether the rows replace those of a partition, also where there are none."""

    @property
    @abstractmethod
    def name(self) -> str:
        """The table in messages: ``the Delta table s3://lake/orders``."""

    @abstractmethod
    def open(self) -> OpenTable | None:
        """Return the table at its newest version; None if there is no table.

        Raise InvalidInput if there is something else, MissingDependency without the library.
        """

    @abstractmethod
    def create(self, schema: StructType, partition_by: Sequence[PartitionColumn]) -> OpenTable:
        """Create the table, or open the one that another process has created meanwhile."""


class OpenTable(ABC):
    """One version of a table. It does not change when others commit."""

    version: str
    storage: Storage
    schema: StructType
    """The columns, in Spark's types."""
    partition_by: tuple[PartitionColumn, ...]
    keeps_partition_columns: bool
    """Whether the files contain the partition columns."""

    @abstractmethod
    def check_appendable(self) -> None:
        """Raise NotSupported if the table has a feature that appended files would violate."""

    @abstractmethod
    def newest(self, sequence: str) -> int | None:
        """Return the highest number of a sequence that any commit up to this version has."""

    @abstractmethod
    def commit_of(self, identity: Identity) -> Found | None:
        """Return the newest commit with the sequence and number of a write, also if its id is
        another; None if history shows that there is none."""

    @abstractmethod
    def append(self, files: Sequence[DataFile], stamp: Stamp) -> str:
        """Commit new files and the stamp, provided that `newest(stamp.sequence)` is unchanged;
        return the new version.

        Commits of others that only append are no conflict. Raise CommitConflict if nothing was
        committed, UnknownOutcome if that is not known; nothing is tried again blindly.
        """

    @abstractmethod
    def add_columns(self, columns: StructType) -> None:
        """Add nullable columns to the table, if they are not there yet."""
