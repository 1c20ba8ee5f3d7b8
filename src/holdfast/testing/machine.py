"""Random commands and clock jumps, sent to a store and to a dict: both must say the same.

What a store is free to choose is not compared: ids, the numbers of versions (their order is), the
order of rows that expired at one time, and the words of an error.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from datetime import timedelta
from typing import Any, ClassVar, TypeAlias

import msgspec
from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, rule

from holdfast import command as c
from holdfast.entry import (
    ApiWriter,
    AssetInfo,
    Entry,
    Expired,
    Found,
    Page,
    TaskWriter,
    Version,
    WatcherWriter,
    Writer,
)
from holdfast.errors import HoldfastError, NotSupported
from holdfast.scope import AssetScope, StoreScope, TaskScope
from holdfast.store import Store
from holdfast.stores.memory import MemoryStore
from holdfast.testing.clock import Clock
from holdfast.testing.door import open_door

Execute: TypeAlias = Callable[[c.Command[Any]], Any]

TASKS = [
    TaskScope("sales", "monday", "load", 0),
    TaskScope("sales", "monday", "load", 1),
    TaskScope("sales", "tuesday", "load"),
]
ASSETS = {"orders": "s3://lake/orders", "customers": "s3://lake/customers"}
CLASHING = ("orders", "s3://elsewhere")

tasks = st.sampled_from(TASKS)
assets = st.sampled_from(
    [AssetScope(name=name) for name in ASSETS] + [AssetScope(uri=uri) for uri in ASSETS.values()]
)
scopes = tasks | assets
declared = st.sampled_from([*ASSETS.items(), *ASSETS.items(), CLASHING])
keys = st.sampled_from(["a", "A", "b/%_"])
values = st.sampled_from(['"x"', '"y"', "1", "2", "2.0", "10", "true", '{"k":null}'])
lifetimes = st.sampled_from([None, *(timedelta(seconds=n) for n in (-60, 0, 1, 60, 3600))])
jumps = st.sampled_from([timedelta(microseconds=1), timedelta(seconds=1), timedelta(hours=1)])
pasts = st.sampled_from([timedelta(seconds=n) for n in (0, 1, 30, 7200)])
persons = st.sampled_from(
    [ApiWriter("ann"), WatcherWriter(), *(TaskWriter(task) for task in TASKS)]
)
attempts = st.tuples(tasks, st.sampled_from([0, 0, 0, 1]))
"""A task, and how many attempts before its newest one."""
expectations = st.sampled_from(["nothing", "nothing", "absence", "current", "earliest"])


class StoreMachine(RuleBasedStateMachine):
    """`machine_for` makes a subclass of it for a store."""

    make_store: ClassVar[Callable[[Clock], Store]]
    colour: ClassVar[str]
    history_limit: ClassVar[int]

    def __init__(self) -> None:
        super().__init__()
        self.clock = Clock()
        self.model = MemoryStore(history_limit=self.history_limit, clock=self.clock)
        self.door = open_door(self.colour, type(self).make_store(self.clock))
        self.newest: dict[TaskScope, int] = {}
        self.versions: dict[tuple[str, str], dict[int, int]] = {}
        for task in TASKS[:2]:
            self.register(task)
            self.start_attempt(task)
        self.both(c.DeclareDagAssets("sales", tuple(ASSETS.items())))

    def teardown(self) -> None:
        self.door.close()

    def both(self, command: c.Command[Any], stores: c.Command[Any] | None = None) -> Any:
        """Carry the command out on both sides and compare what they say.

        The store is sent its own command where that names its versions. Answers with what the
        model and the store answered; None where the command was refused.
        """
        if not self.door.store.supports(type(command)):
            return None
        try:
            seen = outcome(self.door, stores or command)
        except NotSupported:
            return None
        expected = outcome(self.model.execute, command)
        assert comparable(command, seen) == comparable(command, expected), command
        for (where, version), (_, other) in zip(
            versions(command, expected), versions(command, seen), strict=True
        ):
            self.match(where, version, other)
        return None if isinstance(expected, HoldfastError) else (expected, seen)

    def match(self, where: tuple[str, str], version: int, other: int) -> None:
        """Hold on to which version of the store is which of the model; both only ever grow."""
        known = self.versions.setdefault(where, {0: 0})
        known.setdefault(version, other)
        stores = [known[each] for each in sorted(known)]
        assert known[version] == other, where
        assert stores == sorted(set(stores)), where

    def forget(self, *scopes: StoreScope) -> None:
        """What is deleted whole may count from the beginning when it comes back."""
        owners = {owner(scope) for scope in scopes}
        self.versions = {at: known for at, known in self.versions.items() if at[0] not in owners}

    def attempt(self, of: tuple[TaskScope, int]) -> TaskWriter:
        task, behind = of
        return TaskWriter(task, max(1, self.newest.get(task, 1) - behind))

    def expected(self, scope: StoreScope, key: str, expectation: str) -> tuple[Any, Any]:
        """The `if_version` for the model and for the store."""
        if expectation == "nothing":
            return None, None
        if expectation == "absence":
            return 0, 0
        if expectation == "current":
            self.both(c.GetEntry(scope, key))
        known = self.versions.get((owner(scope), key), {0: 0})
        version = max(known) if expectation == "current" else min(known, key=lambda v: v or 2**62)
        return version, known[version]

    @invariant()
    def every_entry_is_the_same(self) -> None:
        self.both(c.List(c.TaskFilter()))
        self.both(c.List(c.AssetFilter()))

    @rule(by=jumps)
    def time_passes(self, by: timedelta) -> None:
        self.clock.forward(by)
        self.both(c.Now())

    @rule(scope=scopes, key=keys, reader=st.none() | attempts)
    def read(self, scope: StoreScope, key: str, reader: tuple[TaskScope, int] | None) -> None:
        who = self.attempt(reader) if reader else None
        self.both(c.Get(scope, key, who))
        self.both(c.GetEntry(scope, key, who))

    @rule(
        where=scopes
        | st.sampled_from(
            [c.TaskFilter(run_id="monday"), c.TaskFilter(map_index=1), c.AssetFilter()]
        ),
        prefix=st.sampled_from(["", "a", "b/%"]),
        since=st.none() | pasts,
        before=st.none() | pasts,
        limit=st.sampled_from([None, 0, 1, 2]),
        offset=st.sampled_from([0, 0, 1, 3]),
        reader=st.none() | attempts,
    )
    def list_some(
        self,
        where: c.Where,
        prefix: str,
        since: timedelta | None,
        before: timedelta | None,
        limit: int | None,
        offset: int,
        reader: tuple[TaskScope, int] | None,
    ) -> None:
        self.both(
            c.List(
                where,
                prefix,
                None if since is None else self.clock() - since,
                None if before is None else self.clock() + before,
                limit,
                offset,
                self.attempt(reader) if reader else None,
            )
        )

    @rule(
        scope=scopes,
        key=keys,
        value=values,
        writer=persons | attempts,
        lifetime=lifetimes,
        expectation=expectations,
    )
    def write(
        self,
        scope: StoreScope,
        key: str,
        value: str,
        writer: Writer | tuple[TaskScope, int],
        lifetime: timedelta | None,
        expectation: str,
    ) -> None:
        version, stores = self.expected(scope, key, expectation)
        command = c.Set(scope, key, value, self.who(writer), self.expiry(scope, lifetime), version)
        self.both(command, msgspec.structs.replace(command, if_version=stores))

    @rule(scope=assets, key=keys, value=values, attempt=attempts, expectation=expectations)
    def stage(
        self,
        scope: AssetScope,
        key: str,
        value: str,
        attempt: tuple[TaskScope, int],
        expectation: str,
    ) -> None:
        version, stores = self.expected(scope, key, expectation)
        writer = self.attempt(attempt)
        command = c.Set(scope, key, value, writer, if_version=version, on_success=True)
        self.both(command, msgspec.structs.replace(command, if_version=stores))

    @rule(
        scope=scopes,
        values=st.lists(st.tuples(keys, values), max_size=3),
        writer=persons | attempts,
        lifetime=lifetimes,
    )
    def set_many(
        self,
        scope: StoreScope,
        values: list[tuple[str, str]],
        writer: Writer | tuple[TaskScope, int],
        lifetime: timedelta | None,
    ) -> None:
        expires_at = self.expiry(scope, lifetime)
        self.both(c.SetMany(scope, tuple(values), self.who(writer), expires_at))

    @rule(scope=assets, key=keys, value=values, writer=persons | attempts)
    def advance(
        self, scope: AssetScope, key: str, value: str, writer: Writer | tuple[TaskScope, int]
    ) -> None:
        self.both(c.Advance(scope, key, value, self.who(writer)))

    @rule(scope=assets, key=keys, value=values, attempt=attempts)
    def stage_advance(
        self, scope: AssetScope, key: str, value: str, attempt: tuple[TaskScope, int]
    ) -> None:
        self.both(c.Advance(scope, key, value, self.attempt(attempt), on_success=True))

    @rule(scope=scopes, key=keys, writer=persons | attempts)
    def delete(self, scope: StoreScope, key: str, writer: Writer | tuple[TaskScope, int]) -> None:
        self.both(c.Delete(scope, key, self.who(writer)))

    @rule(scope=scopes, writer=persons | attempts, all_map_indices=st.booleans())
    def clear(
        self,
        scope: StoreScope,
        writer: Writer | tuple[TaskScope, int],
        all_map_indices: bool,
    ) -> None:
        self.both(c.Clear(scope, self.who(writer), all_map_indices))

    @rule(scope=assets, key=keys)
    def history(self, scope: AssetScope, key: str) -> None:
        self.both(c.History(scope, key))

    @rule(
        scope=assets,
        key=keys,
        back_to=st.integers(0, 3) | st.sampled_from(["monday", "tuesday", "never"]) | pasts,
        writer=persons | attempts,
        dry_run=st.booleans(),
    )
    def rewind(
        self,
        scope: AssetScope,
        key: str,
        back_to: int | str | timedelta,
        writer: Writer | tuple[TaskScope, int],
        dry_run: bool,
    ) -> None:
        to: c.Target
        stores: c.Target
        if isinstance(back_to, int):
            self.both(c.History(scope, key))
            known = self.versions.get((owner(scope), key), {0: 0})
            version = sorted(known)[-(back_to % len(known)) - 1]
            to, stores = c.ToVersion(version), c.ToVersion(known[version])
        elif isinstance(back_to, str):
            to = stores = c.BeforeRun(back_to)
        else:
            to = stores = c.AtTime(self.clock() - back_to)
        command = c.Rewind(scope, key, to, self.who(writer), dry_run)
        self.both(command, msgspec.structs.replace(command, to=stores))

    @rule(task=tasks)
    def register(self, task: TaskScope) -> None:
        self.both(c.RegisterTask(task))
        self.both(c.ListTasks(task.dag_id, task.run_id))

    @rule(task=tasks)
    def start_attempt(self, task: TaskScope) -> None:
        if answers := self.both(c.StartAttempt(task)):
            self.newest[task] = answers[0]

    @rule(attempt=attempts, succeeded=st.booleans(), clear=st.booleans())
    def finish_attempt(self, attempt: tuple[TaskScope, int], succeeded: bool, clear: bool) -> None:
        self.both(c.FinishAttempt(self.attempt(attempt), succeeded, clear))

    @rule(task=tasks)
    def delete_run(self, task: TaskScope) -> None:
        self.both(c.DeleteRun(task.dag_id, task.run_id))
        self.forget(*(each for each in TASKS if each.run_id == task.run_id))

    @rule(declaration=declared)
    def declare_by_hand(self, declaration: tuple[str, str]) -> None:
        self.both(c.DeclareAsset(*declaration))

    @rule(dag_id=st.sampled_from(["sales", "returns"]), assets=st.lists(declared, max_size=4))
    def parse(self, dag_id: str, assets: list[tuple[str, str]]) -> None:
        self.both(c.DeclareDagAssets(dag_id, tuple(assets)))
        self.both(c.ListAssets())

    @rule(scope=assets)
    def delete_asset(self, scope: AssetScope) -> None:
        self.both(c.DeleteAsset(scope))
        self.forget(scope)

    @rule(past=pasts, limit=st.integers(1, 3))
    def list_expired(self, past: timedelta, limit: int) -> None:
        cutoff = self.clock() - past
        self.both(c.CountExpired(cutoff))
        if not self.door.store.supports(c.ListExpired):
            return
        listed, others = (
            comparable(None, tuple(pages(execute, c.ListExpired(cutoff, limit))))
            for execute in (self.model.execute, self.door)
        )
        assert listed == others

    @rule(past=pasts, limit=st.integers(0, 3), skip_held=st.booleans())
    def delete_expired(self, past: timedelta, limit: int, skip_held: bool) -> None:
        command = c.DeleteExpired(self.clock() - past, limit, skip_held)
        while answers := self.both(command):
            if not answers[0]:
                break

    @rule(past=pasts)
    def take_expired(self, past: timedelta) -> None:
        self.both(c.TakeExpired(self.clock() - past, 1000))

    @rule(past=pasts)
    def sweep(self, past: timedelta) -> None:
        cutoff = self.clock() - past
        self.both(c.ListOrphans(cutoff))
        self.both(c.DeleteOrphans(cutoff))

    def who(self, writer: Writer | tuple[TaskScope, int]) -> Writer:
        return self.attempt(writer) if isinstance(writer, tuple) else writer

    def expiry(self, scope: StoreScope, lifetime: timedelta | None) -> Any:
        expires = lifetime is not None and isinstance(scope, TaskScope)
        return self.clock() + lifetime if expires else None  # type: ignore[operator]


def machine_for(
    make_store: Callable[[Clock], Store],
    *,
    colour: str = "sync",
    history_limit: int = 100,
    rounds: int = 1,
) -> type[StoreMachine]:
    """A machine for the stores that `make_store` makes, each of them with nothing in it.

    Its `TestCase` runs it. It draws the same commands each time; more `rounds` draw more.
    """
    parts = {
        "make_store": staticmethod(make_store),
        "colour": colour,
        "history_limit": history_limit,
    }
    machine: type[StoreMachine] = type("StoreMachineFor", (StoreMachine,), parts)
    machine.TestCase.settings = settings(
        max_examples=20 * rounds,
        stateful_step_count=40,
        deadline=None,
        derandomize=True,
        database=None,
        suppress_health_check=list(HealthCheck),
    )
    return machine


def outcome(execute: Execute, command: c.Command[Any]) -> Any:
    """The answer, or the refusal."""
    try:
        return execute(command)
    except NotSupported:
        raise
    except HoldfastError as error:
        return error


def pages(execute: Execute, command: c.ListExpired) -> Iterator[Expired]:
    """All that a listing comes to, page by page."""
    while rows := execute(command):
        yield from rows
        command = msgspec.structs.replace(command, after=rows[-1])


def owner(scope: StoreScope) -> str:
    """The same for every way to name one scope."""
    if isinstance(scope, TaskScope):
        return str(scope)
    return scope.name or next(name for name, uri in ASSETS.items() if uri == scope.uri)


def comparable(command: c.Command[Any] | None, answer: Any) -> Any:
    """The answer without what a store is free to choose."""
    replace = msgspec.structs.replace
    match answer:
        case HoldfastError():
            return type(answer)
        case int() if isinstance(command, c.Set | c.SetMany):
            return None
        case Entry():
            return replace(answer, version=bool(answer.version))
        case Version():
            return replace(answer, version=0, previous=bool(answer.previous))
        case AssetInfo():
            return replace(answer, asset_id=0)
        case Expired():
            return answer.expires_at, str(answer.scope), answer.key
        case Found():
            return owner(answer.scope), comparable(command, answer.entry)
        case Page():
            return comparable(command, answer.found), answer.total
        case tuple():
            items = [comparable(command, item) for item in answer]
            return sorted(items) if answer and isinstance(answer[0], Expired) else items
    return answer


def versions(command: Any, answer: Any) -> Iterator[tuple[tuple[str, str], int]]:
    """Each version in the answer, and whose it is."""
    match answer:
        case int() if isinstance(command, c.SetMany):
            for key, _ in command.values:
                yield (owner(command.scope), key), answer
        case int() if isinstance(command, c.Set) and not command.on_success:
            yield (owner(command.scope), command.key), answer
        case Entry():
            yield (owner(command.scope), answer.key), answer.version
        case Version():
            yield (owner(command.scope), command.key), answer.version
            yield (owner(command.scope), command.key), answer.previous
        case Page():
            for found in answer.found:
                yield (owner(found.scope), found.entry.key), found.entry.version
        case tuple():
            for item in answer:
                yield from versions(command, item)
