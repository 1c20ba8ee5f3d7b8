"""Which loads an asset consists of, after any loads, failures, rewinds, deletions and moves."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import count
from pathlib import Path
from typing import Any

import msgspec
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import holdfast
from holdfast import Connection
from holdfast.accessor import AssetStore
from holdfast.spark.loads.chain import Chain, next_link, standing
from holdfast.spark.loads.plan import Plan, plan_in
from holdfast.stores.sql import SqlStore

ASSETS = count()
OPERATIONS = st.lists(
    st.one_of(
        st.tuples(st.just("load"), st.integers(1, 3)),
        st.tuples(st.just("fail"), st.integers(1, 3)),
        st.tuples(st.just("retry"), st.just(0)),
        st.tuples(st.just("rewind"), st.integers(0, 12)),
        st.tuples(st.just("forget the plan"), st.just(0)),
        st.tuples(st.just("delete"), st.just(0)),
        st.tuples(st.just("move"), st.just(0)),
    ),
    max_size=25,
)


@pytest.fixture(scope="module", params=[100, 3])
def stores(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[list[Connection]]:
    """Two stores that remember so many versions."""
    place = tmp_path_factory.mktemp("stores")
    urls = [f"sqlite:///{place / name}" for name in ("a.db", "b.db")]
    with (
        SqlStore(urls[0], history_limit=request.param) as one,
        SqlStore(urls[1], history_limit=request.param) as other,
    ):
        yield [Connection(one), Connection(other)]


class Lake:
    """An asset whose rows are the numbers up to its watermark, in one directory for each load."""

    def __init__(self, stores: list[Connection]) -> None:
        self.stores = stores
        self.name = f"asset {next(ASSETS)}"
        self.store = self._declared(0)
        self.directories: dict[int, range] = {}
        self.finished: list[int] = []

    def _declared(self, number: int) -> AssetStore:
        name = f"{self.name} {next(ASSETS)}"
        return self.stores[number % 2].asset_store(name=name, declare=True)

    @property
    def mark(self) -> int:
        found: Any = self.store.get("watermark", {"value": 0})
        return int(found["value"])

    def plan(self) -> Plan | None:
        found = self.store.get("watermark/plan")
        return None if found is None else plan_in(found, "the plan")

    def load(self, rows: int, *, succeeds: bool = True) -> None:
        before = self.plan()
        link = next_link(self.store, "watermark", before)
        own = before is not None and before.start == link.number
        if not own:
            assert link.number not in self.finished, "another load has this directory"
            end = {"value": self.mark + rows}
            plan = msgspec.to_builtins(Plan(link.number, link.version, "rules", end))
            self.store.set("watermark/plan", plan)
        planned: Any = self.plan()
        self.directories[link.number] = range(self.mark + 1, planned.watermark["value"] + 1)
        if succeeds:
            assert all(link.number > number for number in self.finished), "a table would skip it"
            self.finished.append(link.number)
            chain = msgspec.to_builtins(link.chain(None))
            self.store.set("watermark", {**planned.watermark, "load": chain})
            done = msgspec.to_builtins(msgspec.structs.replace(planned, done=True))
            self.store.set("watermark/plan", done)
            self.store.set("watermark/load", {"kind": "load", "number": link.number})

    def rewind(self, back: int) -> None:
        history = [step for step in self.store.history("watermark") if step.value]
        if history:
            chosen = history[back % len(history)]
            self.store.rewind("watermark", version=chosen.version)

    def move(self) -> None:
        values = dict(self.store.items())
        if not values:  # nothing of it is known there, and its data has to go
            self.directories, self.finished = {}, []
        self.store = self._declared(next(ASSETS))
        for key, value in values.items():
            self.store.set(key, value)

    def apply(self, operation: str, number: int) -> None:
        match operation:
            case "load" | "fail":
                self.load(number, succeeds=operation == "load")
            case "retry":
                self.load(1)
            case "rewind":
                self.rewind(number)
            case "forget the plan":
                # With its directory, as the guide says.
                plan = self.plan()
                if plan is not None and plan.start not in self.finished:
                    self.directories.pop(plan.start, None)
                self.store.delete("watermark/plan")
            case "delete":
                self.store.delete("watermark")
            case "move":
                self.move()

    def counted(self) -> list[int]:
        chain = standing(self.store, "watermark")
        if chain is None:
            return []
        numbers = [
            number
            for number in self.directories
            if number <= chain.number
            and not any(first <= number <= last for first, last in chain.out)
        ]
        return sorted(row for number in numbers for row in self.directories[number])


@settings(
    max_examples=300, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture]
)
@given(operations=OPERATIONS)
def test_the_loads_that_count_have_each_row_once(
    stores: list[Connection], operations: list[tuple[str, int]]
) -> None:
    lake = Lake(stores)
    for operation, number in operations:
        lake.apply(operation, number)

        assert lake.counted() == list(range(1, lake.mark + 1)), operations


def test_a_watermark_that_was_set_by_hand_keeps_the_loads_before_it(tmp_path: Path) -> None:
    with holdfast.connect(f"sqlite:///{tmp_path / 'x.db'}") as connection:
        store = connection.asset_store(name="orders", declare=True)
        store.set("watermark", {"value": 5})
        assert standing(store, "watermark") == Chain(0, 0)
        link = next_link(store, "watermark", None)
        assert (link.number, link.out) == (1, ())
        store.set("watermark", {"value": 7, "load": msgspec.to_builtins(link.chain("2"))})
        store.set("watermark", {"value": 6})

        assert standing(store, "watermark") == Chain(1, 1, 0, (), {"1": "2"})
        assert next_link(store, "watermark", None).out == ((2, 2),)
