"""Asset events, and the runs that they start."""

from __future__ import annotations

from functools import partial

import msgspec
import pytest

from holdfast import commands as c
from holdfast.errors import AssetInactive, Conflict, InvalidInput, NotFound, UnknownAsset
from holdfast.model.dag import AliasSpec, AllOf, AnyOf, AssetRefSpec, Condition, TaskSpec
from holdfast.model.entry import ApiWriter
from holdfast.model.run import AssetEvent, Run, RunKind, RunState
from holdfast.model.scope import AssetScope, TaskScope
from holdfast.store import Store
from holdfast.testing import Clock
from holdfast.testing.runs.fixtures import RunFixtures
from holdfast.testing.runs.samples import (
    ANN,
    CUSTOMERS_CHANGED,
    CUSTOMERS_SPEC,
    ORDERS,
    ORDERS_CHANGED,
    ORDERS_SPEC,
    at_once,
    dag,
    emit,
)

UNDER_ALIAS = msgspec.structs.replace(ORDERS_CHANGED, aliases=("daily",))
SOURCE = TaskScope("producer", "r", "t")


def save(store: Store, condition: Condition | None, dag_id: str = "sales") -> None:
    store.execute(c.SaveFile(f"{dag_id}.py", (dag(dag_id, condition),)))


def ask(store: Store, run_id: str = "r1", dag_id: str = "sales") -> Run | None:
    return store.execute(c.CreateAssetRun(dag_id, run_id))


def taken(store: Store, run_id: str = "r1") -> list[tuple[str | None, int]]:
    """Return the events that started a run."""
    events = store.execute(c.RunEvents("sales", run_id))
    return [(event.asset.name, event.number) for event in events]


ORDERS_REF = AssetRefSpec(name="orders")


def taken_after_asking(store: Store) -> list[tuple[str | None, int]]:
    assert ask(store) is not None
    return taken(store)


