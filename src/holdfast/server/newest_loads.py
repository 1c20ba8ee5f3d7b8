"""The newest load of each asset and watermark, for monitoring."""

from __future__ import annotations

from typing import Any, Final, NamedTuple

from holdfast import commands as c
from holdfast.commands.paging import LARGEST_PAGE
from holdfast.portable.report_tables import LARGEST_SLICE, LONGEST_LIST
from holdfast.store import Steps

MOST: Final = 10_000
"""Maximum number of watermarks that are read."""
LARGEST: Final = 4 * LARGEST_PAGE
"""Maximum characters of records that are read."""


class NewestLoad(NamedTuple):
    """A row of the table of loads. Times are microseconds since 1970 in UTC."""

    asset_id: int
    asset: str
    key: str
    kind: str
    type: str
    to: str | None
    rows: int | None
    seconds: float
    ended: int
    version: int


_COLUMNS: Final = (
    *("asset_id", "asset", "key", "kind", "type", "to", "rows", "seconds", "updated_at"),
    "version",
)


def newest_loads() -> Steps[list[NewestLoad]]:
    """Return the newest load of each asset and key, with one query.

    A backfill says nothing about how fresh the data is: where one came last, a second query finds
    the loads before it, for as many assets as a test may name.
    """
    last = yield from _scanned("last_loads", MOST)
    backfilled = sorted({load.asset_id for load in last if load.kind != "load"})
    older = []
    if backfilled:
        test = c.Test("asset_id", "in", tuple(backfilled[:LONGEST_LIST]))
        older = yield from _scanned("loads", LARGEST_SLICE, test)
    newest: dict[tuple[int, str], NewestLoad] = {}
    for load in sorted([*older, *last], key=lambda load: load.version):
        if load.kind == "load":
            newest[load.asset_id, load.key] = load
    return list(newest.values())


def _scanned(table: str, limit: int, *tests: c.Test) -> Steps[list[NewestLoad]]:
    scan = c.Scan(table=table, columns=_COLUMNS, tests=tests, limit=limit, max_size=LARGEST)
    found: Any = yield scan
    return [NewestLoad(*row) for row in zip(*found.columns, strict=True)]
