"""Scans of the tables that reports read."""

from __future__ import annotations

from typing import Literal

import msgspec

from holdfast.commands.base import Category, Command, check_count
from holdfast.errors import InvalidInput
from holdfast.portable import report_tables


class Test(msgspec.Struct, frozen=True):
    """A condition on a column of the rows to read. Times are microseconds since 1970 in UTC."""

    column: str
    operator: Literal["=", "<", "<=", ">", ">=", "in", "starts", "null", "not null"]
    values: tuple[int | str, ...] = ()


class Slice(msgspec.Struct, frozen=True):
    """Rows of a table, column by column, and the identity of the last row if there may be more."""

    columns: tuple[tuple[int | float | str | None, ...], ...]
    last: tuple[int | str, ...] | None


class Scan(Command[Slice], frozen=True, kw_only=True):
    """Return rows of a table of `portable.report_tables`, in order of their identity, starting
    after `after` and up to `until`; empty: from the first, to the last. Expired entries are
    omitted."""

    category = Category.READS
    touches_entries = True
    sized = True

    table: str
    columns: tuple[str, ...]
    tests: tuple[Test, ...] = ()
    after: tuple[int | str, ...] = ()
    until: tuple[int | str, ...] = ()
    limit: int
    max_size: int | None = None
    """Limit in characters of values, confs or errors: the slice ends with the row beyond it."""

    def __post_init__(self) -> None:
        report_tables.check_columns(self.table, self.columns)
        check_count(
            f"tests of rows of `{self.table}`",
            len(self.tests),
            report_tables.MOST_TESTS,
            "use fewer tests",
        )
        for test in self.tests:
            report_tables.check_test(self.table, test.column, test.operator, test.values)
        for bound in filter(None, (self.after, self.until)):
            report_tables.check_identity(self.table, bound)
        if not 1 <= self.limit <= report_tables.LARGEST_SLICE:
            raise InvalidInput(
                f"a slice of {self.limit} rows of the table `{self.table}`",
                hint=f"from 1 to {report_tables.LARGEST_SLICE:,}",
            )


class PlanScan(Command[tuple[tuple[int | str, ...], ...]], frozen=True):
    """Return the identities that split a table into ranges of about equally many rows: at most
    `most` ranges, and no more than give each about `rows`."""

    category = Category.READS
    touches_entries = True

    table: str
    most: int
    rows: int

    def __post_init__(self) -> None:
        report_tables.check_table(self.table)
        if not 1 <= self.most <= report_tables.MOST_RANGES or not 1 <= self.rows < 2**31:
            raise InvalidInput(
                f"{self.most} ranges of {self.rows} rows of `{self.table}`",
                hint=f"from 1 to {report_tables.MOST_RANGES:,} ranges, of 1 row or more",
            )
