"""One load of an asset: its rows, its names, and the write that moves the watermark."""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Mapping, Sequence
from datetime import UTC
from string import Formatter
from typing import TYPE_CHECKING, Any, Final, NamedTuple
from uuid import uuid4

import msgspec

from holdfast.accessor import AssetStore, run
from holdfast.entry import TaskWriter
from holdfast.errors import (
    InvalidInput,
    SourceChanged,
    SparkBusy,
    VersionConflict,
)
from holdfast.loadrecord import RECORD_SUFFIX, LoadRecord
from holdfast.loadrecord import as_json as record_as_json
from holdfast.spark.loads import contract, plan
from holdfast.spark.loads.bounding import Bounded, bound, null_cursor
from holdfast.spark.loads.chain import Link, next_link
from holdfast.spark.loads.cursor import Value
from holdfast.spark.loads.directory import BACKFILLS, Output, Writing
from holdfast.spark.loads.naming import application, backfill_name, load_name
from holdfast.spark.loads.observation import observed
from holdfast.spark.loads.plan import Plan, plan_in
from holdfast.spark.loads.rules import LoadRules
from holdfast.spark.loads.watermark import Watermark, as_json, from_json
from holdfast.value import check_key

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

_FEW: Final = 1_000_000
"""So many rows are counted after the write, where duplicates make their number uncertain."""

log = logging.getLogger("holdfast")


class Loaded(NamedTuple):
    """What a load has done."""

    rows: int | None
    """How many rows it had; None where nobody counted them."""
    from_: Value | None
    """The watermark that the load started from; of a backfill, `initial`."""
    to: Value | None
    """The watermark after it; of a backfill, the highest cursor value."""
    beyond: int = 0
    """Rows later than any row can be, which are left for a load of that time."""
    quarantined: int = 0
    """Rows that failed a check and were put aside."""