class Events(RunFixtures):
    def test_events_of_an_asset_are_numbered_and_listed_newest_first(
        self, store: Store, clock: Clock
    ) -> None:
        emit(store, ORDERS_CHANGED, msgspec.structs.replace(ORDERS_CHANGED, extra='{"n":2}'))
        emit(store, CUSTOMERS_CHANGED)

        second, first = store.execute(c.ListAssetEvents(ORDERS))
        assert (first.number, first.extra, first.source) == (1, "{}", SOURCE)
        assert (second.number, second.extra, second.at) == (2, '{"n":2}', clock.now)
        assert (second.asset.name, second.asset.uri) == ("orders", "s3://orders")
        assert len(store.execute(c.ListAssetEvents())) == 3
        assert len(store.execute(c.ListAssetEvents(limit=1))) == 1

    def test_an_event_of_a_user_names_the_user(self, store: Store, clock: Clock) -> None:
        asset = store.execute(c.DeclareAsset("orders", "s3://orders"))

        first = store.execute(
            c.EmitAssetEvent(scope=ORDERS, writer=ANN, extra='{"rows":7}', key="monday")
        )
        second = store.execute(c.EmitAssetEvent(scope=AssetScope(uri="s3://orders"), writer=ANN))

        assert first == AssetEvent(
            asset=asset.scope,
            number=1,
            at=clock.now,
            extra='{"rows":7}',
            source=None,
            user="ann",
            key="monday",
        )
        assert (second.number, second.extra, second.key) == (2, "{}", None)
        assert store.execute(c.ListAssetEvents(ORDERS)) == (second, first)

    def test_an_event_of_a_user_starts_a_run(self, store: Store) -> None:
        save(store, ORDERS_SPEC)
        before = store.execute(c.AssetChanges())

        store.execute(c.EmitAssetEvent(scope=ORDERS, writer=ANN))

        assert store.execute(c.AssetChanges()) != before
        assert taken_after_asking(store) == [("orders", 1)]
        assert ask(store, "r2") is None

    def test_a_key_of_an_event_is_used_once_for_each_asset(self, store: Store) -> None:
        for name in ("orders", "customers"):
            store.execute(c.DeclareAsset(name))
        command = c.EmitAssetEvent(scope=ORDERS, writer=ANN, key="monday")
        first = store.execute(command)
        other = msgspec.structs.replace(command, extra='{"n":2}', writer=ApiWriter("bob"))

        assert [store.execute(one) for one in (command, other)] == [first, first]
        for changed in ({"key": "Monday"}, {"scope": AssetScope(name="customers")}):
            assert store.execute(msgspec.structs.replace(command, **changed)) != first

        assert len(store.execute(c.ListAssetEvents(ORDERS))) == 2

    def test_concurrent_events_with_one_key_are_one_event(self, store: Store) -> None:
        store.execute(c.DeclareAsset("orders"))
        command = c.EmitAssetEvent(scope=ORDERS, writer=ANN, key="monday")

        answers = at_once([partial(store.execute, command)] * 6)

        [event] = store.execute(c.ListAssetEvents(ORDERS))
        assert answers == [event] * 6

    def test_an_unknown_asset_gets_no_event(self, store: Store) -> None:
        store.execute(c.DeclareAsset("orderz"))

        with pytest.raises(UnknownAsset, match="declared assets: orderz"):
            store.execute(c.EmitAssetEvent(scope=ORDERS, writer=ANN))

        assert [one.name for one in store.execute(c.ListAssets())] == ["orderz"]

    @pytest.mark.parametrize("key", [None, "tuesday"])
    def test_an_inactive_asset_gets_no_event(self, store: Store, key: str | None) -> None:
        store.execute(c.DeclareDagAssets("producer", (("orders", "s3://orders"),)))
        command = c.EmitAssetEvent(scope=ORDERS, writer=ANN, key="monday")
        first = store.execute(command)
        store.execute(c.DeclareDagAssets("producer", ()))

        with pytest.raises(AssetInactive):
            store.execute(msgspec.structs.replace(command, key=key))

        assert store.execute(command) == first
        assert store.execute(c.ListAssetEvents(ORDERS)) == (first,)

    @pytest.mark.parametrize(
        "wrong", [{"extra": "[]"}, {"extra": "{"}, {"key": ""}, {"key": "k" * 251}, {"key": "\n"}]
    )
    def test_an_invalid_event_is_refused(self, wrong: dict[str, str]) -> None:
        with pytest.raises(InvalidInput):
            c.EmitAssetEvent(scope=ORDERS, writer=ANN, **wrong)

    def test_a_success_with_a_key_adds_one_event(self, store: Store) -> None:
        keyed = msgspec.structs.replace(ORDERS_CHANGED, key="monday")
        with pytest.raises(UnknownAsset):
            emit(store, keyed)
        store.execute(c.DeclareAsset("orders", "s3://orders"))

        emit(store, keyed)
        emit(store, keyed, ORDERS_CHANGED)

        second, first = store.execute(c.ListAssetEvents(ORDERS))
        assert (first.number, first.key, first.source) == (1, "monday", SOURCE)
        assert (second.number, second.key) == (2, None)

    def test_events_of_an_unknown_asset_are_an_error(self, store: Store) -> None:
        with pytest.raises(UnknownAsset):
            store.execute(c.ListAssetEvents(ORDERS))

    def test_an_event_declares_an_unknown_asset(self, store: Store) -> None:
        emit(store, ORDERS_CHANGED)

        [info] = store.execute(c.ListAssets())
        assert (info.name, info.dags, info.orphaned_at) == ("orders", ("producer",), None)

    def test_an_event_reactivates_an_inactive_asset(self, store: Store) -> None:
        emit(store, ORDERS_CHANGED)
        store.execute(c.DeclareDagAssets("producer", ()))

        emit(store, ORDERS_CHANGED)

        [info] = store.execute(c.ListAssets())
        assert (info.dags, info.orphaned_at) == (("producer",), None)
        assert len(store.execute(c.ListAssetEvents(ORDERS))) == 2

    def test_concurrent_events_have_numbers_without_gaps(self, store: Store) -> None:
        works = [
            partial(emit, store, ORDERS_CHANGED, CUSTOMERS_CHANGED, dag_id=f"dag{n}")
            for n in range(6)
        ]

        assert at_once(works) == [None] * 6

        events = store.execute(c.ListAssetEvents(ORDERS))
        assert [event.number for event in events] == [6, 5, 4, 3, 2, 1]

    def test_an_event_starts_a_run(self, store: Store) -> None:
        save(store, ORDERS_SPEC)
        assert ask(store) is None
        emit(store, ORDERS_CHANGED, ORDERS_CHANGED)

        run = ask(store)

        assert run is not None
        assert (run.kind, run.state, run.logical_date) == (RunKind.ASSET, RunState.QUEUED, None)
        assert taken(store) == [("orders", 1), ("orders", 2)]
        assert ask(store, "r2") is None

    def test_events_from_before_the_schedule_do_not_count(self, store: Store) -> None:
        emit(store, ORDERS_CHANGED)
        save(store, ORDERS_SPEC)

        assert ask(store) is None

    def test_a_run_waits_for_events_of_all_its_assets(self, store: Store) -> None:
        save(store, AllOf((ORDERS_SPEC, CUSTOMERS_SPEC)))
        emit(store, ORDERS_CHANGED)
        assert ask(store) is None
        emit(store, ORDERS_CHANGED)
        emit(store, CUSTOMERS_CHANGED)

        assert ask(store) is not None

        assert sorted(taken(store), key=str) == [("customers", 1), ("orders", 1), ("orders", 2)]
        emit(store, ORDERS_CHANGED)
        assert ask(store, "r2") is None

    def test_an_event_of_one_asset_satisfies_an_any_condition(self, store: Store) -> None:
        save(store, AnyOf((ORDERS_SPEC, CUSTOMERS_SPEC)))
        emit(store, CUSTOMERS_CHANGED)

        assert ask(store) is not None
        assert taken(store) == [("customers", 1)]

    def test_each_dag_consumes_events_independently(self, store: Store) -> None:
        for dag_id in ("sales", "stock"):
            save(store, ORDERS_SPEC, dag_id)
        emit(store, ORDERS_CHANGED)

        assert ask(store) is not None
        assert ask(store, dag_id="stock") is not None

    def test_events_wait_while_a_dag_is_paused(self, store: Store) -> None:
        save(store, ORDERS_SPEC)
        store.execute(c.PauseDag("sales", True))
        emit(store, ORDERS_CHANGED)
        assert ask(store) is None

        store.execute(c.PauseDag("sales", False))

        assert ask(store) is not None

    def test_a_dag_with_another_schedule_has_no_asset_runs(self, store: Store) -> None:
        save(store, None)
        assert ask(store) is None

    def test_a_changed_file_loses_no_waiting_event(self, store: Store) -> None:
        save(store, AllOf((ORDERS_SPEC, AssetRefSpec(name="customers"))))
        emit(store, ORDERS_CHANGED)
        emit(store, CUSTOMERS_CHANGED)

        save(store, AnyOf((ORDERS_SPEC, CUSTOMERS_SPEC)))

        assert ask(store) is not None
        assert sorted(taken(store), key=str) == [("customers", 1), ("orders", 1)]

    def test_an_asset_that_returns_to_a_schedule_starts_without_events(self, store: Store) -> None:
        save(store, ORDERS_SPEC)
        save(store, CUSTOMERS_SPEC)
        emit(store, ORDERS_CHANGED)

        save(store, ORDERS_SPEC)

        assert ask(store) is None

    @pytest.mark.parametrize("ref", [AssetRefSpec(name="orders"), AssetRefSpec(uri="s3://orders")])
    def test_a_reference_waits_for_an_unknown_asset(self, store: Store, ref: AssetRefSpec) -> None:
        save(store, ref)
        assert ask(store) is None
        emit(store, ORDERS_CHANGED)

        assert ask(store) is not None
        assert ask(store, "r2") is None

    def test_a_reference_to_a_known_asset_waits_for_its_next_event(self, store: Store) -> None:
        emit(store, ORDERS_CHANGED)
        save(store, AssetRefSpec(name="orders"))
        assert ask(store) is None

        emit(store, ORDERS_CHANGED)

        assert ask(store) is not None
        assert taken(store) == [("orders", 2)]

    def test_an_alias_resolves_to_the_assets_reported_under_it(self, store: Store) -> None:
        save(store, AliasSpec("daily"))
        emit(store, ORDERS_CHANGED)
        assert ask(store) is None
        emit(store, UNDER_ALIAS)
        emit(store, ORDERS_CHANGED)

        assert ask(store) is not None

        assert taken(store) == [("orders", 2), ("orders", 3)]
        [behind] = store.execute(c.AliasAssets("daily"))
        assert behind.name == "orders"
        assert store.execute(c.AliasAssets("weekly")) == ()

    @pytest.mark.parametrize(
        "condition",
        [
            AllOf((AliasSpec("daily"), AliasSpec("weekly"))),
            AnyOf((AliasSpec("daily"), AliasSpec("weekly"))),
            AnyOf((AliasSpec("weekly"), AliasSpec("daily"))),
            AnyOf((ORDERS_REF, AliasSpec("weekly"))),
            AnyOf((AliasSpec("weekly"), ORDERS_REF)),
        ],
        ids=["both", "either", "either, the other way round", "reference first", "reference last"],
    )
    @pytest.mark.parametrize("saved", ["once", "again"])
    def test_an_asset_in_several_parts_of_a_condition_loses_no_event(
        self, store: Store, condition: Condition, saved: str
    ) -> None:
        save(store, condition)
        emit(store, UNDER_ALIAS)
        emit(store, msgspec.structs.replace(ORDERS_CHANGED, aliases=("weekly",)))
        if saved == "again":
            save(store, condition)

        assert taken_after_asking(store) == [("orders", 1), ("orders", 2)]
        assert ask(store, "r2") is None

    def test_an_alias_that_is_new_on_a_schedule_waits_for_the_next_event(
        self, store: Store
    ) -> None:
        emit(store, UNDER_ALIAS)
        save(store, AliasSpec("daily"))
        assert ask(store) is None

        emit(store, UNDER_ALIAS)

        assert taken_after_asking(store) == [("orders", 2)]

    def test_a_dag_declares_the_assets_behind_its_aliases(self, store: Store) -> None:
        emit(store, UNDER_ALIAS, dag_id="sales")
        outlets = (AliasSpec("daily"),)
        spec = dag("sales", tasks=(TaskSpec(task_id="load", operator="python", outlets=outlets),))

        store.execute(c.SaveFile("sales.py", (spec,)))

        [info] = store.execute(c.ListAssets())
        assert (info.dags, info.orphaned_at) == (("sales",), None)

    def test_one_of_several_concurrent_schedulers_gets_the_run(self, store: Store) -> None:
        save(store, ORDERS_SPEC)
        emit(store, ORDERS_CHANGED)

        outcomes = at_once([partial(ask, store, f"r{n}") for n in range(6)])

        assert sum(isinstance(each, Run) for each in outcomes) == 1
        assert outcomes.count(None) == 5

    def test_every_event_starts_one_run_with_concurrent_schedulers_and_tasks(
        self, store: Store
    ) -> None:
        save(store, AnyOf((ORDERS_SPEC, CUSTOMERS_SPEC)))

        def produce(number: int) -> None:
            for _ in range(5):
                emit(store, ORDERS_CHANGED, CUSTOMERS_CHANGED, dag_id=f"dag{number}")

        def schedule(number: int) -> None:
            for turn in range(10):
                ask(store, f"r{number}.{turn}")

        works = [
            partial(produce, 0),
            partial(produce, 1),
            partial(schedule, 0),
            partial(schedule, 1),
        ]
        assert at_once(works) == [None] * 4
        ask(store, "last")

        runs = store.execute(c.ListRuns(dag_id="sales"))
        events = [event for run in runs for event in taken(store, run.run_id)]
        assert sorted(events, key=str) == sorted(
            ((name, number) for name in ("orders", "customers") for number in range(1, 11)), key=str
        )

    def test_an_asset_run_has_an_unused_run_id(self, store: Store) -> None:
        save(store, ORDERS_SPEC)
        emit(store, ORDERS_CHANGED)
        ask(store)
        emit(store, ORDERS_CHANGED)

        with pytest.raises(Conflict):
            ask(store)

        assert ask(store, "r2") is not None
        assert taken(store, "r2") == [("orders", 2)]

    def test_events_of_an_unknown_run_are_an_error(self, store: Store) -> None:
        with pytest.raises(NotFound):
            store.execute(c.RunEvents("sales", "r1"))

    def test_deleting_an_asset_deletes_its_events(self, store: Store) -> None:
        save(store, ORDERS_SPEC)
        emit(store, UNDER_ALIAS)
        ask(store)

        store.execute(c.DeleteAsset(ORDERS))

        assert store.execute(c.ListAssetEvents()) == ()
        assert taken(store) == []
        assert ask(store, "r2") is None
