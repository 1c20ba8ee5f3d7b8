"""The range of a load, fixed before its rows are written.

A load has the rows after the watermark, or after the lag before it, up to an end that is determined
first. Whatever is done with those rows, that end is the watermark after the load.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import reduce
from operator import and_
from typing import TYPE_CHECKING, Any, NamedTuple

from holdfast.errors import CheckFailed, InvalidInput, SourceChanged
from holdfast.spark.loads.arguments import LoadRules
from holdfast.spark.loads.cursor import Value
from holdfast.spark.loads.expectations import passes
from holdfast.spark.loads.source import source_of
from holdfast.spark.loads.watermark import Bound, Memory, Watermark, latest

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame


class Bounded(NamedTuple):
    """The rows of a load, and what is known about them before they are written."""

    df: DataFrame
    mark: Watermark | None
    """The watermark after the load; None: nothing has been loaded yet."""
    rows: int | None
    """The number of rows; None if they were not counted."""
    most: int | None
    """The maximum number of rows; there may be duplicates among them."""
    beyond: int
    """The number of rows beyond the horizon, which are left for a later load."""
    checks: dict[str, int]
    """The number of rows that failed each check."""
    rejected: DataFrame | None
    """The rows to quarantine."""
    quarantined: int


class _Survey(NamedTuple):
    """The result of one pass over the rows of a range."""

    rows: int
    end: Value | None
    nulls: int
    beyond: int
    ahead: int
    """The number of rows after the watermark."""
    failures: dict[str, int]
    rejected: int


class Findings(NamedTuple):
    """What one pass over the rows of a load has found, for its checks."""

    rows: int
    beyond: int = 0
    failures: Mapping[str, int] = {}
    rejected: int = 0


class Bounding:
    """The bounding of a load that follows the watermark `mark`.

    `planned` is the watermark that an earlier attempt at the same load has planned: the range and
    the rows stay the same; with `ends_at_row`, it is the cursor value of a row that there was.
    `where` names the watermark in errors.
    """

    def __init__(
        self,
        df: DataFrame,
        rules: LoadRules,
        mark: Watermark | None,
        planned: Watermark | None,
        where: str,
        *,
        ends_at_row: bool = False,
    ) -> None:
        self._rules = rules
        self._mark = mark
        self._planned = planned
        self._where = where
        self._start, self._memory = self._begin()
        self._source = df
        found = source_of(df)
        if rules.materialize is False and found.is_parsed:
            raise InvalidInput(
                f"the rows for {where} are parsed from text, where the columns that are read "
                "decide which rows are malformed: they must be read only once",
                hint="remove materialize=False",
            )
        # Rows of other sources may be updated, and are then beyond the end.
        self._ends_at_row = ends_at_row and found.is_fixed
        repeatable = found.is_fixed and not found.is_parsed
        self._fixed = repeatable if rules.materialize is None else not rules.materialize
        self._compares_as_spark = found.compares_as_spark
        self._cursor = rules.cursor.column
        if not found.compares_as_spark:
            self._cursor = _kept_in_spark(self._cursor)

    def result(self) -> Bounded:
        """Fix the range, and count and check its rows.

        Raise InvalidInput if a cursor is null or too many rows must be remembered, CheckFailed if
        the rows fail a check, SourceChanged if they do not reach the planned end.
        """
        rules = self._rules
        top = self._planned.value if self._planned else rules.top()
        if self._mark is not None and top is not None and not rules.is_backfill:
            top = max(top, self._mark.value)
        if self._needs_no_survey():
            assert top is not None
            given = self._mark if self._mark and self._mark.value == top else Watermark(top)
            return Bounded(self._unseen(given), given, None, None, 0, {}, None, 0)
        rows, beyond, survey = self._candidates(top), 0, None
        if rules.max_rows and not self._planned:
            survey = self._survey(rows, top)
            if survey.ahead > rules.max_rows:
                top, beyond = self._portion(rows, top, survey), survey.beyond
                rows, survey = self._within(rows, top, nulls=rules.on_null != "skip"), None
        if not self._fixed:
            rows, survey = kept(rows), None
            self._source = rows
        survey = survey or self._survey(rows, top)
        if survey.nulls:
            raise InvalidInput(
                f"the cursor `{rules.cursor.name}` is null in {survey.nulls:,} rows for "
                f"{self._where}; nothing was loaded",
                hint='on_null="skip" skips such rows',
            )
        if self._ends_at_row:
            self._check_end(survey.end)
        mark = self._planned or self._next_mark(survey.end)
        end = rules.end if rules.is_backfill else mark.value if mark else None
        bounded = self._as_planned(self._fresh(self._ended(end)), mark)
        found = Findings(survey.rows, max(beyond, survey.beyond), survey.failures, survey.rejected)
        return checked(bounded, rules, mark, found, self._where)

    def _check_end(self, end: Any) -> None:
        """Raise SourceChanged if the rows do not reach the planned end: files that were listed
        before another run planned the load lack its last rows."""
        planned = self._planned
        if planned is not None and (end is None or end < planned.value):
            raise SourceChanged(
                f"an unfinished load for {self._where} ends at {planned.value}, which no row of "
                "this DataFrame reaches; nothing was loaded",
                hint="run this again with a DataFrame that is created now; if the rows were "
                "removed on purpose, delete the plan, the entry `…/plan` beside the watermark",
            )

    def _begin(self) -> tuple[Bound | None, Memory | None]:
        """Return the lower bound to read from, and which rows from there on are loaded already."""
        rules, mark = self._rules, self._mark
        memory = Memory(rules.identity.kinds, None, ()) if rules.identity else None
        if mark is None:
            return rules.first(), memory
        again = rules.rereads_from(mark.value)
        if memory is None:
            return latest((rules.first(), again)), None
        if mark.memory is None:
            # It is unknown which rows up to the watermark are loaded; later ones are not.
            after = Bound(mark.value, closed=False)
            return latest((rules.first(), after)), memory._replace(since=after)
        if mark.memory.columns != memory.columns:
            raise InvalidInput(
                f"{self._where} identifies loaded rows by {_shown(mark.memory.columns)}, but the "
                f"primary key is now {_shown(memory.columns)}",
                hint="give the former primary_key; or another key=, to load everything again "
                'under it; or set the watermark without its "seen" part: loads then start after '
                "it, and late rows from before it are not loaded",
            )
        return latest((rules.first(), again, mark.memory.since)), mark.memory

    def _needs_no_survey(self) -> bool:
        """Return whether the caller's arguments make a survey unnecessary."""
        rules = self._rules
        return (
            not self._planned
            and rules.until is not None
            and rules.until_is_named
            and rules.cursor.is_over(rules.until, rules.now)
            and rules.identity is None
            and not rules.expect
            and rules.max_rows is None
            and self._fixed
        )

    def _candidates(self, top: Value | None) -> DataFrame:
        """Return the rows to survey: those of the range, and those to report."""
        rules = self._rules
        counts_beyond = not self._planned and rules.until is None and not rules.is_backfill
        return self._within(
            self._source, None if counts_beyond else top, nulls=rules.on_null != "skip"
        )

    def _ended(self, end: Value | None) -> DataFrame:
        """Return the rows up to the end; if there is none, no row has a cursor value."""
        from pyspark.sql import functions as f

        if end is not None:
            return self._within(self._source, end)
        included = self._rules.on_null == "include"
        return self._source.where(self._cursor.isNull() if included else f.lit(False))

    def _within(
        self, rows: DataFrame, top: Value | None, *, nulls: bool | None = None
    ) -> DataFrame:
        """Return the rows from the start of the load up to `top`."""
        if nulls is None:
            nulls = self._rules.on_null == "include"
        bounds = [] if self._start is None else [self._from(self._start)]
        if top is not None:
            bounds.append(self._up_to(top))
        if not self._compares_as_spark:
            rows = _all_hold(rows, self._rules.cursor.column, self._roughly(top), nulls)
        return _all_hold(rows, self._cursor, bounds, nulls)

    def _roughly(self, top: Value | None) -> list[Column]:
        """Return conditions for the source to apply that no row of the range fails, however the
        source compares values."""
        cursor, low = self._rules.cursor, self._start
        lowest = cursor.beside(low.value, -1) if low else None
        highest = cursor.beside(top, 1) if top is not None else None
        return [
            *([] if lowest is None else [cursor.column >= cursor.literal(lowest)]),
            *([] if highest is None else [cursor.column <= cursor.literal(highest)]),
        ]

    def _up_to(self, top: Value) -> Column:
        value = self._rules.cursor.literal(top)
        return self._cursor <= value if self._rules.top_is_closed else self._cursor < value

    def _survey(self, rows: DataFrame, top: Value | None) -> _Survey:
        from pyspark.sql import functions as f

        cursor, expect = self._rules.cursor, self._rules.expect
        known = self._cursor.isNotNull()
        inside = known if top is None else f.coalesce(self._up_to(top), f.lit(False))
        late = f.lit(False) if top is None else f.coalesce(~self._up_to(top), f.lit(False))
        counted = inside if self._memory is None else inside & self._is_fresh()
        if self._rules.on_null == "include":
            counted |= self._cursor.isNull()
        ahead = inside
        if self._mark is not None and not self._rules.is_backfill:
            ahead &= self._cursor > cursor.literal(self._mark.value)
        failing = {
            name: counted & ~passes(condition) for name, condition in expect.conditions.items()
        }
        rejected = counted & ~expect.good if expect.conditions else f.lit(False)
        columns = [
            f.count_if(counted).alias("rows"),
            cursor.observed(f.max(f.when(counted, self._cursor))).alias("end"),
            f.count_if(~known).alias("nulls"),
            f.count_if(late).alias("beyond"),
            f.count_if(ahead).alias("ahead"),
            f.count_if(rejected).alias("rejected"),
            *(f.count_if(failed).alias(f"check {n}") for n, failed in enumerate(failing.values())),
        ]
        [found] = rows.agg(*columns).collect()
        return _Survey(
            rows=found["rows"],
            end=None if found["end"] is None else cursor.from_observed(found["end"]),
            nulls=found["nulls"] if self._rules.on_null == "error" else 0,
            beyond=found["beyond"],
            ahead=found["ahead"],
            failures={name: found[f"check {n}"] for n, name in enumerate(failing)},
            rejected=found["rejected"],
        )

    def _portion(self, rows: DataFrame, top: Value | None, survey: _Survey) -> Value:
        """Return an end up to which there are about `max_rows` rows after the watermark."""
        from pyspark.sql import functions as f

        cursor, most = self._rules.cursor, self._rules.max_rows
        assert most is not None
        ahead = rows.where(self._cursor.isNotNull())
        if top is not None:
            ahead = ahead.where(self._up_to(top))
        if self._mark is not None:
            ahead = ahead.where(self._cursor > cursor.literal(self._mark.value))
        found: Any = None
        if cursor.kind != "string":
            share = f.percentile_approx(self._cursor, most / survey.ahead, 10_000)
            [[found]] = ahead.agg(cursor.observed(share)).collect()
        if found is None or ahead.where(self._up_to(cursor.from_observed(found))).isEmpty():
            # Exact, if there is no approximation, or it lies before all rows.
            first = ahead.select(self._cursor.alias("at")).orderBy("at").limit(most)
            [[found]] = first.agg(cursor.observed(f.max("at"))).collect()
        return cursor.from_observed(found)

    def _next_mark(self, end: Value | None) -> Watermark | None:
        """Return the watermark after a load up to `end`, with the rows that may be read again."""
        rules, mark = self._rules, self._mark
        if rules.is_backfill:
            return None if end is None else Watermark(end)
        if end is None:
            known = mark is None or self._memory is None or mark.memory is not None
            return mark if known else mark and Watermark(mark.value, self._memory)
        value: Value = end if mark is None else max(mark.value, end)
        if self._memory is None:
            return Watermark(value)
        since = latest((rules.rereads_from(value), self._start))
        zone = self._fresh(self._within(self._source, value))
        if since is not None:
            zone = zone.where(self._from(since))
        loaded = self._hashes(zone)
        memory = self._memory._replace(columns=rules.identity.kinds)  # type: ignore[union-attr]
        memory = memory.with_load(since, loaded)
        if len(memory.keys()) > rules.remember:
            raise InvalidInput(
                f"more than remember={rules.remember:,} loaded rows would be read again for "
                f"{self._where}; nothing was loaded",
                hint="use a shorter lag or a finer cursor, so that they are fewer; or a larger "
                "remember=; or primary_key=(), if the write replaces rows",
            )
        return Watermark(value, memory)

    def _hashes(self, rows: DataFrame) -> list[tuple[Value, int]]:
        from pyspark.sql import functions as f

        rules = self._rules
        assert rules.identity is not None
        at = rules.cursor.observed(self._cursor).alias("at")
        found = rows.select(at, f.expr(rules.identity.hash).alias("hash")).distinct()
        return [
            (rules.cursor.from_observed(row["at"]), row["hash"])
            for row in found.limit(rules.remember + 1).collect()
        ]

    def _from(self, since: Bound) -> Column:
        value = self._rules.cursor.literal(since.value)
        return self._cursor >= value if since.closed else self._cursor > value

    def _is_fresh(self) -> Column:
        """Return the condition that a row is not remembered as loaded."""
        from pyspark.sql import functions as f

        keys = self._memory.keys() if self._memory else []
        if not keys or self._mark is None:
            return f.lit(True)
        # Only rows up to the watermark can have been loaded: the others need no hash.
        later = self._cursor > self._rules.cursor.literal(self._mark.value)
        return later | ~f.expr(self._among(keys))

    def _fresh(self, rows: DataFrame) -> DataFrame:
        return rows.where(self._is_fresh()) if self._memory and self._memory.keys() else rows

    def _as_planned(self, rows: DataFrame, mark: Watermark | None) -> DataFrame:
        """Leave out rows that appeared after the load was planned: they lie in the remembered
        range, but are not in the plan, and the next load will find them."""
        if mark is None or mark.memory is None:
            return rows
        from pyspark.sql import functions as f

        since = mark.memory.since
        keys = mark.memory.keys()
        planned = f.expr(self._among(keys)) if keys else f.lit(False)
        return rows.where(planned if since is None else ~self._from(since) | planned)

    def _among(self, keys: list[int]) -> str:
        assert self._rules.identity is not None
        among = ", ".join(f"{number}L" for number in keys)
        return f"{self._rules.identity.hash} IN ({among})"

    def _unseen(self, mark: Watermark | None) -> DataFrame:
        """Return the rows of a load without a survey. Unless nulls are allowed, Spark itself fails
        on a null cursor."""
        from pyspark.sql import functions as f

        end = mark.value if mark else None
        if self._rules.on_null != "error":
            return self._within(self._source, end)
        rows = self._within(self._source, end, nulls=True)
        failing = f.raise_error(f.lit(null_cursor(self._rules.cursor.name, self._where)))
        return rows.where(f.when(self._cursor.isNull(), failing).otherwise(f.lit(True)))


