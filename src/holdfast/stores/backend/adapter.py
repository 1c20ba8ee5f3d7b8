"""Adapter of a custom backend to a store, fenced by the product's database.

A write holds the scope's lock in the database while the backend writes, so that fencing is exact.
"""

from __future__ import annotations

from collections.abc import Iterable
from functools import partial
from typing import Any, TypeVar

import msgspec

from holdfast import commands as c
from holdfast.commands import Guarded, Once
from holdfast.errors import (
    BackendFailed,
    HoldfastError,
    NotSupported,
    UnknownAsset,
    UnknownTaskInstance,
)
from holdfast.flow import Call, in_thread
from holdfast.model.entry import BackendCleanup, Entry, Page, TaskWriter, Version, Writer
from holdfast.model.scope import AssetScope, StoreScope
from holdfast.portable.report_tables import ENTRIES
from holdfast.store import Store
from holdfast.stores.backend.base import BaseStoreBackend, inside_backend
from holdfast.stores.sql import SqlStore, rows
from holdfast.stores.sql.operations import (
    OPERATIONS,
    attempts,
    cleanup,
    guards,
    marking,
    purge_queue,
    registry,
    requests,
    tasks,
    watches,
)
from holdfast.stores.sql.operations.fencing import (
    Owner,
    count_write,
    lock_scope,
    open_map_indices,
    open_scope,
)
from holdfast.stores.sql.operations.scopes import resolve
from holdfast.stores.sql.operations.staging import (
    merged,
    seen,
    stage,
    staged_by,
    staged_for,
)
from holdfast.stores.sql.operations.steps import BEGIN, Context, Operation, Steps

A = TypeVar("A")

_ASKED_AT_ONCE = 100


