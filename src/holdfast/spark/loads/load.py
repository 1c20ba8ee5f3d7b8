"""One load of an asset: its rows, its names, and the write that moves the watermark."""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Collection, Mapping, Sequence
from datetime import UTC
from functools import partial
from typing import TYPE_CHECKING, Any, Final, NamedTuple, TypeVar

import msgspec

from holdfast.accessor.asset_store import AssetStore
from holdfast.errors import InvalidInput, InvalidType, SourceChanged
from holdfast.model.entry import Entry, TaskWriter
from holdfast.model.load_chain import NO_TRY, following
from holdfast.model.load_record import RECORD_SUFFIX, LoadRecord
from holdfast.model.load_record import as_json as record_as_json
from holdfast.model.value import check_key
from holdfast.spark.error_translation import has_raised
from holdfast.spark.lake.append import Append, Appended, append_once
from holdfast.spark.lake.identity import SEQUENCE_SUFFIX, sequence_of
from holdfast.spark.lake.table import Identity, LakeTable
from holdfast.spark.loads import saved_format, schema_contract
from holdfast.spark.loads.arguments import LoadRules
from holdfast.spark.loads.backfill import Backfill, Backfilling
from holdfast.spark.loads.bounding import Bounded, Bounding, null_cursor
from holdfast.spark.loads.cursor import Value
from holdfast.spark.loads.directory_writer import Output, Writing
from holdfast.spark.loads.load_history import PLAN_SUFFIX
from holdfast.spark.loads.naming import application, backfill_name, digest_of, load_name
from holdfast.spark.loads.observation import observed
from holdfast.spark.loads.plan import Planning
from holdfast.spark.loads.sql_statement import statement
from holdfast.spark.loads.table_versions import TableVersions, is_reload
from holdfast.spark.loads.watermark import Watermark, as_json, from_json
from holdfast.spark.paths import absolute, check_path, is_inside, is_same, path_digest, renames
from holdfast.spark.publication import withdraw

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

_FEW: Final = 1_000_000
"""Maximum number of rows to count after the write, if duplicates make their number uncertain."""
_WRITERS: Final = ("DataFrameWriter", "DataFrameWriterV2", "MergeIntoWriter")

T = TypeVar("T")

log = logging.getLogger("holdfast")


class Loaded(NamedTuple):
    """The result of a load."""

    rows: int | None
    """The number of rows; None if they were not counted."""
    from_: Value | None
    """The watermark that the load started from; for a backfill, `initial`."""
    to: Value | None
    """The watermark after it; for a backfill, the highest cursor value."""
    beyond: int = 0
    """The number of rows beyond the horizon, which are left for a later load."""
    quarantined: int = 0
    """The number of rows that failed a check and were quarantined."""


class _Saved(NamedTuple):
    """The directory and try that a load was saved to, and the digest of how it was saved."""

    directory: str
    tried: str | None
    digest: str


