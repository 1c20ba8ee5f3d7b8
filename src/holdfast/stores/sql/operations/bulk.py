"""Bulk loads: entries are collected unseen, and take effect in one transaction.

That transaction works inside the database, slice by slice, so that no statement exceeds the timeout
of a connection.
"""

from __future__ import annotations

from collections.abc import Iterator
from datetime import timedelta
from itertools import chain, count, repeat
from typing import Any

from holdfast import commands as c
from holdfast.model.entry import TaskWriter, Writer
from holdfast.model.scope import AssetScope, StoreScope, TaskScope
from holdfast.stores import refusals
from holdfast.stores.sql import rows
from holdfast.stores.sql import tables as t
from holdfast.stores.sql.operations.fencing import begin, lock_scope
from holdfast.stores.sql.operations.purge_queue import name_objects
from holdfast.stores.sql.operations.scopes import known, resolve, unknown
from holdfast.stores.sql.operations.steps import BEGIN, Context, Steps, each
from holdfast.stores.sql.statements import bulk as s
from holdfast.stores.sql.statements import entries as entry_statements
from holdfast.stores.sql.statements.scope_tables import TASKS, ScopeTables

SLICE = 20_000
_UNNAMED = (None,) * 4


def start_load(context: Context, command: c.StartLoad) -> Steps[None]:
    yield from begin(command.writer)
    dialect = type(context.dialect)
    [(now,)] = yield entry_statements.clock(), {}
    cutoff = now - c.LONGEST_LOAD // timedelta(microseconds=1)
    for (old,) in (yield s.lock_old_loads(dialect), {"cutoff": cutoff}):
        yield from _drop(old)
    yield s.add_load(dialect), {"name": command.load, "writer": rows.writer_text(command.writer)}


def add_to_load(context: Context, command: c.AddToLoad) -> Steps[None]:
    entries = list(command.checked())
    yield from begin(command.writer)
    load = yield from _lock(command.load, command.writer, share=True)
    [(last,)] = yield s.last_number(), {"load": load, "part": command.part}
    found = 0 if last is None else last + 1
    if found != command.first:
        raise refusals.out_of_step(command.load, command.part, command.first, found)
    brought: list[tuple[Any, ...]] = []
    numbers = count(command.first)
    for scope, new in entries:
        first, others = yield from _owner(scope)
        owners = chain((first,), repeat(others))
        # The entries come first in zip: when they end, no number is consumed.
        for (key, value, until), owner, number in zip(new, owners, numbers, strict=False):
            row_id = (load, command.part, number, *owner)
            brought.append((*row_id, key, value, rows.micros(until)))
    if brought:
        yield context.dialect.insert_many(t.load_entry, brought)


def finish_load(context: Context, command: c.FinishLoad) -> Steps[int]:
    yield BEGIN
    if isinstance(command.writer, TaskWriter) and command.writer.attempt is not None:
        # With a writer's lock, because the load may write there, which two shared locks would not
        # allow.
        yield from lock_scope(command.writer.scope, command.writer)
    load = yield from _lock(command.load, command.writer)
    parts = yield from _settle_parts(load, command)
    tasks = sum(tasks for _, tasks in parts.values())
    total = sum(entries for entries, _ in parts.values())
    for tables, entries in zip(s.SCOPE_TABLES, (tasks, total - tasks), strict=True):
        if entries:
            yield from _write(context, tables, load, parts, command.writer)
    yield from _drop(load)
    return total


def drop_load(context: Context, command: c.DropLoad) -> Steps[None]:
    yield BEGIN
    found = yield s.lock_load(False), {"name": command.load}
    for load, writer in found:
        if writer == rows.writer_text(command.writer):
            yield from _drop(load)


def _lock(name: str, writer: Writer, share: bool = False) -> Steps[int]:
    found = yield s.lock_load(share), {"name": name}
    if not found or found[0][1] != rows.writer_text(writer):
        raise refusals.unknown_load(name)
    return found[0][0]  # type: ignore[no-any-return]


