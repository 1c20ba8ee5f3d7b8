"""The loads that an asset consists of, after any loads, failures, rewinds, deletions and copies."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import count
from pathlib import Path
from typing import Any

import msgspec
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from remembered import record

import holdfast
from holdfast import Connection
from holdfast.accessor.asset_store import AssetStore
from holdfast.errors import InvalidInput
from holdfast.model.load_chain import Chain, following
from holdfast.spark.loads.load_history import loads_that_count
from holdfast.spark.loads.plan import Planning
from holdfast.stores.sql import SqlStore

ASSETS = count()
OPERATIONS = st.lists(
    st.one_of(
        st.tuples(st.just("load"), st.integers(1, 3)),
        st.tuples(st.just("fail"), st.integers(1, 3)),
        st.tuples(st.just("retry"), st.just(0)),
        st.tuples(st.just("rewind"), st.integers(0, 12)),
        st.tuples(st.just("forget the plan"), st.just(0)),
        st.tuples(st.just("crash before the record"), st.integers(1, 3)),
        st.tuples(st.just("set by hand"), st.just(0)),
        st.tuples(st.just("delete"), st.just(0)),
        st.tuples(st.just("move"), st.just(0)),
    ),
    max_size=25,
)


@pytest.fixture(scope="module", params=[100, 3])
def kept(request: pytest.FixtureRequest) -> int:
    """Return the number of versions that the stores keep."""
    return int(request.param)


@pytest.fixture(scope="module")
def stores(kept: int, tmp_path_factory: pytest.TempPathFactory) -> Iterator[list[Connection]]:
    place = tmp_path_factory.mktemp("stores")
    urls = [f"sqlite:///{place / name}" for name in ("a.db", "b.db")]
    with (
        SqlStore(urls[0], history_limit=kept) as one,
        SqlStore(urls[1], history_limit=kept) as other,
    ):
        yield [Connection(one), Connection(other)]


class Lake:
    """Asset whose rows are the numbers up to its watermark, in one directory for each load."""

    def __init__(self, stores: list[Connection], kept: int) -> None:
        self.stores = stores
        self.kept = kept
        self.name = f"asset {next(ASSETS)}"
        self.store = self._declared(0)
        self.directories: dict[int, range] = {}
        self.finished: list[int] = []
        self.done: list[tuple[str, int]] = []

    def _declared(self, number: int) -> AssetStore:
        name = f"{self.name} {next(ASSETS)}"
        return self.stores[number % 2].asset_store(name=name, declare=True)

    @property
    def mark(self) -> int:
        found: Any = self.store.get("watermark", {"value": 0})
        return int(found["value"])

    def planning(self) -> Planning:
        spark: Any = None
        return Planning(self.store, "watermark", self.store.entry("watermark"), "rules", spark)

    def load(self, rows: int, *, until: str = "the record") -> None:
        planning = self.planning()
        number = planning.number
        if planning.plan is None:
            assert number not in self.finished, f"another load has this directory: {self.done}"
        plan = planning.keep({"value": self.mark + rows}, tries=1)
        self.directories[number] = range(self.mark + 1, plan.watermark["value"] + 1)
        if until == "the write":
            return
        assert all(number > other for other in self.finished), f"a table would skip it: {self.done}"
        self.finished.append(number)
        chain = msgspec.to_builtins(following(planning.before, number))
        self.store.set("watermark", {**plan.watermark, "load": chain})
        if until == "the watermark":
            return
        self.store.set(
            "watermark/plan", msgspec.to_builtins(msgspec.structs.replace(plan, done=True))
        )
        self.store.set("watermark/load", record(number, 0))

    def rewind(self, back: int) -> None:
        history = [step for step in self.store.history("watermark") if step.value]
        if history:
            chosen = history[back % len(history)]
            self.store.rewind("watermark", version=chosen.version)

    def move(self) -> None:
        values = dict(self.store.items())
        if not values:  # it has no history there, and its data has to be removed
            self.directories, self.finished = {}, []
        self.store = self._declared(next(ASSETS))
        for key, value in values.items():
            self.store.set(key, value)

    def is_complete(self) -> bool:
        """Return whether the entries suffice without the history, which is not copied: there was no
        value set by hand, and no crash between the writes of a load outside an attempt."""
        plan: Any = self.store.get("watermark/plan")
        has_crashed = bool(plan) and not plan.get("done") and plan["number"] in self.finished
        return "load" in self.store.get("watermark", {"load": {}}) and not has_crashed

    def apply(self, operation: str, number: int) -> None:
        self.done.append((operation, number))
        match operation:
            case "load":
                self.load(number)
            case "fail":
                self.load(number, until="the write")
            # Then only the history determines the loads.
            case "crash before the record" if self.kept == 100:
                self.load(number, until="the watermark")
            case "set by hand" if self.kept == 100 and self.mark:
                self.store.set("watermark", {"value": self.mark})
            case "retry":
                self.load(1)
            case "rewind":
                self.rewind(number)
            case "forget the plan":
                # With its directory, as the guide says.
                found: Any = self.store.get("watermark/plan")
                if found is not None and found["number"] not in self.finished:
                    self.directories.pop(found["number"], None)
                self.store.delete("watermark/plan")
            case "delete":
                self.store.delete("watermark")
            case "move":
                if self.is_complete():
                    self.move()

    def counted(self) -> list[int]:
        chain = loads_that_count(self.store, "watermark", self.store.entry("watermark"))
        numbers = [number for number in self.directories if chain and chain.counts(number)]
        return sorted(row for number in numbers for row in self.directories[number])


@pytest.mark.full
@settings(
    max_examples=300, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture]
)
@given(operations=OPERATIONS)
def test_current_loads_have_each_row_once(
    stores: list[Connection], kept: int, operations: list[tuple[str, int]]
) -> None:
    lake = Lake(stores, kept)
    for operation, number in operations:
        lake.apply(operation, number)

        assert lake.counted() == list(range(1, lake.mark + 1)), operations


@pytest.fixture
def orders(tmp_path: Path) -> Iterator[AssetStore]:
    with holdfast.connect(f"sqlite:///{tmp_path / 'x.db'}") as connection:
        yield connection.asset_store(name="orders", declare=True)


def planning(store: AssetStore) -> Planning:
    spark: Any = None
    return Planning(store, "watermark", store.entry("watermark"), "rules", spark)


def test_a_manually_set_watermark_keeps_the_loads_before_it(orders: AssetStore) -> None:
    orders.set("watermark", {"value": 5})
    first = planning(orders)
    assert (first.number, first.before) == (0, None)
    chain = following(first.before, 1, "2")
    orders.set("watermark", {"value": 7, "load": msgspec.to_builtins(chain)})
    orders.set("watermark", {"value": 6})

    second = planning(orders)

    assert second.before == Chain(1, ((0, 0),), {"1": "2"})
    assert second.number == 2


def test_a_load_that_may_be_in_a_table_is_not_superseded_silently(orders: AssetStore) -> None:
    orders.set("watermark", {"value": 5})
    planning(orders).keep({"value": 9}, numbered=True)
    assert planning(orders).number == 0
    orders.set("watermark", {"value": 3})

    with pytest.raises(InvalidInput, match="may already be in a table, with the number 0"):
        planning(orders)
    orders.delete("watermark/plan")
    assert planning(orders).number == 0


def test_a_load_that_was_recorded_as_far_as_its_watermark_has_finished(orders: AssetStore) -> None:
    first = planning(orders)
    first.keep({"value": 9}, numbered=True)
    # The process dies here, outside an attempt.
    orders.set("watermark", {"value": 9, "load": {"number": 0}})

    assert planning(orders).number == 1
    orders.rewind("watermark", version=orders.history("watermark")[0].version)
    assert planning(orders).number == 1
