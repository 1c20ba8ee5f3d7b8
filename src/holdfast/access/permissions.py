"""Who asks, and what they may ask: the same rules behind a pipe and behind a token."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import timedelta
from enum import StrEnum
from typing import Any, Final, TypeAlias, TypeVar

import msgspec

from holdfast import commands as c
from holdfast.commands import CurrentIntent, Guard, Guarded, LiveAttempt, LiveWatch
from holdfast.errors import Forbidden, InvalidInput
from holdfast.model.entry import ApiWriter, TaskWriter, WatcherWriter, Writer
from holdfast.model.run import Watch
from holdfast.model.scope import AssetScope, StoreScope, TaskScope
from holdfast.portable.identifier import is_uuid

W = TypeVar("W", bound=c.Command[Any])

LONGEST_LEASE = timedelta(hours=1)
INTENT_SUFFIX: Final = ".intent"
"""How the key of an entry ends that holds the intent of a job."""

Assets: TypeAlias = tuple[tuple[str | None, str | None], ...]
"""Assets by name and URI, as far as they are known."""


class Role(StrEnum):
    """What a person may do; each role includes the ones before it."""

    VIEWER = "viewer"
    """Read."""
    EDITOR = "editor"
    """Write entries, declare assets, trigger runs, clear tasks, be an attempt."""
    ADMIN = "admin"
    """Everything."""


class TaskIdentity(msgspec.Struct, frozen=True, tag="task"):
    """One attempt of a task instance, and the assets that its task declares."""

    scope: TaskScope
    attempt: int
    assets: Assets = ()
    reports: bool = False
    """It may also read the tables of `holdfast.portable.tables`, as the task's own process may."""
    handle: bool = False
    """Its token was given to another process, which may not ask for tokens of jobs."""

    @property
    def writer(self) -> TaskWriter:
        return TaskWriter(self.scope, self.attempt)

    def __str__(self) -> str:
        return f"attempt {self.attempt} of {self.scope}"


class ChildIdentity(msgspec.Struct, frozen=True, tag="child"):
    """The process of an attempt under its supervisor, which begins and ends the attempt; and the
    assets that its task declares."""

    writer: TaskWriter
    assets: Assets = ()
    asset_ids: tuple[int, ...] = ()

    @property
    def scope(self) -> TaskScope:
        return self.writer.scope

    def __str__(self) -> str:
        return f"attempt {self.writer.attempt} of {self.writer}"


class WatcherIdentity(msgspec.Struct, frozen=True, tag="watcher"):
    """A watcher of one asset."""

    watch: Watch

    def __str__(self) -> str:
        return f"watcher {self.watch.watcher} of {self.watch.asset}"


class JobIdentity(msgspec.Struct, frozen=True, tag="job"):
    """A job that a task submitted and that outlives its attempts, while its intent is current."""

    scope: TaskScope
    key: str
    intent: str
    assets: Assets = ()

    def __post_init__(self) -> None:
        if not self.key.endswith(INTENT_SUFFIX) or not is_uuid(self.intent):
            raise InvalidInput(
                f"`{self.intent:.80}` under `{self.key:.80}` of {self.scope} is not a job's intent",
                hint=f"an intent is a UUID, stored under a key that ends in `{INTENT_SUFFIX}`",
            )

    @property
    def writer(self) -> TaskWriter:
        return TaskWriter(self.scope)

    def __str__(self) -> str:
        return f"job {self.intent} of {self.scope}"


class HandleIdentity(msgspec.Struct, frozen=True, tag="handle"):
    """Whoever was given one store by a person or tool, in whose name they write."""

    scope: StoreScope
    user: str = ""

    def __str__(self) -> str:
        return f"a handle of {self.scope}"


class WorkerIdentity(msgspec.Struct, frozen=True, tag="worker"):
    """A supervisor, which runs attempts and watchers of any DAG."""

    name: str

    def __str__(self) -> str:
        return f"worker {self.name}"


class UserIdentity(msgspec.Struct, frozen=True, tag="user"):
    """A person or tool."""

    user: str
    role: Role

    def __str__(self) -> str:
        return f"{self.role} {self.user}"


class CallbackIdentity(msgspec.Struct, frozen=True, tag="callback"):
    """A callback of a run, or of one of its attempts, which is over."""

    dag_id: str
    run_id: str
    task: ChildIdentity | None = None

    def __str__(self) -> str:
        return f"a callback of {self.task or f'run {self.dag_id}/{self.run_id}'}"


class ImportIdentity(msgspec.Struct, frozen=True, tag="import"):
    """The import of a DAG file."""

    def __str__(self) -> str:
        return "the import of a DAG file"