class BackendStore(Store):
    """Keeps runs, assets, attempts and staged writes in the ledger, and entries in the backend."""

    def __init__(self, backend: BaseStoreBackend, ledger: SqlStore) -> None:
        self._backend = backend
        self._name = type(backend).__name__
        self._ledger = ledger
        optional: dict[type[c.Command[Any]], Operation] = {
            c.GetEntry: self._get_entry,
            c.List: self._list,
            c.SetMany: self._extended,
            c.Advance: self._extended,
            c.History: self._extended,
            c.Rewind: self._extended,
            c.CountExpired: self._passed_on,
            c.ListExpired: self._passed_on,
            c.DeleteExpired: self._passed_on,
            c.TakeExpired: self._passed_on,
        }
        self._operations: dict[type[c.Command[Any]], Operation] = {
            **{kind: does for kind, does in OPERATIONS.items() if not kind.touches_entries},
            **{kind: does for kind, does in optional.items() if backend.supports(kind)},
            c.Scan: self._scan,
            c.PlanScan: self._scan,
            c.Get: self._get,
            c.Set: self._set,
            c.Delete: self._delete,
            c.Clear: self._clear,
            c.FinishAttempt: partial(attempts.finish_attempt, apply=self._apply, empty=self._empty),
            c.ClearTasks: partial(tasks.clear_tasks, empty=self._empty),
            c.TakeItem: partial(tasks.take_item, empty=self._empty),
            c.MarkTask: partial(marking.mark_task, empty=self._empty),
            c.MarkRun: partial(marking.mark_run, empty=self._empty),
            c.Emit: self._emit,
            c.DeleteRun: self._delete_run,
            c.DeleteAsset: self._delete_asset,
            c.DeleteOrphans: self._delete_orphans,
            c.CleanUpBackend: self._clean_up,
            c.TakePurges: self._take_purges,
            Once: partial(requests.once, self._operation, revocable=False),
            Guarded: partial(guards.guarded, self._operation),
        }

    def __reduce__(self) -> tuple[Any, ...]:
        return BackendStore, (self._backend, self._ledger)

    def supports(self, command: type[c.Command[Any]]) -> bool:
        return command in self._operations

    def execute(self, command: c.Command[A]) -> A:
        return self._ledger.run(self._operation(command), command)

    async def aexecute(self, command: c.Command[A]) -> A:
        return await self._ledger.arun(self._operation(command), command)

    def close(self) -> None:
        self._ledger.close()

    async def aclose(self) -> None:
        await self._ledger.aclose()

    def _operation(self, command: c.Command[Any]) -> Operation:
        operation = self._operations.get(type(command))
        if operation is None:
            raise self._cannot(f"execute `{type(command).__name__}`")
        return operation

    def _cannot(self, what: str) -> NotSupported:
        return NotSupported(
            f"the backend {self._name} cannot {what}",
            hint="a backend supports get, set, delete and clear, and the optional commands that it "
            "declares; use the default backend for the rest",
        )

    def _call(self, method: str, scope: StoreScope, *args: Any, **named: Any) -> Steps[Any]:
        """Call one of the eight methods, sync or async as the command was executed."""
        backend = self._backend
        call = Call(
            lambda: getattr(backend, method)(scope, *args, **named),
            lambda: getattr(backend, f"a{method}")(scope, *args, **named),
        )
        return (yield from self._guarded(call, method, f" for {scope}"))

    def _execute(self, command: c.Command[A]) -> Steps[A]:
        call = in_thread(lambda: self._backend.execute(command))
        answer: A = yield from self._guarded(call, "execute", f" of {type(command).__name__}")
        return answer

    def _guarded(self, call: Call, method: str, where: str) -> Steps[Any]:
        """Make the call; raise BackendFailed or NotSupported for what the backend raises."""
        token = inside_backend.set(True)
        try:
            return (yield call)
        except HoldfastError:
            raise
        except NotImplementedError:
            raise self._cannot(f"execute `{method}`") from None
        except Exception as error:
            raise BackendFailed(
                f"{self._name}.{method}{where} failed: {type(error).__name__}: {error}",
                hint="the backend raised this error; see its own logs",
            ) from error
        finally:
            inside_backend.reset(token)

    def _scan(self, context: Context, command: c.Scan | c.PlanScan) -> Steps[Any]:
        if command.table in ENTRIES:
            raise self._cannot(f"read the table `{command.table}`")
        return (yield from OPERATIONS[type(command)](context, command))

    def _get(self, context: Context, command: c.Get) -> Steps[str | None]:
        scope = yield from resolve(command.scope)
        if command.reader is not None and isinstance(scope, AssetScope):
            for row in (yield from staged_for(scope, command.reader, command.key)):
                return row[1]  # type: ignore[no-any-return]
        value = yield from self._call("get", scope, command.key)
        if value is not None and not isinstance(value, str):
            kind = type(value).__name__
            raise BackendFailed(
                f"{self._name}.get for {scope} returned a {kind} for `{command.key}`",
                hint="it must return the text that was set, or None",
            )
        return value

    def _open(self, command: Any) -> Steps[StoreScope]:
        """Check a write, and lock the scope until it is done."""
        yield from open_scope(command.scope, command.writer)
        return (yield from resolve(command.scope))

    def _set(self, context: Context, command: c.Set) -> Steps[int]:
        self._check_condition(command)
        owner = yield from open_scope(command.scope, command.writer)
        if command.on_success:
            assert isinstance(command.writer, TaskWriter)
            others = yield from staged_by(command.writer)
            if any((row[0], row[1]) != (owner.id, command.key) for row in others):
                raise self._cannot("apply several staged writes as one")
            value = [(command.key, command.value)]
            yield from purge_queue.claim_objects(command.scope, value, command.reservation)
            yield from stage(context, owner, command)
            return owner.revision
        return (yield from self._write(owner, command, command.reservation))

    def _check_condition(self, command: c.Command[Any]) -> None:
        """Raise NotSupported for a write on a version, if the backend has no versions."""
        conditional = isinstance(command, c.Set) and command.if_version is not None
        if conditional and not self.supports(c.GetEntry):
            raise self._cannot("compare versions (`if_version`)")

    def _write(self, owner: Owner, command: c.Set, reservation: str | None) -> Steps[int]:
        version = yield from count_write(owner)
        scope = yield from resolve(command.scope)
        yield from purge_queue.track_object(scope, command.key, command.value, reservation)
        expiry = rows.time_of(rows.micros(command.expires_at))  # in UTC
        if self.supports(c.GetEntry):
            inner = msgspec.structs.replace(command, scope=scope, expires_at=expiry)
            return (yield from self._execute(inner))
        yield from self._call("set", scope, command.key, command.value, expires_at=expiry)
        return version

    def _delete(self, context: Context, command: c.Delete) -> Steps[None]:
        scope = yield from self._open(command)
        yield from self._call("delete", scope, command.key)
        yield from purge_queue.look_at_objects(scope, command.key)

    def _clear(self, context: Context, command: c.Clear) -> Steps[None]:
        if not command.all_map_indices or isinstance(command.scope, AssetScope):
            scope = yield from self._open(command)
            yield from self._emptied(scope)
            return
        yield from open_map_indices(command.scope, command.writer)
        yield from self._call("clear", command.scope, all_map_indices=True)
        yield from purge_queue.look_at_objects(command.scope, all_=True)

    def _emptied(self, scope: StoreScope) -> Steps[None]:
        yield from self._call("clear", scope)
        yield from purge_queue.look_at_objects(scope)

    def _take_purges(self, context: Context, command: c.TakePurges) -> Steps[c.Taken]:
        yield BEGIN
        if command.whole:
            yield from purge_queue.lock_part(command.part)
        # Limited, because others wait while the backend is called.
        few = msgspec.structs.replace(command, limit=min(command.limit, _ASKED_AT_ONCE))
        due, named, more = yield from purge_queue.due_objects(context, few)
        gone: list[c.Purge] = []
        for purge in due:
            (named if (yield from self._names(purge)) else gone).append(purge)
        yield from purge_queue.keep_for_now(named)
        yield from purge_queue.take(gone, command)
        barrier = None if named else (yield from purge_queue.raise_barrier(command, gone))
        # Report the full limit where more may be due.
        all_ = len(gone) + len(named)
        full = more or all_ == few.limit
        return c.Taken(tuple(gone), command.limit if full else all_, barrier)

    def _names(self, purge: c.Purge) -> Steps[bool]:
        """Return whether the backend's entry, or a version of it, refers to the object."""
        if not purge.key:
            return False  # a barrier whose lease has expired
        try:
            scope = yield from resolve(purge.scope)
        except (UnknownTaskInstance, UnknownAsset):
            return False
        value = yield from self._call("get", scope, purge.key)
        past: Iterable[Version[str]] = ()
        if isinstance(scope, AssetScope) and self.supports(c.History):
            past = yield from self._execute(c.History(scope, purge.key))
        return purge.value in (value, *(step.value for step in past))

    def _get_entry(self, context: Context, command: c.GetEntry) -> Steps[Entry[str] | None]:
        scope = yield from resolve(command.scope)
        entry = yield from self._execute(c.GetEntry(scope, command.key))
        if command.reader is not None and isinstance(scope, AssetScope):
            for row in (yield from staged_for(scope, command.reader, command.key)):
                entry = seen(entry, row, command.reader)
        return entry

    def _list(self, context: Context, command: c.List) -> Steps[Page]:
        asset = None
        if not isinstance(command.where, c.TaskFilter | c.AssetFilter):
            where = yield from resolve(command.where)
            command = msgspec.structs.replace(command, where=where)
            asset = where if isinstance(where, AssetScope) else None
        if command.reader is not None and (asset or isinstance(command.where, c.AssetFilter)):
            staged = yield from staged_for(asset, command.reader)
            if staged and command.expiring_before is None:
                page = yield from self._execute(c.List(command.where))
                return merged(page, staged, command)
        if command.after is not None:
            # Backends support only limits and offsets.
            whole = msgspec.structs.replace(command, limit=None, offset=0, after=None)
            return c.page_of((yield from self._execute(whole)).found, command)
        return c.shortened((yield from self._execute(command)), command)

    def _extended(self, context: Context, command: Any) -> Steps[Any]:
        """Execute a write or a history query that the backend supports itself."""
        if isinstance(command, c.Advance) and command.on_success:
            raise self._cannot("stage an `advance`")
        if isinstance(command, c.History):
            scope = yield from resolve(command.scope)
            asked = c.History(scope, command.key)  # type: ignore[arg-type]
            steps = yield from self._execute(asked)
            return c.steps_of(steps, command)
        owner = yield from open_scope(command.scope, command.writer)
        if not command.reads:
            yield from count_write(owner)
        scope = yield from resolve(command.scope)
        for key, value in command.values if isinstance(command, c.SetMany) else ():
            yield from purge_queue.track_object(scope, key, value, command.reservation)
        return (yield from self._execute(msgspec.structs.replace(command, scope=scope)))

    def _passed_on(self, context: Context, command: c.Command[A]) -> Steps[A]:
        return (yield from self._execute(command))

    def _apply(
        self, context: Context, asset_id: int, staged: list[rows.Row], writer: TaskWriter
    ) -> Steps[None]:
        """Apply the staged write before the success is recorded: a crash in between leaves the
        attempt unfinished, and the next attempt does the work again before it stages anew."""
        asset = yield from resolve(AssetScope(asset_id))
        for _, key, value, _, if_version in staged:
            locked = yield from lock_scope(asset, writer)
            write = c.Set(asset, key, value, writer, if_version=if_version)
            yield from self._write(locked, write, None)

    def _empty(self, context: Context, owner: Owner, writer: Writer) -> Steps[None]:
        yield from self._emptied(owner.scope)

    def _emit(self, context: Context, command: c.Emit) -> Steps[None]:
        """Emit the event with its writes. A crash between the backend's writes and the commit loses
        the event, since the two cannot share a transaction."""
        for write in command.writes:
            self._operation(write)
            self._check_condition(write)
        yield from watches.emit(self._operation, context, command)

    def _delete_run(self, context: Context, command: c.DeleteRun) -> Steps[None]:
        yield BEGIN
        yield from registry.lock_tasks(command)  # before the backend is told: nobody writes to them
        tasks = yield from registry.list_tasks(context, c.ListTasks(command.dag_id, command.run_id))
        for scope in tasks:
            yield from self._emptied(scope)
        yield from registry.delete_run(context, command)

    def _delete_asset(self, context: Context, command: c.DeleteAsset) -> Steps[None]:
        yield BEGIN
        scope = yield from resolve(command.scope)
        assert isinstance(scope, AssetScope)
        assert scope.asset_id is not None
        yield from registry.lock_asset(scope.asset_id)
        yield from self._emptied(scope)
        yield from registry.delete_asset(context, command)

    def _delete_orphans(self, context: Context, command: c.DeleteOrphans) -> Steps[int]:
        orphans = yield from cleanup.lock_orphans(command)
        for scope in orphans:
            yield from self._emptied(scope)
            yield from cleanup.mark_swept(scope)
        return len(orphans)

    def _clean_up(self, context: Context, command: c.CleanUpBackend) -> Steps[BackendCleanup]:
        called = type(self._backend).cleanup is not BaseStoreBackend.cleanup
        if called and not command.dry_run:
            yield from self._guarded(in_thread(self._backend.cleanup), "cleanup", "")
        return BackendCleanup(self._name, called)
