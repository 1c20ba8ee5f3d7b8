"""State machine test: random commands and clock jumps on a store and on a dict, whose answers must
agree.

Values that a store may choose are not compared: ids, version numbers (their order is), the order of
rows that expired at the same time, and the text of an error.
"""

from __future__ import annotations

from collections.abc import Callable, Collection
from datetime import datetime, timedelta
from typing import Any, ClassVar, TypeAlias, TypeVar

import hypothesis
import msgspec
from hypothesis import HealthCheck, Phase, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, rule

from holdfast import commands as c
from holdfast.errors import HoldfastError
from holdfast.model.entry import ApiWriter, TaskWriter, WatcherWriter, Writer
from holdfast.model.scope import AssetScope, StoreScope, TaskScope
from holdfast.store import Store
from holdfast.testing.answers import comparable, pages, versions
from holdfast.testing.client import open_client
from holdfast.testing.clock import Clock
from holdfast.testing.gaps import Gap, needs
from holdfast.testing.memory_store import MemoryStore

TASKS = [
    TaskScope("sales", "monday", "load", 0),
    TaskScope("sales", "monday", "load", 1),
    TaskScope("sales", "tuesday", "load"),
]
ASSETS = {"orders": "s3://lake/orders", "customers": "s3://lake/customers"}
BOTH = list(ASSETS.items())
DECLARATIONS = [*BOTH, ("orders", "s3://elsewhere")]
KEYS = ["a", "A/%_"]

Attempt: TypeAlias = tuple[TaskScope, int]
"""A task, and the number of attempts before its newest one."""

tasks = st.sampled_from([TASKS[0], *TASKS])
orders, customers = (AssetScope(name=name) for name in ASSETS)
assets = st.sampled_from([orders, orders, AssetScope(uri=ASSETS["orders"]), customers])
scopes = tasks | assets
keys = st.sampled_from(["a", *KEYS])
values = st.sampled_from(['"x"', '"y"', "1", "2", "2.0", "3", "10", "true", '{"k":null}'])
numbers = st.sampled_from(["1", "2", "2.0", "3", "10", '"x"'])
lifetimes = st.sampled_from([None, *(timedelta(seconds=n) for n in (-30, 30, 60, 600))])
spans = st.sampled_from([timedelta(seconds=n) for n in (0, 30, 60, 600)])
persons = st.sampled_from(
    [ApiWriter("ann"), WatcherWriter(), *(TaskWriter(each) for each in TASKS)]
)
attempts = st.tuples(tasks, st.sampled_from([0] * 7 + [1]))
anybody = attempts | persons
expectations = st.sampled_from(["anything", "anything", "absence", "the current", "the earliest"])
mostly = st.sampled_from([True] * 7 + [False])

PLANS: list[st.SearchStrategy[tuple[str, dict[str, Any]]]] = []

M = TypeVar("M", bound=Callable[..., None])


def step(weight: int, **arguments: st.SearchStrategy[Any]) -> Callable[[M], M]:
    """Register a step of the machine, which is taken the more often the larger its weight is."""

    def planned(method: M) -> M:
        plan = st.tuples(st.just(method.__name__), st.fixed_dictionaries(arguments))
        PLANS.extend([plan] * weight)
        return method

    return planned


