"""Purge queue: reserving objects, referring to them, and deleting those that nothing refers to.

An object is deleted only while its row in the queue is taken and nobody has reserved it, and
referred to by an entry only while it is reserved and not taken. So an object that is written again,
because the same value is set again, is never deleted as a leftover of the earlier write.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from datetime import timedelta
from typing import Any, NamedTuple

from holdfast import commands as c
from holdfast.model.scope import AssetScope, StoreScope, TaskScope
from holdfast.model.value import is_in_place, is_reference
from holdfast.stores import refusals
from holdfast.stores.sql import rows
from holdfast.stores.sql.operations.fencing import open_scope
from holdfast.stores.sql.operations.measuring import up_to_size
from holdfast.stores.sql.operations.scopes import find, resolve
from holdfast.stores.sql.operations.steps import BEGIN, Context, Steps, each
from holdfast.stores.sql.statements import purge_queue as s
from holdfast.stores.sql.statements.entries import lock_owner, map_indices, measured
from holdfast.stores.sql.statements.scope_tables import ASSETS, TASKS, ScopeTables

_AT_ONCE = 128
"""Number of rows that one statement looks up."""


class ObjectOwner(NamedTuple):
    """Owner of objects, as the queue identifies it."""

    tables: ScopeTables
    columns: dict[str, Any]

    whole: str
    """The owner of a barrier for every map index."""

    @property
    def owner(self) -> dict[str, Any]:
        return {"owner": self.columns[s.owner_column(self.tables).name]}

    @property
    def owners(self) -> dict[str, Any]:
        """The owner, and that of a barrier that covers it."""
        return self.owner | {"whole": self.whole}


def object_owner(scope: StoreScope) -> Steps[ObjectOwner]:
    """Return the owner of a scope's objects. Raise an error if the scope does not exist."""
    return _object_owner((yield from resolve(scope)))


def _object_owner(scope: StoreScope) -> ObjectOwner:
    if isinstance(scope, TaskScope):
        names = ("dag_id", "run_id", "task_id", "map_index")
        columns = {"ti_id": scope.ti_text} | {name: getattr(scope, name) for name in names}
        return ObjectOwner(TASKS, columns, _every_index(scope).ti_text)
    name = scope.name or scope.uri or ""
    digest = rows.digest(name)
    return ObjectOwner(ASSETS, {"name_digest": digest, "name": name, "uri": scope.uri}, digest)


def _every_index(scope: TaskScope) -> TaskScope:
    return TaskScope(scope.dag_id, scope.run_id, scope.task_id)


class Queued(NamedTuple):
    """A row of the queue."""

    row: int
    value: str
    reservation: str | None
    taken: bool
    """Whether the object is being deleted."""


def reserve_objects(context: Context, command: c.ReserveObjects) -> Steps[None]:
    yield from open_scope(command.scope, command.writer)
    its = yield from object_owner(command.scope)
    queued = yield from _queued(its, [key for key, _, _ in command.objects])
    for key, value, _ in command.objects:
        _untaken(command.scope, key, value, queued)
    yield from _add(its, command.objects, c.RESERVED_FOR)


def _add(
    its: ObjectOwner,
    objects: Iterable[tuple[str, str, str | None]],
    wait: timedelta,
    tracked: int = 0,
) -> Steps[None]:
    """Queue objects: key, reference, reservation."""
    common = its.columns | {"tracked": tracked, "until": rows.microseconds(wait)}
    names = ("key", "value", "reservation")
    new = [common | dict(zip(names, one, strict=True)) for one in objects]
    yield from each(s.add(its.tables), new)


def _queued(its: ObjectOwner, keys: Iterable[str]) -> Steps[dict[str, list[Queued]]]:
    """Return the locked rows of these keys; under the empty key, a barrier that covers them."""
    queued: dict[str, list[Queued]] = defaultdict(list)
    for some in _portions(dict.fromkeys(keys)):
        named = {f"nth_{n}": key for n, key in enumerate(some)}
        found = yield s.lock_of_keys(its.tables, len(some)), its.owners | named
        for key, *row in found:
            queued[key].append(Queued(*row))
    return queued


def _portions(items: Iterable[Any]) -> Iterator[list[Any]]:
    """Yield the items in batches for one statement. A batch is padded with its last item to a power
    of two, so that there are few different statements."""
    rest = list(items)
    while rest:
        some, rest = rest[:_AT_ONCE], rest[_AT_ONCE:]
        length = 1 << (len(some) - 1).bit_length()
        yield some + some[-1:] * (length - len(some))


