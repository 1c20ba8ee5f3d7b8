"""The plan of a load, stored before anything is written.

Every load from the same watermark until one succeeds (a retry, a later run, a concurrent load) has
the same range and the same rows. So the output of a dead attempt, in files or in a table's
transaction, is what its successor would write.
"""

from __future__ import annotations

import logging
import time
from typing import TYPE_CHECKING, Any
from uuid import uuid4

import msgspec

from holdfast.accessor.asset_store import AssetStore
from holdfast.errors import InvalidInput, SparkBusy, VersionConflict
from holdfast.model.entry import Entry
from holdfast.spark.loads.load_history import PLAN_SUFFIX, highest_number, loads_that_count
from holdfast.spark.loads.naming import digest_of

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

log = logging.getLogger("holdfast")


class Plan(msgspec.Struct, frozen=True, omit_defaults=True):
    """The plan of a load."""

    number: int
    """The number of the load."""
    version: int
    """The version of the watermark that it starts from."""
    after: str
    """The digest of that watermark, as versions differ between stores."""
    rules: str
    watermark: Any
    """The value to store when the load succeeds."""
    id: str = msgspec.field(default_factory=lambda: uuid4().hex)
    """The id of the load, whatever its rules, by which its output is recognized."""
    numbered: bool = False
    """A table's transaction may contain the load's number: the range must not change any more."""
    session: str = ""
    """The Spark Connect session of the attempt that wrote last."""
    done: bool = False
    """The load has succeeded."""
    tries: int = 0
    """The number of attempts that have begun to write into a directory of their own."""
    only_aside: bool = False
    """It quarantines rows, and does not move the watermark: its range may change."""
    places: tuple[str, ...] = ()
    """The paths below which attempts have published a directory of this load, or begun to."""
    table: str = ""
    """The table that attempts have begun to append the rows to."""
    ends_at_row: bool = False
    """The load ends at the cursor value of a row that was there when it was planned."""