class StoreMachine(RuleBasedStateMachine):
    """The state machine; `machine_for` creates a subclass of it for a store."""

    make_store: ClassVar[Callable[[Clock], Store]]
    mode: ClassVar[str]
    history_limit: ClassVar[int]
    gaps: ClassVar[frozenset[Gap]]

    def __init__(self) -> None:
        super().__init__()
        self.clock = Clock()
        self.model = MemoryStore(history_limit=self.history_limit, clock=self.clock)
        self.client = open_client(self.mode, type(self).make_store(self.clock))
        self.newest: dict[TaskScope, int] = {}
        self.versions: dict[tuple[str, str], dict[int, int]] = {}
        for task in TASKS:
            self.start_attempt(task, register=True)
        self.parse("sales", BOTH)

    def teardown(self) -> None:
        try:
            self.look()
        finally:
            self.client.close()

    @rule(plan=st.deferred(lambda: st.sampled_from(PLANS).flatmap(lambda plan: plan)))
    def take(self, plan: tuple[str, dict[str, Any]]) -> None:
        name, arguments = plan
        getattr(self, name)(**arguments)

    @step(2)
    def look(self) -> None:
        self.both(c.ListAssets())
        self.both(c.List(c.TaskFilter()))
        self.both(c.CountExpired(self.clock()))
        for asset in (orders, customers):
            for task in TASKS[:2]:
                self.both(c.List(asset, reader=self.attempt((task, 0))))
            for key in KEYS:
                self.both(c.History(asset, key))

    @step(
        6,
        scope=scopes,
        key=keys,
        value=values,
        writer=anybody,
        lifetime=lifetimes,
        expectation=expectations,
    )
    def write(
        self,
        scope: StoreScope,
        key: str,
        value: str,
        writer: Writer | Attempt,
        lifetime: timedelta | None,
        expectation: str,
    ) -> None:
        version, stores = self.expected(scope, key, expectation)
        command = c.Set(scope, key, value, self.who(writer), self.expiry(scope, lifetime), version)
        self.both(command, msgspec.structs.replace(command, if_version=stores))

    @step(3, by=st.just(timedelta(microseconds=1)) | spans)
    def let_time_pass(self, by: timedelta) -> None:
        self.clock.forward(by)
        self.both(c.Now())

    @step(3, scope=scopes, key=keys, reader=st.none() | attempts)
    def read(self, scope: StoreScope, key: str, reader: Attempt | None) -> None:
        who = self.attempt(reader) if reader else None
        self.both(c.Get(scope, key, who))
        self.both(c.GetEntry(scope, key, who))

    @step(
        3,
        where=scopes
        | st.sampled_from([c.TaskFilter("sales", "monday"), c.TaskFilter(map_index=1)])
        | st.just(c.AssetFilter()),
        prefix=st.sampled_from(["", "", "a", "A/%"]),
        since=st.none() | spans,
        before=st.none() | spans,
        limit=st.sampled_from([None, None, 0, 1]),
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
        reader: Attempt | None,
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

    @step(
        2,
        where=scopes | st.sampled_from([c.TaskFilter(), c.AssetFilter()]),
        task=st.sampled_from(TASKS),
        asset=st.sampled_from([orders, customers]),
        key=keys,
        limit=st.sampled_from([None, 1, 2]),
        offset=st.sampled_from([0, 0, 1]),
        reader=st.none() | attempts,
    )
    def list_behind(
        self,
        where: c.Where,
        task: TaskScope,
        asset: AssetScope,
        key: str,
        limit: int | None,
        offset: int,
        reader: Attempt | None,
    ) -> None:
        scope = task if isinstance(where, TaskScope | c.TaskFilter) else asset
        who = self.attempt(reader) if reader else None
        command = c.List(where, limit=limit, offset=offset, reader=who, after=(scope, key))
        self.both(command)

    @step(4, scope=assets, key=keys, value=values, attempt=attempts, expectation=expectations)
    def stage(
        self, scope: AssetScope, key: str, value: str, attempt: Attempt, expectation: str
    ) -> None:
        version, stores = self.expected(scope, key, expectation)
        writer = self.attempt(attempt)
        command = c.Set(scope, key, value, writer, if_version=version, on_success=True)
        self.both(command, msgspec.structs.replace(command, if_version=stores))

    @step(
        2,
        scope=scopes,
        values=st.lists(st.tuples(keys, values), max_size=3),
        writer=anybody,
        lifetime=lifetimes,
    )
    def write_many(
        self,
        scope: StoreScope,
        values: list[tuple[str, str]],
        writer: Writer | Attempt,
        lifetime: timedelta | None,
    ) -> None:
        expires_at = self.expiry(scope, lifetime)
        self.both(c.SetMany(scope, tuple(values), self.who(writer), expires_at))

    @step(3, scope=assets, key=keys, value=numbers, writer=anybody)
    def advance(self, scope: AssetScope, key: str, value: str, writer: Writer | Attempt) -> None:
        self.both(c.Advance(scope, key, value, self.who(writer)))

    @step(4, scope=assets, key=keys, value=numbers, attempt=attempts)
    def stage_advance(self, scope: AssetScope, key: str, value: str, attempt: Attempt) -> None:
        self.both(c.Advance(scope, key, value, self.attempt(attempt), on_success=True))

    @step(2, scope=scopes, key=keys, writer=anybody)
    def delete(self, scope: StoreScope, key: str, writer: Writer | Attempt) -> None:
        self.both(c.Delete(scope, key, self.who(writer)))

    @step(3, scope=scopes, writer=anybody, all_map_indices=st.booleans())
    def clear(self, scope: StoreScope, writer: Writer | Attempt, all_map_indices: bool) -> None:
        self.both(c.Clear(scope, self.who(writer), all_map_indices))

    @step(
        4,
        scope=assets,
        key=keys,
        to=st.integers(0, 3) | st.sampled_from(["monday", "tuesday", "never"]) | spans,
        writer=anybody,
        dry_run=st.booleans(),
    )
    def rewind(
        self,
        scope: AssetScope,
        key: str,
        to: int | str | timedelta,
        writer: Writer | Attempt,
        dry_run: bool,
    ) -> None:
        target: c.Target
        stores: c.Target
        if isinstance(to, int):
            self.both(c.History(scope, key))
            known = self.versions.get((owner(scope), key), {0: 0})
            version = sorted(known)[-(to % len(known)) - 1]
            target, stores = c.ToVersion(version), c.ToVersion(known[version])
        elif isinstance(to, str):
            target = stores = c.BeforeRun(to)
        else:
            target = stores = c.AtTime(self.clock() - to)
        command = c.Rewind(scope, key, target, self.who(writer), dry_run)
        self.both(command, msgspec.structs.replace(command, to=stores))

    @step(1, task=tasks, register=mostly)
    def start_attempt(self, task: TaskScope, register: bool) -> None:
        if register:
            self.both(c.RegisterTask(task))
        if answers := self.both(c.StartAttempt(task)):
            self.newest[task] = answers[0]

    @step(4, attempt=attempts, succeeded=mostly, clear=st.booleans(), retry=mostly)
    def finish_attempt(self, attempt: Attempt, succeeded: bool, clear: bool, retry: bool) -> None:
        self.both(c.FinishAttempt(self.attempt(attempt), succeeded, clear))
        if retry:
            self.start_attempt(attempt[0], register=False)

    @step(1, task=tasks, again=mostly)
    def delete_run(self, task: TaskScope, again: bool) -> None:
        self.both(c.DeleteRun(task.dag_id, task.run_id))
        self.forget(*(each for each in TASKS if each.run_id == task.run_id))
        if again:
            self.start_attempt(task, register=True)
        self.both(c.ListTasks(task.dag_id, task.run_id))

    @step(1, declaration=st.sampled_from([*DECLARATIONS, ("orders", None), (None, BOTH[0][1])]))
    def declare_by_hand(self, declaration: tuple[str | None, str | None]) -> None:
        self.both(c.DeclareAsset(*declaration))

    @step(
        3,
        dag_id=st.sampled_from(["sales", "sales", "returns"]),
        assets=st.sampled_from([BOTH, BOTH, BOTH[:1], [], DECLARATIONS]),
    )
    def parse(self, dag_id: str, assets: list[tuple[str, str]]) -> None:
        self.both(c.DeclareDagAssets(dag_id, tuple(assets)))

    @step(1, scope=assets, again=mostly)
    def delete_asset(self, scope: AssetScope, again: bool) -> None:
        self.both(c.DeleteAsset(scope))
        self.forget(scope)
        if again:
            self.parse("sales", BOTH)

    @step(1, past=spans, limit=st.integers(1, 3))
    def list_expired(self, past: timedelta, limit: int) -> None:
        command = c.ListExpired(self.clock() - past, limit)
        if self.client.store.supports(c.ListExpired):
            listed = [tuple(pages(client, command)) for client in (self.model.execute, self.client)]
            assert comparable(command, listed[0]) == comparable(command, listed[1])

    @step(1, past=spans, limit=st.integers(0, 3), skip_held=st.booleans())
    def delete_expired(self, past: timedelta, limit: int, skip_held: bool) -> None:
        command = c.DeleteExpired(self.clock() - past, limit, skip_held)
        while (answers := self.both(command)) and answers[0]:
            continue

    @step(1, past=spans)
    def take_expired(self, past: timedelta) -> None:
        self.both(c.TakeExpired(self.clock() - past, 1000))

    @step(2, past=spans)
    def sweep(self, past: timedelta) -> None:
        self.both(c.ListOrphans(self.clock() - past))
        self.both(c.DeleteOrphans(self.clock() - past))

    def both(self, command: c.Command[Any], stores: c.Command[Any] | None = None) -> Any:
        """Execute the command on both sides and compare the answers.

        The store is sent its own command where that contains its versions. Return the answers of
        the model and of the store; None where the command was rejected.
        """
        if needs(stores or command) & self.gaps:
            return None
        seen = outcome(self.client, stores or command)
        wanted = outcome(self.model.execute, command)
        same = comparable(command, seen) == comparable(command, wanted)
        assert same, f"{command}: the store returned {seen!r}, the model {wanted!r}"
        for mine, other in zip(versions(command, wanted), versions(command, seen), strict=True):
            self.match((owner(mine.scope), mine.key), mine.version, other.version)
        return None if isinstance(wanted, HoldfastError) else (wanted, seen)

    def match(self, where: tuple[str, str], version: int, other: int) -> None:
        """Record which version of the store corresponds to which of the model, and check that both
        only ever increase."""
        known = self.versions.setdefault(where, {0: 0})
        known.setdefault(version, other)
        stores = [known[each] for each in sorted(known)]
        assert known[version] == other, where
        assert stores == sorted(set(stores)), where

    def forget(self, *scopes: StoreScope) -> None:
        """Forget the versions of scopes that are deleted as a whole: they may start over."""
        owners = {owner(scope) for scope in scopes}
        self.versions = {at: known for at, known in self.versions.items() if at[0] not in owners}

    def expected(self, scope: StoreScope, key: str, expectation: str) -> tuple[Any, Any]:
        """Return the `if_version` for the model and for the store."""
        if expectation == "anything":
            return None, None
        if expectation == "absence":
            return 0, 0
        if expectation == "the current":
            model, store = self.both(c.GetEntry(scope, key)) or (None, None)
            return (model.version, store.version) if model and store else (0, 0)
        known = self.versions.get((owner(scope), key), {0: 0})
        version = sorted(known)[:2][-1]
        return version, known[version]

    def attempt(self, of: Attempt) -> TaskWriter:
        task, behind = of
        return TaskWriter(task, max(1, self.newest.get(task, 1) - behind))

    def who(self, writer: Writer | Attempt) -> Writer:
        return self.attempt(writer) if isinstance(writer, tuple) else writer

    def expiry(self, scope: StoreScope, lifetime: timedelta | None) -> datetime | None:
        """Return when an entry expires; None for assets, which do not expire."""
        if lifetime is None or isinstance(scope, AssetScope):
            return None
        return self.clock() + lifetime


def machine_for(
    make_store: Callable[[Clock], Store],
    *,
    mode: str = "sync",
    history_limit: int = 100,
    seed: int = 0,
    rounds: int = 1,
    gaps: Collection[Gap] = (),
) -> type[StoreMachine]:
    """Return a machine for the stores that `make_store` creates, each of them empty.

    Its `TestCase` runs it. The seed determines its steps; more `rounds` take more of them.
    """
    parts = {
        "make_store": staticmethod(make_store),
        "mode": mode,
        "history_limit": history_limit,
        "gaps": frozenset(gaps),
    }
    machine: type[StoreMachine] = type("StoreMachineFor", (StoreMachine,), parts)
    machine.TestCase.settings = settings(
        max_examples=10 + 6 * rounds,
        stateful_step_count=60,
        deadline=None,
        derandomize=False,
        database=None,
        phases=[Phase.generate, Phase.shrink],
        report_multiple_bugs=False,
        suppress_health_check=list(HealthCheck),
    )
    return hypothesis.seed(seed)(machine)


def outcome(execute: Callable[[c.Command[Any]], Any], command: c.Command[Any]) -> Any:
    """Return the answer, or the error."""
    try:
        return execute(command)
    except HoldfastError as error:
        return error


def owner(scope: StoreScope) -> str:
    """Return one name for a scope, however it is given."""
    if isinstance(scope, TaskScope):
        return str(scope)
    return scope.name or next(name for name, uri in ASSETS.items() if uri == scope.uri)