def _untaken(
    scope: StoreScope, key: str, value: str, queued: Mapping[str, list[Queued]]
) -> list[Queued]:
    """Return the rows of a key that are not being deleted. Raise ObjectBusy if this object is, or
    any of the key, if the object is known by its key alone."""
    found = queued.get(key, [])
    by_key = not value or is_in_place(value)
    taken = any(one.taken and (by_key or one.value == value) for one in found)
    if taken or queued.get(""):
        raise refusals.being_deleted(scope, key)
    return [one for one in found if not one.taken]


def release_objects(context: Context, command: c.ReleaseObjects) -> Steps[None]:
    yield BEGIN
    its = yield from object_owner(command.scope)
    queued = yield from _queued(its, [key for key, _, _ in command.objects])
    released = [
        {"row": one.row}
        for key, _, reservation in command.objects
        for one in queued.get(key, [])
        if one.reservation == reservation and not one.taken
    ]
    yield from each(s.release(), released)


def queue_objects(context: Context, command: c.QueueObjects) -> Steps[None]:
    yield BEGIN
    for scope, key, value in command.objects:
        its = _object_owner(scope)
        queued = yield from _queued(its, [key])
        if all(one.value != value for one in queued[key]):
            yield from _add(its, [(key, value, None)], timedelta(0))


def claim_objects(
    scope: StoreScope, values: Iterable[tuple[str, str]], reservation: str
) -> Steps[None]:
    """Claim the reserved objects for a write that is about to refer to them. Raise ObjectBusy if
    they are not reserved any more, since they may have been deleted. The transaction has begun."""
    references = [(key, value) for key, value in values if is_reference(value)]
    if references:
        its = yield from object_owner(scope)
        queued = yield from _queued(its, [key for key, _ in references])
        claimed = [
            {"row": one.row}
            for key, value in references
            for one in _claimed(scope, key, value, reservation, queued)
        ]
        yield from each(s.drop(), claimed)


def _claimed(
    scope: StoreScope,
    key: str,
    value: str,
    reservation: str,
    queued: Mapping[str, list[Queued]],
) -> list[Queued]:
    """Return the rows of an object's own reservation, and those that nobody has reserved. Raise
    ObjectBusy if it is not reserved."""
    found = _untaken(scope, key, value, queued)
    reserved = "" if is_in_place(value) else value
    own = [one for one in found if one.reservation == reservation and one.value == reserved]
    # Airflow's workers, whose objects are overwritten in place, reserve nothing.
    if not own and (reservation or not is_in_place(value)):
        raise refusals.not_reserved(scope, key)
    return own + [one for one in found if one.reservation is None and one.value == value]


def name_objects(scope: StoreScope, values: Iterable[tuple[str, str]]) -> Steps[None]:
    """Remove existing objects from the queue, because a write is about to refer to them. Raise
    ObjectBusy if one is being deleted."""
    its = yield from object_owner(scope)
    named = list(values)
    queued = yield from _queued(its, [key for key, _ in named])
    dropped = [
        {"row": one.row}
        for key, value in named
        for one in _untaken(scope, key, value, queued)
        if one.reservation is None and one.value == value
    ]
    yield from each(s.drop(), dropped)


def track_object(scope: StoreScope, key: str, value: str, reservation: str | None) -> Steps[None]:
    """Track an object that an entry outside this database is about to refer to, and that was
    reserved or staged for it: it is checked periodically, since the end of that entry goes
    unnoticed. The transaction has begun."""
    its = yield from object_owner(scope)
    if is_reference(value):
        own: list[Queued] = []
        if reservation is not None:
            queued = yield from _queued(its, [key])
            own = _claimed(scope, key, value, reservation, queued)
        later = {"until": rows.microseconds(c.RESERVED_FOR)}
        named = [one for one in own if one.value == value]
        if named:
            yield s.track(), {"row": named[0].row} | later
        else:
            yield from _add(its, [(key, value, None)], c.RESERVED_FOR, tracked=1)
        rest = [{"row": one.row} for one in own if one not in named[:1]]
        yield from each(s.drop(), rest)
    where = {s.owner_column(its.tables).name: its.owner["owner"], "key": key}
    yield s.expedite(frozenset(where), but=True), where | {"standing": value}


def look_at_objects(scope: StoreScope, key: str | None = None, all_: bool = False) -> Steps[None]:
    """Check tracked objects now, because entries outside this database are gone."""
    where = _conditions(c.Part(scope, all_)) | ({} if key is None else {"key": key})
    yield s.expedite(frozenset(where), but=False), where


def keep_for_now(purges: Sequence[c.Purge]) -> Steps[None]:
    """Postpone the next check by a day, because entries refer to the objects."""
    later = rows.microseconds(c.RESERVED_FOR)
    yield from each(s.postpone(), [{"row": purge.id, "until": later} for purge in purges])


