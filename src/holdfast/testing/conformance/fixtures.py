"""What the tests of the suite are handed: a store behind a door, a clock, and whose state it is."""

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
from holdfast.testing.client import COLOURS, Door, open_door
from holdfast.testing.clock import Clock
from holdfast.testing.gaps import Gap, StoreUnderTest, expected_to_fail, needs

MakeStore: TypeAlias = Callable[[Clock], Store]

ANN = ApiWriter("ann")
TASK = TaskScope("sales", "monday", "load")
ORDERS = AssetScope(name="orders")
ORDERS_URI = "s3://lake/orders"
CUSTOMERS = AssetScope(name="customers")
CUSTOMERS_URI = "s3://lake/customers"


class Coloured:
    """An accessor behind a door: `set` is `set` or `aset`, as the door has it."""

    def __init__(self, door: Door, accessor: Accessor[Any]) -> None:
        self._door = door
        self._accessor = accessor

    def __getattr__(self, name: str) -> Callable[..., Any]:
        return lambda *args, **options: self._door.call(self._accessor, name, *args, **options)


def supported(do: Door, commands: Iterable[c.Command[Any]]) -> list[c.Command[Any]]:
    """Those that need no gap of the store."""
    store = do.store
    assert isinstance(store, StoreUnderTest)
    return [command for command in commands if not needs(command) & store.gaps]


class StoreFixtures:
    """A subclass says how its stores are made, and what they cannot do."""

    settable_clock: ClassVar[bool] = True
    """Whether the store goes by the clock that `make_store` is given."""

    colours: ClassVar[Sequence[str]] = COLOURS
    """`("sync",)` for a store whose `aexecute` is that of the base class."""

    gaps: ClassVar[Collection[Gap]] = ()
    """Commands that the store does not support, and names of `holdfast.testing.gaps`."""

    differs: ClassVar[Mapping[str, str]] = {}
    """Names of tests that fail because the store is different, each with the reason."""

    history_limit: ClassVar[int] = 100
    """How many versions of an asset's entry the store keeps; 4 at least."""

    def __init_subclass__(cls) -> None:
        super().__init_subclass__()
        expected_to_fail(cls, vars(cls).get("differs", {}))

    def pytest_generate_tests(self, metafunc: pytest.Metafunc) -> None:
        if "colour" in metafunc.fixturenames:
            metafunc.parametrize("colour", type(self).colours)

    @pytest.fixture
    def make_store(self) -> MakeStore:
        """Override this: a function that takes a clock and gives a store with nothing in it."""
        raise NotImplementedError("a subclass of StoreConformance has a fixture `make_store`")

    @pytest.fixture
    def store_clock(self) -> Clock:
        return Clock()

    @pytest.fixture
    def clock(self, store_clock: Clock) -> Clock:
        """The store's clock, for tests that read or move it."""
        if not self.settable_clock:
            pytest.skip(f"{type(self).__name__}: the clock of its stores cannot be set")
        return store_clock

    @pytest.fixture
    def store(self, make_store: MakeStore, store_clock: Clock) -> Store:
        return make_store(store_clock)

    @pytest.fixture
    def do(self, store: Store, colour: str) -> Iterator[Door]:
        """The door that every command of a test goes through."""
        door = open_door(colour, StoreUnderTest(store, self.gaps))
        yield door
        door.close()

    @pytest.fixture
    def task(self, do: Door) -> TaskScope:
        """A task instance that is known."""
        do(c.RegisterTask(TASK))
        return TASK

    @pytest.fixture
    def asset(self, do: Door) -> AssetScope:
        """An asset that is declared."""
        do(c.DeclareAsset("orders", ORDERS_URI))
        return ORDERS

    @pytest.fixture(params=["task", "asset"])
    def scope(self, request: pytest.FixtureRequest, do: Door) -> StoreScope:
        """For what holds in both stores alike."""
        scope: StoreScope = request.getfixturevalue(request.param)
        return scope

    @pytest.fixture
    def attempt(self, do: Door, task: TaskScope) -> TaskWriter:
        """A live attempt of the task."""
        return TaskWriter(task, do(c.StartAttempt(task)))

    @pytest.fixture
    def open_task_store(self, do: Door, task: TaskScope) -> Callable[..., Any]:
        """The accessor that a task holds, in the colour of the door."""

        def opened(writer: Writer | None = None, rules: Rules | None = None) -> Coloured:
            return Coloured(do, TaskStore(do.store, task, writer or TaskWriter(task), rules))

        return opened

    @pytest.fixture
    def open_asset_store(self, do: Door, asset: AssetScope) -> Callable[..., Any]:
        def opened(writer: Writer = ANN) -> Coloured:
            return Coloured(do, AssetStore(do.store, asset, writer))

        return opened

    @pytest.fixture
    def task_store(self, open_task_store: Callable[..., Any]) -> Any:
        return open_task_store()

    @pytest.fixture
    def asset_store(self, open_asset_store: Callable[..., Any]) -> Any:
        return open_asset_store()

    @pytest.fixture(params=["task", "asset"])
    def accessor(self, request: pytest.FixtureRequest, do: Door) -> Any:
        """For what holds in both accessors alike."""
        return request.getfixturevalue(f"{request.param}_store")
