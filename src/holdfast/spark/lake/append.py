"""The exactly-once append: a commit carries the identity of its write, and every attempt looks for
it first."""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, Final, NamedTuple
from uuid import uuid4

from holdfast.errors import InvalidInput, TableChanged
from holdfast.portable.backoff import Backoff
from holdfast.spark.error_translation import has_raised
from holdfast.spark.lake.files import Written, discard, write_rows
from holdfast.spark.lake.schema import check_creatable, fit_of, fitted, null_in
from holdfast.spark.lake.table import (
    CommitConflict,
    DataFile,
    Found,
    Identity,
    LakeTable,
    OpenTable,
    Stamp,
    UnknownOutcome,
)

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

DATA: Final = "data-holdfast"
"""The directory of a table in which attempts write."""
_TRIES: Final = 20
_UNKNOWN: Final = 3
"""Number of commits without a known outcome: the library repeats its requests itself."""

log = logging.getLogger("holdfast")


class Append(NamedTuple):
    """An attempt at a write that has the same identity in every attempt."""

    identity: Identity
    name: str
    """The name of the directory of all its attempts."""
    watermark: Any
    rows: Callable[[], DataFrame]
    """Returns the rows, which are not needed if another attempt has committed them."""
    check_rows: Callable[[int], None]
    """Raises if that is not the number of rows."""
    counted: int
    """The number of the newest write of the sequence that the state knows as succeeded; -1: none.
    """
    begin: Callable[[], Callable[[], None]]
    """Records that the table may have the rows from now on. Returns a function that raises unless
    this is still the newest attempt."""
    reset: str
    """What to do, as a hint, if the commits of the sequence are not those that the state knows."""


class Appended(NamedTuple):
    """A write that the table contains, exactly once."""

    rows: int | None
    """None if another attempt has committed them, and the table's history is gone."""
    version: str
    """The version of the table that has the rows; empty if nothing was committed, or if the
    table's history does not have it any more."""
    is_adopted: bool = False
    """Another attempt has committed the rows."""


def append_once(table: LakeTable, write: Append) -> Appended:
    """Append the rows of a write, unless the table has them.

    Raise TableChanged if the table has other commits of the sequence than the state knows,
    InvalidInput if the rows do not fit the table.
    """
    opened = table.open()
    if opened is not None and (found := _look(table, opened, write)) is not None:
        return found
    df = write.rows()
    looked, opened = opened, _prepared(table, opened, df)
    # A commit conflicts only with those after the version that it is based on.
    if opened is not looked and (found := _look(table, opened, write)) is not None:
        return found
    opened.check_appendable()
    confirm = write.begin()
    place = f"{DATA}/{write.name}/{uuid4().hex}"
    written = _write(table, opened, df, place)
    rows = written.rows
    write.check_rows(rows)
    log.info(
        "%s: wrote %s rows in %s files with %s",
        *(table.name, f"{rows:,}", f"{len(written.files):,}", written.writer),
    )
    if not written.files and not table.replaces:
        return Appended(0, "")
    sequence, number, id = write.identity
    stamp = Stamp(sequence, number, id, rows, place, write.watermark, written.writer)
    return _commit(table, opened, write, confirm, written.files, stamp)


def _commit(
    table: LakeTable,
    opened: OpenTable,
    write: Append,
    confirm: Callable[[], None],
    files: Sequence[DataFile],
    stamp: Stamp,
) -> Appended:
    """Commit files, and look for the commit again after each conflict or unknown outcome."""
    schema, partition_by = opened.schema, opened.partition_by
    backoff, unknown = Backoff(0.05, 2), 0
    for _ in range(_TRIES):
        confirm()
        try:
            return Appended(stamp.rows, opened.append(files, stamp))
        except (CommitConflict, UnknownOutcome) as error:
            log.info("%s: looking again, as %s", table.name, error.message)
            failure = error
            unknown += isinstance(error, UnknownOutcome)
        time.sleep(backoff.pause())
        opened = _reopened(table)
        found = _look(table, opened, write)
        if found is not None:
            return _adopted(opened, write, stamp, found)
        if (opened.schema, opened.partition_by) != (schema, partition_by):
            raise TableChanged(
                f"the columns of {table.name} have changed while rows were written for it; "
                "nothing was committed",
                hint="run this again",
            )
        opened.check_appendable()
        if unknown == _UNKNOWN:
            break
    raise failure


def _adopted(opened: OpenTable, write: Append, stamp: Stamp, found: Appended) -> Appended:
    """Return what was committed: by this attempt after all, or by another one."""
    committed = opened.commit_of(write.identity)
    if committed is None or committed.stamp is None:
        return found  # whose files they are is unknown
    if committed.stamp.place == stamp.place:
        return found._replace(is_adopted=False)
    discard(opened.storage, stamp.place)
    return found