def take_purges(context: Context, command: c.TakePurges) -> Steps[c.Taken]:
    yield BEGIN
    names = command.whole and (yield from lock_part(command.part))
    due, named, more = yield from due_objects(context, command)
    yield from each(s.drop(), [{"row": purge.id} for purge in named])
    yield from take(due, command)
    barrier = None if names or named else (yield from raise_barrier(command, due))
    return c.Taken(tuple(due), command.limit if more else len(due) + len(named), barrier)


def due_objects(
    context: Context, command: c.TakePurges
) -> Steps[tuple[list[c.Purge], list[c.Purge], bool]]:
    """Return the due objects without a reference to them, those with one, in locked rows, and
    whether some were left out because of their size."""
    conditions = _conditions(command.part)
    if command.retry:
        yield s.retry(frozenset(conditions)), conditions
    statement = s.lock_due(type(context.dialect), frozenset(conditions))
    query = statement, conditions | {"limit": command.limit}
    found, more = yield from up_to_size(query, measured(statement, "value"), command.max_size)
    due: list[c.Purge] = []
    named: list[c.Purge] = []
    for row in found:
        (named if row[-1] else due).append(_purge(row))
    return due, named, more


def take(purges: Sequence[c.Purge], command: c.TakePurges) -> Steps[None]:
    by: dict[str, Any] = {"until": rows.microseconds(command.lease), "by": command.taker}
    yield from each(s.take(), [{"row": purge.id} | by for purge in purges])


def lock_part(part: c.Part) -> Steps[bool]:
    """Lock the scopes of a part until the end of the transaction; return whether something in them
    refers to an object that is overwritten in place."""
    if isinstance(part.scope, TaskScope) and part.all_map_indices:
        task = {name: getattr(part.scope, name) for name in ("dag_id", "run_id", "task_id")}
        owners = [(TASKS, "ti_id", {"owner": ti_id}) for (ti_id,) in (yield map_indices(), task)]
    else:
        assert part.scope is not None
        owners = [find(part.scope)]
    names = False
    for tables, by, owner in owners:
        for id, *_ in (yield lock_owner(tables, by), owner):
            [(does,)] = yield s.refers_in_place(tables), {"owner": id}
            names = names or bool(does)
    return names


def raise_barrier(command: c.TakePurges, due: Sequence[c.Purge]) -> Steps[int | None]:
    """Block writers to a part that is about to be deleted completely; return the barrier's row."""
    if not command.whole or not due:
        return None
    conditions = _conditions(command.part)
    [(all_,)] = yield s.count_part(frozenset(conditions)), conditions
    if all_ > len(due):
        return None
    scope = due[0].scope
    if isinstance(scope, TaskScope) and command.part.all_map_indices:
        scope = _every_index(scope)
    its = _object_owner(scope)
    yield from _add(its, [("", "", None)], command.lease)
    [(row,)] = yield s.newest_barrier(its.tables), its.owner
    yield from take([c.Purge(row, scope, "", "", 0)], command)
    return int(row)


def _conditions(part: c.Part) -> dict[str, Any]:
    """Return the columns that select the part of the queue, with their values."""
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
    gone: dict[ScopeTables, list[dict[str, Any]]] = defaultdict(list)
    for _, ti_id, digest, key, value, _ in (yield from _taken(command.gone, command.taker)):
        # A writer that has reserved it meanwhile has to write it again.
        tables, owner = (ASSETS, digest) if ti_id is None else (TASKS, ti_id)
        reserved = "" if is_in_place(value) else value
        gone[tables].append({"owner": owner, "key": key, "value": value, "reserved": reserved})
    for tables, objects in gone.items():
        yield s.drop_object(tables), objects
    reasons = dict(command.failed)
    failed = [
        {"row": row, "until": rows.microseconds(c.pause_after(tries)), "reason": reasons[row]}
        for row, *_, tries in (yield from _taken(reasons, command.taker))
    ]
    yield from each(s.fail(), failed)


def _taken(ids: Iterable[int], taker: str) -> Steps[list[rows.Row]]:
    """Return those of the rows that nobody else has taken since."""
    found: list[rows.Row] = []
    for some in _portions(dict.fromkeys(ids)):
        named = {f"row_{n}": id for n, id in enumerate(some)}
        found += yield s.taken(len(some)), named | {"by": taker}
    return found


def count_purges(context: Context, command: c.CountPurges) -> Steps[c.PurgeQueue]:
    conditions = _conditions(command.part)
    named = frozenset(conditions)
    [(waiting, failing, all_)] = yield s.count(named), conditions
    errors = (yield s.last_error(named), conditions) if failing else []
    error = errors[0][0] if errors else ""
    return c.PurgeQueue(int(waiting), int(failing), all_ - int(waiting), error or "")
