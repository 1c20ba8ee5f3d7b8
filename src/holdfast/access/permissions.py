"""Permissions: the commands that each identity may send, over a pipe or with a token."""

from __future__ import annotations

from datetime import timedelta
from typing import Any, Final, TypeAlias, TypeVar

import msgspec

from holdfast import commands as c
from holdfast.access.identity import (
    Assets,
    CallbackIdentity,
    ChildIdentity,
    HandleIdentity,
    Identity,
    ImportIdentity,
    JobIdentity,
    TaskIdentity,
    UserIdentity,
    WatcherIdentity,
    WorkerIdentity,
)
from holdfast.commands import Category, CurrentIntent, Guard, Guarded, LiveAttempt, LiveWatch
from holdfast.errors import Forbidden
from holdfast.model.entry import ApiWriter, TaskWriter, WatcherWriter, Writer
from holdfast.model.role import Role
from holdfast.model.scope import AssetScope, StoreScope, TaskScope

W = TypeVar("W", bound=c.Command[Any])

LONGEST_ATTEMPT_LEASE = timedelta(hours=1)

_Attempted: TypeAlias = TaskIdentity | ChildIdentity | JobIdentity

_ATTEMPTED: Final = {Category.WRITES_ENTRIES, Category.WRITES_RESULTS}
"""Categories that the process of an attempt may write."""
_TASKS: Final = {*_ATTEMPTED, Category.LOADS}
_JOBS: Final = {Category.WRITES_ENTRIES, Category.LOADS}
"""Categories that the tokens of a task, and of a job, may write."""
_EDITED: Final = {*_ATTEMPTED, Category.LOADS, Category.PURGES}
"""Categories that an editor may use, besides the commands whose role says so."""

_BY_PEOPLE: Final = (c.MarkRun, c.MarkTask, c.ClearTasks)
"""Commands whose writer is a person, and no attempt."""


def authorized(identity: Identity, command: c.Command[Any]) -> c.Command[Any]:
    """Return the command as it is to be executed for the caller. Raise Forbidden where the caller
    may not send it."""
    command = signed(identity, command)
    check(identity, command)
    match identity:
        case TaskIdentity() if command.reads or not command.fenced:
            return Guarded(guard_of(identity), command)
        case TaskIdentity() if isinstance(command, c.Heartbeat) and not command.attempts:
            return Guarded(guard_of(identity), command)
        case WatcherIdentity() if not isinstance(command, c.Emit):
            return Guarded(guard_of(identity), command)
        case JobIdentity():
            return Guarded(guard_of(identity), command)
    return command


def signed(identity: Identity, command: c.Command[Any]) -> c.Command[Any]:
    """Return the command with the caller as its writer and reader, or the attempt that it names.
    Only an admin may write in the name of a task that is not running, or mark and clear in the name
    of one that is."""
    match identity:
        case TaskIdentity():
            return _seen_by(_written_by(command, identity.writer), identity.writer)
        case JobIdentity():
            return _written_by(command, identity.writer)
        case WatcherIdentity() if isinstance(command, c.Emit):
            writes = [_written_by(write, WatcherWriter()) for write in command.writes]
            return msgspec.structs.replace(command, writes=writes)
        case WatcherIdentity():
            return _written_by(command, WatcherWriter())
        case HandleIdentity():
            return _written_by(command, ApiWriter(identity.user))
        case UserIdentity(role=Role.EDITOR) if isinstance(command, _BY_PEOPLE):
            return msgspec.structs.replace(command, writer=ApiWriter(identity.user))
        case UserIdentity():
            writer = command.writer
            if identity.role is not Role.ADMIN or not isinstance(writer, TaskWriter):
                return _written_by(command, ApiWriter(identity.user))
    return command


def guard_of(identity: TaskIdentity | JobIdentity | WatcherIdentity) -> Guard:
    """Return the guard that must hold for the identity's token to be good."""
    match identity:
        case TaskIdentity():
            return LiveAttempt(identity.writer)
        case JobIdentity():
            return CurrentIntent(identity.scope, identity.key, identity.intent)
        case WatcherIdentity():
            return LiveWatch(identity.watch)


def check(identity: Identity, command: c.Command[Any]) -> None:
    """Raise Forbidden where the identity may never send this command."""
    if not _permits(identity, command):
        raise Forbidden(
            f"{type(command).__name__}{_about(identity, command)}: {identity} may not do this",
            hint=_SUPERVISED if _is_supervised(command) else _hint(identity, command),
        )


def _hint(identity: Identity, command: c.Command[Any]) -> str:
    if isinstance(identity, UserIdentity):
        editor = UserIdentity(identity.user, Role.EDITOR)
        role = Role.EDITOR if _permits(editor, command) else Role.ADMIN
        return f"it needs the role {role}: `holdfast auth user-token --role {role}`"
    return _HINTS[type(identity)]


