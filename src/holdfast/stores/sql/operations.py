"""What each command does in SQL: one generator for each, whatever the colour of the door.

An operation yields queries and is sent their answers: rows for a SELECT, a row count otherwise.
From `BEGIN` on it is one transaction, which the door commits when the operation ends and rolls
back when it raises. All writes to a scope lock its owner's row first, which carries what decides
them: the attempt that may write, whether the asset is active, and the revision, from which the
write takes its version. So writes to one scope come one after the other, and a version never
comes twice, not even after its entry is gone.
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Iterable, Sequence
from datetime import datetime
from itertools import groupby
from typing import Any, NamedTuple, TypeAlias, TypeVar

import msgspec

from holdfast import command as c
from holdfast.entry import (
    AssetInfo,
    Entry,
    Expired,
    Found,
    Page,
    TaskWriter,
    Version,
    Writer,
    signature,
)
from holdfast.rewind import choose
from holdfast.scope import AssetScope, StoreScope, TaskScope
from holdfast.stores import refusal
from holdfast.stores.sql import rows
from holdfast.stores.sql import statements as s
from holdfast.stores.sql.dialects import Dialect
from holdfast.value import larger

A = TypeVar("A")
Query: TypeAlias = tuple[Any, Any]
"""A statement, and its parameters: a dict, or a list of dicts to run it once for each."""
Steps: TypeAlias = Generator[Query, Any, A]

BEGIN: Query = ("BEGIN", None)

_NO_LIMIT = 2**62


class Context(NamedTuple):
    """What an operation needs to know besides its command."""

    dialect: Dialect
    history_limit: int


class _Owner(NamedTuple):
    """A scope's row, locked."""

    shelf: s.Shelf
    id: Any
    revision: int
    scope: StoreScope


def _find(scope: StoreScope) -> tuple[s.Shelf, str, dict[str, Any]]:
    """The shelf, the column that finds the owner, and the parameter for it."""
    if isinstance(scope, TaskScope):
        return s.TASKS, "ti_id", {"owner": str(scope.ti_id)}
    if scope.asset_id is not None:
        return s.ASSETS, "id", {"owner": scope.asset_id}
    if scope.name is not None:
        return s.ASSETS, "name_digest", {"owner": rows.digest(scope.name)}
    assert scope.uri is not None
    return s.ASSETS, "uri_digest", {"owner": rows.digest(scope.uri)}


def _unknown(scope: StoreScope) -> Steps[Exception]:
    if isinstance(scope, TaskScope):
        return refusal.unknown_task(scope)
    names = yield s.asset_names(), {}
    return refusal.unknown_asset(scope, [name for (name,) in names])


def _known(scope: StoreScope) -> Steps[Any]:
    """The owner's id; an error where the scope is not known."""
    shelf, by, params = _find(scope)
    found = yield s.owner(shelf, by), params
    if not found:
        raise (yield from _unknown(scope))
    return found[0][0]


# reading


def get(context: Context, command: c.Get) -> Steps[str | None]:
    shelf, by, params = _find(command.scope)
    params["key"] = command.key
    if command.reader is not None and shelf is s.ASSETS:
        entry = yield from get_entry(context, command)
        return entry.value if entry else None
    found = yield s.get(shelf, by), params
    if found:
        return found[0][0]  # type: ignore[no-any-return]
    yield from _known(command.scope)
    return None


def get_entry(context: Context, command: c.Get | c.GetEntry) -> Steps[Entry[str] | None]:
    shelf, by, params = _find(command.scope)
    params["key"] = command.key
    found = yield s.entry(shelf, by), params
    entry = rows.entry(found[0], command.scope) if found else None
    if command.reader is not None and isinstance(command.scope, AssetScope):
        staged = yield from _staged(command.scope, command.reader, command.key)
        for row in staged:
            entry = _overlaid(entry, row, command.reader, command.scope)
    if entry is None:
        yield from _known(command.scope)
    return entry