class Load:
    """The new rows of an asset's source, up to an end that is fixed."""

    def __init__(
        self, df: DataFrame, store: AssetStore, key: str, rules: LoadRules, *, at_once: bool = False
    ) -> None:
        self._began = time.monotonic()
        check_key(key, store._scope)
        self._store = store
        self._key = key
        self._rules = rules
        self._at_once = at_once
        self._quarantine: str | None = None
        self.is_written = False
        """Whether the rows are written, and the watermark has moved or is staged."""
        self._new_schema = self._check_contract(df)
        self._mark: Watermark | None = None
        self._link = Link(0, 0, None, ())
        self._plan: Plan | None = None
        self._plan_version = 0
        self._former: Plan | None = None
        """The plan of an earlier attempt at this load, maybe with other rules."""
        if rules.is_backfill:
            self._name = backfill_name(store, key, rules)
        else:
            self._mark = self._read_watermark()
            self._plan_version, last = self._last_plan()
            self._link = next_link(store, key, last)
            self._former = self._own(last)
            self._plan = self._kept(self._former)
            self._name = load_name(store, key, self._link.number)
        self._session = str(getattr(df.sparkSession, "session_id", ""))
        self._bounded = self._bound(df)

    def __repr__(self) -> str:
        rows = "rows not counted" if self.rows is None else f"{self.rows:,} rows"
        return f"<Load {self.name}: after {self.watermark}, up to {self.end}, {rows}>"

    @property
    def df(self) -> DataFrame:
        """The rows of the load. However they are read, the watermark is not affected."""
        return self._bounded.df

    @property
    def rows(self) -> int | None:
        """How many rows the load has; None where nobody counted them."""
        return self._bounded.rows

    @property
    def watermark(self) -> Value | None:
        """The watermark that the load starts from; None before the first load."""
        return self._mark.value if self._mark else None

    @property
    def end(self) -> Value | None:
        """The watermark when the load has succeeded; None: there is nothing to load yet."""
        return self._bounded.mark.value if self._bounded.mark else None

    @property
    def number(self) -> int:
        """The number of the load: the same for every retry, and higher for each later load.

        Every retry has the same rows from then on, as a table may have the number.
        """
        if self._rules.is_backfill:
            raise InvalidInput(
                "a backfill has no number", hint="use new.name, which is made from its range"
            )
        if self.rows != 0 and self.end is not None:
            self._keep_plan(numbered=True)
        return self._link.number

    @property
    def name(self) -> str:
        """A directory name such as `load=orders.watermark.000000000042`.

        It is the same for every retry until the load succeeds, and sorts by number. A backfill is
        named by its range.
        """
        return self._name

    def txn_options(self) -> dict[str, str]:
        """Return options for a Delta table's writer, by which a retry's append is not repeated.

        Every retry has the same rows from then on. Empty where there is nothing to append.
        """
        number = self.number
        if self.rows == 0:
            return {}
        if self.end is None:
            raise InvalidInput(
                f"no row for {self._where()} has a cursor value: such a load has no number",
                hint="write it so that doing it again changes nothing",
            )
        return {"txnAppId": application(self._store, self._key), "txnVersion": str(number)}

    def view(self, name: str) -> str:
        """Make the rows a temporary view of that name, for SQL; return the name."""
        self.df.createOrReplaceTempView(name)
        return name

    def sql(self, query: str, **arguments: Any) -> Loaded:
        """Write the rows with one SQL statement, in which `{new}` stands for them."""
        double = "double braces that are meant as such: {{ and }}"
        try:
            names = [name for _, name, _, _ in Formatter().parse(query) if name is not None]
        except ValueError as error:
            raise InvalidInput(f"the statement cannot be read: {error}", hint=double) from None
        if "new" not in names:
            raise InvalidInput(
                "the statement does not read the new rows",
                hint="name them {new}: INSERT INTO orders SELECT * FROM {new}",
            )
        for name in names:
            if name not in ("new", *arguments):
                raise InvalidInput(
                    f"the statement has {{{name}}}, which is nothing that it was given",
                    hint=double,
                )
        return self.write(lambda new: new.sparkSession.sql(query, new=new, **arguments))

    def save(
        self,
        path: str,
        *,
        format: str = "parquet",
        partition_by: str | Sequence[str] = (),
        options: Mapping[str, str] | None = None,
    ) -> Loaded:
        """Write the rows into the directory `name` below `path`, which appears as a whole."""
        output = Output(str(path), format, partition_by, options or {})
        output.check(self.df)
        writing = self._begin(saves=True)
        if writing is None:
            return self._finish([], (), None)
        published: list[tuple[str, str | None]] = []
        self._call(
            lambda rows: published.append(
                output.publish(rows, self.name, writing, self._manifest())
            ),
            self.df,
        )
        [(directory, tried)] = published
        return self._finish([], (directory,), tried)

    def write(self, fn: Callable[[DataFrame], object]) -> Loaded:
        """Let `fn` write the rows; then the watermark is the end of the load.

        It moves when the attempt succeeds, on condition that nobody has moved it meanwhile; at
        once where the store belongs to no attempt. Errors of `fn` are raised as they are.
        """
        self._begin()
        with observed(self.df) as handed:
            self._call(fn, handed.df)
        return self._finish(handed.counts, (), None)

    def _where(self, suffix: str = "") -> str:
        return f"`{self._key}{suffix}` of {self._store._scope}"

    def _read_watermark(self) -> Watermark | None:
        entry = self._store.entry(self._key)
        if entry is None:
            return None
        if entry.staged:
            raise InvalidInput(
                f"this attempt has loaded already: {self._where()} waits for its success",
                hint="load once in an attempt, or give another key=; portions() loads in steps",
            )
        return from_json(entry.value, self._rules.cursor, self._where())

    def _last_plan(self) -> tuple[int, Plan | None]:
        """Return the plan that was stored last, of whichever load, and its version."""
        entry = self._store.entry(self._key + plan.SUFFIX)
        if entry is None:
            return 0, None
        return entry.version, plan_in(entry.value, self._where(plan.SUFFIX))

    def _own(self, last: Plan | None) -> Plan | None:
        """Return the plan if it is of this load."""
        return last if last is not None and last.start == self._link.number else None

    def _kept(self, found: Plan | None) -> Plan | None:
        """Return the plan of an earlier attempt if this one has the same rules."""
        if found is None or found.rules == self._rules.digest():
            return found
        if found.numbered:
            raise InvalidInput(
                f"a load from {self._where()} that did not finish had other rules, and may be in "
                "a table already",
                hint="run it with its former rules first; or, if the table has no commit of it, "
                f"delete `{self._key}{plan.SUFFIX}`",
            )
        log.warning(
            "%s: a load that did not finish had other rules, and is replaced", self._where()
        )
        return None

    def _bound(self, df: DataFrame) -> Bounded:
        planned = None
        if self._plan is not None:
            planned = from_json(self._plan.watermark, self._rules.cursor, self._where(plan.SUFFIX))
            log.info(
                "%s: goes on with a load that did not finish, up to %s",
                *(self._where(), planned.value),
            )
        identity = self._rules.identity
        if identity and self._mark and self._mark.memory is None:
            log.warning(
                "%s does not say which rows are loaded by %s: this load begins after %s",
                *(self._where(), ", ".join(identity.kinds), self._mark.value),
            )
        bounded = bound(df, self._rules, self._mark, planned, self._where())
        if bounded.beyond:
            log.warning(
                "%s: %s rows have a `%s` in the future, and are left for a later load",
                *(self._where(), f"{bounded.beyond:,}", self._rules.cursor.name),
            )
        return bounded

    def _moves(self) -> bool:
        """Tell whether the load is one that counts: it has rows, or another watermark."""
        if self._rules.is_backfill or self._bounded.mark is None:
            return False
        if self._bounded.rows is None and not self._rules.replaces and not self._rules.identity:
            return self._bounded.mark != self._mark  # given by `until`
        return self._bounded.rows != 0 or self._bounded.mark != self._mark

    def _keep_plan(self, *, numbered: bool = False, tries: int = 0) -> Plan:
        """Store the plan, before anything is written that follows it."""
        key = self._key + plan.SUFFIX
        while True:
            self._await_predecessor()
            before = self._plan or self._new_plan()
            kept = msgspec.structs.replace(
                before,
                numbered=before.numbered or numbered,
                session=self._session,
                tries=before.tries + tries,
            )
            if kept == self._plan:
                return kept
            try:
                step = self._store._set(key, msgspec.to_builtins(kept), False, self._plan_version)
                version = run(self._store._store, step)
            except VersionConflict:
                self._plan_version, last = self._last_plan()
                self._former = self._own(last)
                self._plan = self._kept(self._former)
                if self._plan is None or self._plan.watermark != kept.watermark:
                    raise VersionConflict(
                        f"another load from {self._where()} has begun with another range",
                        hint="run this one again: it then has the same rows",
                    ) from None
            else:
                self._former = self._plan = kept
                self._plan_version = version
                return kept

    def _await_predecessor(self) -> None:
        """Wait until an attempt of another run, which began this load, writes nothing any more.

        Earlier attempts of the same task have ended when a task gets its session.
        """
        before = self._former.session if self._former else ""
        if not self._session or before in ("", self._session):
            return
        from pyspark.errors import PySparkException

        from holdfast.spark.operations import LIMIT, await_end, other_session

        session: Any = self.df.sparkSession
        other = other_session(session, before)
        try:
            running = await_end(other, time.monotonic() + LIMIT)
        except PySparkException as error:
            log.debug("%s: the session before is unknown: %s", self._where(), error)
            running = []
        finally:
            other.client.close()
        if running:
            raise SparkBusy(
                f"another load from {self._where()} still writes after {LIMIT:.0f} s: "
                f"{', '.join(running)} of session {before}",
                hint="let one load of an asset run at a time: max_active_runs=1; then run it again",
            )

    def _new_plan(self) -> Plan:
        assert self._bounded.mark is not None
        mark = as_json(self._bounded.mark, self._rules.cursor)
        tries = self._former.tries if self._former else 0
        return Plan(self._link.number, self._link.version, self._rules.digest(), mark, tries=tries)

    def _begin(self, *, saves: bool = False) -> Writing | None:
        """Store the plan, and put aside what does not pass; return how to write directories."""
        if self.is_written:
            raise InvalidInput("this load is written", hint="call incremental() for the next one")
        self._check_unmoved()
        rejected = self._bounded.rejected
        if rejected is None and not (saves and (self._moves() or self._rules.is_backfill)):
            if self._moves():
                self._keep_plan()
            return None
        writing = self._writing()
        if rejected is not None:
            assert self._rules.quarantine is not None
            output = Output(self._rules.quarantine, "parquet", (), {})
            output.check(rejected)
            self._quarantine, _ = output.publish(rejected, self.name, writing, self._manifest())
        return writing

    def _call(self, fn: Callable[[DataFrame], object], df: DataFrame) -> None:
        from pyspark.errors import AnalysisException, PySparkException

        try:
            fn(df)
        except AnalysisException:
            raise
        except PySparkException as error:
            failure = null_cursor(self._rules.cursor.name, self._where())
            if self._rules.on_null == "error" and self.rows is None and failure in str(error):
                raise InvalidInput(
                    f"{failure}; nothing was loaded", hint='on_null="skip" leaves such rows out'
                ) from error
            raise

    def _writing(self) -> Writing:
        """Begin a try of the load, which replaces what earlier tries have written."""
        if not self._moves():
            own = f"b{uuid4().hex}"
            return Writing(own, own, lambda: None)
        begun = self._keep_plan(tries=1)
        return Writing(f"{begun.id} {begun.tries}", str(begun.tries), lambda: self._confirm(begun))

    def _confirm(self, begun: Plan) -> None:
        """Raise VersionConflict unless this is still the newest try of the load."""
        self._check_unmoved()
        _, found = self._last_plan()
        if found is None or (found.id, found.tries) != (begun.id, begun.tries):
            raise VersionConflict(
                f"a later load from {self._where()} replaces this one",
                hint="let one load of an asset run at a time: max_active_runs=1",
            )

    def _manifest(self) -> dict[str, Any]:
        return {
            "writer": str(self._store._writer),
            **record_as_json(self._record(self.rows, ())),
        }

    def _finish(self, counts: list[int], directories: tuple[str, ...], tried: str | None) -> Loaded:
        rows = self._counted(counts)
        self.is_written = True
        bounded, rules = self._bounded, self._rules
        result = Loaded(
            rows,
            rules.initial if rules.is_backfill else self.watermark,
            self.end,
            bounded.beyond,
            bounded.quarantined,
        )
        if not self._moves() and not rules.is_backfill:
            log.info("nothing new for %s after %s", self._where(), self.watermark)
            return result
        self._check_unmoved()
        if rules.is_backfill:
            self._set(BACKFILLS + self.name.removeprefix("load="), tried or "")
        else:
            self._keep_watermark(tried)
        self._set(RECORD_SUFFIX, record_as_json(self._record(rows, directories)), inline=True)
        return result

    def _keep_watermark(self, tried: str | None) -> None:
        """Set the watermark and what belongs to it.

        Outside an attempt these are separate writes, in an order in which a crash between them
        loses and doubles nothing.
        """
        assert self._bounded.mark is not None
        assert self._plan is not None
        done = msgspec.to_builtins(msgspec.structs.replace(self._plan, done=True))
        # On condition that no other load has replaced the plan, which it may have written since.
        held = done if self._stages else msgspec.to_builtins(self._plan)
        self._set(plan.SUFFIX, held, if_version=self._plan_version)
        value = as_json(self._bounded.mark, self._rules.cursor, self._link.chain(tried))
        self._set("", value, if_version=self._link.version)
        if not self._stages:
            self._set(plan.SUFFIX, done)
        if self._new_schema is not None:
            self._set(contract.SUFFIX, self._new_schema)

    def _record(self, rows: int | None, directories: tuple[str, ...]) -> LoadRecord:
        bounded, rules = self._bounded, self._rules
        of = rules.cursor.as_json
        start = rules.initial if rules.is_backfill else self.watermark
        return LoadRecord(
            name=self.name,
            number=self._link.number,
            kind="backfill" if rules.is_backfill else "load",
            cursor=rules.cursor.name,
            type=rules.cursor.kind,
            from_=None if start is None else of(start),
            to=None if self.end is None else of(self.end),
            rows=rows,
            beyond=bounded.beyond,
            started_at=rules.now.astimezone(UTC).isoformat().replace("+00:00", "Z"),
            seconds=round(time.monotonic() - self._began, 3),
            directories=directories,
            checks=bounded.checks,
            quarantined=bounded.quarantined,
            quarantine=self._quarantine,
        )

    def _counted(self, seen: list[int]) -> int | None:
        """Return the number of rows. Raise SourceChanged where a write saw more than there are."""
        rows, most = self.rows, self._bounded.most
        highest = max(seen, default=0)
        if most is None:
            return None
        if highest > most:
            # Spark counts rows twice that it computed twice, as when an executor was lost.
            now = self.df.count()
            if now > most:
                raise SourceChanged(
                    f"the range of the load had {most:,} rows and has {now:,} now, for "
                    f"{self._where()}; the watermark stays",
                    hint="materialize=True reads such a source once",
                )
            return now
        if rows is None and highest == most:
            return most
        return self.df.count() if rows is None and most <= _FEW else rows

    def _check_contract(self, df: DataFrame) -> dict[str, str] | None:
        """Return the schema to keep, where the store has none or another one."""
        if self._rules.contract is None:
            return None
        columns = contract.columns_of(df.schema)
        stored = self._store.get(self._key + contract.SUFFIX)
        changed = contract.changes(stored, columns)
        if changed and self._rules.contract == "fail":
            raise contract.broken(changed, self._where(contract.SUFFIX))
        if changed:
            log.warning(
                "%s: the source's schema has changed: %s", self._where(), "; ".join(changed)
            )
        return columns if columns != stored else None

    def _check_unmoved(self) -> None:
        if self._rules.is_backfill:
            return
        entry = self._store.entry(self._key)
        version = entry.version if entry else 0
        if version != self._link.version:
            raise VersionConflict(
                f"{self._where()} has version {version}, and this load started from "
                f"{self._link.version}: another load was faster, or it was set back, and this "
                "load is discarded",
                hint="run it again: it loads what is new since then",
            )

    @property
    def _stages(self) -> bool:
        """Whether what is set takes effect with the attempt's success, all at once."""
        writer = self._store._writer
        in_attempt = isinstance(writer, TaskWriter) and writer.attempt is not None
        return in_attempt and not self._at_once

    def _set(
        self, suffix: str, value: Any, *, if_version: int | None = None, inline: bool = False
    ) -> None:
        store = self._store._inline() if inline else self._store
        store.set(
            self._key + suffix,
            value,
            on_success=self._stages,
            if_version=if_version,
        )