class Planning:
    """The plan of the load that follows the current watermark."""

    def __init__(
        self, store: AssetStore, key: str, entry: Entry[Any] | None, rules: str, spark: SparkSession
    ) -> None:
        self._store = store
        self._key = key
        self._rules = rules
        self._spark = spark
        self._session = str(getattr(spark, "session_id", ""))
        self._after = digest_of(entry.value) if entry else ""
        self.version = entry.version if entry else 0
        """The version of the watermark's entry; 0 if there is none."""
        self.before = loads_that_count(store, key, entry)
        self.stored_version, last = self._last()
        finished = last is not None and last.done and self.before is not None
        newest = highest_number(store, key, entry, with_undone=not finished)
        # A crash between the watermark and the mark `done` leaves the plan of a load that has
        # succeeded open.
        is_open = last is not None and not last.done and last.number > newest
        self._former = self._taken_over(last) if last and is_open else None
        """The plan of an earlier attempt at this load, possibly with other rules."""
        if self._former is not None:
            newest = self._former.number - 1
        elif last is not None:
            newest = max(newest, last.number)
        self.number = newest + 1
        """The number of this load: that of its earlier attempts, or one that no load has had."""
        self.plan = self._kept(self._former)
        """The plan that an earlier attempt at this load has stored, if it had the same rules."""
        self.ends_at_row = False
        """Whether a new plan ends at the cursor value of a row."""

    @property
    def places(self) -> tuple[str, ...]:
        """The paths below which earlier attempts have published a directory of this load."""
        return self._former.places if self._former else ()

    @property
    def table(self) -> str:
        """The table that may already have the rows; empty if no attempt has begun to append."""
        return self._former.table if self._former else ""

    def check_table(self, name: str) -> None:
        """Raise InvalidInput if the rows may already be in another table than that one."""
        if self.table not in ("", name):
            raise InvalidInput(
                f"an unfinished load from {self._where()} may already have appended its rows to "
                f"{self.table}",
                hint="append them there first; or, if that table has no commit of it, delete "
                f"`{self._key}{PLAN_SUFFIX}`",
            )

    def keep(self, watermark: Any, *, tries: int = 0, **marks: Any) -> Plan:
        """Store the plan, before anything is written that follows it. Raise VersionConflict if
        another load has stored one with another range, and SparkBusy if its writes do not end."""
        while True:
            self._await_predecessor()
            before = self.plan or self._new(watermark)
            kept = msgspec.structs.replace(
                before, session=self._session, tries=before.tries + tries, **marks
            )
            if kept == self.plan:
                return kept
            try:
                self.stored_version = self._set(kept)
            except VersionConflict:
                self._read_again(kept)
            else:
                self._former = self.plan = kept
                return kept

    def confirm(self, begun: Plan, *, id: str | None = None) -> None:
        """Raise VersionConflict unless this is still the newest try of the load, whose plan has
        that id."""
        self.check_unmoved()
        _, found = self._last()
        if found is None or (found.id, found.tries) != (id or begun.id, begun.tries):
            raise VersionConflict(
                f"a later load from {self._where()} has replaced this one",
                hint="run one load of an asset at a time: max_active_runs=1",
            )

    def check_unmoved(self) -> None:
        """Raise VersionConflict unless the watermark is the one that the load starts from."""
        entry = self._store.entry(self._key)
        version = entry.version if entry else 0
        if version != self.version:
            raise VersionConflict(
                f"{self._where()} has version {version}, but this load started from "
                f"{self.version}: another load finished first, or it was rewound; this load is "
                "discarded",
                hint="run it again to load the rows that are new since then",
            )

    def _where(self, suffix: str = "") -> str:
        return f"`{self._key}{suffix}` of {self._store.binding.scope}"

    def _last(self) -> tuple[int, Plan | None]:
        """Return the plan that was stored last, of whichever load, and its version."""
        entry = self._store.entry(self._key + PLAN_SUFFIX)
        if entry is None:
            return 0, None
        try:
            return entry.version, msgspec.convert(entry.value, Plan)
        except msgspec.ValidationError:
            raise InvalidInput(
                f"{self._where(PLAN_SUFFIX)} is {str(entry.value)[:60]}, which was not written by "
                "an incremental load",
                hint="delete that entry, or use another key= for the load",
            ) from None

    def _taken_over(self, last: Plan) -> Plan | None:
        """Return the plan of an unfinished load, if it started from this watermark. Raise
        InvalidInput if it did not, and its number may be in a table."""
        if (last.version, last.after) == (self.version, self._after):
            return last
        if last.numbered:
            raise InvalidInput(
                f"an unfinished load from {self._where()} started from another value, and may "
                f"already be in a table, with the number {last.number}",
                hint="remove its rows from the table if they are there; then delete "
                f"`{self._key}{PLAN_SUFFIX}` and run this load again",
            )
        return None

    def _kept(self, found: Plan | None) -> Plan | None:
        """Return the plan of an earlier attempt if this one has the same rules. Raise InvalidInput
        if it does not, and the number may be in a table."""
        if found is None or found.only_aside:
            return None
        if found.rules == self._rules:
            return found
        if found.numbered:
            raise InvalidInput(
                f"an unfinished load from {self._where()} had other rules, and may already be in "
                "a table",
                hint="run it with its former rules first; or, if the table has no commit of it, "
                f"delete `{self._key}{PLAN_SUFFIX}`",
            )
        log.warning("%s: replacing an unfinished load that had other rules", self._where())
        return None

    def _new(self, watermark: Any) -> Plan:
        these = (self.number, self.version, self._after, self._rules, watermark)
        new = Plan(*these, ends_at_row=self.ends_at_row)
        former = self._former
        if former is None:
            return new
        # One more try: an attempt that follows the former plan must notice that it is replaced.
        return msgspec.structs.replace(
            new, id=former.id, tries=former.tries + 1, places=former.places
        )

    def _set(self, plan: Plan) -> int:
        value = msgspec.to_builtins(plan)
        return self._store.set_for_version(
            self._key + PLAN_SUFFIX, value, if_version=self.stored_version
        )

    def _read_again(self, kept: Plan) -> None:
        """Take over the plan that another load has stored meanwhile, if it is the same; raise
        VersionConflict if not."""
        self.stored_version, last = self._last()
        self._former = last if last is not None and last.number == self.number else None
        self.plan = self._kept(self._former)
        if self.plan is None or self.plan.watermark != kept.watermark:
            raise VersionConflict(
                f"another load from {self._where()} has started with another range",
                hint="run this load again: it will use the same range",
            ) from None

    def _await_predecessor(self) -> None:
        """Wait until an attempt of another run, which began this load, has stopped writing. Raise
        SparkBusy if that takes too long.

        Earlier attempts of the same task have ended when a task gets its session.
        """
        before = self._former.session if self._former else ""
        if not self._session or before in ("", self._session):
            return
        from pyspark.errors import PySparkException

        from holdfast.spark.session.operations import LIMIT, await_end, other_session

        spark: Any = self._spark
        other = other_session(spark, before)
        try:
            running = await_end(other, time.monotonic() + LIMIT)
        except PySparkException as error:
            log.debug("%s: the previous session is unknown: %s", self._where(), error)
            running = []
        finally:
            other.client.close()
        if running:
            raise SparkBusy(
                f"another load from {self._where()} is still writing after {LIMIT:.0f} s: "
                f"{', '.join(running)} of session {before}",
                hint="run one load of an asset at a time (max_active_runs=1), then run this one "
                "again",
            )