def _staged(scope: AssetScope, reader: TaskWriter, key: str | None) -> Steps[list[rows.Row]]:
    _, by, params = _find(scope)
    params |= {"ti_id": str(reader.scope.ti_id), "attempt": reader.attempt, "key": key}
    found = yield s.staged(by, key is not None), params
    return found  # type: ignore[no-any-return]


def _overlaid(
    entry: Entry[str] | None, staged: rows.Row, reader: TaskWriter, scope: AssetScope
) -> Entry[str]:
    """What stands once the staged write has taken effect."""
    key, value, advances, updated_at = staged
    if advances:
        value = larger(entry and entry.value, value, f"`{key}` of {scope}")
    version = entry.version if entry else 0
    return Entry(key, value, version, rows.instant(updated_at), signature(reader), staged=True)


def list_(context: Context, command: c.List) -> Steps[Page]:
    where = command.where
    conditions: dict[str, Any] = {}
    by = None
    shelf = s.ASSETS if isinstance(where, AssetScope | c.AssetFilter) else s.TASKS
    if isinstance(where, TaskScope | AssetScope):
        yield from _known(where)
        shelf, by, owner = _find(where)
    elif isinstance(where, c.TaskFilter):
        conditions |= {k: v for k, v in msgspec.structs.asdict(where).items() if v is not None}
    if command.prefix:
        conditions["prefix"] = command.prefix
    if command.updated_since is not None:
        conditions["updated_since"] = rows.micros(command.updated_since)
    if command.expiring_before is not None:
        if shelf is s.ASSETS:
            return Page((), 0)
        conditions["expiring_before"] = rows.micros(command.expiring_before)
    names = frozenset(conditions)
    params = conditions | (owner if by else {})

    overlay: list[rows.Row] = []
    if command.reader is not None and isinstance(where, AssetScope):
        overlay = yield from _staged(where, command.reader, None)
    if overlay:
        everything = msgspec.structs.replace(command, reader=None, limit=None, offset=0)
        page = yield from list_(context, everything)
        return _merged(page, overlay, command)

    limit = _NO_LIMIT if command.limit is None else command.limit
    window = {"limit": limit, "offset": command.offset}
    found = yield s.listing(shelf, by, names, count=False), params | window
    total = command.offset + len(found)
    if len(found) == limit or (command.offset and not found):
        total = (yield s.listing(shelf, by, names, count=True), params)[0][0]
    return Page(tuple(_found(shelf, row) for row in found), total)


def _found(shelf: s.Shelf, row: rows.Row) -> Found:
    scope: StoreScope
    scope = TaskScope(*row[6:10]) if shelf is s.TASKS else AssetScope(row[6], row[7], row[8])
    return Found(scope, rows.entry(row, scope))


def _merged(page: Page, overlay: list[rows.Row], command: c.List) -> Page:
    """A page of an asset's entries with the reader's staged writes laid over them."""
    assert command.reader is not None
    assert isinstance(command.where, AssetScope)
    entries = {found.entry.key: found.entry for found in page.found}
    for row in overlay:
        if row[0].startswith(command.prefix):
            entries[row[0]] = _overlaid(entries.get(row[0]), row, command.reader, command.where)
    scope = page.found[0].scope if page.found else command.where
    found = tuple(Found(scope, entry) for _, entry in sorted(entries.items()))
    stop = None if command.limit is None else command.offset + command.limit
    return Page(found[command.offset : stop], len(found))


def history(context: Context, command: c.History) -> Steps[tuple[Version[str], ...]]:
    _, by, params = _find(command.scope)
    params |= {"key": command.key, "limit": context.history_limit}
    found = yield s.history(by), params
    if not found:
        yield from _known(command.scope)
    return tuple(rows.version(row, command.scope) for row in found)


# writing