def checked(
    rows: DataFrame, rules: LoadRules, mark: Watermark | None, found: Findings, where: str
) -> Bounded:
    """Return the rows of a load after its checks. Raise CheckFailed if they fail one."""
    expect = rules.expect
    checks = dict(found.failures)
    most, rejected, quarantined = found.rows, None, 0
    if rules.quarantine is not None and found.rejected:
        rejected = _distinct(rows.where(~expect.good), rules)
        quarantined = found.rejected if rules.identity is None else rejected.count()
        rows, most = rows.where(expect.good), most - found.rejected
    rows = _distinct(rows, rules)
    count = most if rules.identity is None or not most else None
    for name, columns in expect.unique.items():
        known = rows.where(reduce(and_, (column.column.isNotNull() for column in columns)))
        groups = known.groupBy(*(column.column for column in columns)).count()
        checks[name] = groups.where("count > 1").count()
    failed = {
        name: number
        for name, number in checks.items()
        if number and (name in expect.unique or rules.quarantine is None)
    }
    if expect.rows is not None:
        count = rows.count() if count is None else count
        low, high = expect.rows
        outside = count < (low or 0) or (high is not None and count > high)
        checks["rows"] = int(outside)
        if outside:
            failed[f"rows {expect.rows}"] = count
    if failed:
        counts = "; ".join(f"{name}: {number:,}" for name, number in failed.items())
        raise CheckFailed(
            f"the new rows for {where} fail a check: {counts}; nothing was loaded",
            hint="fix the source or the check; quarantine= sets such rows aside"
            if failed.keys() & expect.conditions.keys()
            else "fix the source or the check",
        )
    return Bounded(rows, mark, count, most, found.beyond, checks, rejected, quarantined)