class Load:
    """The new rows of an asset's source, up to a fixed end."""

    def __init__(
        self,
        df: DataFrame | TableVersions,
        store: AssetStore,
        key: str,
        rules: LoadRules,
        *,
        at_once: bool = False,
    ) -> None:
        self._began = time.monotonic()
        check_key(key, store.binding.scope)
        self._store = store
        self._key = key
        self._rules = rules
        self._at_once = at_once
        self._aside: _Saved | None = None
        self.is_written = False
        """Whether the rows are written, and the watermark has moved or is staged."""
        self._new_schema = self._check_contract(df)
        self._mark: Watermark | None = None
        self._planning: Planning | None = None
        self._backfilling: Backfilling | None = None
        if rules.is_backfill:
            self._name = backfill_name(store, key, rules)
            place_of = partial(path_digest, df.sparkSession)
            self._backfilling = Backfilling(store, key, self._name, place_of)
        else:
            entry = self._watermark_entry()
            if entry is not None:
                self._mark = from_json(entry.value, rules.cursor, self._where())
            self._planning = Planning(store, key, entry, rules.digest(), df.sparkSession)
            self._name = load_name(store, key, self._planning.number)
        self._source = df
        self._planned = self._planned_before()
        self._appended: Appended | None = None
        self._found: Bounded | None = None
        if not self._may_be_in_a_table:
            self._found = self._bound()

    def __repr__(self) -> str:
        rows = self._found.rows if self._found else None
        shown = "rows not counted" if rows is None else f"{rows:,} rows"
        return f"<Load {self.name}: after {self.watermark}, up to {self.end}, {shown}>"

    @property
    def df(self) -> DataFrame:
        """The rows of the load. Reading them never affects the watermark."""
        return self._bounded.df

    @property
    def rows(self) -> int | None:
        """The number of rows of the load; None if they were not counted."""
        return self._appended.rows if self._appended else self._bounded.rows

    @property
    def _bounded(self) -> Bounded:
        """The rows. Where an earlier attempt may have committed them to a table, they are bounded
        only when they are needed."""
        if self._found is None:
            self._found = self._bound()
        return self._found

    @property
    def _may_be_in_a_table(self) -> bool:
        """Whether an earlier attempt may have committed the rows to a table."""
        return bool(self._planning and self._planned and self._planning.table)

    @property
    def has_rows(self) -> bool:
        """Whether there are rows to write or to quarantine."""
        return self.rows != 0 or self._bounded.quarantined != 0

    @property
    def watermark(self) -> Value | None:
        """The watermark that the load starts from; None before the first load."""
        return self._mark.value if self._mark else None

    @property
    def end(self) -> Value | None:
        """The watermark once the load has succeeded; None if there is nothing to load yet."""
        return self._end_mark.value if self._end_mark else None

    @property
    def is_reload(self) -> bool:
        """Whether the load has the whole table again, as `on_change="reload"` allows: what was
        loaded before is to be replaced. For `read_loads`, earlier loads then no longer count."""
        return is_reload(self._mark, self._end_mark)

    @property
    def number(self) -> int:
        """The number of the load: the same for every retry, and higher for each later load.

        Reading it fixes the rows for every retry, as a table may have recorded the number. Raises
        InvalidInput for a backfill.
        """
        if self._planning is None:
            raise InvalidInput(
                "a backfill has no number", hint="use new.name, which is made from its range"
            )
        if self.is_written or self._may_be_in_a_table:
            return self._planning.number
        if self.rows != 0 and self.end is not None:
            self._planning.keep(self._planned_mark(), numbered=True)
        return self._planning.number

    @property
    def name(self) -> str:
        """A directory name such as `load=orders.watermark.000000000042`.

        It is the same for every retry until the load succeeds, and sorts by number. A backfill is
        named by its range.
        """
        return self._name

    def txn_options(self) -> dict[str, str]:
        """Return options for a Delta table's writer that keep a retry from repeating the append.

        This fixes the rows for every retry. Empty if there is nothing to append.
        """
        self._check_appends()
        number = self.number
        if self.rows == 0:
            return {}
        if self.end is None:
            raise self._without_a_number()
        return {"txnAppId": application(self._store, self._key), "txnVersion": str(number)}

    def view(self, name: str) -> str:
        """Create a temporary view of the rows under that name, for SQL; return the name."""
        if not isinstance(name, str):
            raise InvalidType(f"the view's name is {name!r}", hint='new.view("updates")')
        self.df.createOrReplaceTempView(name)
        return name

    def sql(self, query: str, **arguments: Any) -> Loaded:
        """Write the rows with one SQL statement, in which `{new}` stands for them.

        Raise InvalidInput for a statement that cannot be parsed, does not use `{new}`, or is a
        query.
        """
        return self.write(statement(query, arguments))

    def save(
        self,
        path: str,
        *,
        format: str = "parquet",
        partition_by: str | Sequence[str] | None = None,
        options: Mapping[str, str] | None = None,
    ) -> Loaded:
        """Write the rows into the directory `name` below `path`, which appears as a whole."""
        given = {} if options is None else options
        output = Output(check_path("the path", path), format, partition_by, given)
        output.check(self.df)
        self._check_apart(output.path)
        counts = self._moves() or self._rules.is_backfill
        if not counts and self.end is None and self.rows != 0:
            raise self._without_a_number()
        writing = self._begin(output if counts else None)
        if writing is None or not counts:
            return self._finish([])
        saved_as = self._keep_saved(output.saves(self.df))
        manifest = self._manifest(saved_as)
        with observed(self.df) as handed:
            directory, tried = self._call(
                lambda rows: output.publish(rows, self.name, writing, manifest), handed.df
            )
        return self._finish(handed.counts, _Saved(directory, tried, saved_as))

    def write(self, fn: Callable[[DataFrame], object]) -> Loaded:
        """Call `fn` to write the rows; then the watermark is the end of the load.

        It moves when the attempt succeeds, provided that nobody has moved it meanwhile; without an
        attempt, at once. Errors of `fn` are raised unchanged. Raise InvalidInput if it returns a
        writer of Spark, which by itself writes nothing.
        """
        if not callable(fn):
            raise InvalidType(f"write got {fn!r}", hint="pass a function that takes the new rows")
        self._begin()
        with observed(self.df) as handed:
            answer = self._call(fn, handed.df)
        if (kind := type(answer).__name__) in _WRITERS:
            raise InvalidInput(
                f"the function returned a {kind}, which by itself writes nothing; the watermark "
                "is unchanged",
                hint='df.write.mode("append").saveAsTable("orders") writes; a function that has '
                "written returns nothing",
            )
        return self._finish(handed.counts)

    def append(self, table: LakeTable) -> Loaded:
        """Append the rows to a Delta or Iceberg table, exactly once; then the watermark is the end
        of the load.

        The table's own commit names the load. A retry that finds it there reads no rows, and writes
        nothing. Raise InvalidInput if the rows do not fit the table, TableChanged if the table has
        loads that the watermark does not know, or was restored to before this one.
        """
        if not isinstance(table, LakeTable):
            raise InvalidType(
                f"append got {type(table).__name__}", hint='new.append(delta("s3://lake/orders"))'
            )
        if self._planning is None:
            raise InvalidInput(
                "a backfill cannot be appended: its rows would be in the table twice",
                hint="remove end_value, or use new.save or a MERGE, which replace rows",
            )
        if table.replaces:
            raise InvalidInput(
                f"{table.name} is given with replace=, but a load has only the rows that are new",
                hint="append(df, table, task_store) with all rows of the partition replaces it",
            )
        if self._rules.replaces:
            raise InvalidInput(
                "with primary_key=(), rows that are already loaded are read again",
                hint="give the primary_key that identifies them, or use a MERGE",
            )
        self._check_appends()
        self._check_open(table.name)
        if self._rules.quarantine is not None or not self._may_be_in_a_table:
            self._begin(table=table.name)
            if not self._moves() or self.rows == 0:
                return self._finish([])
        self._appended = append_once(table, self._append_to(table, self._planning))
        return self._finish([])

    def _append_to(self, table: LakeTable, planning: Planning) -> Append:
        plan = planning.plan
        assert plan is not None

        def begin() -> Callable[[], None]:
            begun = planning.keep(plan.watermark, tries=1, numbered=True, table=table.name)
            return partial(planning.confirm, begun, id=plan.id)

        return Append(
            identity=Identity(sequence_of(self._store, self._key), plan.number, plan.id),
            name=self.name.removeprefix("load="),
            watermark=plan.watermark,
            rows=lambda: self.df,
            check_rows=self._check_written,
            counted=planning.before.number if planning.before else -1,
            begin=begin,
            reset=f"delete `{self._key}{PLAN_SUFFIX}` and `{self._key}{SEQUENCE_SUFFIX}` of "
            f"{self._store.binding.scope}",
        )

    def _check_written(self, written: int) -> None:
        """Raise SourceChanged unless so many rows are the rows of the load."""
        rows, most = self._bounded.rows, self._bounded.most
        if (most is not None and written > most) or rows not in (None, written):
            raise SourceChanged(
                f"the load for {self._where()} had {rows if rows is not None else most:,} rows, "
                f"and {written:,} were written; nothing was committed",
                hint="materialize=True reads such a source once",
            )

    def _check_open(self, table: str) -> None:
        """Raise InvalidInput if the load is written, or an earlier attempt has begun to append it
        to another table; VersionConflict if the watermark has moved."""
        if self.is_written:
            raise InvalidInput(
                "this load has already been written", hint="call incremental() for the next one"
            )
        if self._planning is not None:
            self._planning.check_unmoved()
            self._planning.check_table(table)

    def _check_appends(self) -> None:
        if self.is_reload:
            raise InvalidInput(
                f"the source of {self._where()} has changed, and the load has the whole table "
                "again: an append would duplicate rows",
                hint="replace all rows, with new.save, new.write or new.sql",
            )

    def _without_a_number(self) -> InvalidInput:
        return InvalidInput(
            f"no row for {self._where()} has a cursor value, so the load has no number",
            hint="use new.write or new.sql with an idempotent write",
        )

    def _where(self, suffix: str = "") -> str:
        return f"`{self._key}{suffix}` of {self._store.binding.scope}"

    def _check_apart(self, path: str) -> None:
        """Raise InvalidInput if the rows and quarantined rows, also of earlier loads, would share a
        path, or one path would contain the other."""
        aside, spark = self._rules.quarantine, self.df.sparkSession
        before = self._planning.before if self._planning else None
        for digest in before.saved if before else ():
            found = self._store.get(self._key + saved_format.PREFIX + digest) if digest else None
            if found and (other := found.get("quarantine")) and is_same(spark, other, path):
                raise InvalidInput(
                    f"the rows go to {path}, where earlier loads have quarantined rows: readers "
                    "would see only the columns of those",
                    hint="give the rows their own path",
                )
        if aside is None:
            return
        if is_inside(spark, path, aside) or is_inside(spark, aside, path):
            raise InvalidInput(
                f"quarantine is {aside}, and the rows go to {path}: one contains the other, so "
                "readers would read both",
                hint="use separate directories: /lake/orders and /lake/orders-bad",
            )

    def _watermark_entry(self) -> Entry[Any] | None:
        entry = self._store.entry(self._key)
        if entry is not None and entry.staged:
            raise InvalidInput(
                f"this attempt has already loaded: {self._where()} is staged until it succeeds",
                hint="load once per attempt, or give another key=; portions() loads in steps",
            )
        return entry

    @property
    def _end_mark(self) -> Watermark | None:
        """The watermark after the load."""
        return self._found.mark if self._found else self._planned

    def _planned_before(self) -> Watermark | None:
        """Return the watermark that an earlier attempt has planned."""
        if self._planning is None or self._planning.plan is None:
            return None
        stored = self._planning.plan.watermark
        planned = from_json(stored, self._rules.cursor, self._where(PLAN_SUFFIX))
        log.info("%s: resuming an unfinished load, up to %s", self._where(), planned.value)
        return planned

    def _bound(self) -> Bounded:
        identity = self._rules.identity
        if identity and self._mark and self._mark.memory is None:
            log.warning(
                "%s does not record which rows are loaded, by %s: this load starts after %s",
                *(self._where(), ", ".join(identity.kinds), self._mark.value),
            )
        limits = (self._rules, self._mark, self._planned, self._where())
        if isinstance(self._source, TableVersions):
            bounded = self._source.bounded(*limits)
        else:
            plan = self._planning.plan if self._planning else None
            ends_at_row = plan is not None and plan.ends_at_row
            bounded = Bounding(self._source, *limits, ends_at_row=ends_at_row).result()
        if self._planning is not None and bounded.mark is not None:
            ahead = self._mark is None or bounded.mark.value != self._mark.value
            self._planning.ends_at_row = ahead and bounded.most is not None
        if bounded.beyond:
            log.warning(
                "%s: %s rows have a `%s` in the future; left for a later load",
                *(self._where(), f"{bounded.beyond:,}", self._rules.cursor.name),
            )
        return bounded

    def _moves(self) -> bool:
        """Return whether the load counts: it has rows, or another watermark."""
        if self._rules.is_backfill or self._bounded.mark is None:
            return False
        if self._bounded.rows is None and not self._rules.replaces and not self._rules.identity:
            return self._bounded.mark != self._mark  # the end is given by `until`
        return self._bounded.rows != 0 or self._bounded.mark != self._mark

    def _planned_mark(self) -> Any:
        """Return the watermark of the plan, which does not include other loads yet."""
        mark = self._end_mark
        return None if mark is None else as_json(mark, self._rules.cursor)

    def _begin(self, output: Output | None = None, *, table: str = "") -> Writing | None:
        """Store the plan, and quarantine rows that fail a check; return the try for writing
        directories."""
        self._check_open(table)
        outputs = [] if output is None else [(output, output.saves(self.df))]
        rejected = self._bounded.rejected
        if rejected is None:
            return self._writing(outputs)
        assert self._rules.quarantine is not None
        aside = Output(self._rules.quarantine, "parquet", (), {})
        aside.check(rejected)
        place = absolute(self.df.sparkSession, aside.path)
        how = msgspec.structs.replace(aside.saves(rejected), quarantine=place)
        writing = self._writing([*outputs, (aside, how)])
        assert writing is not None
        # With an owner of its own, so that it is not taken for the data of the load.
        apart = writing._replace(load=_aside(writing.load))
        digest = self._keep_saved(how)
        published = aside.publish(rejected, self.name, apart, self._manifest(digest))
        self._aside = _Saved(*published, digest)
        return writing

    def _call(self, fn: Callable[[DataFrame], T], df: DataFrame) -> T:
        try:
            return fn(df)
        except Exception as error:
            failure = null_cursor(self._rules.cursor.name, self._where())
            if has_raised(error, failure):
                raise InvalidInput(
                    f"{failure}; the watermark is unchanged", hint='on_null="skip" skips such rows'
                ) from error
            raise

    def _writing(self, outputs: list[tuple[Output, saved_format.Saved]]) -> Writing | None:
        """Begin a try of the load, which replaces the output of earlier tries."""
        planning, spark = self._planning, self._source.sparkSession
        if self._backfilling is not None:
            tries = {
                absolute(spark, to.path): Backfill(
                    saved=self._keep_saved(how), aside=bool(how.quarantine)
                )
                for to, how in outputs
            }
            return self._backfilling.begin(tries, self._withdraw)
        places = {path_digest(spark, to.path): absolute(spark, to.path) for to, _ in outputs}
        moves = self._moves()
        if planning is None or not (moves or places):
            return None
        former = {path_digest(spark, path): path for path in planning.places}
        begun = planning.keep(
            self._planned_mark(),
            tries=1 if places else 0,
            places=tuple({**former, **places}.values()),
            only_aside=not moves,
        )
        for place in former.keys() - places.keys():
            self._withdraw(begun.id, former[place])
        if not places:
            return None
        return Writing(begun.id, str(begun.tries), lambda: planning.confirm(begun))

    def _withdraw(self, load: str, path: str, but: Collection[str] | None = ()) -> None:
        """Remove what tries of a load have saved below a path, except those named; with None, only
        unpublished output."""
        if renames(self._source.sparkSession, path):
            withdraw(f"{path.rstrip('/')}/{self.name}", (load, _aside(load)), but=but)

    def _manifest(self, saved_as: str) -> dict[str, Any]:
        return {
            "writer": str(self._store.binding.writer),
            "saved": saved_as,
            **record_as_json(self._record(self.rows, ())),
        }

    def _finish(self, counts: list[int], saved_as: _Saved | None = None) -> Loaded:
        appended, rules = self._appended, self._rules
        rows = appended.rows if appended else self._counted(counts)
        self.is_written = True
        bounded = self._figures
        result = Loaded(
            rows,
            rules.initial if rules.is_backfill else self.watermark,
            self.end,
            bounded.beyond,
            bounded.quarantined,
        )
        if self._backfilling is not None:
            self._backfilling.succeed(self._put, self._withdraw, rules.quarantine)
        elif self._planning is not None and (appended or self._moves()):
            self._planning.check_unmoved()
            self._keep_watermark(self._planning, saved_as)
        else:
            log.info("nothing new for %s after %s", self._where(), self.watermark)
            return result
        directories = (saved_as.directory,) if saved_as else ()
        record = record_as_json(self._record(rows, directories))
        self._put(self._key + RECORD_SUFFIX, record, inline=True)
        return result

    @property
    def _figures(self) -> Bounded:
        """What is known about the rows, which need not have been read."""
        source: Any = self._source  # in place of the rows
        return self._found or Bounded(source, self._planned, None, None, 0, {}, None, 0)

    def _keep_watermark(self, planning: Planning, saved_as: _Saved | None) -> None:
        """Set the watermark and the entries that belong to it.

        Outside an attempt these are separate writes, in an order in which a crash between them
        neither loses nor duplicates anything.
        """
        mark = self._end_mark
        assert mark is not None
        assert planning.plan is not None
        done = msgspec.to_builtins(msgspec.structs.replace(planning.plan, done=True))
        # Provided that no other load has replaced the plan, and may have written since.
        held = done if self._stages else msgspec.to_builtins(planning.plan)
        self._put(self._key + PLAN_SUFFIX, held, if_version=planning.stored_version)
        # If directories cannot be renamed, the try that counts.
        tried = next((one.tried for one in (saved_as, self._aside) if one and one.tried), None)
        spark = self._source.sparkSession
        if tried is None and not all(renames(spark, place) for place in planning.places):
            tried = NO_TRY  # an earlier attempt has saved to another place
        digests = [saved_as.digest if saved_as else saved_format.NOT]
        digests += [self._aside.digest] if self._aside else []
        before = None if self.is_reload else planning.before
        chain = following(before, planning.number, tried, digests)
        value = as_json(mark, self._rules.cursor, chain)
        self._put(self._key, value, if_version=planning.version)
        if not self._stages:
            self._put(self._key + PLAN_SUFFIX, done)
        if self._new_schema is not None:
            self._put(self._key + schema_contract.SUFFIX, self._new_schema)

    def _keep_saved(self, as_what: saved_format.Saved) -> str:
        """Store how `read_loads` is to read this load; return its digest."""
        value = msgspec.to_builtins(as_what)
        digest = digest_of(value)
        if self._store.entry(self._key + saved_format.PREFIX + digest) is None:
            # Not staged: it is the same for all that are saved alike, and has no effect by itself.
            self._store.set(self._key + saved_format.PREFIX + digest, value)
        return digest

    def _record(self, rows: int | None, directories: tuple[str, ...]) -> LoadRecord:
        bounded, rules = self._figures, self._rules
        of = rules.cursor.as_json
        start = rules.initial if rules.is_backfill else self.watermark
        return LoadRecord(
            name=self.name,
            number=self._planning.number if self._planning else 0,
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
            quarantine=self._aside.directory if self._aside else None,
        )

    def _counted(self, seen: list[int]) -> int | None:
        """Return the number of rows; None if unknown. Raise SourceChanged if a write saw more than
        there were."""
        rows, most = self.rows, self._bounded.most
        highest = max(seen, default=0)
        if most is None:
            return None
        if highest > most:
            # Spark counts rows twice that it computed twice, as when an executor was lost.
            now = self.df.count()
            if now > most:
                raise SourceChanged(
                    f"the range of the load for {self._where()} had {most:,} rows and has {now:,} "
                    "now; the watermark is unchanged",
                    hint="materialize=True reads such a source once",
                )
            return now
        if rows is None and highest == most:
            return most
        return self.df.count() if rows is None and most <= _FEW else rows

    def _check_contract(self, df: DataFrame | TableVersions) -> dict[str, str] | None:
        """Return the schema to store, if the store has none or another one. Raise SourceChanged for
        a broken contract."""
        if self._rules.contract is None:
            return None
        columns = schema_contract.columns_of(df.schema)
        stored = self._store.get(self._key + schema_contract.SUFFIX)
        changed = schema_contract.changes(stored, columns)
        if changed and self._rules.contract == "fail":
            raise schema_contract.broken(changed, self._where(schema_contract.SUFFIX))
        if changed:
            log.warning(
                "%s: the source's schema has changed: %s", self._where(), "; ".join(changed)
            )
        return columns if columns != stored else None

    @property
    def _stages(self) -> bool:
        """Whether writes are staged, and take effect atomically with the attempt's success."""
        writer = self._store.binding.writer
        in_attempt = isinstance(writer, TaskWriter) and writer.attempt is not None
        return in_attempt and not self._at_once

    def _put(
        self, key: str, value: Any, *, if_version: int | None = None, inline: bool = False
    ) -> None:
        store = self._store.inline() if inline else self._store
        store.set(key, value, on_success=self._stages, if_version=if_version)


def _aside(load: str) -> str:
    """Return the owner of the rows that a load quarantines."""
    return f"{load}-aside"
