"""Which loads make up the data of an asset, after any loads, backfills and rewinds."""

from __future__ import annotations

from collections.abc import Collection, Iterator
from itertools import count

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from holdfast import Connection
from holdfast import command as c
from holdfast.accessor import AssetStore, run
from holdfast.actions.loads import Load, Undoing, loads_of, undone_by
from holdfast.entry import ApiWriter
from holdfast.scope import AssetScope
from holdfast.store import Store
from holdfast.stores.sql import SqlStore
from remembered import record, remember

NAMES = count()
OPERATIONS = st.lists(
    st.one_of(
        st.tuples(st.just("load"), st.integers(1, 3)),
        st.tuples(st.just("again"), st.just(0)),
        st.tuples(st.just("backfill"), st.just(0)),
        st.tuples(st.just("delete"), st.just(0)),
        st.tuples(st.just("rewind"), st.integers(0, 12)),
        st.tuples(st.just("crash"), st.integers(0, 12)),
    ),
    max_size=25,
)


@pytest.fixture(scope="module")
def store(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Store]:
    with SqlStore(f"sqlite:///{tmp_path_factory.mktemp('store') / 'x.db'}") as store:
        yield store


@pytest.fixture(scope="module")
def forgetful(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Store]:
    url = f"sqlite:///{tmp_path_factory.mktemp('store') / 'x.db'}"
    with SqlStore(url, history_limit=4) as store:
        yield store


class Lake:
    """An asset whose rows are the numbers below its watermark, each in one directory."""

    def __init__(self, store: Store, kept: int = 100) -> None:
        self.kept = kept
        self.name = f"asset {next(NAMES)}"
        self.store = store
        self.scope = AssetScope(name=self.name)
        self.entries: AssetStore = Connection(store).asset_store(name=self.name, declare=True)
        self.directories: dict[str, range] = {}

    @property
    def mark(self) -> int:
        found = self.entries.get("watermark")
        return found["value"] if found else 0

    @property
    def number(self) -> int:
        history = self.entries.history("watermark")
        return history[0].version if history else 0

    def loads(self) -> list[Load]:
        return run(self.store, loads_of(self.scope, "watermark"))

    def load(self, rows: int) -> None:
        """Up to the next multiple of the step, so that the same marks come again and again."""
        start, end = self.mark, self.mark + rows
        number = remember(self.entries, end)
        self.directories[f"load=orders.watermark.{number:012}"] = range(start, end)

    def load_nothing_new(self) -> None:
        """A load that leaves the watermark where it is."""
        self.entries.set("watermark/load", record(self.number, self.mark, rows=0))

    def planned(self, target: c.Target) -> Undoing:
        step = self.store.execute(
            c.Rewind(self.scope, "watermark", target, ApiWriter("ann"), dry_run=True)
        )
        history = self.store.execute(c.History(self.scope, "watermark"))
        return undone_by(history, self.loads(), step)

    def rewind(self, target: c.Target) -> None:
        self.store.execute(c.Rewind(self.scope, "watermark", target, ApiWriter("ann")))

    def remove(self, named: Collection[str] = ()) -> None:
        for load in self.loads():
            if load.undone or load.record.name in named:
                self.directories.pop(load.record.name, None)

    def rows(self) -> list[int]:
        return sorted(row for directory in self.directories.values() for row in directory)


def carry_out(lake: Lake, what: str, number: int) -> bool:
    """Tell whether the removal of data was reached."""
    if what == "load":
        lake.load(number)
    elif what == "again":
        lake.load_nothing_new()
    elif what == "backfill":
        lake.entries.set("watermark/load", record(lake.number, 99, kind="backfill"))
    elif what == "delete":
        lake.entries.delete("watermark")
    elif history := lake.entries.history("watermark"):
        target = c.ToVersion(history[number % len(history)].version)
        planned = lake.planned(target)
        before = {load.record.name for load in lake.loads() if load.undone}
        assert planned.forward or not planned.revived
        # The command warns of both: the data of what is put back may be gone.
        if planned.forward or planned.others:
            return False
        lake.rewind(target)
        undone = {load.record.name for load in lake.loads() if load.undone}
        named = {load.record.name for load in planned.undone}
        # The rewind's own version may be one too many for the history of the one put back.
        assert undone - before == named or len(history) == lake.kept
        if what == "crash":
            return False
        lake.remove(named)
    lake.remove()
    return True


@settings(max_examples=150, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(OPERATIONS)
def test_without_the_data_of_undone_loads_no_row_is_missing_or_doubled(
    store: Store, operations: list[tuple[str, int]]
) -> None:
    lake = Lake(store)
    for what, number in operations:
        if carry_out(lake, what, number):
            assert lake.rows() == list(range(lake.mark))


@settings(max_examples=150, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(OPERATIONS)
def test_no_row_is_missing_where_the_history_is_short(
    forgetful: Store, operations: list[tuple[str, int]]
) -> None:
    lake = Lake(forgetful, kept=4)
    for what, number in operations:
        carry_out(lake, what, number)
        assert set(range(lake.mark)) <= set(lake.rows())


def test_a_rewind_forward_says_which_loads_count_again(store: Store) -> None:
    lake = Lake(store)
    for _ in range(3):
        lake.load(10)
    first, second, _ = reversed(lake.entries.history("watermark"))
    lake.rewind(c.ToVersion(first.version))

    planned = lake.planned(c.ToVersion(second.version))

    assert planned.forward
    assert [load.record.to for load in planned.revived] == [20]
    assert planned.undone == []


def test_versions_that_no_remembered_load_wrote_are_named(store: Store) -> None:
    lake = Lake(store)
    lake.load(10)
    lake.entries.set("watermark", {"value": 15})
    by_hand = lake.number
    lake.load(10)

    planned = lake.planned(c.ToVersion(1))

    assert planned.others == [by_hand]
    assert [load.record.number for load in planned.undone] == [by_hand]


def test_a_users_own_entries_are_no_loads(store: Store) -> None:
    lake = Lake(store)
    lake.entries.set("note/load", "mine")
    lake.entries.set("/load", record(0, 1))
    lake.entries.set("k" * 512, 1)

    assert run(store, loads_of(lake.scope)) == []
    assert run(store, loads_of(lake.scope, "k" * 512)) == []


def test_a_load_that_came_after_a_deletion_stands_whatever_its_number(store: Store) -> None:
    lake = Lake(store)
    lake.load(10)
    lake.entries.delete("watermark")
    lake.entries.set_many({"watermark": {"value": 5}, "watermark/load": record(0, 5)})

    assert [(load.record.to, load.undone) for load in lake.loads()] == [(5, False), (10, True)]