Identity: TypeAlias = (
    TaskIdentity
    | ChildIdentity
    | WatcherIdentity
    | JobIdentity
    | HandleIdentity
    | WorkerIdentity
    | UserIdentity
    | CallbackIdentity
    | ImportIdentity
)
Wanted: TypeAlias = TaskIdentity | JobIdentity | HandleIdentity
"""Those whom others may give a token."""
_Attempted: TypeAlias = TaskIdentity | ChildIdentity | JobIdentity

_ENTRY_READS = (c.Get, c.GetEntry, c.List, c.History, c.GetAsset)
_RUN_READS = (c.GetResults, c.RunEvents, c.GetRun)
_READS = (
    *(*_ENTRY_READS, *_RUN_READS, c.ListAssets, c.Now),
    *(c.ListTasks, c.CountExpired, c.ListExpired, c.ListOrphans),
    *(c.Scan, c.PlanScan),
    *(c.ListFiles, c.ListDags, c.GetDag, c.ListRuns, c.ListTaskInstances, c.ListAttempts),
    *(c.AliasAssets, c.ListAssetEvents, c.ListWatches, c.Count, c.CountPurges),
)
_ENTRY_WRITES = (
    *(c.Set, c.SetMany, c.Advance, c.Delete, c.Clear, c.Rewind),
    *(c.ReserveObjects, c.ReleaseObjects),
)
_PURGES = (c.TakePurges, c.FinishPurges)
_RECONCILING = (*_PURGES, c.QueueObjects)
_ATTEMPT_WRITES = (*_ENTRY_WRITES, c.PutResult, c.TakeItem)
_LOADS = (c.StartLoad, c.AddToLoad, c.FinishLoad, c.DropLoad)
_UNFENCED = (*_PURGES, c.ReleaseObjects, c.DropLoad)
"""Writes that a store carries out for any attempt, live or not."""
_EDITS = (
    *_ATTEMPT_WRITES,
    *_LOADS,
    *_RECONCILING,
    *(c.RegisterTask, c.DeclareAsset, c.StartAttempt, c.FinishAttempt),
    *(c.PauseDag, c.CreateRun, c.ClearTasks, c.MarkTask),
)


def is_read(command: c.Command[Any]) -> bool:
    """It changes nothing, so it may be asked as often as anyone likes."""
    return isinstance(command, _READS) or (isinstance(command, c.Rewind) and command.dry_run)


def authorized(identity: Identity, command: c.Command[Any]) -> c.Command[Any]:
    """The command as it is to be carried out for them; Forbidden where they may not ask it."""
    command = signed(identity, command)
    check(identity, command)
    match identity:
        case TaskIdentity() if is_read(command) or isinstance(command, _UNFENCED):
            return Guarded(guard_of(identity), command)
        case TaskIdentity() if isinstance(command, c.Heartbeat) and not command.attempts:
            return Guarded(guard_of(identity), command)
        case WatcherIdentity() if not isinstance(command, c.Emit):
            return Guarded(guard_of(identity), command)
        case JobIdentity():
            return Guarded(guard_of(identity), command)
    return command


def signed(identity: Identity, command: c.Command[Any]) -> c.Command[Any]:
    """The command as one of theirs: they write and read as themselves, or as the attempt that they
    say. Only an admin may write in the name of a task that does not run."""
    match identity:
        case TaskIdentity():
            return _seen_by(_written_by(command, identity.writer), identity.writer)
        case JobIdentity():
            return _written_by(command, identity.writer)
        case WatcherIdentity() if isinstance(command, c.ReserveObjects | c.ReleaseObjects):
            return _written_by(command, WatcherWriter())
        case WatcherIdentity() if isinstance(command, c.Emit):
            writes = [_written_by(write, WatcherWriter()) for write in command.writes]
            return msgspec.structs.replace(command, writes=writes)
        case HandleIdentity():
            return _written_by(command, ApiWriter(identity.user))
        case UserIdentity():
            writer = getattr(command, "writer", None)
            if identity.role is not Role.ADMIN or not isinstance(writer, TaskWriter):
                return _written_by(command, ApiWriter(identity.user))
    return command


def guard_of(identity: TaskIdentity | JobIdentity | WatcherIdentity) -> Guard:
    """What must hold for their token to be good."""
    match identity:
        case TaskIdentity():
            return LiveAttempt(identity.writer)
        case JobIdentity():
            return CurrentIntent(identity.scope, identity.key, identity.intent)
        case WatcherIdentity():
            return LiveWatch(identity.watch)


