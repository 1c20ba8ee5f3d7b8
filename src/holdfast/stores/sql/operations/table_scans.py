"""Table scans: a slice at a time, and ranges that can be read in parallel."""

from __future__ import annotations

import random
from collections.abc import Callable
from typing import Any
from uuid import UUID

from holdfast import commands as c
from holdfast.model.load_record import expand_records
from holdfast.model.value import shown
from holdfast.portable.report_tables import IDENTITIES, LOADS, stored_columns
from holdfast.stores.sql.dialects import Dialect
from holdfast.stores.sql.operations.measuring import up_to_size
from holdfast.stores.sql.operations.steps import Context, Query, Steps
from holdfast.stores.sql.statements import table_scans as s
from holdfast.stores.sql.statements.scope_tables import Select

PROBES = 256
"""Number of rows, evenly spread over the ids that a table has had, that are sampled to find ranges
of about equal size. Where ids are missing, the sample is smaller."""


def scan(context: Context, command: c.Scan) -> Steps[c.Slice]:
    query = scan_query(command, context.dialect, s.scan_slice)
    names = stored_columns(command.table, command.columns)
    if command.max_size is None or not s.LARGE.intersection(names):
        rows, more = (yield query), False
    else:
        measured, _ = scan_query(command, context.dialect, s.measured_slice)
        rows, more = yield from up_to_size(query, measured, command.max_size)
    if not rows:
        return c.Slice(tuple(() for _ in command.columns), None)
    full = more or len(rows) == command.limit
    last = _identity(rows[-1][len(names) :]) if full else None
    found = dict(zip(names, zip(*rows, strict=True), strict=False))
    if command.table in LOADS:
        found |= expand_records(found)
    elif "value" in found:
        found["value"] = tuple(text and shown(text) for text in found["value"])
    return c.Slice(tuple(found[name] for name in command.columns), last)


def scan_query(command: c.Scan, dialect: Dialect, build: Callable[[s.ScanShape], Select]) -> Query:
    """Return the SELECT that `build` makes for the command, and its parameters."""
    tests = [(test.column, test.operator, _padded(test.values)) for test in command.tests]
    shape = s.ScanShape(
        table=command.table,
        columns=stored_columns(command.table, command.columns),
        tests=tuple((column, operator, len(values)) for column, operator, values in tests),
        after=bool(command.after),
        until=bool(command.until),
        by_rows=dialect.compares_rows,
    )
    params: dict[str, Any] = {"limit": command.limit} | {
        f"test_{number}_{n}": value
        for number, (_, _, values) in enumerate(tests)
        for n, value in enumerate(values)
    }
    for name, bound in (("after", command.after), ("until", command.until)):
        params |= {f"{name}_{n}": value for n, value in enumerate(bound)}
    return build(shape), params


def _padded(values: tuple[int | str, ...]) -> tuple[int | str, ...]:
    """Pad the values with the last one, so that lists of many lengths share a statement."""
    length = 1 << max(len(values) - 1, 0).bit_length()
    return values + values[-1:] * (length - len(values)) if values else values


def plan_scan(context: Context, command: c.PlanScan) -> Steps[tuple[tuple[int | str, ...], ...]]:
    enough = command.most * command.rows
    count = (yield s.size(command.table), {"limit": enough})[0][0]
    ranges = max(1, min(command.most, -(-count // command.rows)))
    if ranges == 1:
        return ()
    if IDENTITIES[command.table] == (str,):
        # Ids of task instances are digests, and so evenly distributed.
        return tuple((str(UUID(int=n * 2**128 // ranges)),) for n in range(1, ranges))
    first, last = (yield s.ends(command.table), {})[0]
    if first is None:
        return ()  # all rows have been deleted meanwhile
    span = last - first + 1
    points = {
        # At random in each part, as rows may be written in a regular pattern.
        f"id_{n}": first + int(span * (n + random.random()) / PROBES)  # noqa: S311
        for n in range(PROBES)
    }
    found = (yield s.next_ids(command.table, PROBES), points)[0]
    ids = {f"id_{n}": last if id is None else id for n, id in enumerate(found)}
    rows = yield s.identities(command.table, PROBES), ids
    sample = sorted(set(map(_identity, rows)))
    bounds = (sample[len(sample) * n // ranges] for n in range(1, ranges) if sample)
    return tuple(dict.fromkeys(bounds))


def _identity(row: Any) -> tuple[int | str, ...]:
    return tuple(part if isinstance(part, int) else str(part) for part in row)