def _look(table: LakeTable, opened: OpenTable, write: Append) -> Appended | None:
    """Return the write if the table has it. Raise TableChanged if the table has writes of the
    sequence that the state does not know, or this one was undone."""
    sequence, number, id = write.identity
    newest = opened.newest(sequence)
    if newest is None:
        return None
    if newest > number:
        raise _unknown(table, write, newest, opened.commit_of(Identity(sequence, newest, "")))
    for other in range(write.counted + 1, min(newest + 1, number)):
        commit = opened.commit_of(Identity(sequence, other, ""))
        if commit is not None and not commit.is_undone:
            raise _unknown(table, write, other, commit)
    if newest < number:
        if newest <= write.counted:
            _check_last(table, opened, write, newest)
        return None
    commit = opened.commit_of(write.identity) or Found("", None)
    if commit.stamp is None:
        log.warning(
            "%s has write %s of %s, but its history does not show the commit: it is taken for that "
            "of an earlier attempt, unverified",
            *(table.name, number, sequence),
        )
        return Appended(None, "", is_adopted=True)
    if commit.stamp.id == id and commit.is_undone:
        raise TableChanged(
            f"{table.name} had the rows of this write in version {commit.version}, and was "
            "restored to an earlier version since",
            hint=f"restore version {commit.version} or a later one; or, to write the rows again, "
            f"{write.reset}",
        )
    if commit.stamp.id == id:
        log.info("%s has these rows, from an earlier attempt: %s", table.name, commit.version)
        return Appended(commit.stamp.rows, commit.version, is_adopted=True)
    if commit.is_undone:
        return None
    raise _unknown(table, write, number, commit)


def _check_last(table: LakeTable, opened: OpenTable, write: Append, number: int) -> None:
    """Raise TableChanged if the last write was undone: the next one would leave a gap."""
    sequence = write.identity.sequence
    last = opened.commit_of(Identity(sequence, number, ""))
    if last is not None and last.is_undone:
        raise TableChanged(
            f"{table.name} had the rows of write {number} of {sequence} in version {last.version}, "
            "and was restored to an earlier version since",
            hint=f"restore version {last.version} or a later one; or rewind the watermark to the "
            f"loads that the table has; or, to go on without those rows, {write.reset}",
        )


def _unknown(table: LakeTable, write: Append, number: int, commit: Found | None) -> TableChanged:
    where = f"in version {commit.version}" if commit and commit.version else "in an expired version"
    return TableChanged(
        f"{table.name} has rows of write {number} of {write.identity.sequence}, {where}, which the "
        "state does not know as succeeded: it was rewound or restored, the write was given up, or "
        "another store has the same sequence",
        hint=f"restore the table to the version before it; or, if its rows are gone, {write.reset}",
    )


def _prepared(table: LakeTable, opened: OpenTable | None, df: DataFrame) -> OpenTable:
    """Return the table with the columns of the rows, created or changed if that is asked for."""
    schema = df.schema
    if opened is None:
        if not table.creates:
            raise InvalidInput(
                f"{table.name} does not exist", hint="create=True creates it with the first rows"
            )
        check_creatable(schema, table.name)
        opened = table.create(schema, table.partition_by or ())
    if table.partition_by not in (None, opened.partition_by):
        raise InvalidInput(
            f"{table.name} is partitioned by {_shown(opened)}, not as partition_by= says",
            hint="remove partition_by=, which is for a new table",
        )
    added = fit_of(schema, opened.schema, table.name, evolves=table.evolves).added
    for _ in range(_TRIES):
        if not added:
            return opened
        opened.check_appendable()
        try:
            opened.add_columns(_with_fields(added))
        except (CommitConflict, UnknownOutcome) as error:
            log.info("%s: looking again, as %s", table.name, error.message)
        opened = _reopened(table)
        added = fit_of(schema, opened.schema, table.name, evolves=table.evolves).added
    raise TableChanged(f"the columns of {table.name} change all the time", hint="run this again")


def _with_fields(fields: Any) -> Any:
    from pyspark.sql.types import StructType

    from holdfast.spark.lake.schema import nullable

    return nullable(StructType(list(fields)))


def _write(table: LakeTable, opened: OpenTable, df: DataFrame, place: str) -> Written:
    fit = fit_of(df.schema, opened.schema, table.name, evolves=False)
    rows = fitted(df, fit, opened.schema)
    try:
        return write_rows(rows, opened, place)
    except Exception as error:
        for field in opened.schema:
            if has_raised(error, failure := null_in(field.name)):
                raise InvalidInput(
                    f"{failure}: {table.name} is unchanged",
                    hint=f"leave such rows out, or replace the null: coalesce({field.name}, …)",
                ) from error
        raise


def _reopened(table: LakeTable) -> OpenTable:
    opened = table.open()
    if opened is None:
        raise TableChanged(
            f"{table.name} was removed while rows were written for it", hint="run this again"
        )
    return opened


def _shown(opened: OpenTable) -> str:
    return ", ".join(f"`{column.name}`" for column in opened.partition_by) or "nothing"
