"""Reference model of a store, based on dicts. Tests compare the other stores with it."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from datetime import UTC, datetime
from threading import RLock
from typing import Any, TypeVar, cast

import msgspec

from holdfast import commands as c
from holdfast.commands import CurrentIntent, Guarded, LiveWatch, Once
from holdfast.errors import InvalidInput
from holdfast.model.entry import (
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
from holdfast.model.rewind import choose
from holdfast.model.scope import AssetScope, StoreScope, TaskScope
from holdfast.model.staged import overlaid
from holdfast.model.value import HELD_TEXT, encode, is_in_place, is_reference, larger
from holdfast.store import Store
from holdfast.stores import refusals
from holdfast.testing.memory_queue import Object, ObjectQueue

A = TypeVar("A")


@dataclass
class _ScopeState:
    """The entries of one scope. The revision is the version of its latest write."""

    entries: dict[str, Entry[str]] = field(default_factory=dict)
    revision: int = 0


@dataclass
class _Staged:
    command: c.Set | c.Advance
    updated_at: datetime


@dataclass
class _Task(_ScopeState):
    attempt: int = 0
    live: bool = False
    ended: bool = False
    staged: dict[tuple[int, str], _Staged] = field(default_factory=dict)


@dataclass
class _Asset(_ScopeState):
    asset_id: int = 0
    name: str = ""
    uri: str = ""
    by_hand: bool = False
    dags: set[str] = field(default_factory=set)
    orphaned_at: datetime | None = None
    history: dict[str, list[Version[str]]] = field(default_factory=dict)

    def info(self) -> AssetInfo:
        return AssetInfo(
            self.asset_id,
            self.name,
            self.uri,
            self.by_hand,
            tuple(sorted(self.dags)),
            self.orphaned_at,
        )


@dataclass
class _Answered:
    """A client's latest request."""

    number: int
    command: c.Command[Any]
    answer: Any
    at: datetime


@dataclass
class _Load:
    """A bulk load: the entries of each part, by scope."""

    writer: Writer
    started_at: datetime
    parts: dict[int, list[tuple[StoreScope, list[c.NewEntry]]]] = field(default_factory=dict)