def _permits(identity: Identity, command: c.Command[Any]) -> bool:
    match identity:
        case TaskIdentity():
            return _permits_task(identity, command)
        case ChildIdentity():
            return _permits_child(identity, command)
        case JobIdentity():
            return _permits_job(identity, command)
        case HandleIdentity():
            return _permits_handle(identity, command)
        case WatcherIdentity():
            return _permits_watcher(identity, command)
        case WorkerIdentity():
            return _permits_worker(command)
        case UserIdentity() if _is_supervised(command):
            return False
        case UserIdentity(role=Role.ADMIN):
            return True
        case UserIdentity(role=Role.EDITOR):
            if isinstance(command, c.Heartbeat):
                return _is_modest(command) and not command.watches
            if isinstance(command, c.CreateRun):
                return not command.schedule  # it would advance the DAG's schedule
            return command.reads or command.category in _EDITED or command.role is Role.EDITOR
        case UserIdentity():
            return command.reads
        case CallbackIdentity():
            return _permits_callback(identity, command)
        case ImportIdentity():
            return False


def _permits_task(identity: TaskIdentity, command: c.Command[Any]) -> bool:
    if isinstance(command, c.Heartbeat):
        own = set(command.attempts) <= {identity.writer}
        return own and not command.watches and _is_modest(command)
    if isinstance(command, c.FinishAttempt):
        events = command.ending.events if command.ending else ()
        return command.writer == identity.writer and all(
            (event.name, event.uri) in identity.assets and not event.aliases for event in events
        )
    if isinstance(command, c.Scan | c.PlanScan):
        return identity.reports
    return _permits_attempted(identity, command, _TASKS)


def _permits_child(identity: ChildIdentity, command: c.Command[Any]) -> bool:
    if isinstance(command, c.ListAttempts):
        return command.scope == identity.scope
    return _permits_attempted(identity, command, _ATTEMPTED)


def _permits_callback(identity: CallbackIdentity, command: c.Command[Any]) -> bool:
    if identity.task is not None:
        return command.reads and _permits_child(identity.task, command)
    return isinstance(command, c.Now) or _reads_run(command, identity.dag_id, identity.run_id)


def _permits_job(identity: JobIdentity, command: c.Command[Any]) -> bool:
    # With another job's intent there, the task would take that job's driver for its own.
    if any((scope, key) == (identity.scope, identity.key) for scope, key, _ in command.texts()):
        return False
    return not _spreads(command) and _permits_attempted(identity, command, _JOBS)


def _permits_attempted(
    identity: _Attempted, command: c.Command[Any], written: set[Category]
) -> bool:
    """Return whether it is a command about what is the task's own: a read, a purge, or a write of
    these categories."""
    if command.category in written:
        loads = command.category is Category.LOADS
        own = _foreign(identity, command) is None if loads else _reaches(identity, command)
        return own and command.writer == identity.writer
    if command.category is Category.PURGES:
        return _permits_purge(command, _reaches(identity, command))
    if command.reader not in (None, identity.writer):
        return False
    if command.category is Category.READS_ENTRIES:
        return _reaches(identity, command)
    own_run = identity.scope.dag_id, identity.scope.run_id
    return isinstance(command, c.Now) or _reads_run(command, *own_run)


def _reads_run(command: c.Command[Any], dag_id: str, run_id: str) -> bool:
    """Return whether the command only reads that run."""
    if command.category is not Category.READS_RUN or not isinstance(command, c.RunCommand):
        return False
    return (command.dag_id, command.run_id) == (dag_id, run_id)


def _permits_handle(identity: HandleIdentity, command: c.Command[Any]) -> bool:
    own, scope = identity.scope, command.subject
    reached = (
        scope == own if isinstance(own, TaskScope) else _is_one_of(scope, ((own.name, own.uri),))
    )
    if command.category is Category.WRITES_ENTRIES:
        own_writes = command.writer == ApiWriter(identity.user)
        return reached and own_writes and not _spreads(command)
    if command.category is Category.PURGES:
        return _permits_purge(command, reached) and not _spreads(command)
    reads = command.category is Category.READS_ENTRIES and command.reader is None
    return isinstance(command, c.Now) or (reads and reached)


def _permits_purge(command: c.Command[Any], reached: bool) -> bool:
    """Return whether the command takes objects of the caller's own scope, or finishes purges, which
    only their taker can name."""
    return reached or isinstance(command, c.FinishPurges)