def _open(scope: StoreScope, writer: Writer) -> Steps[_Owner]:
    """Begin, and lock the scope for a writer that may write to it."""
    yield BEGIN
    if isinstance(writer, TaskWriter) and writer.scope != scope:
        yield from _fence(writer)
    return (yield from _lock(scope, writer))


def _lock(scope: StoreScope, writer: Writer) -> Steps[_Owner]:
    shelf, by, params = _find(scope)
    found = yield s.lock_owner(shelf, by), params
    if not found:
        raise (yield from _unknown(scope))
    id, revision, *facts = found[0]
    if isinstance(scope, AssetScope) and facts[0] is not None:
        raise refusal.inactive(scope)
    if isinstance(writer, TaskWriter) and writer.scope == scope:
        _check_attempt(writer, *facts)
    return _Owner(shelf, id, revision, scope)


def _fence(writer: TaskWriter) -> Steps[None]:
    """Refuse an attempt that is not the live one, and keep it live until commit."""
    if writer.attempt is None:
        return
    shelf, by, params = _find(writer.scope)
    found = yield s.lock_owner(shelf, by, share=True), params
    if not found:
        raise refusal.unknown_task(writer.scope)
    _check_attempt(writer, *found[0][2:])


def _check_attempt(writer: TaskWriter, newest: int, live: int | None) -> None:
    if writer.attempt is not None and writer.attempt != live:
        raise refusal.stale(writer, newest, live is not None)


def _put(
    context: Context,
    owner: _Owner,
    values: Sequence[tuple[str, str]],
    writer: Writer,
    expires_at: datetime | None = None,
) -> Steps[int]:
    """Write these keys as one version."""
    common = {
        "owner": owner.id,
        "version": owner.revision + 1,
        "expires_at": rows.micros(expires_at),
        "writer": rows.writer_column(writer, owner.scope),
    }
    entries = [{**common, "key": key, "value": value} for key, value in values]
    yield s.upsert(owner.shelf, type(context.dialect)), entries
    return (yield from _record(context, owner, values, writer))


def _record(
    context: Context, owner: _Owner, values: Sequence[tuple[str, str | None]], writer: Writer
) -> Steps[int]:
    """Count the write as the scope's next version, and keep it in the history if there is one."""
    version = owner.revision + 1
    if owner.shelf.history is not None:
        column = rows.writer_column(writer, owner.scope)
        common = {"owner": owner.id, "version": version, "writer": column}
        steps = [{**common, "key": key, "value": value} for key, value in values]
        yield s.add_history(), steps
        yield s.trim_history(), [{**step, "kept": context.history_limit} for step in steps]
    yield s.set_revision(owner.shelf), {"owner": owner.id, "version": version}
    return version


def _entry_of(owner: _Owner, key: str) -> Steps[Entry[str] | None]:
    shelf = owner.shelf
    found = yield s.entry(shelf, shelf.id.name), {"owner": owner.id, "key": key}
    return rows.entry(found[0], owner.scope) if found else None


def _check_version(owner: _Owner, key: str, if_version: int | None) -> Steps[None]:
    if if_version is None:
        return
    entry = yield from _entry_of(owner, key)
    current = entry.version if entry else 0
    if current != if_version:
        raise refusal.conflict(owner.scope, key, if_version, current)


def set_(context: Context, command: c.Set) -> Steps[int]:
    scope, writer = command.scope, command.writer
    if isinstance(scope, TaskScope) and context.dialect.one_statement_set:
        own = isinstance(writer, TaskWriter) and writer.scope == scope
        if command.if_version is None and (own or not isinstance(writer, TaskWriter)):
            params = {
                "owner": str(scope.ti_id),
                "key": command.key,
                "value": command.value,
                "attempt": writer.attempt if isinstance(writer, TaskWriter) else None,
                "expires_at": rows.micros(command.expires_at),
                "writer": rows.writer_column(writer, scope),
            }
            written = yield s.set_in_one_statement(), params
            if written:
                return written[0][0]  # type: ignore[no-any-return]
            # Refused; the long way says why.
    owner = yield from _open(scope, writer)
    if command.on_success:
        yield from _stage(context, owner, command)
        return owner.revision
    yield from _check_version(owner, command.key, command.if_version)
    value = [(command.key, command.value)]
    return (yield from _put(context, owner, value, writer, command.expires_at))