class MemoryStore(Store):
    """Store in the memory of this process."""

    def __init__(
        self, *, history_limit: int = 100, clock: Callable[[], datetime] | None = None
    ) -> None:
        self._history_limit = history_limit
        self._clock = clock or (lambda: datetime.now(UTC))
        self._lock = RLock()
        self._tasks: dict[TaskScope, _Task] = {}
        self._assets: dict[int, _Asset] = {}
        self._deleted_runs: dict[tuple[str, str], tuple[int, int]] = {}
        self._deleted_assets: dict[str, int] = {}
        self._last_asset_id = 0
        self._requests: dict[str, _Answered] = {}
        self._loads: dict[str, _Load] = {}
        self._queue = ObjectQueue(self._clock)
        self._refers = False

    def execute(self, command: c.Command[A]) -> A:
        with self._lock:
            before = self._references()
            answer = self._dispatch(command)
            for one in before - self._references():
                self._queue.add(one)
            return answer

    def _dispatch(self, command: c.Command[A]) -> A:
        return cast(A, _OPERATIONS[type(command)](self, command))

    def supports(self, command: type[c.Command[Any]]) -> bool:
        return command in _OPERATIONS

    # reading

    def _state(self, scope: StoreScope) -> _Task | _Asset:
        return self._task(scope) if isinstance(scope, TaskScope) else self._asset(scope)

    def _task(self, scope: TaskScope) -> _Task:
        if scope not in self._tasks:
            raise refusals.unknown_task(scope)
        return self._tasks[scope]

    def _asset(self, scope: AssetScope) -> _Asset:
        for asset in self._assets.values():
            if scope.asset_id is not None:
                if asset.asset_id == scope.asset_id:
                    return asset
            elif scope.name is not None:
                if asset.name == scope.name:
                    return asset
            elif asset.uri == scope.uri:
                return asset
        raise refusals.unknown_asset(scope, sorted(asset.name for asset in self._assets.values()))

    def _live(self, state: _ScopeState) -> dict[str, Entry[str]]:
        now = self._clock()
        return {
            key: entry
            for key, entry in sorted(state.entries.items())
            if entry.expires_at is None or entry.expires_at > now
        }

    def _seen(self, state: _Task | _Asset, reader: TaskWriter | None) -> dict[str, Entry[str]]:
        """Return the live entries, overlaid with the staged writes of the reading attempt."""
        entries = self._live(state)
        task = self._tasks.get(reader.scope) if reader else None
        if isinstance(state, _Asset) and task and reader and task.live:
            for (asset_id, key), staged in task.staged.items():
                if asset_id == state.asset_id and task.attempt == reader.attempt:
                    entries[key] = self._preview(entries.get(key), staged)
        return dict(sorted(entries.items()))

    def _preview(self, standing: Entry[str] | None, staged: _Staged) -> Entry[str]:
        """Return the entry that its attempt reads: as it would be if the write took effect now.

        Where it could not, finishing the attempt raises; until then it reads the staged value.
        """
        change = staged.command
        return overlaid(
            *(standing, change.key, change.value, staged.updated_at, change.writer),
            advances=isinstance(change, c.Advance),
        )

    def _outcome(self, standing: Entry[str] | None, change: c.Set | c.Advance) -> str:
        """Return the value after the change."""
        if isinstance(change, c.Set):
            return change.value
        where = f"`{change.key}` of {change.scope}"
        return larger(standing.value if standing else None, change.value, where)

    def _get(self, command: c.Get) -> str | None:
        entry = self._get_entry(command)
        return entry.value if entry else None

    def _get_entry(self, command: c.Get | c.GetEntry) -> Entry[str] | None:
        return self._seen(self._state(command.scope), command.reader).get(command.key)

    def _matching(self, where: c.Where) -> Iterator[tuple[StoreScope, _Task | _Asset]]:
        match where:
            case TaskScope():
                yield where, self._task(where)
            case AssetScope():
                asset = self._asset(where)
                yield asset.info().scope, asset
            case c.TaskFilter():
                wanted = {k: v for k, v in msgspec.structs.asdict(where).items() if v is not None}
                for scope, task in sorted(self._tasks.items(), key=lambda item: _order(item[0])):
                    if all(getattr(scope, name) == value for name, value in wanted.items()):
                        yield scope, task
            case c.AssetFilter():
                for asset in sorted(self._assets.values(), key=lambda asset: asset.name):
                    yield asset.info().scope, asset

    def _list(self, command: c.List) -> Page:
        since, before = command.updated_since, command.expiring_before
        found = [
            Found(scope, entry)
            for scope, state in self._matching(command.where)
            for entry in self._seen(state, command.reader).values()
            if entry.key.startswith(command.prefix)
            and (since is None or entry.updated_at >= since)
            and (before is None or (entry.expires_at is not None and entry.expires_at < before))
        ]
        return c.page_of(found, command)

    def _history(self, command: c.History) -> tuple[Version[str], ...]:
        return c.steps_of(self._asset(command.scope).history.get(command.key, ()), command)

    # writing

    def _open(self, scope: StoreScope, writer: Writer) -> _Task | _Asset:
        """Return the state of a scope. Raise an error for a writer that may not write to it."""
        self._fence(writer)
        state = self._state(scope)
        if isinstance(state, _Asset) and state.orphaned_at:
            assert isinstance(scope, AssetScope)
            raise refusals.inactive(scope)
        return state

    def _fence(self, writer: Writer, reading: bool = False) -> None:
        if isinstance(writer, TaskWriter) and writer.attempt is not None:
            task = self._task(writer.scope)
            if not task.live or task.attempt != writer.attempt:
                raise refusals.stale(writer, task.attempt, task.live, reading)

    def _put(
        self,
        state: _Task | _Asset,
        values: Iterable[tuple[str, str | None]],
        writer: Writer,
        expires_at: datetime | None = None,
    ) -> int:
        """Write or delete (None) these keys as one version."""
        return self._put_all(state, [(key, value, expires_at) for key, value in values], writer)

    def _put_all(
        self,
        state: _Task | _Asset,
        values: Iterable[tuple[str, str | None, datetime | None]],
        writer: Writer,
    ) -> int:
        """Write or delete (None) these keys as one version, each with its own expiry."""
        state.revision += 1
        now = self._clock()
        writer = signature(writer)
        for key, value, until in values:
            self._refers |= is_reference(value or "")
            expires_at = until.astimezone(UTC) if until else None
            if value is None:
                del state.entries[key]
            else:
                state.entries[key] = Entry(key, value, state.revision, now, writer, expires_at)
            if isinstance(state, _Asset):
                steps = state.history.setdefault(key, [])
                previous = steps[0].version if steps else 0
                steps.insert(0, Version(state.revision, value, now, writer, previous))
                del steps[self._history_limit :]
        return state.revision

    def _check_version(self, state: _ScopeState, command: c.Set) -> None:
        if command.if_version is not None:
            entry = self._live(state).get(command.key)
            current = entry.version if entry else 0
            if current != command.if_version:
                raise refusals.conflict(command.scope, command.key, command.if_version, current)

    def _set(self, command: c.Set) -> int:
        state = self._open(command.scope, command.writer)
        if not command.on_success:
            self._check_version(state, command)
        self._claim(command, [(command.key, command.value)])
        if command.on_success:
            self._stage(state, command)
            return state.revision
        return self._put(state, [(command.key, command.value)], command.writer, command.expires_at)

    def _set_many(self, command: c.SetMany) -> int:
        state = self._open(command.scope, command.writer)
        if not command.values:
            return state.revision
        self._claim(command, dict(command.values).items())
        return self._put(state, dict(command.values).items(), command.writer, command.expires_at)

    def _advance(self, command: c.Advance) -> str:
        asset = self._open(command.scope, command.writer)
        standing = asset.entries.get(command.key)
        if command.on_success:
            change = self._over_staged(asset, command)
            value = self._outcome(standing, change)
            self._stage(asset, change)
            return value
        value = self._outcome(standing, command)
        if not standing or value is not standing.value:
            self._put(asset, [(command.key, value)], command.writer)
        return value

    def _delete(self, command: c.Delete) -> None:
        state = self._open(command.scope, command.writer)
        if command.key in state.entries:
            self._put(state, [(command.key, None)], command.writer)

    def _clear(self, command: c.Clear) -> None:
        if not command.all_map_indices or isinstance(command.scope, AssetScope):
            self._empty(self._open(command.scope, command.writer), command.writer)
            return
        self._fence(command.writer)
        task = command.scope.dag_id, command.scope.run_id, command.scope.task_id
        states = [state for scope, state in self._tasks.items() if _order(scope)[:3] == task]
        if not states:
            raise refusals.unknown_task(command.scope)
        for state in states:
            self._empty(state, command.writer)

    def _empty(self, state: _Task | _Asset, writer: Writer) -> None:
        if state.entries:
            self._put(state, [(key, None) for key in sorted(state.entries)], writer)

    def _rewind(self, command: c.Rewind) -> Version[str] | None:
        asset = self._open(command.scope, command.writer)
        assert isinstance(asset, _Asset)
        where = f"`{command.key}` of {command.scope}"
        step = choose(asset.history.get(command.key, ()), command.to, where)
        value = step.value if step else None
        if not command.dry_run and (value is not None or command.key in asset.entries):
            self._put(asset, [(command.key, value)], command.writer)
        return step

    # attempts and staged writes

    def _stage(self, state: _Task | _Asset, command: c.Set | c.Advance) -> None:
        """Store the write for the attempt's success."""
        assert isinstance(state, _Asset)
        self._refers |= is_reference(command.value)
        staged = _Staged(command, self._clock())
        self._task_of(command).staged[state.asset_id, command.key] = staged

    def _over_staged(self, state: _Task | _Asset, command: c.Advance) -> c.Set | c.Advance:
        """Merge the command with the staged write of its key: a staged `set` remains a `set`.

        The current value is not included until success, because it may still be moved back.
        """
        assert isinstance(state, _Asset)
        before = self._task_of(command).staged.get((state.asset_id, command.key))
        if before is None:
            return command
        where = f"`{command.key}` of {command.scope}"
        value = larger(before.command.value, command.value, where)
        return msgspec.structs.replace(before.command, value=value)

    def _task_of(self, command: c.Set | c.Advance) -> _Task:
        assert isinstance(command.writer, TaskWriter)
        return self._task(command.writer.scope)

    def _start_attempt(self, command: c.StartAttempt) -> int:
        task = self._task(command.scope)
        if command.after not in (None, task.attempt):
            raise refusals.overtaken(command.scope, task.attempt)
        task.attempt += 1
        task.live = True
        task.ended = False
        task.staged.clear()
        return task.attempt

    def _finish_attempt(self, command: c.FinishAttempt) -> None:
        self._fence(command.writer)
        task = self._task(command.writer.scope)
        if command.succeeded:
            self._apply(task)
            if command.clear:
                self._empty(task, command.writer)
        task.staged.clear()
        task.live = False
        task.ended = command.ending is None or command.ending.state.ended

    def _apply(self, task: _Task) -> None:
        """Apply the staged writes, those to one asset as one version of it."""
        writes: dict[int, list[tuple[str, str | None]]] = {}
        for (asset_id, key), staged in sorted(task.staged.items()):
            change = staged.command
            asset = self._open(change.scope, change.writer)
            standing = asset.entries.get(key)
            value = self._outcome(standing, change)
            if value == HELD_TEXT:
                raise refusals.held_back(change.scope, key)
            if isinstance(change, c.Set):
                self._check_version(asset, change)
            elif standing and value is standing.value:
                continue
            writes.setdefault(asset_id, []).append((key, value))
        for asset_id, values in writes.items():
            self._put(self._assets[asset_id], values, change.writer)

    # objects in the workers' storage

    def _references(self) -> set[Object]:
        """Return the objects that entries, histories and staged writes refer to."""
        if not self._refers:
            return set()
        named = [
            (scope, entry.key, entry.value)
            for scope, state in self._states()
            for entry in state.entries.values()
        ]
        for asset in self._assets.values():
            for key, steps in asset.history.items():
                kept = [step.value for step in steps if step.value and not is_in_place(step.value)]
                named += [(_by_name(asset), key, value) for value in kept]
        for task in self._tasks.values():
            for (asset_id, key), staged in task.staged.items():
                named.append((_by_name(self._assets[asset_id]), key, staged.command.value))
        return {one for one in named if is_reference(one[2])}

    def _states(self) -> Iterator[tuple[StoreScope, _ScopeState]]:
        yield from self._tasks.items()
        for asset in self._assets.values():
            yield _by_name(asset), asset

    def _owner(self, scope: StoreScope) -> StoreScope:
        return scope if isinstance(scope, TaskScope) else _by_name(self._asset(scope))

    def _claim(self, command: c.Set | c.SetMany, values: Iterable[tuple[str, str]]) -> None:
        self._queue.claim(self._owner(command.scope), values, command.reservation)

    def _reserve_objects(self, command: c.ReserveObjects) -> None:
        self._open(command.scope, command.writer)
        self._queue.reserve(self._owner(command.scope), command.objects)

    def _release_objects(self, command: c.ReleaseObjects) -> None:
        self._queue.release(command.objects)

    def _queue_objects(self, command: c.QueueObjects) -> None:
        self._queue.queue(command.objects)

    def _take_purges(self, command: c.TakePurges) -> c.Taken:
        return self._queue.take(command, self._references())

    def _finish_purges(self, command: c.FinishPurges) -> None:
        self._queue.finish(command)

    def _count_purges(self, command: c.CountPurges) -> c.PurgeQueue:
        return self._queue.count(command.part)

    # bulk loads

    def _start_load(self, command: c.StartLoad) -> None:
        self._fence(command.writer)
        now = self._clock()
        for name, load in list(self._loads.items()):
            if load.started_at < now - c.LONGEST_LOAD:
                del self._loads[name]
        self._loads.setdefault(command.load, _Load(signature(command.writer), now))

    def _load(self, name: str, writer: Writer) -> _Load:
        load = self._loads.get(name)
        if load is None or load.writer != signature(writer):
            raise refusals.unknown_load(name)
        return load

    def _add_to_load(self, command: c.AddToLoad) -> None:
        self._fence(command.writer)
        brought = list(command.checked())
        load = self._load(command.load, command.writer)
        for scope, _ in brought:
            if isinstance(scope, AssetScope):
                self._asset(scope)
        part = load.parts.setdefault(command.part, [])
        found = sum(len(new) for _, new in part)
        if found != command.first:
            raise refusals.out_of_step(command.load, command.part, command.first, found)
        part.extend(brought)

    def _finish_load(self, command: c.FinishLoad) -> int:
        self._fence(command.writer)
        load = self._load(command.load, command.writer)
        entries: dict[StoreScope, list[c.NewEntry]] = {}
        for part, expected in command.parts:
            brought = load.parts.get(part, [])
            found = sum(len(new) for _, new in brought)
            if found != expected:
                raise refusals.incomplete(command.load, part, expected, found)
            for scope, new in brought:
                entries.setdefault(self._resolved(scope, command.writer), []).extend(new)
        for scope, new in entries.items():
            keys = [key for key, _, _ in new]
            for key in sorted(keys):
                if keys.count(key) > 1:
                    raise refusals.repeated(scope, key)
        for scope, new in entries.items():
            if isinstance(scope, TaskScope):
                self._register(scope)
            for key, value, _ in new:
                if is_reference(value):
                    self._queue.name(self._owner(scope), key, value)
            self._put_all(self._state(scope), new, command.writer)
        del self._loads[command.load]
        return sum(map(len, entries.values()))

    def _resolved(self, scope: StoreScope, writer: Writer) -> StoreScope:
        """Return the scope with all its identifiers. Raise an error where it may not be written."""
        if isinstance(scope, TaskScope):
            return scope
        asset = self._open(scope, writer)
        assert isinstance(asset, _Asset)
        return asset.info().scope

    def _drop_load(self, command: c.DropLoad) -> None:
        load = self._loads.get(command.load)
        if load is not None and load.writer == signature(command.writer):
            del self._loads[command.load]

    # runs and assets

    def _register_task(self, command: c.RegisterTask) -> None:
        self._register(command.scope)

    def _register(self, scope: TaskScope) -> None:
        if scope not in self._tasks:
            reached = self._deleted_runs.get((scope.dag_id, scope.run_id), (0, 0))
            self._tasks[scope] = _Task(revision=reached[0], attempt=reached[1])

    def _list_tasks(self, command: c.ListTasks) -> tuple[TaskScope, ...]:
        run = (command.dag_id, command.run_id)
        tasks = [scope for scope in self._tasks if (scope.dag_id, scope.run_id) == run]
        return tuple(sorted(tasks, key=_order))

    def _delete_run(self, command: c.DeleteRun) -> None:
        scopes = self._list_tasks(c.ListTasks(command.dag_id, command.run_id))
        tasks = [self._tasks.pop(scope) for scope in scopes]
        if tasks:
            reached = max(task.revision for task in tasks), max(task.attempt for task in tasks)
            self._deleted_runs[command.dag_id, command.run_id] = reached

    def _declare(self, name: str, uri: str) -> _Asset:
        for asset in self._assets.values():
            if (asset.name, asset.uri) == (name, uri):
                return asset
            if asset.name == name or asset.uri == uri:
                raise refusals.taken(name, uri, asset.name, asset.uri)
        self._last_asset_id += 1
        reached = max(self._deleted_assets.get(text, 0) for text in (name, uri))
        asset = _Asset(asset_id=self._last_asset_id, name=name, uri=uri, revision=reached)
        self._assets[asset.asset_id] = asset
        return asset

    def _named(self, command: c.DeclareAsset) -> _Asset | None:
        """Return the asset that has that name or URI, where only one of them is given."""
        for asset in self._assets.values():
            if (command.name, command.uri) in ((asset.name, None), (None, asset.uri)):
                return asset
        return None

    def _declare_asset(self, command: c.DeclareAsset) -> AssetInfo:
        asset = self._named(command) or self._declare(*command.declared)
        asset.by_hand = True
        asset.orphaned_at = None
        return asset.info()

    def _declare_dag_assets(self, command: c.DeclareDagAssets) -> None:
        before = dict(self._assets)
        try:
            declared = [self._declare(name, uri) for name, uri in command.assets]
        except InvalidInput:
            self._assets = before
            raise
        for asset in self._assets.values():
            asset.dags.discard(command.dag_id)
        for asset in declared:
            asset.dags.add(command.dag_id)
        for asset in self._assets.values():
            if asset.dags or asset.by_hand:
                asset.orphaned_at = None
            else:
                asset.orphaned_at = asset.orphaned_at or self._clock()

    def _list_assets(self, command: c.ListAssets) -> tuple[AssetInfo, ...]:
        assets = sorted(self._assets.values(), key=lambda asset: asset.name)
        end = None if command.limit is None else command.offset + command.limit
        return tuple(asset.info() for asset in assets[command.offset : end])

    def _get_asset(self, command: c.GetAsset) -> AssetInfo:
        return self._asset(command.scope).info()

    def _delete_asset(self, command: c.DeleteAsset) -> None:
        asset = self._asset(command.scope)
        del self._assets[asset.asset_id]
        self._deleted_assets |= dict.fromkeys((asset.name, asset.uri), asset.revision)
        for task in self._tasks.values():
            task.staged = {at: s for at, s in task.staged.items() if at[0] != asset.asset_id}

    # commands that wrap commands

    def _once(self, command: Once) -> Any:
        client, number = command.request.client, command.request.number
        latest = self._requests.get(client)
        if latest and latest.number == number:
            if latest.command != command.inner:
                raise refusals.reused_number(command.request)
            return latest.answer
        if latest and latest.number > number:
            raise refusals.stale_request(command.request, latest.number)
        answer = self._dispatch(command.inner)
        self._requests[client] = _Answered(number, command.inner, answer, self._clock())
        return answer

    def _forget_requests(self, command: c.ForgetRequests) -> int:
        silent = [name for name, latest in self._requests.items() if latest.at < command.cutoff]
        for name in silent:
            del self._requests[name]
        return len(silent)

    def _guarded(self, command: Guarded) -> Any:
        guard, reading = command.guard, command.inner.reads
        if isinstance(guard, CurrentIntent):
            if self._get(c.Get(guard.scope, guard.key)) != encode(guard.intent):
                raise refusals.not_current(guard, reading)
            if self._task(guard.scope).ended:
                raise refusals.job_over(guard, reading)
        elif isinstance(guard, LiveWatch):
            raise refusals.watch_lost(guard.watch, reading)  # the model has no watches
        else:
            self._fence(guard.writer, reading)
        return self._dispatch(command.inner)

    # expiry

    def _now(self, command: c.Now) -> datetime:
        return self._clock()

    def _expired(self, cutoff: datetime) -> list[Expired]:
        rows = [
            Expired(0, scope, entry.key, entry.expires_at)
            for scope, task in self._tasks.items()
            for entry in task.entries.values()
            if entry.expires_at is not None and entry.expires_at <= cutoff
        ]
        return sorted(rows, key=_order_of_expiry)

    def _count_expired(self, command: c.CountExpired) -> int:
        return len(self._expired(command.cutoff))

    def _list_expired(self, command: c.ListExpired) -> tuple[Expired, ...]:
        rows = self._expired(command.cutoff)
        if command.after is not None:
            after = _order_of_expiry(command.after)
            rows = [row for row in rows if _order_of_expiry(row) > after]
        return tuple(rows[: command.limit])

    def _delete_expired(self, command: c.DeleteExpired) -> int:
        rows = self._expired(command.cutoff)[: command.limit or None]
        for row in rows:
            del self._tasks[row.scope].entries[row.key]
        return len(rows)

    def _take_expired(self, command: c.TakeExpired) -> tuple[Expired, ...]:
        rows = tuple(self._expired(command.cutoff)[: command.limit])
        for row in rows:
            del self._tasks[row.scope].entries[row.key]
        return rows

    def _orphans(self, cutoff: datetime) -> list[_Asset]:
        return [
            asset
            for asset in sorted(self._assets.values(), key=lambda asset: asset.name)
            if asset.orphaned_at and asset.orphaned_at <= cutoff and asset.history
        ]

    def _list_orphans(self, command: c.ListOrphans) -> tuple[AssetInfo, ...]:
        return tuple(asset.info() for asset in self._orphans(command.cutoff))

    def _delete_orphans(self, command: c.DeleteOrphans) -> int:
        orphans = self._orphans(command.cutoff)
        for asset in orphans:
            asset.entries.clear()
            asset.history.clear()
        return len(orphans)