def _drop(load: int) -> Steps[None]:
    yield s.drop_entries(), {"load": load}
    yield s.drop_load(), {"load": load}


def _owner(scope: StoreScope) -> Steps[tuple[tuple[Any, ...], tuple[Any, ...]]]:
    """Return the columns that identify the owner, for the first entry and for the others. An asset
    must exist; a task instance need not, so the first entry has its names."""
    if isinstance(scope, AssetScope):
        owner = (*_UNNAMED, (yield from known(scope)))
        return (None, *owner), (None, *owner)
    names = (scope.dag_id, scope.run_id, scope.task_id, scope.map_index)
    return (scope.ti_text, *names, None), (scope.ti_text, *_UNNAMED, None)


def _settle_parts(load: int, command: c.FinishLoad) -> Steps[dict[int, tuple[int, int]]]:
    """Return the parts that count, each with its number of entries, and of those of task instances.
    Drop the other parts. Raise Conflict if a part is incomplete."""
    present = {part: (all_, tasks) for part, all_, tasks in (yield s.parts(), {"load": load})}
    wanted = {part: entries for part, entries in command.parts if entries}
    for part, entries in wanted.items():
        found, _ = present.get(part, (0, 0))
        if found != entries:
            raise refusals.incomplete(command.load, part, entries, found)
    others = [{"load": load, "part": part} for part in present.keys() - wanted.keys()]
    yield from each(s.drop_part(), others)
    return {part: present[part] for part in sorted(wanted)}


def _write(
    context: Context,
    tables: ScopeTables,
    load: int,
    parts: dict[int, tuple[int, int]],
    writer: Writer,
) -> Steps[None]:
    dialect = type(context.dialect)
    whole = {"load": load}
    yield from _check_repeated(tables, load)
    if tables is TASKS:
        yield s.add_runs(dialect), whole
        yield s.add_task_instances(dialect), whole
        yield s.count_writes(tables), whole
    else:
        yield s.count_writes(tables), whole
        yield from _check_assets(load)
    yield from _name_objects(tables, load)
    own = writer.scope.ti_text if isinstance(writer, TaskWriter) else None
    by = {"writer": rows.writer_text(writer), "own": own}
    for slice_ in _slices(load, parts):
        yield s.write(tables, dialect), slice_ | by
        if tables.history is not None:
            yield s.add_history(), slice_
            yield s.trim_history(dialect), slice_ | {"kept": context.history_limit}


def _name_objects(tables: ScopeTables, load: int) -> Steps[None]:
    """Keep the objects that the load refers to from being deleted."""
    for *names, key, value in (yield s.queued_objects(tables), {"load": load}):
        of_task = tables is TASKS
        scope: StoreScope = TaskScope(*names) if of_task else AssetScope(name=names[0])
        yield from name_objects(scope, [(key, value)])


def _slices(load: int, parts: dict[int, tuple[int, int]]) -> Iterator[dict[str, int]]:
    for part, (entries, _) in parts.items():
        for first in range(0, entries, SLICE):
            yield {"load": load, "part": part, "first": first, "stop": first + SLICE}


def _check_repeated(tables: ScopeTables, load: int) -> Steps[None]:
    for owner, key in (yield s.repeated(tables), {"load": load}):
        if tables is TASKS:
            [names] = yield s.task_scope(), {"load": load, "owner": str(owner)}
            raise refusals.repeated(TaskScope(*names), key)
        raise refusals.repeated((yield from resolve(AssetScope(asset_id=owner))), key)


def _check_assets(load: int) -> Steps[None]:
    """Raise an error if one of the assets was deleted or deactivated meanwhile."""
    for id, name in (yield s.refused_asset(), {"load": load}):
        if name is None:
            raise (yield from unknown(AssetScope(asset_id=id)))
        raise refusals.inactive(AssetScope(name=name))
