"""List of the loads that make up an asset's data, for CLI and API."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import count
from typing import Any
from uuid import uuid4

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from remembered import record, remember

from holdfast import Connection
from holdfast import commands as c
from holdfast.accessor.asset_store import AssetStore
from holdfast.actions.loads import Load, Undoing, loads_of, undone_by
from holdfast.model.entry import ApiWriter
from holdfast.model.scope import AssetScope
from holdfast.settings import ObjectStore
from holdfast.store import Store, run
from holdfast.stores.offload.configuration import Offloading
from holdfast.stores.sql import SqlStore

NAMES = count()
OBJECTS = "holdfast.sdk.state.ObjectStoreBackend"
OPERATIONS = st.lists(
    st.one_of(
        st.tuples(st.just("load"), st.integers(1, 3)),
        st.tuples(st.just("backfill"), st.just(0)),
        st.tuples(st.just("set by hand"), st.integers(1, 3)),
        st.tuples(st.just("delete"), st.just(0)),
        st.tuples(st.just("rewind"), st.integers(0, 12)),
    ),
    max_size=25,
)


@pytest.fixture(scope="module", params=[100, 4])
def kept(request: pytest.FixtureRequest) -> int:
    """Return the number of versions that the store keeps."""
    return int(request.param)


@pytest.fixture(scope="module")
def store(kept: int, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Store]:
    url = f"sqlite:///{tmp_path_factory.mktemp('store') / 'x.db'}"
    with SqlStore(url, history_limit=kept) as store:
        yield store


@pytest.fixture
def lake(store: Store) -> Lake:
    return Lake(store)


class Lake:
    """An asset, with the loads that should be current at each value of its watermark."""

    def __init__(self, store: Store) -> None:
        self.name = f"asset {next(NAMES)}"
        self.store = store
        self.scope = AssetScope(name=self.name)
        self.entries: AssetStore = Connection(store).asset_store(name=self.name, declare=True)
        self.marks = count(1)
        self.counting: set[int] = set()
        self.at: dict[int, set[int]] = {}
        """Current loads by the watermark's value."""

    def loads(self) -> list[Load]:
        return run(self.store, loads_of(self.scope, "watermark"))

    def recorded(self) -> set[int]:
        return {load.record.number for load in self.loads() if load.record.kind == "load"}

    def standing(self) -> set[int]:
        undone = {load.record.number for load in self.loads() if load.undone}
        return self.recorded() - undone

    def load(self) -> None:
        mark = next(self.marks)
        self.counting = self.counting | {remember(self.entries, mark)}
        self.at[mark] = self.counting

    def set_by_hand(self) -> None:
        mark = next(self.marks)
        self.entries.set("watermark", {"value": mark})
        self.at[mark] = self.counting

    def planned(self, target: c.Target) -> Undoing:
        step = self.store.execute(
            c.Rewind(self.scope, "watermark", target, ApiWriter("ann"), dry_run=True)
        )
        planned = run(self.store, undone_by(self.scope, "watermark", self.loads(), step))
        assert planned is not None
        return planned

    def rewind(self, target: c.Target) -> None:
        self.store.execute(c.Rewind(self.scope, "watermark", target, ApiWriter("ann")))
        mark: Any = self.entries.get("watermark")
        self.counting = self.at[mark["value"]] if mark else set()


def rewind_as_planned(lake: Lake, version: int) -> None:
    """Rewind, and compare the loads afterwards with the plan."""
    recorded = lake.recorded()
    before = set(lake.counting)
    planned = lake.planned(c.ToVersion(version))
    lake.rewind(c.ToVersion(version))

    gone, back = before - lake.counting, lake.counting - before
    assert {load.record.number for load in planned.undone} == gone & recorded
    assert {load.record.number for load in planned.revived} == back & recorded
    assert planned.forgotten == len(gone - recorded)


@settings(
    max_examples=200,
    deadline=None,
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.function_scoped_fixture],
)
@given(operations=OPERATIONS)
def test_after_any_operations_the_current_loads_are_those_of_the_model(
    store: Store, kept: int, operations: list[tuple[str, int]]
) -> None:
    lake = Lake(store)
    for what, number in operations:
        history = lake.entries.history("watermark")
        if kept == 4 and what == "set by hand":
            continue  # the kept versions would soon not determine the loads
        match what:
            case "load":
                lake.load()
            case "backfill":
                lake.entries.set("watermark/load", record(0, 99, kind="backfill"))
            case "set by hand":
                lake.set_by_hand()
            case "delete":
                lake.entries.delete("watermark")
                lake.counting = set()
            case "rewind" if history:
                rewind_as_planned(lake, history[number % len(history)].version)

        assert lake.standing() == lake.counting & lake.recorded()


def test_a_rewind_to_a_value_that_was_set_by_hand_undoes_the_loads_after_it(lake: Lake) -> None:
    lake.load()
    lake.set_by_hand()
    by_hand = lake.entries.history("watermark")[0].version
    lake.load()

    rewind_as_planned(lake, by_hand)

    assert lake.standing() == {0}


def test_a_rewind_forward_names_the_restored_loads(lake: Lake) -> None:
    for _ in range(3):
        lake.load()
    _, second, first = lake.entries.history("watermark")
    lake.rewind(c.ToVersion(first.version))

    planned = lake.planned(c.ToVersion(second.version))

    assert [load.record.number for load in planned.revived] == [1]
    assert planned.undone == []


def test_loads_without_a_record_are_counted(lake: Lake) -> None:
    for _ in range(3):
        lake.load()
    lake.entries.delete("watermark/load")
    lake.load()

    planned = lake.planned(c.ToVersion(lake.entries.history("watermark")[-1].version))

    assert len(planned.undone) + planned.forgotten == 3


def test_the_loads_of_an_offloaded_watermark_are_listed(lake: Lake) -> None:
    worker = Offloading(OBJECTS, ObjectStore(url=f"memory://{uuid4().hex}")).over(lake.store)
    entries = Connection(worker).asset_store(name=lake.name)
    for number in range(2):
        entries.set("watermark", {"value": number, "load": {"number": number}})
        lake.entries.set("watermark/load", record(number, number))
    entries.rewind("watermark", version=1)

    def undone(store: Store) -> list[bool | None]:
        return [load.undone for load in run(store, loads_of(lake.scope, "watermark"))]

    assert undone(worker) == [True, False]
    assert undone(lake.store) == [None, None]
    assert run(lake.store, undone_by(lake.scope, "watermark", lake.loads(), None)) is None


def test_other_entries_of_a_user_are_not_loads(lake: Lake) -> None:
    lake.entries.set("note/load", "mine")
    lake.entries.set("/load", record(0, 1))
    lake.entries.set("k" * 512, 1)

    assert run(lake.store, loads_of(lake.scope)) == []
    assert run(lake.store, loads_of(lake.scope, "k" * 512)) == []