def set_many(context: Context, command: c.SetMany) -> Steps[int]:
    owner = yield from _open(command.scope, command.writer)
    if not command.values:
        return owner.revision
    values = list(dict(command.values).items())
    return (yield from _put(context, owner, values, command.writer, command.expires_at))


def advance(context: Context, command: c.Advance) -> Steps[str]:
    owner = yield from _open(command.scope, command.writer)
    entry = yield from _entry_of(owner, command.key)
    where = f"`{command.key}` of {command.scope}"
    if command.on_success:
        assert isinstance(command.writer, TaskWriter)
        staged = yield from _staged(command.scope, command.writer, command.key)
        for row in staged:
            entry = _overlaid(entry, row, command.writer, command.scope)
        value = larger(entry and entry.value, command.value, where)
        yield from _stage(context, owner, command, value, staged)
        return value
    standing = entry.value if entry else None
    value = larger(standing, command.value, where)
    if value is not standing:
        yield from _put(context, owner, [(command.key, value)], command.writer)
    return value


def delete(context: Context, command: c.Delete) -> Steps[None]:
    owner = yield from _open(command.scope, command.writer)
    gone = yield s.delete(owner.shelf), {"owner": owner.id, "key": command.key}
    if gone:
        yield from _record(context, owner, [(command.key, None)], command.writer)


def clear(context: Context, command: c.Clear) -> Steps[None]:
    owner = yield from _open(command.scope, command.writer)
    if not command.all_map_indices or owner.shelf is s.ASSETS:
        yield from _empty(context, owner, command.writer)
        return
    siblings = yield s.siblings(), {"owner": owner.id}
    for (ti_id,) in siblings:
        params = {"owner": ti_id}
        [(id, revision, *_)] = yield s.lock_owner(s.TASKS, "ti_id"), params
        sibling = _Owner(s.TASKS, id, revision, owner.scope)
        yield from _empty(context, sibling, command.writer)


def _empty(context: Context, owner: _Owner, writer: Writer) -> Steps[None]:
    keys = []
    if owner.shelf.history is not None:
        keys = yield s.keys(owner.shelf), {"owner": owner.id}
    gone = yield s.delete_all(owner.shelf), {"owner": owner.id}
    if gone:
        yield from _record(context, owner, [(key, None) for (key,) in keys], writer)


def rewind(context: Context, command: c.Rewind) -> Steps[Version[str] | None]:
    owner = yield from _open(command.scope, command.writer)
    params = {"owner": owner.id, "key": command.key, "limit": context.history_limit}
    found = yield s.history("id"), params
    past = [rows.version(row, command.scope) for row in found]
    step = choose(past, command.to, f"`{command.key}` of {command.scope}")
    value = step.value if step else None
    if command.dry_run:
        return step
    if value is not None:
        yield from _put(context, owner, [(command.key, value)], command.writer)
    elif past[0].value is not None:
        yield s.delete(owner.shelf), {"owner": owner.id, "key": command.key}
        yield from _record(context, owner, [(command.key, None)], command.writer)
    return step


# attempts and staged writes


def _stage(
    context: Context,
    owner: _Owner,
    command: c.Set | c.Advance,
    value: str | None = None,
    before: Iterable[rows.Row] = (),
) -> Steps[None]:
    """Keep the write for the attempt's success. Over a staged `set`, an `advance` is a `set`."""
    assert isinstance(command.writer, TaskWriter)
    params = {
        "ti_id": str(command.writer.scope.ti_id),
        "asset_id": owner.id,
        "key": command.key,
        "value": command.value if value is None else value,
        "advances": isinstance(command, c.Advance),
        "if_version": command.if_version if isinstance(command, c.Set) else None,
    }
    if any(not advances for _, _, advances, _ in before):
        yield s.restage(), params
    else:
        yield s.stage(type(context.dialect)), params


