"""Objects in the workers' storage: reserving them, naming them, and deleting what nothing names.

An object is deleted only while its row in the queue is taken, and named only while it is not: both
lock that row. So an object that is written anew, because the same value comes again, is never
deleted as the leftover of the time before.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
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


def track_object(scope: StoreScope, key: str, value: str) -> Steps[None]:
    """An entry that is not in this database is about to name an object: it is looked at again and
    again, as nobody can tell when that entry is gone. The transaction has begun."""
    its = yield from keeper(scope)
    if is_reference(value):
        later = {"until": _micros(c.RESERVED_FOR)}
        queued = yield from _queued(scope, its, key, value)
        if queued:
            yield s.postpone(), [{"row": row} | later for row in queued]
        else:
            yield s.add(its.shelf), its.columns | later | {"key": key, "value": value}
    where = {s.owner_column(its.shelf).name: its.owner["owner"], "key": key}
    yield s.expedite(frozenset(where), but=True), where | {"standing": value}


def look_at_objects(scope: StoreScope, key: str | None = None, all_: bool = False) -> Steps[None]:
    """Entries that are not in this database are gone: what they named is looked at now."""
    where = _conditions(c.Part(scope, all_)) | ({} if key is None else {"key": key})
    yield s.expedite(frozenset(where), but=False), where


def keep_for_now(purges: Sequence[c.Purge]) -> Steps[None]:
    """They have names: look again in a day."""
    if purges:
        later = _micros(c.RESERVED_FOR)
        yield s.postpone(), [{"row": purge.id, "until": later} for purge in purges]


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
    due, named = yield from due_objects(context, command)
    if named:
        yield s.drop(), [{"row": purge.id} for purge in named]
    yield from take(due, command)
    return tuple(due)


def due_objects(
    context: Context, command: c.TakePurges
) -> Steps[tuple[list[c.Purge], list[c.Purge]]]:
    """What is due and has no name, and what has one, in rows that are locked."""
    conditions = _conditions(command.part)
    statement = s.lock_due(type(context.dialect), frozenset(conditions))
    found = yield statement, conditions | {"limit": command.limit}
    due: list[c.Purge] = []
    named: list[c.Purge] = []
    for row in found:
        (named if row[-1] else due).append(_purge(row))
    return due, named


def take(purges: Sequence[c.Purge], command: c.TakePurges) -> Steps[None]:
    if purges:
        until = _micros(command.lease)
        yield s.take(), [{"row": purge.id, "until": until} for purge in purges]


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