def _by_name(asset: _Asset) -> AssetScope:
    return AssetScope(name=asset.name, uri=asset.uri)


def _order(scope: TaskScope) -> tuple[str, str, str, int]:
    return scope.dag_id, scope.run_id, scope.task_id, scope.map_index


def _order_of_expiry(row: Expired) -> tuple[datetime, tuple[str, str, str, int], str]:
    return row.expires_at, _order(row.scope), row.key


_OPERATIONS: dict[type[c.Command[Any]], Callable[[MemoryStore, Any], Any]] = {
    c.Get: MemoryStore._get,
    c.GetEntry: MemoryStore._get_entry,
    c.List: MemoryStore._list,
    c.Set: MemoryStore._set,
    c.SetMany: MemoryStore._set_many,
    c.Advance: MemoryStore._advance,
    c.Delete: MemoryStore._delete,
    c.Clear: MemoryStore._clear,
    c.History: MemoryStore._history,
    c.Rewind: MemoryStore._rewind,
    c.RegisterTask: MemoryStore._register_task,
    c.ListTasks: MemoryStore._list_tasks,
    c.DeleteRun: MemoryStore._delete_run,
    c.DeclareAsset: MemoryStore._declare_asset,
    c.DeclareDagAssets: MemoryStore._declare_dag_assets,
    c.ListAssets: MemoryStore._list_assets,
    c.GetAsset: MemoryStore._get_asset,
    c.DeleteAsset: MemoryStore._delete_asset,
    c.StartAttempt: MemoryStore._start_attempt,
    c.FinishAttempt: MemoryStore._finish_attempt,
    c.Now: MemoryStore._now,
    c.CountExpired: MemoryStore._count_expired,
    c.ListExpired: MemoryStore._list_expired,
    c.DeleteExpired: MemoryStore._delete_expired,
    c.TakeExpired: MemoryStore._take_expired,
    c.ListOrphans: MemoryStore._list_orphans,
    c.DeleteOrphans: MemoryStore._delete_orphans,
    c.StartLoad: MemoryStore._start_load,
    c.AddToLoad: MemoryStore._add_to_load,
    c.FinishLoad: MemoryStore._finish_load,
    c.DropLoad: MemoryStore._drop_load,
    c.ReserveObjects: MemoryStore._reserve_objects,
    c.ReleaseObjects: MemoryStore._release_objects,
    c.QueueObjects: MemoryStore._queue_objects,
    c.TakePurges: MemoryStore._take_purges,
    c.FinishPurges: MemoryStore._finish_purges,
    c.CountPurges: MemoryStore._count_purges,
    c.ForgetRequests: MemoryStore._forget_requests,
    Once: MemoryStore._once,
    Guarded: MemoryStore._guarded,
}