def start_attempt(context: Context, command: c.StartAttempt) -> Steps[int]:
    yield BEGIN
    shelf, by, params = _find(command.scope)
    found = yield s.lock_owner(shelf, by), params
    if not found:
        raise refusal.unknown_task(command.scope)
    number = found[0][2] + 1
    yield s.end_attempts(), params | {"outcome": False}
    yield s.start_attempt(), params | {"number": number}
    yield s.add_attempt(), params | {"number": number}
    yield s.drop_staged(), params
    return number  # type: ignore[no-any-return]


def finish_attempt(context: Context, command: c.FinishAttempt) -> Steps[None]:
    yield BEGIN
    owner = yield from _lock(command.writer.scope, command.writer)
    params = {"owner": owner.id}
    if command.succeeded:
        staged = yield s.staged_of_task(), params
        for asset_id, writes in groupby(staged, key=lambda row: row[0]):
            yield from _apply(context, asset_id, list(writes), command.writer)
        if command.clear:
            yield from _empty(context, owner, command.writer)
    yield s.drop_staged(), params
    yield s.end_live_attempt(), params
    yield s.end_attempts(), params | {"outcome": command.succeeded}


def _apply(
    context: Context, asset_id: int, staged: list[rows.Row], writer: TaskWriter
) -> Steps[None]:
    """The staged writes to one asset become one version of it."""
    info = rows.assets((yield s.asset_by_id(), {"owner": asset_id}))[0]
    owner = yield from _lock(info.scope, writer)
    values = []
    for _, key, value, advances, if_version in staged:
        if not advances:
            yield from _check_version(owner, key, if_version)
        else:
            entry = yield from _entry_of(owner, key)
            standing = entry.value if entry else None
            value = larger(standing, value, f"`{key}` of {info.scope}")
            if value is standing:
                continue
        values.append((key, value))
    if values:
        yield from _put(context, owner, values, writer)


# runs and assets


def register_task(context: Context, command: c.RegisterTask) -> Steps[None]:
    yield BEGIN
    scope, dialect = command.scope, type(context.dialect)
    run = {"dag_id": scope.dag_id, "run_id": scope.run_id, "external": True}
    yield s.add_run(dialect), run
    found = yield s.find_run(), run
    yield (
        s.add_task_instance(dialect),
        {
            "owner": str(scope.ti_id),
            "run": found[0][0],
            "task_id": scope.task_id,
            "map_index": scope.map_index,
        },
    )


def delete_run(context: Context, command: c.DeleteRun) -> Steps[None]:
    yield s.delete_run(), {"dag_id": command.dag_id, "run_id": command.run_id}


def _declare(context: Context, name: str, uri: str) -> Steps[int]:
    asset = {
        "name": name,
        "uri": uri,
        "name_digest": rows.digest(name),
        "uri_digest": rows.digest(uri),
    }
    yield s.add_asset(type(context.dialect)), asset
    found = yield s.find_asset(), asset
    for id, its_name, its_uri in found:
        if (its_name, its_uri) == (name, uri):
            return id  # type: ignore[no-any-return]
    raise refusal.taken(name, uri, found[0][1], found[0][2])


def declare_asset(context: Context, command: c.DeclareAsset) -> Steps[AssetInfo]:
    yield BEGIN
    id = yield from _declare(context, command.name, command.uri)
    yield s.declare_by_hand(), {"owner": id}
    return rows.assets((yield s.asset_by_id(), {"owner": id}))[0]


def declare_dag_assets(context: Context, command: c.DeclareDagAssets) -> Steps[None]:
    yield BEGIN
    yield s.drop_declarations(), {"dag_id": command.dag_id}
    for name, uri in sorted(command.assets):
        id = yield from _declare(context, name, uri)
        params = {"dag_id": command.dag_id, "owner": id}
        yield s.add_declaration(type(context.dialect)), params
    yield s.deactivate(), {}
    yield s.reactivate(), {}