def _distinct(rows: DataFrame, rules: LoadRules) -> DataFrame:
    return rows if rules.identity is None else rules.identity.distinct(rows)


def kept(rows: DataFrame) -> DataFrame:
    """Read rows once, and checkpoint them.

    If an executor may be lost, there are two copies; if both are lost, Spark fails rather than read
    the source again.
    """
    from pyspark import StorageLevel

    master = rows.sparkSession.conf.get("spark.master", "") or ""
    level = StorageLevel.MEMORY_AND_DISK
    if not str(master).startswith("local"):
        level = StorageLevel.MEMORY_AND_DISK_2
    return rows.localCheckpoint(storageLevel=level)


def _all_hold(rows: DataFrame, cursor: Column, conditions: list[Column], nulls: bool) -> DataFrame:
    """Return the rows for which all conditions hold, with `nulls` also those without a cursor
    value."""
    if nulls:
        # As one condition, so that the source can apply it.
        return rows.where(reduce(and_, conditions) | cursor.isNull()) if conditions else rows
    for condition in conditions or [cursor.isNotNull()]:
        rows = rows.where(condition)
    return rows


def _kept_in_spark(column: Column) -> Column:
    """Return the same value in a form that Spark pushes down to no source, so that it compares it
    itself."""
    from pyspark.sql import functions as f

    return f.element_at(f.array(column), 1)


def null_cursor(name: str, where: str) -> str:
    """Return the message by which our own failure on a null cursor is recognized."""
    return f"the cursor `{name}` is null in a row for {where}"


def _shown(columns: dict[str, str]) -> str:
    return ", ".join(f"{name} ({kind})" for name, kind in columns.items())
