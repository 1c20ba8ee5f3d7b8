"""Fixtures of the conformance suite: a store with a sync or async client, a clock, and scopes."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from typing import Any, ClassVar, TypeAlias

import pytest

from holdfast import commands as c
from holdfast.accessor.asset_store import AssetStore
from holdfast.accessor.base import Accessor
from holdfast.accessor.binding import Rules
from holdfast.accessor.task_store import TaskStore
from holdfast.model.entry import ApiWriter, TaskWriter, Writer
from holdfast.model.scope import AssetScope, StoreScope, TaskScope
from holdfast.store import Store
from holdfast.testing.client import MODES, Client, open_client
from holdfast.testing.clock import Clock
from holdfast.testing.gaps import Gap, StoreUnderTest, expected_to_fail, needs

MakeStore: TypeAlias = Callable[[Clock], Store]

ANN = ApiWriter("ann")
TASK = TaskScope("sales", "monday", "load")
ORDERS = AssetScope(name="orders")
ORDERS_URI = "s3://lake/orders"
CUSTOMERS = AssetScope(name="customers")
CUSTOMERS_URI = "s3://lake/customers"


class AccessorClient:
    """An accessor with a sync or async client: `set` calls `set` or `aset` accordingly."""

    def __init__(self, client: Client, accessor: Accessor[Any]) -> None:
        self._client = client
        self._accessor = accessor

    def __getattr__(self, name: str) -> Callable[..., Any]:
        return lambda *args, **options: self._client.call(self._accessor, name, *args, **options)


def supported(do: Client, commands: Iterable[c.Command[Any]]) -> list[c.Command[Any]]:
    """Return the commands that need no gap of the store."""
    store = do.store
    assert isinstance(store, StoreUnderTest)
    return [command for command in commands if not needs(command) & store.gaps]


class StoreFixtures:
    """Base class of the suites. A subclass defines how its stores are created, and their gaps."""

    settable_clock: ClassVar[bool] = True
    """Whether the store uses the clock that `make_store` is given."""

    modes: ClassVar[Sequence[str]] = MODES
    """`("sync",)` for a store whose `aexecute` is that of the base class."""

    gaps: ClassVar[Collection[Gap]] = ()
    """Commands that the store does not support, and names of `holdfast.testing.gaps`."""

    differs: ClassVar[Mapping[str, str]] = {}
    """Names of tests that fail because the store is different, each with the reason."""

    history_limit: ClassVar[int] = 100
    """Number of versions of an asset's entry that the store keeps; at least 4."""

    def __init_subclass__(cls) -> None:
        super().__init_subclass__()
        expected_to_fail(cls, vars(cls).get("differs", {}))

    def pytest_generate_tests(self, metafunc: pytest.Metafunc) -> None:
        if "mode" in metafunc.fixturenames:
            metafunc.parametrize("mode", type(self).modes)

    @pytest.fixture
    def make_store(self) -> MakeStore:
        """Return a function that takes a clock and returns an empty store. To be overridden."""
        raise NotImplementedError(
            "a subclass of StoreConformance must define the fixture `make_store`"
        )

    @pytest.fixture
    def store_clock(self) -> Clock:
        return Clock()

    @pytest.fixture
    def clock(self, store_clock: Clock) -> Clock:
        """Return the store's clock, for tests that read or advance it."""
        if not self.settable_clock:
            pytest.skip(f"{type(self).__name__}: the clock of its stores cannot be set")
        return store_clock

    @pytest.fixture
    def store(self, make_store: MakeStore, store_clock: Clock) -> Store:
        return make_store(store_clock)

    @pytest.fixture
    def do(self, store: Store, mode: str) -> Iterator[Client]:
        """Yield the client that executes every command of a test."""
        client = open_client(mode, StoreUnderTest(store, self.gaps))
        yield client
        client.close()

    @pytest.fixture
    def task(self, do: Client) -> TaskScope:
        """Return a registered task instance."""
        do(c.RegisterTask(TASK))
        return TASK

    @pytest.fixture
    def asset(self, do: Client) -> AssetScope:
        """Return a declared asset."""
        do(c.DeclareAsset("orders", ORDERS_URI))
        return ORDERS

    @pytest.fixture(params=["task", "asset"])
    def scope(self, request: pytest.FixtureRequest, do: Client) -> StoreScope:
        """Return a task instance or an asset, for tests of both stores."""
        scope: StoreScope = request.getfixturevalue(request.param)
        return scope

    @pytest.fixture
    def attempt(self, do: Client, task: TaskScope) -> TaskWriter:
        """Return a live attempt of the task."""
        return TaskWriter(task, do(c.StartAttempt(task)))

    @pytest.fixture
    def open_task_store(self, do: Client, task: TaskScope) -> Callable[..., Any]:
        """Return a function that opens a task's accessor, sync or async as the client is."""

        def opened(writer: Writer | None = None, rules: Rules | None = None) -> AccessorClient:
            return AccessorClient(do, TaskStore(do.store, task, writer or TaskWriter(task), rules))

        return opened

    @pytest.fixture
    def open_asset_store(self, do: Client, asset: AssetScope) -> Callable[..., Any]:
        def opened(writer: Writer = ANN) -> AccessorClient:
            return AccessorClient(do, AssetStore(do.store, asset, writer))

        return opened

    @pytest.fixture
    def task_store(self, open_task_store: Callable[..., Any]) -> Any:
        return open_task_store()

    @pytest.fixture
    def asset_store(self, open_asset_store: Callable[..., Any]) -> Any:
        return open_asset_store()

    @pytest.fixture(params=["task", "asset"])
    def accessor(self, request: pytest.FixtureRequest, do: Client) -> Any:
        """Return either accessor, for tests of both."""
        return request.getfixturevalue(f"{request.param}_store")