def check(identity: Identity, command: c.Command[Any]) -> None:
    """Forbidden where they may not ask this at all."""
    if not _permits(identity, command):
        raise Forbidden(
            f"{type(command).__name__}{_about(identity, command)}: {identity} may not do this",
            hint=_SUPERVISED if _is_supervised(command) else _HINTS[type(identity)],
        )


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
                return not command.schedule  # which moves the DAG's schedule on
            return is_read(command) or isinstance(command, _EDITS)
        case UserIdentity():
            return is_read(command)
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
    if isinstance(command, _ATTEMPT_WRITES):
        return command.writer == identity.writer and _reaches(identity, command)
    if isinstance(command, _LOADS):
        return command.writer == identity.writer and _foreign(identity, command) is None
    if isinstance(command, c.Scan | c.PlanScan):
        return identity.reports
    if isinstance(command, _PURGES):
        return _permits_purge(command, _reaches(identity, command))
    return _permits_reading(identity, command)


def _permits_child(identity: ChildIdentity, command: c.Command[Any]) -> bool:
    if isinstance(command, _ATTEMPT_WRITES):
        return command.writer == identity.writer and _reaches(identity, command)
    if isinstance(command, _PURGES):
        return _permits_purge(command, _reaches(identity, command))
    if isinstance(command, c.ListAttempts):
        return command.scope == identity.scope
    return _permits_reading(identity, command)


def _permits_callback(identity: CallbackIdentity, command: c.Command[Any]) -> bool:
    if identity.task is not None:
        return is_read(command) and _permits_child(identity.task, command)
    if isinstance(command, _RUN_READS):
        return (command.dag_id, command.run_id) == (identity.dag_id, identity.run_id)
    return isinstance(command, c.Now)


def _permits_job(identity: JobIdentity, command: c.Command[Any]) -> bool:
    # With the intent of another job, its task would take that one's driver for its own.
    if (identity.scope, identity.key) in _written(command):
        return False
    if isinstance(command, _ENTRY_WRITES):
        own = command.writer == identity.writer and _reaches(identity, command)
        return own and not getattr(command, "all_map_indices", False)
    if isinstance(command, _LOADS):
        return command.writer == identity.writer and _foreign(identity, command) is None
    if isinstance(command, _PURGES):
        return _permits_purge(command, _reaches(identity, command), all_map_indices=False)
    return _permits_reading(identity, command)


def _permits_handle(identity: HandleIdentity, command: c.Command[Any]) -> bool:
    own, scope = identity.scope, _scope(command)
    reached = (
        scope == own if isinstance(own, TaskScope) else _is_one_of(scope, ((own.name, own.uri),))
    )
    if isinstance(command, _ENTRY_WRITES):
        all_indices = getattr(command, "all_map_indices", False)
        return reached and command.writer == ApiWriter(identity.user) and not all_indices
    if isinstance(command, _PURGES):
        return _permits_purge(command, reached, all_map_indices=False)
    reads = isinstance(command, _ENTRY_READS) and getattr(command, "reader", None) is None
    return isinstance(command, c.Now) or (reads and reached)


def _permits_purge(
    command: c.TakePurges | c.FinishPurges, reached: bool, all_map_indices: bool = True
) -> bool:
    """They take what is of their own scope; what they finish, only its taker can name."""
    if isinstance(command, c.FinishPurges):
        return True
    return reached and (all_map_indices or not command.part.all_map_indices)


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
    if isinstance(command, _PURGES):
        return _permits_purge(command, _is_one_of(_scope(command), own))
    return isinstance(command, c.Now) or (
        isinstance(command, _ENTRY_READS)
        and _is_one_of(_scope(command), own)
        and getattr(command, "reader", None) is None
    )


def _permits_worker(command: c.Command[Any]) -> bool:
    if isinstance(command, _ATTEMPT_WRITES):
        if isinstance(command.writer, WatcherWriter):
            return isinstance(command, c.ReserveObjects | c.ReleaseObjects)
        return isinstance(command.writer, TaskWriter) and command.writer.attempt is not None
    if isinstance(command, c.Heartbeat):
        return _is_modest(command)
    if isinstance(command, c.Emit):
        return all(map(_is_watchers, command.writes))
    running = (c.StartAttempt, c.FinishAttempt, c.StartWatch, *_RECONCILING)
    return is_read(command) or isinstance(command, running)


def _is_supervised(command: c.Command[Any]) -> bool:
    """It begins an attempt whose process may be killed once its lease has passed."""
    return isinstance(command, c.StartAttempt) and (command.worker or command.lease) is not None