def _permits_watcher(identity: WatcherIdentity, command: c.Command[Any]) -> bool:
    asset = identity.watch.asset
    own = ((asset.name, asset.uri),)
    if isinstance(command, c.Emit):
        return command.watch == identity.watch and all(
            _is_one_of(write.scope, own) and _is_watchers(write) for write in command.writes
        )
    if isinstance(command, c.ReserveObjects | c.ReleaseObjects):
        watchers = isinstance(command.writer, WatcherWriter)
        return watchers and _is_one_of(command.scope, own)
    if command.category is Category.PURGES:
        return _permits_purge(command, _is_one_of(command.subject, own))
    return isinstance(command, c.Now) or (
        command.category is Category.READS_ENTRIES
        and _is_one_of(command.subject, own)
        and command.reader is None
    )


def _permits_worker(command: c.Command[Any]) -> bool:
    if command.category in _ATTEMPTED:
        if isinstance(command.writer, WatcherWriter):
            return isinstance(command, c.ReserveObjects | c.ReleaseObjects)
        return isinstance(command.writer, TaskWriter) and command.writer.attempt is not None
    if isinstance(command, c.Heartbeat):
        return _is_modest(command)
    if isinstance(command, c.Emit):
        return all(map(_is_watchers, command.writes))
    purges = command.category is Category.PURGES
    return command.reads or purges or command.for_workers


def _spreads(command: c.Command[Any]) -> bool:
    """Return whether the command affects all map indices of a task."""
    match command:
        case c.Clear(all_map_indices=True) | c.TakePurges(part=c.Part(all_map_indices=True)):
            return True
    return False


def _is_supervised(command: c.Command[Any]) -> bool:
    """Return whether the command starts an attempt whose process may be killed after its lease."""
    return isinstance(command, c.StartAttempt) and (command.worker or command.lease) is not None


def _is_modest(heartbeat: c.Heartbeat) -> bool:
    """Return whether the heartbeat renews no run, which only schedulers hold, and no lease for so
    long that a dead worker would go unnoticed."""
    return not heartbeat.runs and timedelta(0) < heartbeat.lease <= LONGEST_ATTEMPT_LEASE


def _is_watchers(write: c.AssetWrite) -> bool:
    staged = isinstance(write, c.Set | c.Advance) and write.on_success
    return isinstance(write.writer, WatcherWriter) and not staged


def _reaches(identity: _Attempted, command: c.Command[Any]) -> bool:
    """Return whether the command is about the task instance itself or an asset that it declares."""
    return command.subject is not None and _is_own(identity, command.subject)


def _is_own(identity: _Attempted, scope: StoreScope) -> bool:
    if isinstance(scope, TaskScope):
        return scope == identity.scope
    known = identity.asset_ids if isinstance(identity, ChildIdentity) else ()
    return scope.asset_id in known or _is_one_of(scope, identity.assets)


def _foreign(identity: Identity, command: c.Command[Any]) -> StoreScope | None:
    """Return the first scope that a task or job adds to a load without the right to write it."""
    if isinstance(identity, TaskIdentity | JobIdentity) and isinstance(command, c.AddToLoad):
        return next((lot.scope for lot in command.lots if not _is_own(identity, lot.scope)), None)
    return None


def _is_one_of(scope: StoreScope | None, assets: Assets) -> bool:
    """Return whether the scope is one of these assets. A store looks assets up by id, name or URI,
    in this order; an id does not say which asset it is."""
    if not isinstance(scope, AssetScope) or scope.asset_id is not None:
        return False
    if scope.name is not None:
        return any(scope.name == name for name, _ in assets)
    return any(scope.uri == uri for _, uri in assets)


def _written_by(command: W, writer: Writer) -> W:
    """Return the command with this writer, unless an attempt is its writer."""
    given = command.writer
    if given is None or (isinstance(given, TaskWriter) and given.attempt is not None):
        return command
    return msgspec.structs.replace(command, writer=writer)


def _seen_by(command: c.Command[Any], reader: TaskWriter) -> c.Command[Any]:
    reads_for = "reader" in command.__struct_fields__ and command.reader is None
    return msgspec.structs.replace(command, reader=reader) if reads_for else command


def _about(identity: Identity, command: c.Command[Any]) -> str:
    scope = _foreign(identity, command) or command.subject
    return f" of {scope}" if scope is not None else ""


_SUPERVISED: Final = "leave out `worker` and `lease`: only a worker's supervisor may set them"
_HINTS: dict[type, str] = {
    TaskIdentity: "a task may use its own store and those of its inlets and outlets, and may "
    "write only while it runs",
    ChildIdentity: "a task may use its own store, those of its inlets and outlets, and the "
    "results of its own run",
    JobIdentity: "a job may use the stores of the task that submitted it, except its own intent",
    HandleIdentity: "a handle gives access only to the store that it was created from",
    WatcherIdentity: "a watcher may use only the store of the asset that it watches",
    WorkerIdentity: "a worker acts only for attempts and watchers that it runs",
    CallbackIdentity: "a callback may read what its task may read, but may not write",
    ImportIdentity: "a DAG file may not use the stores while it is imported, only its tasks",
}
