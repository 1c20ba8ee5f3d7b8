"""Lake tables as the source of loads, by version: what was appended since the last load."""

from __future__ import annotations

import logging
from collections.abc import Sequence
from functools import cached_property
from typing import TYPE_CHECKING, Literal, NamedTuple, TypeAlias

from holdfast.errors import InvalidInput, TableChanged
from holdfast.spark.lake.changes import Position, TableFile, appended, rows_of
from holdfast.spark.lake.table import LakeTable
from holdfast.spark.lake.table_reader import frame, history_of
from holdfast.spark.loads.arguments import LoadRules
from holdfast.spark.loads.bounding import Bounded, Findings, checked, kept
from holdfast.spark.loads.expectations import passes
from holdfast.spark.loads.watermark import TableMark, Watermark

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession
    from pyspark.sql.types import StructType

OnChange: TypeAlias = Literal["error", "reload"]

log = logging.getLogger("holdfast")


class _Range(NamedTuple):
    """The files of a load, and the watermark after it."""

    mark: Watermark | None
    files: Sequence[TableFile]


class TableVersions:
    """The versions of a table, from which a load takes what was appended to it."""

    def __init__(self, table: LakeTable, spark: SparkSession, on_change: OnChange) -> None:
        self.sparkSession = spark  # as a DataFrame has it
        self._history = history_of(table)
        self._on_change = on_change

    @property
    def kind(self) -> str:
        """The name of the table's format."""
        return self._history.kind

    @cached_property
    def schema(self) -> StructType:
        """The columns of the newest version."""
        return self._history.layout(self._history.newest()).schema

    def bounded(
        self, rules: LoadRules, mark: Watermark | None, planned: Watermark | None, where: str
    ) -> Bounded:
        """Fix the versions of a load, and count and check its rows.

        Raise TableChanged if rows were changed or removed since the watermark, or if that is not
        known, unless such loads read the whole table; CheckFailed if the rows fail a check.
        """
        found = self._range(rules, mark, planned, where)
        at = None if found.mark is None else _position(found.mark)
        layout = self._history.layout(at)
        rows = frame(self.sparkSession, self._history.storage, layout, found.files)
        if rules.materialize:
            rows = kept(rows)
        count = rows_of(found.files)
        if not rules.expect:
            return Bounded(rows, found.mark, count, count, 0, {}, None, 0)
        return checked(rows, rules, found.mark, _survey(rows, rules), where)

    def _range(
        self, rules: LoadRules, mark: Watermark | None, planned: Watermark | None, where: str
    ) -> _Range:
        history = self._history
        if planned is not None:
            return self._planned(mark, planned, where)
        until = rules.until
        newest = history.find(until) if isinstance(until, int) else history.newest()
        if mark is None:
            return self._whole(newest)
        try:
            after = _position(mark)
            history.check(after)
            if newest is None or history.includes(after, newest):
                return _Range(mark, [])
            found = appended(history, after, newest, max_rows=rules.max_rows)
        except TableChanged as error:
            if self._on_change == "error":
                raise
            log.warning("%s: reading the whole table again: %s", where, error.message)
            return self._whole(newest)
        return _Range(_mark(found.to), found.files)

    def _planned(self, mark: Watermark | None, planned: Watermark, where: str) -> _Range:
        """Return the range that an earlier attempt has planned."""
        history, to = self._history, _position(planned)
        try:
            history.check(to)
            if mark is None or (planned.table and planned.table.whole):
                return _Range(planned, history.files(to))
            return _Range(planned, appended(history, _position(mark), to).files)
        except (TableChanged, InvalidInput) as error:
            raise TableChanged(
                f"an unfinished load for {where} ends at the version {to.version}, and its rows "
                f"cannot be read any more: {error.message}",
                hint="remove what it may have written, then delete its plan, the entry `…/plan` "
                "beside the watermark",
            ) from error

    def _whole(self, at: Position | None) -> _Range:
        if at is None:
            return _Range(None, [])
        return _Range(_mark(at, whole=True), self._history.files(at))


def is_reload(before: Watermark | None, end: Watermark | None) -> bool:
    """Return whether a load between two watermarks has rows again that are loaded already."""
    return bool(before and end and end != before and end.table and end.table.whole)


def _position(mark: Watermark) -> Position:
    assert isinstance(mark.value, int)
    table = mark.table or TableMark()
    return Position(mark.value, table.id, table.commit, table.sequence)


def _mark(at: Position, *, whole: bool = False) -> Watermark:
    return Watermark(at.version, None, TableMark(at.table, at.commit, at.sequence, whole))


def _survey(rows: DataFrame, rules: LoadRules) -> Findings:
    """Count the rows, and those that fail checks, in one pass."""
    from pyspark.sql import functions as f

    expect = rules.expect
    rejected = ~expect.good if expect.conditions else f.lit(False)
    failing = [~passes(condition) for condition in expect.conditions.values()]
    [found] = rows.agg(
        f.count(f.lit(1)).alias("rows"),
        f.count_if(rejected).alias("rejected"),
        *(f.count_if(failed).alias(f"check {n}") for n, failed in enumerate(failing)),
    ).collect()
    failures = {name: found[f"check {n}"] for n, name in enumerate(expect.conditions)}
    return Findings(found["rows"], 0, failures, found["rejected"])