def _is_modest(heartbeat: c.Heartbeat) -> bool:
    """It renews no run, which only schedulers hold, and nothing for so long that a worker which
    died would not be missed."""
    return not heartbeat.runs and timedelta(0) < heartbeat.lease <= LONGEST_LEASE


def _is_watchers(write: c.AssetWrite) -> bool:
    return isinstance(write.writer, WatcherWriter) and not getattr(write, "on_success", False)


def _permits_reading(identity: _Attempted, command: c.Command[Any]) -> bool:
    if getattr(command, "reader", None) not in (None, identity.writer):
        return False
    if isinstance(command, _RUN_READS):
        own = identity.scope
        return (command.dag_id, command.run_id) == (own.dag_id, own.run_id)
    return isinstance(command, c.Now) or (
        isinstance(command, _ENTRY_READS) and _reaches(identity, command)
    )


def _reaches(identity: _Attempted, command: c.Command[Any]) -> bool:
    """The command is about the task instance itself, or about an asset that it declares."""
    scope = _scope(command)
    if scope is None:
        return isinstance(command, c.PutResult | c.TakeItem)
    return _is_own(identity, scope)


def _is_own(identity: _Attempted, scope: StoreScope) -> bool:
    if isinstance(scope, TaskScope):
        return scope == identity.scope
    known = identity.asset_ids if isinstance(identity, ChildIdentity) else ()
    return scope.asset_id in known or _is_one_of(scope, identity.assets)


def _foreign(identity: Identity, command: c.Command[Any]) -> StoreScope | None:
    """What a task or job brings to a load, and has no right to write."""
    if isinstance(identity, TaskIdentity | JobIdentity) and isinstance(command, c.AddToLoad):
        return next((lot.scope for lot in command.lots if not _is_own(identity, lot.scope)), None)
    return None


def _written(command: c.Command[Any]) -> Iterator[tuple[StoreScope, str]]:
    """The scopes and keys that a command gives values to."""
    match command:
        case c.Set():
            yield command.scope, command.key
        case c.SetMany():
            yield from ((command.scope, key) for key, _ in command.values)
        case c.AddToLoad():
            yield from ((lot.scope, key) for lot in command.lots for key, *_ in lot.entries)


def _scope(command: c.Command[Any]) -> StoreScope | None:
    if isinstance(command, c.List):
        scope: Any = command.where
    elif isinstance(command, c.TakePurges):
        scope = command.part.scope
    else:
        scope = getattr(command, "scope", None)
    return scope if isinstance(scope, TaskScope | AssetScope) else None


def _is_one_of(scope: StoreScope | None, assets: Assets) -> bool:
    """The asset is found by its id, its name or its URI, in this order; an id tells nothing."""
    if not isinstance(scope, AssetScope) or scope.asset_id is not None:
        return False
    if scope.name is not None:
        return any(scope.name == name for name, _ in assets)
    return any(scope.uri == uri for _, uri in assets)


def _written_by(command: W, writer: Writer) -> W:
    """With this writer, unless an attempt says that it writes."""
    given = getattr(command, "writer", None)
    if given is None or (isinstance(given, TaskWriter) and given.attempt is not None):
        return command
    return msgspec.structs.replace(command, writer=writer)


def _seen_by(command: c.Command[Any], reader: TaskWriter) -> c.Command[Any]:
    if isinstance(command, c.Get | c.GetEntry | c.List) and command.reader is None:
        return msgspec.structs.replace(command, reader=reader)
    return command


def _about(identity: Identity, command: c.Command[Any]) -> str:
    scope = _foreign(identity, command) or _scope(command)
    return f" of {scope}" if scope is not None else ""


_SUPERVISED: Final = "leave `worker` and `lease` out: only a worker's supervisor may give them"
_HINTS: dict[type, str] = {
    TaskIdentity: "a task has its own store and those of the assets among its inlets and outlets; "
    "it writes while it runs",
    ChildIdentity: "a task has its own store, those of the assets among its inlets and outlets, "
    "and the results of its own run",
    JobIdentity: "a job has the stores of the task that submitted it, but for its own intent",
    HandleIdentity: "a handle has the one store that it was made of",
    WatcherIdentity: "a watcher has the store of the asset that it watches",
    UserIdentity: "an editor may write, an admin may do everything: "
    "`holdfast auth user-token --role editor`",
    WorkerIdentity: "a worker acts for attempts and watchers that it runs",
    CallbackIdentity: "a callback may read what its task may read, not write",
    ImportIdentity: "a DAG file may not use the stores while it is imported, only its tasks",
}
