"""Bulk-loading entries: executors stage them in the store, and the driver commits them.

A bad row does not fail the Spark task, which would be retried in vain: it is reported to the
driver, which fails the write.
"""

from __future__ import annotations

import getpass
from collections.abc import Iterable, Iterator
from contextlib import closing
from datetime import UTC, datetime, timedelta
from typing import Any, NamedTuple
from uuid import uuid4

import pyarrow as pa
from pyspark import TaskContext
from pyspark.sql.datasource import DataSourceArrowWriter, WriterCommitMessage
from pyspark.sql.types import StructType

from holdfast.errors import HoldfastError, InvalidInput
from holdfast.portable.retention import expires_at
from holdfast.portable.source.columns import Columns, Entry, Owner, columns_of
from holdfast.portable.source.error_display import plainly
from holdfast.portable.source.location import Location, configured, installed_here
from holdfast.portable.source.served import Served

MOST_ENTRIES = 20_000
MOST_CHARACTERS = 2**20
"""Maximum size of one request: small enough for any server, and large enough to be fast."""
LONGEST_ANSWER = 3600.0
"""Seconds that a server may take to process a whole load."""


class BulkLoad(NamedTuple):
    """One write of a DataFrame."""

    name: str
    location: Location
    columns: Columns
    writer: dict[str, str]
    """As in the wire format. A server replaces it with the bearer of the token."""
    expires_at: str | None
    """Expiry of entries that do not have their own."""
    max_value_bytes: int
    as_kept: bool
    """Whether values are in a store's own form, as they were read from one."""

    def ask(self, command: str, **fields: Any) -> Any:
        """Execute a command of this load in the store."""
        with closing(self._store(LONGEST_ANSWER)) as store:
            return self._asked(store, command, **fields)

    def add(self, part: int, batches: Iterable[pa.RecordBatch]) -> int:
        """Send rows to the store, and return how many there were."""
        count = 0
        with closing(self._store()) as store:
            for lots, size in self._lots(batches):
                rules = {"max_value_bytes": self.max_value_bytes, "as_kept": self.as_kept}
                self._asked(store, "AddToLoad", part=part, first=count, lots=lots, **rules)
                count += size
        return count

    def _lots(self, batches: Iterable[pa.RecordBatch]) -> Iterator[tuple[list[Any], int]]:
        """Yield entries grouped by scope, as many as are sent at once, with their number."""
        lots: dict[Owner, list[Entry]] = {}
        count = characters = 0
        for batch in batches:
            for owner, entry in self.columns.rows(batch, self.expires_at):
                lot = lots.get(owner)
                if lot is None:
                    lot = lots[owner] = []
                    characters += len("".join(map(str, owner)))
                lot.append(entry)
                count += 1
                characters += len(entry[0]) + len(entry[1])
                if count == MOST_ENTRIES or characters >= MOST_CHARACTERS:
                    yield self._wired(lots), count
                    lots = {}
                    count = characters = 0
        if count:
            yield self._wired(lots), count

    def _wired(self, lots: dict[Owner, list[Entry]]) -> list[Any]:
        return [
            {"scope": self.columns.scope_of(owner, entries[0][0]), "entries": entries}
            for owner, entries in lots.items()
        ]

    def _asked(self, store: Any, command: str, **fields: Any) -> Any:
        return store.ask(command, once=True, load=self.name, writer=self.writer, **fields)

    def _store(self, timeout: float = 30.0) -> Any:
        if self.location.is_server:
            return Served(self.location, timeout)
        with installed_here():
            from holdfast.spark.source.database import Stored
        return Stored(self.location)


class EntryWriter(DataSourceArrowWriter):
    """Writes all the entries, or none."""

    def __init__(self, load: BulkLoad) -> None:
        self._load = load

    @plainly()
    def write(self, iterator: Iterator[pa.RecordBatch]) -> WriterCommitMessage:
        # Each attempt of a Spark task has its own id, and only the one that Spark commits counts.
        context = TaskContext.get()
        assert context is not None
        part = context.taskAttemptId()
        try:
            return report(part, self._load.add(part, iterator))
        except HoldfastError as error:
            if error.status >= 500:  # a retry of the task may succeed
                raise
            return report(part, 0, (error.message, error.hint))

    @plainly()
    def commit(self, messages: list[WriterCommitMessage | None]) -> None:
        reports = [vars(message) for message in messages if message is not None]
        for each in reports:
            if each["refusal"] is not None:
                message, hint = each["refusal"]
                raise InvalidInput(f"{message}; nothing was written", hint=hint)
        self._load.ask("FinishLoad", parts=[(each["part"], each["rows"]) for each in reports])

    @plainly()
    def abort(self, messages: list[WriterCommitMessage | None]) -> None:
        self._load.ask("DropLoad")


def make_writer(
    location: Location, table: str, schema: StructType, overwrite: bool, as_kept: bool = False
) -> DataSourceArrowWriter:
    """Start a load, and return a writer of its entries to a table."""
    columns = columns_of(table, schema)
    if overwrite:
        raise InvalidInput(
            'mode("overwrite") would empty the store, and is not supported',
            hint='.mode("append") overwrites the entries that have the same key',
        )
    expires_at = default_expiry(location) if columns.is_task and not columns.has_expiry else None
    writer = {"kind": "api", "user": user()}
    limit = 0 if location.is_server else largest_value()
    load = BulkLoad(uuid4().hex, location, columns, writer, expires_at, limit, as_kept)
    load.ask("StartLoad")
    return EntryWriter(load)


def default_expiry(location: Location) -> str | None:
    """Return the default expiry of an entry written now, as in the wire format; None for never.

    Raise InvalidInput if the default retention is not known here.
    """
    kept = location.retention
    if kept is None:
        try:
            kept = configured().retention or timedelta(0)
        except InvalidInput:
            raise InvalidInput(
                "the configured retention is unknown, since Holdfast, which would look it up, is "
                "not installed here",
                hint="holdfast.spark.register(spark, …), or add a column `expires_at`, with null "
                "for entries that never expire",
            ) from None
    time = expires_at(None, kept, datetime.now(UTC))
    return None if time is None else time.isoformat()


def largest_value() -> int:
    """Return the configured maximum size of a value, for a database. A server has its own."""
    with installed_here():
        from holdfast.spark.source import database
    return database.largest_value()


def user() -> str:
    try:
        return getpass.getuser()
    except (KeyError, OSError):
        return "unknown"


def report(part: int, rows: int, refusal: tuple[str, str] | None = None) -> WriterCommitMessage:
    """Return a commit message that reports a part to the driver. It is of Spark's own class,
    because one of ours would not be known everywhere."""
    message = WriterCommitMessage()
    vars(message).update(part=part, rows=rows, refusal=refusal)
    return message