def list_assets(context: Context, command: c.ListAssets) -> Steps[tuple[AssetInfo, ...]]:
    return rows.assets((yield s.assets(), {}))


def delete_asset(context: Context, command: c.DeleteAsset) -> Steps[None]:
    yield BEGIN
    id = yield from _known(command.scope)
    yield s.delete_asset(), {"owner": id}


# expiry


def now(context: Context, command: c.Now) -> Steps[datetime]:
    return rows.instant((yield s.clock(), {})[0][0])


def count_expired(context: Context, command: c.CountExpired) -> Steps[int]:
    found = yield s.count_expired(), {"cutoff": rows.micros(command.cutoff)}
    return found[0][0]  # type: ignore[no-any-return]


def list_expired(context: Context, command: c.ListExpired) -> Steps[tuple[Expired, ...]]:
    params: dict[str, Any] = {"after_time": -_NO_LIMIT, "after_id": 0}
    if command.after is not None:
        after = command.after
        params = {"after_time": rows.micros(after.expires_at), "after_id": after.id}
    params |= {"cutoff": rows.micros(command.cutoff), "limit": command.limit}
    return tuple(rows.expired(row) for row in (yield s.expired(), params))


def delete_expired(context: Context, command: c.DeleteExpired) -> Steps[int]:
    params: dict[str, Any] = {"cutoff": rows.micros(command.cutoff)}
    if not command.limit:
        gone = yield s.delete_expired(), params
    else:
        batch = s.delete_expired_batch(type(context.dialect), command.skip_held)
        gone = yield batch, params | {"limit": command.limit}
    return gone  # type: ignore[no-any-return]


def take_expired(context: Context, command: c.TakeExpired) -> Steps[tuple[Expired, ...]]:
    yield BEGIN
    params = {"cutoff": rows.micros(command.cutoff), "limit": command.limit}
    params |= {"after_time": -_NO_LIMIT, "after_id": 0}
    found = yield s.lock_expired(type(context.dialect)), params
    if found:
        yield s.delete_entry(), [{"row": row[0]} for row in found]
    return tuple(rows.expired(row) for row in found)


def list_orphans(context: Context, command: c.ListOrphans) -> Steps[tuple[AssetInfo, ...]]:
    return rows.assets((yield s.orphans(), {"cutoff": rows.micros(command.cutoff)}))


def delete_orphans(context: Context, command: c.DeleteOrphans) -> Steps[int]:
    yield BEGIN
    gone = 0
    found = yield s.lock_orphans(), {"cutoff": rows.micros(command.cutoff)}
    for (id,) in found:
        gone += yield s.delete_all(s.ASSETS), {"owner": id}
        yield s.delete_history(), {"owner": id}
    return gone


OPERATIONS: dict[type[c.Command[Any]], Callable[[Context, Any], Steps[Any]]] = {
    c.Get: get,
    c.GetEntry: get_entry,
    c.List: list_,
    c.Set: set_,
    c.SetMany: set_many,
    c.Advance: advance,
    c.Delete: delete,
    c.Clear: clear,
    c.History: history,
    c.Rewind: rewind,
    c.RegisterTask: register_task,
    c.DeleteRun: delete_run,
    c.DeclareAsset: declare_asset,
    c.DeclareDagAssets: declare_dag_assets,
    c.ListAssets: list_assets,
    c.DeleteAsset: delete_asset,
    c.StartAttempt: start_attempt,
    c.FinishAttempt: finish_attempt,
    c.Now: now,
    c.CountExpired: count_expired,
    c.ListExpired: list_expired,
    c.DeleteExpired: delete_expired,
    c.TakeExpired: take_expired,
    c.ListOrphans: list_orphans,
    c.DeleteOrphans: delete_orphans,
}
