"""Objects in the workers' storage: reserving them, naming them, and deleting what nothing names.

An object is deleted only while its row in the queue is taken and nobody has reserved it, and named
only while it is reserved and not taken. So an object that is written anew, because the same value
comes again, is never deleted as the leftover of the time before.
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
from holdfast.value import is_in_place, is_reference


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


class Queued(NamedTuple):
    """A row of the queue that is not taken."""

    row: int
    value: str
    reservation: str | None


def reserve_objects(context: Context, command: c.ReserveObjects) -> Steps[None]:
    yield from open_scope(command.scope, command.writer)
    its = yield from keeper(command.scope)
    for key, value, reservation in command.objects:
        yield from _untaken(command.scope, its, key, value)
        yield from _add(its, key, value, c.RESERVED_FOR, reservation)


def _add(
    its: Keeper, key: str, value: str, wait: timedelta, reservation: str | None, tracked: int = 0
) -> Steps[None]:
    new = {"key": key, "value": value, "reservation": reservation, "tracked": tracked}
    yield s.add(its.shelf), its.columns | new | {"until": rows.microseconds(wait)}


def _untaken(scope: StoreScope, its: Keeper, key: str, value: str) -> Steps[list[Queued]]:
    """What is queued for a key, none of which is this object and being deleted: or any, where the
    object is known by its key alone."""
    found = yield s.lock_of_key(its.shelf), its.owner | {"key": key}
    by_key = not value or is_in_place(value)
    if any(taken and (by_key or text == value) for _, text, _, taken in found):
        raise refusal.being_deleted(scope, key)
    return [Queued(*row) for *row, taken in found if not taken]


def release_objects(context: Context, command: c.ReleaseObjects) -> Steps[None]:
    yield BEGIN
    its = yield from keeper(command.scope)
    for key, _, reservation in command.objects:
        for row, _, its_own, taken in (yield s.lock_of_key(its.shelf), its.owner | {"key": key}):
            if its_own == reservation and not taken:
                yield s.release(), {"row": row}


def queue_objects(context: Context, command: c.QueueObjects) -> Steps[None]:
    yield BEGIN
    for scope, key, value in command.objects:
        its = _keeper(scope)
        found = yield s.lock_of_key(its.shelf), its.owner | {"key": key}
        if all(text != value for _, text, *_ in found):
            yield from _add(its, key, value, timedelta(0), None)


def claim_objects(
    scope: StoreScope, values: Iterable[tuple[str, str]], reservation: str
) -> Steps[None]:
    """What is about to be written names these objects, which were reserved for it. ObjectBusy where
    they are not any more: somebody may have deleted what was put there. The transaction has
    begun."""
    references = [(key, value) for key, value in values if is_reference(value)]
    if references:
        its = yield from keeper(scope)
        for key, value in references:
            own = yield from _claimed(scope, its, key, value, reservation)
            if own:
                yield s.drop(), [{"row": one.row} for one in own]


def _claimed(
    scope: StoreScope, its: Keeper, key: str, value: str, reservation: str
) -> Steps[list[Queued]]:
    """The rows of an object's own reservation, and those that nobody has reserved."""
    found = yield from _untaken(scope, its, key, value)
    reserved = "" if is_in_place(value) else value
    own = [one for one in found if one.reservation == reservation and one.value == reserved]
    # Airflow's workers, whose objects are overwritten in place, reserve nothing.
    if not own and (reservation or not is_in_place(value)):
        raise refusal.not_reserved(scope, key)
    return own + [one for one in found if one.reservation is None and one.value == value]


def name_objects(scope: StoreScope, values: Iterable[tuple[str, str]]) -> Steps[None]:
    """What is about to be written names these objects, which were there before."""
    its = yield from keeper(scope)
    for key, value in values:
        found = yield from _untaken(scope, its, key, value)
        queued = [one for one in found if one.reservation is None and one.value == value]
        if queued:
            yield s.drop(), [{"row": one.row} for one in queued]


def track_object(scope: StoreScope, key: str, value: str, reservation: str | None) -> Steps[None]:
    """An entry that is not in this database is about to name an object, which was reserved for it,
    or staged: it is looked at again and again, as nobody can tell when that entry is gone. The
    transaction has begun."""
    its = yield from keeper(scope)
    if is_reference(value):
        own: list[Queued] = []
        if reservation is not None:
            own = yield from _claimed(scope, its, key, value, reservation)
        later = {"until": rows.microseconds(c.RESERVED_FOR)}
        named = [one for one in own if one.value == value]
        if named:
            yield s.track(), {"row": named[0].row} | later
        else:
            yield from _add(its, key, value, c.RESERVED_FOR, None, tracked=1)
        rest = [{"row": one.row} for one in own if one not in named[:1]]
        if rest:
            yield s.drop(), rest
    where = {s.owner_column(its.shelf).name: its.owner["owner"], "key": key}
    yield s.expedite(frozenset(where), but=True), where | {"standing": value}


def look_at_objects(scope: StoreScope, key: str | None = None, all_: bool = False) -> Steps[None]:
    """Entries that are not in this database are gone: what they named is looked at now."""
    where = _conditions(c.Part(scope, all_)) | ({} if key is None else {"key": key})
    yield s.expedite(frozenset(where), but=False), where


def keep_for_now(purges: Sequence[c.Purge]) -> Steps[None]:
    """They have names: look again in a day."""
    if purges:
        later = rows.microseconds(c.RESERVED_FOR)
        yield s.postpone(), [{"row": purge.id, "until": later} for purge in purges]


def take_purges(context: Context, command: c.TakePurges) -> Steps[c.Taken]:
    yield BEGIN
    due, named = yield from due_objects(context, command)
    if named:
        yield s.drop(), [{"row": purge.id} for purge in named]
    yield from take(due, command)
    return c.Taken(tuple(due), len(due) + len(named))


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
        until = rows.microseconds(command.lease)
        by: dict[str, Any] = {"until": until, "by": command.taker}
        yield s.take(), [{"row": purge.id} | by for purge in purges]


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
    for row in command.gone:
        for ti_id, digest, key, value, _ in (yield s.taken(), {"row": row, "by": command.taker}):
            # Whoever has reserved it meanwhile has to put it there again.
            shelf, owner = (ASSETS, digest) if ti_id is None else (TASKS, ti_id)
            reserved = "" if is_in_place(value) else value
            its = {"owner": owner, "key": key, "value": value, "reserved": reserved}
            yield s.drop_object(shelf), its
    for row, reason in command.failed:
        for *_, tries in (yield s.taken(), {"row": row, "by": command.taker}):
            pause = rows.microseconds(c.pause_after(tries))
            yield s.fail(), {"row": row, "until": pause, "reason": reason}


def count_purges(context: Context, command: c.CountPurges) -> Steps[c.PurgeQueue]:
    [(waiting, failing, all_)] = yield s.count(), {}
    errors = (yield s.last_error(), {}) if failing else []
    error = errors[0][0] if errors else ""
    return c.PurgeQueue(int(waiting), int(failing), all_ - int(waiting), error or "")
