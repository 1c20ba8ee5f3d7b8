"""Declared assets, assets that are no longer declared, and cascading deletion."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import pytest

from holdfast import commands as c
from holdfast.commands import (
    DeclareAsset,
    DeclareDagAssets,
    DeleteOrphans,
    Get,
    GetEntry,
    History,
    List,
    ListAssets,
    ListOrphans,
    Set,
)
from holdfast.errors import AssetInactive, InvalidInput, UnknownAsset, UnknownTaskInstance
from holdfast.model.entry import AssetInfo, TaskWriter
from holdfast.model.scope import AssetScope, TaskScope
from holdfast.testing.client import Client
from holdfast.testing.clock import Clock
from holdfast.testing.conformance.fixtures import (
    ANN,
    CUSTOMERS,
    CUSTOMERS_URI,
    ORDERS,
    ORDERS_URI,
    StoreFixtures,
    supported,
)

DAY = timedelta(days=1)

OF_ORDERS = ("orders", ORDERS_URI)
OF_CUSTOMERS = ("customers", CUSTOMERS_URI)

WRITES: list[c.Command[Any]] = [
    Set(ORDERS, "k", "2", ANN),
    c.SetMany(ORDERS, (("k", "2"), ("new", "2")), ANN),
    c.Delete(ORDERS, "k", ANN),
    c.Clear(ORDERS, ANN),
    c.Advance(ORDERS, "k", "2", ANN),
    c.Advance(ORDERS, "new", "2", ANN),
    c.Rewind(ORDERS, "k", c.ToVersion(1), ANN),
]


class Declarations(StoreFixtures):
    def test_an_asset_declared_by_hand_is_known(self, do: Client) -> None:
        info = do(DeclareAsset("orders", ORDERS_URI))

        assert info == AssetInfo(info.asset_id, "orders", ORDERS_URI, True, (), None)
        assert do(ListAssets()) == (info,)

    def test_declaring_an_asset_again_changes_nothing(self, do: Client) -> None:
        first = do(DeclareAsset("orders", ORDERS_URI))
        do(Set(ORDERS, "k", "1", ANN))

        assert do(DeclareAsset("orders", ORDERS_URI)) == first
        assert do(Get(ORDERS, "k")) == "1"

    def test_a_name_or_uri_alone_identifies_its_asset(self, do: Client) -> None:
        info = do(DeclareAsset("orders", ORDERS_URI))

        assert do(DeclareAsset(name="orders")) == info
        assert do(DeclareAsset(uri=ORDERS_URI)) == info

    def test_a_name_or_uri_alone_declares_a_new_asset(self, do: Client) -> None:
        by_name = do(DeclareAsset(name="orders"))
        by_uri = do(DeclareAsset(uri=CUSTOMERS_URI))

        assert (by_name.name, by_name.uri) == ("orders", "orders")
        assert (by_uri.name, by_uri.uri) == (CUSTOMERS_URI, CUSTOMERS_URI)

    @pytest.mark.parametrize("declared", [("orders", "s3://other"), ("other", ORDERS_URI)])
    def test_a_name_or_uri_of_another_asset_is_refused(
        self, do: Client, asset: AssetScope, declared: tuple[str, str]
    ) -> None:
        with pytest.raises(InvalidInput, match="conflicts with"):
            do(DeclareAsset(*declared))
        with pytest.raises(InvalidInput, match="conflicts with"):
            do(DeclareDagAssets("sales", (OF_CUSTOMERS, declared)))

        assert [info.name for info in do(ListAssets())] == ["orders"]

    def test_a_dag_declares_exactly_its_assets(self, do: Client) -> None:
        do(DeclareDagAssets("sales", (OF_ORDERS, OF_CUSTOMERS)))
        do(DeclareDagAssets("returns", (OF_ORDERS, OF_ORDERS)))

        customers, orders = do(ListAssets())
        assert (customers.name, customers.dags, customers.by_hand) == (
            "customers",
            ("sales",),
            False,
        )
        assert (orders.name, orders.dags) == ("orders", ("returns", "sales"))

    def test_one_asset_is_found_by_id_name_or_uri(self, do: Client) -> None:
        do(DeclareDagAssets("sales", (OF_ORDERS, OF_CUSTOMERS)))
        do(DeclareDagAssets("returns", (OF_ORDERS,)))
        _, orders = do(ListAssets())

        for scope in (AssetScope(orders.asset_id), ORDERS, AssetScope(uri=ORDERS_URI)):
            assert do(c.GetAsset(scope)) == orders
        with pytest.raises(UnknownAsset):
            do(c.GetAsset(AssetScope(name="orderz")))

    def test_assets_are_listed_page_by_page(self, do: Client) -> None:
        do(DeclareDagAssets("sales", tuple((name, name) for name in "cab")))
        do(DeclareDagAssets("returns", tuple((name, name) for name in "ab")))

        assert [info.name for info in do(ListAssets(limit=2))] == ["a", "b"]
        assert [info.dags for info in do(ListAssets(2, 1))] == [("returns", "sales"), ("sales",)]
        assert [info.name for info in do(ListAssets(offset=2))] == ["c"]
        assert do(ListAssets(limit=1, offset=3)) == ()

    def test_an_asset_stays_active_while_one_dag_declares_it(self, do: Client) -> None:
        do(DeclareDagAssets("sales", (OF_ORDERS,)))
        do(DeclareDagAssets("returns", (OF_ORDERS,)))
        do(DeclareDagAssets("sales", ()))

        (orders,) = do(ListAssets())
        assert (orders.dags, orders.orphaned_at) == (("returns",), None)
        do(Set(ORDERS, "k", "1", ANN))

    def test_an_asset_that_no_dag_declares_any_more_is_deactivated(
        self, do: Client, clock: Clock
    ) -> None:
        self._orphan(do)
        deactivated_at = clock()
        clock.forward(DAY)
        do(DeclareDagAssets("sales", ()))
        do(DeclareDagAssets("returns", ()))

        (orders,) = do(ListAssets())
        assert (orders.dags, orders.orphaned_at) == ((), deactivated_at)

    def test_an_asset_declared_by_hand_is_never_deactivated(
        self, do: Client, asset: AssetScope
    ) -> None:
        do(DeclareDagAssets("sales", (OF_ORDERS,)))
        do(DeclareDagAssets("sales", ()))

        (orders,) = do(ListAssets())
        assert orders.orphaned_at is None
        do(Set(asset, "k", "1", ANN))

    def test_an_inactive_asset_cannot_be_written(self, do: Client) -> None:
        self._orphan(do)

        for command in supported(do, WRITES):
            with pytest.raises(AssetInactive, match="orders"):
                do(command)

        assert do(Get(ORDERS, "k")) == "1"
        assert do(Get(ORDERS, "new")) is None

    def test_an_attempt_cannot_stage_for_an_inactive_asset(
        self, do: Client, attempt: TaskWriter
    ) -> None:
        self._orphan(do)

        with pytest.raises(AssetInactive):
            do(Set(ORDERS, "k", "2", attempt, on_success=True))
        with pytest.raises(AssetInactive):
            do(c.Advance(ORDERS, "k", "2", attempt, on_success=True))

    def test_an_inactive_asset_can_be_read(self, do: Client) -> None:
        self._orphan(do)

        entry = do(GetEntry(ORDERS, "k"))
        assert do(Get(ORDERS, "k")) == "1"
        assert entry is not None
        assert do(List(c.AssetFilter())).total == 1
        assert [step.value for step in do(History(ORDERS, "k"))] == ["1"]

    @pytest.mark.parametrize(
        "declaration",
        [DeclareDagAssets("returns", (OF_ORDERS,)), DeclareAsset("orders", ORDERS_URI)],
        ids=["by a DAG", "by hand"],
    )
    def test_an_asset_declared_again_has_its_state_again(
        self, do: Client, declaration: c.Command[Any]
    ) -> None:
        self._orphan(do)

        do(declaration)

        (orders,) = do(ListAssets())
        assert orders.orphaned_at is None
        assert do(Get(ORDERS, "k")) == "1"
        do(Set(ORDERS, "k", "2", ANN))
        assert [step.value for step in do(History(ORDERS, "k"))] == ["2", "1"]

    def test_the_sweep_includes_assets_deactivated_by_the_cut_off(
        self, do: Client, clock: Clock
    ) -> None:
        self._orphan(do)
        clock.forward(7 * DAY)

        orphans = do(ListOrphans(clock() - 7 * DAY))
        gone = do(DeleteOrphans(clock() - 7 * DAY))

        assert [info.name for info in orphans] == ["orders"]
        assert gone == 1
        assert do(List(ORDERS)).total == 0
        assert do(History(ORDERS, "k")) == ()

    def test_the_sweep_skips_assets_deactivated_after_the_cut_off(
        self, do: Client, clock: Clock
    ) -> None:
        self._orphan(do)
        cutoff = clock() - timedelta(microseconds=1)

        assert do(ListOrphans(cutoff)) == ()
        assert do(DeleteOrphans(cutoff)) == 0
        assert do(Get(ORDERS, "k")) == "1"
        assert len(do(History(ORDERS, "k"))) == 1

    def test_the_sweep_skips_active_assets(
        self, do: Client, asset: AssetScope, clock: Clock
    ) -> None:
        do(DeclareDagAssets("sales", (OF_CUSTOMERS,)))
        do(Set(asset, "k", "1", ANN))
        do(Set(CUSTOMERS, "k", "1", ANN))
        clock.forward(1000 * DAY)

        assert do(ListOrphans(clock())) == ()
        assert do(DeleteOrphans(clock())) == 0
        assert do(Get(asset, "k")) == "1"
        assert do(Get(CUSTOMERS, "k")) == "1"

    def test_the_sweep_skips_an_asset_declared_again(self, do: Client, clock: Clock) -> None:
        self._orphan(do)
        clock.forward(8 * DAY)
        do(DeclareDagAssets("sales", (OF_ORDERS,)))

        assert do(DeleteOrphans(clock())) == 0
        assert do(Get(ORDERS, "k")) == "1"

    def test_the_sweep_deletes_the_history_of_deleted_entries(
        self, do: Client, clock: Clock
    ) -> None:
        do(DeclareDagAssets("sales", (OF_ORDERS,)))
        do(Set(ORDERS, "k", "1", ANN))
        do(c.Delete(ORDERS, "k", ANN))
        do(DeclareDagAssets("sales", ()))

        assert len(do(ListOrphans(clock()))) == 1
        assert do(DeleteOrphans(clock())) == 1
        assert do(History(ORDERS, "k")) == ()

    def test_after_the_sweep_there_is_nothing_to_sweep(self, do: Client, clock: Clock) -> None:
        self._orphan(do)
        do(DeleteOrphans(clock()))

        assert do(ListOrphans(clock())) == ()
        assert do(DeleteOrphans(clock())) == 0

    def test_an_inactive_asset_without_state_is_no_orphan(self, do: Client, clock: Clock) -> None:
        do(DeclareDagAssets("sales", (OF_ORDERS,)))
        do(DeclareDagAssets("sales", ()))

        assert do(ListOrphans(clock())) == ()

    def test_a_swept_asset_is_still_known_and_still_inactive(
        self, do: Client, clock: Clock
    ) -> None:
        self._orphan(do)
        do(DeleteOrphans(clock()))

        assert do(Get(ORDERS, "k")) is None
        with pytest.raises(AssetInactive):
            do(Set(ORDERS, "k", "2", ANN))

    def test_versions_grow_across_the_sweep(self, do: Client, clock: Clock) -> None:
        before = self._orphan(do)
        do(DeleteOrphans(clock()))
        do(DeclareDagAssets("sales", (OF_ORDERS,)))

        assert do(Get(ORDERS, "k")) is None
        assert do(Set(ORDERS, "k", "2", ANN, if_version=0)) > before
        assert [step.previous for step in do(History(ORDERS, "k"))] == [0]

    def test_concurrent_declarations_of_an_asset_create_one(self, do: Client) -> None:
        declared = do.together([DeclareAsset("orders", ORDERS_URI)] * 6)

        assert do(ListAssets()) == (declared[0],)
        assert declared == [declared[0]] * 6

    def _orphan(self, do: Client) -> int:
        do(DeclareDagAssets("sales", (OF_ORDERS,)))
        version = do(Set(ORDERS, "k", "1", ANN))
        do(DeclareDagAssets("sales", ()))
        return version


class Deletion(StoreFixtures):
    def test_deleting_an_asset_deletes_its_entries_and_history(
        self, do: Client, asset: AssetScope
    ) -> None:
        do(Set(asset, "k", "1", ANN))

        do(c.DeleteAsset(asset))

        assert do(ListAssets()) == ()
        assert do(List(c.AssetFilter())).total == 0
        with pytest.raises(UnknownAsset):
            do(Get(asset, "k"))
        do(DeclareAsset("orders", ORDERS_URI))
        assert do(Get(asset, "k")) is None
        assert do(History(asset, "k")) == ()

    def test_the_id_of_a_deleted_asset_is_not_given_to_another(self, do: Client) -> None:
        deleted = do(DeclareAsset("orders", ORDERS_URI))
        do(c.DeleteAsset(ORDERS))

        do(DeclareAsset("customers", CUSTOMERS_URI))

        with pytest.raises(UnknownAsset):
            do(Get(AssetScope(asset_id=deleted.asset_id), "k"))

    def test_deleting_an_asset_leaves_the_others(self, do: Client, asset: AssetScope) -> None:
        do(DeclareAsset("customers", CUSTOMERS_URI))
        do(Set(CUSTOMERS, "k", "1", ANN))

        do(c.DeleteAsset(AssetScope(uri=ORDERS_URI)))

        assert do(Get(CUSTOMERS, "k")) == "1"

    def test_deleting_a_run_deletes_its_task_entries(self, do: Client, task: TaskScope) -> None:
        mapped = TaskScope(task.dag_id, task.run_id, "other", 3)
        do(c.RegisterTask(mapped))
        do(Set(task, "k", "1", ANN))
        do(Set(mapped, "k", "1", ANN))

        do(c.DeleteRun(task.dag_id, task.run_id))

        assert do(List(c.TaskFilter())).total == 0
        for scope in (task, mapped):
            with pytest.raises(UnknownTaskInstance):
                do(Get(scope, "k"))

    def test_a_recreated_run_has_no_entries(self, do: Client, task: TaskScope) -> None:
        do(Set(task, "k", "1", ANN))
        do(c.DeleteRun(task.dag_id, task.run_id))

        do(c.RegisterTask(task))

        assert do(Get(task, "k")) is None

    def test_deleting_a_run_leaves_other_runs(self, do: Client, task: TaskScope) -> None:
        neighbours = [
            TaskScope(task.dag_id, "tuesday", task.task_id),
            TaskScope("returns", task.run_id, task.task_id),
        ]
        for scope in neighbours:
            do(c.RegisterTask(scope))
            do(Set(scope, "k", "1", ANN))

        do(c.DeleteRun(task.dag_id, task.run_id))

        assert [do(Get(scope, "k")) for scope in neighbours] == ["1", "1"]

    def test_deleting_a_run_keeps_the_asset_entries_it_wrote(
        self, do: Client, asset: AssetScope, task: TaskScope
    ) -> None:
        do(Set(asset, "k", "1", TaskWriter(task)))

        do(c.DeleteRun(task.dag_id, task.run_id))

        assert do(Get(asset, "k")) == "1"
        assert do(History(asset, "k"))[0].writer == TaskWriter(task)
