"""Paging and counting of listings."""

from __future__ import annotations

import pytest

from holdfast import commands as c
from holdfast.errors import UnknownAsset
from holdfast.model.run import RunKind, RunState, TaskState, Unfinished
from holdfast.model.scope import AssetScope, TaskScope
from holdfast.store import Store
from holdfast.testing.runs.fixtures import RunFixtures
from holdfast.testing.runs.samples import (
    CUSTOMERS_CHANGED,
    ORDERS,
    ORDERS_CHANGED,
    RUN,
    begin,
    create,
    dag,
    emit,
    finish,
    start,
)


class RunCounts(RunFixtures):
    def test_dags_are_listed_page_by_page_and_counted(self, store: Store) -> None:
        store.execute(c.SaveFile("f.py", tuple(dag(name) for name in "cab")))

        assert [one.dag_id for one in store.execute(c.ListDags(2))] == ["a", "b"]
        assert [one.dag_id for one in store.execute(c.ListDags(2, 2))] == ["c"]
        assert store.execute(c.Count(c.ListDags(1, 1))) == 3

    def test_files_are_listed_page_by_page_and_counted(self, store: Store) -> None:
        store.execute(c.SaveFile("d.py", (dag("d"),)))
        for name in ("c.py", "a.py", "b.py"):
            store.execute(c.SaveFileError(name, f"{name}: " + "x" * 2000))

        def files(listing: c.ListFiles) -> list[str]:
            return [one.file for one in store.execute(listing)]

        assert files(c.ListFiles(limit=2)) == ["a.py", "b.py"]
        assert files(c.ListFiles(limit=2, offset=2)) == ["c.py", "d.py"]
        assert files(c.ListFiles(broken=True)) == ["a.py", "b.py", "c.py"]
        assert files(c.ListFiles(limit=3, max_size=2500)) == ["a.py", "b.py"]
        assert store.execute(c.Count(c.ListFiles(limit=1))) == 4
        assert store.execute(c.Count(c.ListFiles(broken=True, limit=1, offset=1))) == 3

    def test_runs_are_counted_by_the_conditions_of_their_listing(self, store: Store) -> None:
        begin(store)
        create(store, "tuesday")
        store.execute(c.CreateRun(dag_id="other", run_id="x", kind=RunKind.BACKFILL))

        def count(**conditions: object) -> int:
            return store.execute(c.Count(c.ListRuns(**conditions, limit=1, offset=1)))  # type: ignore[arg-type]

        assert count() == 3
        assert count(dag_id="sales") == 2
        assert count(states=(RunState.QUEUED,)) == 2
        assert count(dag_id="sales", states=(RunState.QUEUED, RunState.FAILED)) == 1
        assert count(kinds=(RunKind.BACKFILL,)) == 1
        assert count(dag_id="unknown") == 0

    def test_unfinished_runs_are_counted_by_dag_and_found_oldest_first(self, store: Store) -> None:
        begin(store)
        for run_id in ("tuesday", "wednesday"):
            create(store, run_id)
        store.execute(c.CreateRun(dag_id="other", run_id="x", kind=RunKind.BACKFILL))
        store.execute(c.RegisterTask(TaskScope("script", "r", "t")))

        counts = store.execute(c.UnfinishedRuns())
        waiting = c.ListRuns(dag_id="sales", states=(RunState.QUEUED,), oldest_first=True)

        assert counts == (Unfinished("other", 1, 0), Unfinished("sales", 2, 1))
        assert [run.run_id for run in store.execute(waiting)] == ["tuesday", "wednesday"]

    def test_task_instances_are_listed_page_by_page_and_counted(self, store: Store) -> None:
        begin(store)
        finish(store, start(store))

        page = store.execute(c.ListTaskInstances(limit=1, offset=1))
        assert [one.scope.task_id for one in page] == ["report"]
        assert store.execute(c.Count(c.ListTaskInstances(limit=1))) == 2
        done = c.ListTaskInstances(dag_id="sales", run_id=RUN[1], states=(TaskState.SUCCESS,))
        assert store.execute(c.Count(done)) == 1
        assert store.execute(c.Count(c.ListTaskInstances(task_id="load", map_index=0))) == 0
        [load] = store.execute(c.ListTaskInstances(task_id="load", map_index=-1))
        assert load.state is TaskState.SUCCESS

    def test_events_are_listed_page_by_page_and_counted(self, store: Store) -> None:
        emit(store, ORDERS_CHANGED, CUSTOMERS_CHANGED)
        emit(store, ORDERS_CHANGED)

        [first] = store.execute(c.ListAssetEvents(ORDERS, limit=1, offset=1))
        assert first.number == 1
        assert store.execute(c.Count(c.ListAssetEvents(ORDERS, limit=1))) == 2
        assert store.execute(c.Count(c.ListAssetEvents(limit=1))) == 3
        with pytest.raises(UnknownAsset):
            store.execute(c.ListAssetEvents(AssetScope(name="orderz")))

    def test_assets_are_counted(self, store: Store) -> None:
        assert store.execute(c.Count(c.ListAssets())) == 0
        for dag_id in ("a", "b"):
            store.execute(c.DeclareDagAssets(dag_id, (("orders", "o"), ("customers", "c"))))

        assert store.execute(c.Count(c.ListAssets(limit=1, offset=1))) == 2
