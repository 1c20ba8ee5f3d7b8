"""Objects in the workers' storage: reserving them, naming them, and deleting what nothing names.

An object is deleted only while its row in the queue is taken, and named only while it is not: both
lock that row. So an object that is written anew, because the same value comes again, is never
deleted as the leftover of the time before.
"""

from __future__ import annotations

from collections.abc import Iterable
from datetime import timedelta
from typing import Any, NamedTuple

from holdfast import purge_command as c
from holdfast.scope import AssetScope, StoreScope, TaskScope
from holdfast.stores import refusal
from holdfast.stores.sql import purge_statements as s
from holdfast.stores.sql import rows
from holdfast.stores.sql.operations.scopes import open_scope, resolve
from holdfast.stores.sql.operations.steps import BEGIN, Context, Steps
from holdfast.stores.sql.statements import ASSETS, TASKS, Shelf
from holdfast.value import is_reference


class Keeper(NamedTuple):
    """Whose objects they are, as the queue knows it."""

    shelf: Shelf
    columns: dict[str, Any]

    @property
    def owner(self) -> dict[str, Any]:
        return {"owner": self.columns[s.owner_column(self.shelf).name]}


def keeper(scope: StoreScope) -> Steps[Keeper]:
    """That of a scope which has to be known."""
    return _keeper((yield from resolve(scope)))


def _keeper(scope: StoreScope) -> Keeper:
    if isinstance(scope, TaskScope):
        names = ("dag_id", "run_id", "task_id", "map_index")
        columns = {"ti_id": scope.ti_text} | {name: getattr(scope, name) for name in names}
        return Keeper(TASKS, columns)
    name = scope.name or scope.uri or ""
    return Keeper(ASSETS, {"name_digest": rows.digest(name), "name": name, "uri": scope.uri})


def reserve_objects(context: Context, command: c.ReserveObjects) -> Steps[None]:
    yield from open_scope(command.scope, command.writer)
    its = yield from keeper(command.scope)
    later = {"until": _micros(c.RESERVED_FOR)}
    for key, value in command.values:
        queued = yield from _queued(command.scope, its, key, value)
        if queued:
            yield s.postpone(), [{"row": row} | later for row in queued]
        elif value:
            yield s.add(its.shelf), its.columns | later | {"key": key, "value": value}


def release_objects(context: Context, command: c.ReleaseObjects) -> Steps[None]:
    yield BEGIN
    its = yield from keeper(command.scope)
    for key, value in command.values:
        for row, text, taken in (yield s.lock_of_key(its.shelf), its.owner | {"key": key}):
            if text == value and not taken:
                yield s.postpone(), {"row": row, "until": 0}


def queue_objects(context: Context, command: c.QueueObjects) -> Steps[None]:
    yield BEGIN
    for scope, key, value in command.objects:
        its = _keeper(scope)
        found = yield s.lock_of_key(its.shelf), its.owner | {"key": key}
        if all(text != value for _, text, _ in found):
            yield s.add(its.shelf), its.columns | {"until": 0, "key": key, "value": value}


def name_objects(scope: StoreScope, values: Iterable[tuple[str, str]]) -> Steps[None]:
    """What is about to be written names these objects: they are neither reserved nor to be deleted
    any more. The transaction has begun."""
    references = [(key, value) for key, value in values if is_reference(value)]
    if references:
        its = yield from keeper(scope)
        for key, value in references:
            for row in (yield from _queued(scope, its, key, value)):
                yield s.drop(), {"row": row}


def _queued(scope: StoreScope, its: Keeper, key: str, value: str) -> Steps[list[int]]:
    """The rows of an object, or without a value those of the key; none of them is taken."""
    found = yield s.lock_of_key(its.shelf), its.owner | {"key": key}
    queued = [(row, taken) for row, text, taken in found if value in ("", text)]
    if any(taken for _, taken in queued):
        raise refusal.being_deleted(scope, key)
    return [row for row, _ in queued]


def take_purges(context: Context, command: c.TakePurges) -> Steps[tuple[c.Purge, ...]]:
    yield BEGIN
    conditions = _conditions(command.part)
    statement = s.lock_due(type(context.dialect), frozenset(conditions))
    found = yield statement, conditions | {"limit": command.limit}
    named = [row for row in found if row[-1]]
    if named:
        yield s.drop(), [{"row": row[0]} for row in named]
    due = [row for row in found if not row[-1]]
    if due:
        until = _micros(command.lease)
        yield s.take(), [{"row": row[0], "until": until} for row in due]
    return tuple(map(_purge, due))


def _conditions(part: c.Part) -> dict[str, Any]:
    """The columns that tell which part of the queue it is, with their values."""
    match part.scope:
        case TaskScope() as scope if part.all_map_indices:
            return {"dag_id": scope.dag_id, "run_id": scope.run_id, "task_id": scope.task_id}
        case TaskScope() as scope:
            return {"ti_id": scope.ti_text}
        case AssetScope(name=str(name)):
            return {"name_digest": rows.digest(name)}
        case AssetScope(uri=str(uri)):
            return {"uri": uri}
    return {}


def _purge(row: rows.Row) -> c.Purge:
    id, dag_id, run_id, task_id, map_index, name, uri, key, value, tries, _ = row
    if dag_id is not None:
        return c.Purge(id, TaskScope(dag_id, run_id, task_id, map_index), key, value, tries)
    return c.Purge(id, AssetScope(name=name, uri=uri), key, value, tries)


def finish_purges(context: Context, command: c.FinishPurges) -> Steps[None]:
    yield BEGIN
    where = _conditions(command.part)
    names = frozenset(where)
    if command.gone:
        yield s.drop(names), [{"row": row} | where for row in command.gone]
    for row, reason in command.failed:
        for (tries,) in (yield s.tries(names), {"row": row} | where):
            pause = _micros(c.pause_after(tries))
            yield s.fail(), {"row": row, "until": pause, "reason": reason}


def count_purges(context: Context, command: c.CountPurges) -> Steps[c.PurgeQueue]:
    [(waiting, failing, all_)] = yield s.count(), {}
    errors = (yield s.last_error(), {}) if failing else []
    error = errors[0][0] if errors else ""
    return c.PurgeQueue(int(waiting), int(failing), all_ - int(waiting), error or "")


def _micros(time: timedelta) -> int:
    return time // timedelta(microseconds=1)
