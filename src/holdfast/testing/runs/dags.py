"""DAG files, and the DAGs in them."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any

import msgspec
import pytest

from holdfast import commands as c
from holdfast.errors import Conflict, InvalidInput, NotFound
from holdfast.model.dag import DagSpec, TaskSpec
from holdfast.model.run import DagInfo, FileInfo, RunKind, RunState
from holdfast.store import Store
from holdfast.testing import Clock
from holdfast.testing.runs.fixtures import RunFixtures
from holdfast.testing.runs.samples import (
    ANN,
    CUSTOMERS_SPEC,
    ORDERS_CHANGED,
    ORDERS_SPEC,
    create,
    dag,
    emit,
)

DAY = datetime(2026, 1, 31, tzinfo=UTC)


def save(store: Store, file: str, *dags: DagSpec, seen: bool = False) -> None:
    store.execute(c.SaveFile(file, dags, seen=seen))


def holders(store: Store) -> dict[str, str]:
    return {info.dag_id: info.file for info in store.execute(c.ListDags())}


def ids(store: Store) -> list[str]:
    return [info.dag_id for info in store.execute(c.ListDags())]


def active(store: Store) -> list[str]:
    assets = store.execute(c.ListAssets())
    return [info.name for info in assets if info.orphaned_at is None]


def loading(dag_id: str, *outlets: object) -> DagSpec:
    return dag(dag_id, tasks=(TaskSpec(task_id="load", operator="python", outlets=outlets),))  # type: ignore[arg-type]


def make_run(
    store: Store, day: int, kind: RunKind = RunKind.SCHEDULED, run_id: str | None = None
) -> None:
    run = c.CreateRun(
        dag_id="sales",
        run_id=run_id or str(day),
        kind=kind,
        logical_date=DAY.replace(day=day),
        schedule=kind is RunKind.SCHEDULED,
    )
    store.execute(run)


def end_run(store: Store, day: int) -> None:
    state = RunState.SUCCESS
    store.execute(c.MarkRun(dag_id="sales", run_id=str(day), state=state, writer=ANN))


class Dags(RunFixtures):
    def test_a_dag_is_stored_as_its_file_defines_it(self, store: Store, clock: Clock) -> None:
        spec = loading("sales", ORDERS_SPEC)

        save(store, "/dags/ä.py", spec)

        [info] = store.execute(c.ListDags())
        assert info == store.execute(c.GetDag("sales"))
        assert info == DagInfo(
            dag_id="sales",
            file="/dags/ä.py",
            spec=info.spec,
            paused=False,
            scheduled_until=None,
            created_at=clock.now,
            saved_at=clock.now,
            seen_at=None,
            stale_at=None,
        )
        assert msgspec.json.decode(info.spec, type=DagSpec) == spec
        assert store.execute(c.ListFiles()) == (FileInfo("/dags/ä.py", clock.now, ""),)

    def test_dags_removed_from_their_file_are_in_no_file(self, store: Store) -> None:
        save(
            store,
            "a.py",
            loading("sales", ORDERS_SPEC),
            loading("stock", CUSTOMERS_SPEC),
            seen=True,
        )
        save(store, "b.py", dag("other"), seen=True)
        create(store)

        left = ("sales", "stock", "other", "never")
        specs = loading("stock", CUSTOMERS_SPEC), dag("tax")
        store.execute(c.SaveFile("a.py", specs, seen=True, left=left))

        assert holders(store) == {"other": "b.py", "sales": "", "stock": "a.py", "tax": "a.py"}
        assert store.execute(c.GetRun("sales", "monday"))

    def test_only_the_dags_of_a_forgotten_file_are_in_no_file(
        self, store: Store, clock: Clock
    ) -> None:
        save(store, "a.py", loading("sales", ORDERS_SPEC))
        save(store, "b.py", loading("stock", ORDERS_SPEC, CUSTOMERS_SPEC))

        store.execute(c.ForgetFile("b.py", ("sales", "stock")))
        store.execute(c.ForgetFile("never seen", ("sales",)))

        assert holders(store) == {"sales": "a.py", "stock": ""}
        assert store.execute(c.GetDag("stock")).seen_at == clock.now
        assert active(store) == ["customers", "orders"]
        assert [info.file for info in store.execute(c.ListFiles())] == ["a.py"]

    def test_a_dag_that_is_in_no_file_for_long_becomes_stale_and_can_be_restored(
        self, store: Store, clock: Clock
    ) -> None:
        save(store, "a.py", loading("sales", ORDERS_SPEC), seen=True)
        save(store, "b.py", loading("stock", CUSTOMERS_SPEC), seen=True)
        store.execute(c.PauseDag("sales", True))
        make_run(store, 20)
        store.execute(c.ForgetFile("a.py", ("sales", "stock")))
        retire = c.RetireDags(timedelta(minutes=10))

        clock.forward(timedelta(minutes=10))
        store.execute(c.SeeDags(("stock",)))
        early = store.execute(retire)
        clock.forward(timedelta(seconds=1))
        assert (early, store.execute(retire), store.execute(retire)) == ((), ("sales",), ())
        assert store.execute(c.GetDag("sales")).stale_at == clock.now
        assert active(store) == ["customers"]

        save(store, "c.py", loading("sales", ORDERS_SPEC), seen=True)
        info = store.execute(c.GetDag("sales"))
        assert (info.file, info.stale_at, info.seen_at) == ("c.py", None, clock.now)
        assert (info.paused, info.scheduled_until) == (True, DAY.replace(day=20))
        assert active(store) == ["customers", "orders"]

    def test_a_dag_that_no_scheduler_has_seen_never_becomes_stale(
        self, store: Store, clock: Clock
    ) -> None:
        save(store, "by_hand.py", loading("sales", ORDERS_SPEC))

        clock.forward(timedelta(days=365))

        assert store.execute(c.RetireDags(timedelta(0))) == ()
        assert active(store) == ["orders"]

    def test_a_dag_whose_scheduler_has_stopped_becomes_stale_and_keeps_its_assets(
        self, store: Store, clock: Clock
    ) -> None:
        save(store, "a.py", loading("sales", ORDERS_SPEC), seen=True)

        clock.forward(timedelta(days=365))

        assert store.execute(c.RetireDags(timedelta(minutes=10))) == ("sales",)
        assert active(store) == ["orders"]
        assert store.execute(c.SeeDags(("sales",))) == ("sales",)

    def test_a_scheduler_learns_which_of_its_dags_the_store_does_not_have(
        self, store: Store, clock: Clock
    ) -> None:
        save(store, "a.py", dag("sales"), dag("stock"), seen=True)
        store.execute(c.SaveFile("a.py", (dag("sales"),), seen=True, left=("stock",)))
        away = store.execute(c.GetDag("stock"))
        clock.forward(timedelta(seconds=5))

        told = store.execute(c.SeeDags(("never", "sales", "stock")))

        assert told == ("never", "stock")
        assert store.execute(c.GetDag("sales")).seen_at == clock.now
        assert store.execute(c.GetDag("stock")) == away
        many = tuple(f"dag {n:04}" for n in range(1100))
        assert store.execute(c.SeeDags(("sales", *many))) == many
        assert store.execute(c.SeeDags(())) == ()

    def test_an_import_error_that_is_not_reported_again_is_forgotten(
        self, store: Store, clock: Clock
    ) -> None:
        for file in ("told.py", "left.py"):
            store.execute(c.SaveFileError(file, "Traceback …"))
        clock.forward(timedelta(minutes=61))
        store.execute(c.SaveFileError("told.py", "Traceback …"))

        store.execute(c.RetireDags(timedelta(minutes=10)))

        errors = {info.file: info.error for info in store.execute(c.ListFiles())}
        assert errors == {"told.py": "Traceback …", "left.py": ""}

    def test_a_file_that_cannot_be_imported_keeps_its_dags(
        self, store: Store, clock: Clock
    ) -> None:
        save(store, "a.py", loading("sales", ORDERS_SPEC))

        for file in ("b.py", "a.py"):
            store.execute(c.SaveFileError(file, "Traceback …"))

        assert ids(store) == ["sales"]
        assert active(store) == ["orders"]
        files = store.execute(c.ListFiles())
        assert files == tuple(FileInfo(name, clock.now, "Traceback …") for name in ("a.py", "b.py"))
        save(store, "a.py", dag("sales"))  # as `holdfast run` does, perhaps with a copy of the file
        assert store.execute(c.ListFiles())[0].error == "Traceback …"
        save(store, "a.py", dag("sales"), seen=True)
        assert store.execute(c.ListFiles())[0].error == ""

    def test_the_error_for_a_dag_id_in_two_files_names_both(
        self, store: Store, clock: Clock
    ) -> None:
        save(store, "a.py", dag("sales"), seen=True)
        clock.forward(timedelta(seconds=20))
        store.execute(c.SeeDags(("sales",)))
        clock.forward(timedelta(seconds=29))

        with pytest.raises(Conflict, match=r"DAG `sales` of b\.py is already in a\.py"):
            save(store, "b.py", dag("other"), dag("sales"))

        assert holders(store) == {"sales": "a.py"}
        assert len(store.execute(c.ListFiles())) == 1

    def test_a_dag_that_no_scheduler_sees_any_more_may_be_in_another_file(
        self, store: Store, clock: Clock
    ) -> None:
        save(store, "by_hand.py", dag("sales"))
        save(store, "dags/a.py", dag("sales"), seen=True)
        store.execute(c.PauseDag("sales", True))
        clock.forward(timedelta(seconds=30))

        save(store, "b.py", dag("sales"), seen=True)

        assert holders(store) == {"sales": "b.py"}
        assert store.execute(c.GetDag("sales")).paused

    def test_a_dag_may_move_to_another_file_once_it_is_removed_from_the_first(
        self, store: Store
    ) -> None:
        save(store, "a.py", dag("sales"), dag("stock"), seen=True)
        store.execute(c.SaveFile("a.py", (dag("stock"),), seen=True, left=("sales",)))
        save(store, "b.py", dag("sales"), seen=True)
        store.execute(c.ForgetFile("a.py", ("stock",)))
        save(store, "c.py", dag("stock"), seen=True)

        assert holders(store) == {"sales": "b.py", "stock": "c.py"}

    def test_a_file_that_is_run_by_hand_changes_nothing_of_a_scheduled_dag(
        self, store: Store, clock: Clock
    ) -> None:
        spec = dag("sales", ORDERS_SPEC)
        save(store, "a.py", spec, seen=True)
        emit(store, ORDERS_CHANGED)
        before = store.execute(c.GetDag("sales"))

        for _ in range(2):
            save(store, "a.py", loading("sales", CUSTOMERS_SPEC))
            clock.forward(timedelta(hours=1))
        save(store, "b.py", dag("sales"))

        assert store.execute(c.GetDag("sales")) == before
        assert active(store) == ["orders"]
        save(store, "a.py", spec, seen=True)
        assert store.execute(c.CreateAssetRun("sales", "by assets")) is not None

    def test_a_file_that_is_run_by_hand_may_use_its_assets(self, store: Store) -> None:
        save(store, "a.py", dag("sales", ORDERS_SPEC), seen=True)

        save(store, "a.py", loading("sales", CUSTOMERS_SPEC))

        assert active(store) == ["customers", "orders"]

    def test_a_dag_that_moves_from_a_deleted_file_keeps_its_state(self, store: Store) -> None:
        emit(store, ORDERS_CHANGED)
        save(store, "a.py", dag("sales", ORDERS_SPEC), seen=True)
        make_run(store, 20)
        emit(store, ORDERS_CHANGED)
        store.execute(c.PauseDag("sales", True))

        moved = (dag("sales", ORDERS_SPEC),)
        store.execute(c.SaveFile("b.py", moved, seen=True, taken_from=("z.py", "a.py")))
        store.execute(c.ForgetFile("a.py", ("sales",)))

        info = store.execute(c.GetDag("sales"))
        assert (info.file, info.paused) == ("b.py", True)
        assert info.scheduled_until == DAY.replace(day=20)
        assert active(store) == ["orders"]
        store.execute(c.PauseDag("sales", False))
        assert store.execute(c.CreateAssetRun("sales", "by assets")) is not None
        assert [one.number for one in store.execute(c.RunEvents("sales", "by assets"))] == [2]

    def test_a_dag_id_twice_in_one_file_is_refused(self, store: Store) -> None:
        with pytest.raises(InvalidInput, match="more than one DAG `sales`"):
            save(store, "a.py", dag("stock"), dag("sales"), dag("sales"))

    def test_the_error_for_an_unknown_dag_names_the_known_ones(self, store: Store) -> None:
        save(store, "a.py", dag("sales"), dag("stock"))

        commands: list[c.Command[Any]]
        commands = [c.GetDag("sale"), c.PauseDag("sale", True), c.CreateAssetRun("sale", "r")]
        for command in commands:
            with pytest.raises(
                NotFound, match=r"DAG `sale` is not known\nhint: known DAGs: .*sales"
            ):
                store.execute(command)

    def test_a_pause_outlasts_a_change_of_the_file(self, store: Store) -> None:
        save(store, "a.py", dag("sales", paused_at_first=True))
        assert store.execute(c.GetDag("sales")).paused

        store.execute(c.PauseDag("sales", False))
        save(store, "a.py", dag("sales", paused_at_first=True))
        assert not store.execute(c.GetDag("sales")).paused

        store.execute(c.PauseDag("sales", True))
        assert store.execute(c.GetDag("sales")).paused

    @pytest.mark.parametrize("kind", [RunKind.SCHEDULED, RunKind.MANUAL, RunKind.BACKFILL])
    def test_a_backfill_creates_no_run_for_a_date_that_has_one(
        self, store: Store, kind: RunKind
    ) -> None:
        save(store, "a.py", dag("sales"))
        make_run(store, 20, kind, "there")

        with pytest.raises(Conflict, match="sales/there exists already"):
            make_run(store, 20, RunKind.BACKFILL, "again")

    def test_the_schedule_creates_no_run_for_a_backfilled_date(self, store: Store) -> None:
        save(store, "a.py", dag("sales"))
        make_run(store, 20, RunKind.BACKFILL, "backfilled")
        make_run(store, 21, RunKind.MANUAL, "by hand")

        for day in (20, 21):
            make_run(store, day)

        runs = store.execute(c.ListRuns(dag_id="sales"))
        assert sorted(run.run_id for run in runs) == ["21", "backfilled", "by hand"]
        assert store.execute(c.GetDag("sales")).scheduled_until == DAY.replace(day=21)

    def test_the_schedule_stores_its_last_date(self, store: Store) -> None:
        save(store, "a.py", dag("sales"))
        make_run(store, 20)
        make_run(store, 10)
        make_run(store, 31, RunKind.MANUAL)

        save(store, "a.py", dag("sales", tags=("new",)))

        assert store.execute(c.GetDag("sales")).scheduled_until == DAY.replace(day=20)

    def test_the_schedule_skips_a_run_that_exists(self, store: Store) -> None:
        save(store, "a.py", dag("sales"))
        make_run(store, 20, RunKind.BACKFILL)

        make_run(store, 20)

        assert store.execute(c.GetRun("sales", "20")).kind is RunKind.BACKFILL
        assert store.execute(c.GetDag("sales")).scheduled_until == DAY.replace(day=20)

    def test_events_while_a_dag_is_in_no_file_start_a_run_once_it_is_in_a_file_again(
        self, store: Store
    ) -> None:
        save(store, "a.py", dag("sales", ORDERS_SPEC), seen=True)
        emit(store, ORDERS_CHANGED)
        store.execute(c.ForgetFile("a.py", ("sales", "stock")))
        emit(store, ORDERS_CHANGED)

        save(store, "a.py", dag("sales", ORDERS_SPEC), seen=True)

        assert store.execute(c.CreateAssetRun("sales", "by assets")) is not None
        assert [one.number for one in store.execute(c.RunEvents("sales", "by assets"))] == [1, 2]

    def test_the_schedule_of_a_restored_dag_continues(self, store: Store) -> None:
        save(store, "a.py", dag("sales"))
        make_run(store, 20)
        make_run(store, 31, RunKind.MANUAL)
        store.execute(c.ForgetFile("a.py", ("sales", "stock")))

        save(store, "b.py", dag("sales"))

        assert store.execute(c.GetDag("sales")).scheduled_until == DAY.replace(day=20)

    def test_a_dag_that_a_scheduler_sees_can_be_left_to_its_file(
        self, store: Store, clock: Clock
    ) -> None:
        save(store, "a.py", dag("sales"), dag("stock"), seen=True)
        clock.forward(timedelta(minutes=1))
        store.execute(c.SeeDags(("stock",)))

        store.execute(c.ForgetFile("a.py", ("sales", "stock"), unless_seen=True))

        assert holders(store) == {"sales": "", "stock": "a.py"}

    def test_a_stale_dag_declares_no_assets_after_its_file_is_forgotten(
        self, store: Store, clock: Clock
    ) -> None:
        save(store, "a.py", loading("sales", ORDERS_SPEC), seen=True)
        seen_at = clock.now
        clock.forward(timedelta(hours=1))
        store.execute(c.RetireDags(timedelta(minutes=10)))
        declared = active(store)

        store.execute(c.ForgetFile("a.py", ("sales",), unless_seen=True))
        missing = store.execute(c.GetDag("sales"))
        store.execute(c.RetireDags(timedelta(minutes=10)))

        assert (missing.seen_at, missing.stale_at) == (seen_at, None)
        assert (declared, active(store)) == (["orders"], [])
        assert store.execute(c.GetDag("sales")).stale_at == clock.now

    def test_a_dag_is_deleted_with_its_pause_its_schedule_and_its_assets(
        self, store: Store, clock: Clock
    ) -> None:
        save(store, "a.py", loading("sales", ORDERS_SPEC), seen=True)
        store.execute(c.PauseDag("sales", True))
        store.execute(c.ForgetFile("a.py", ("sales",)))
        store.execute(c.RetireDags(timedelta(0)))

        store.execute(c.DeleteDag("sales", dry_run=True))
        assert ids(store) == ["sales"]
        store.execute(c.DeleteDag("sales"))

        assert (ids(store), active(store)) == ([], [])
        with pytest.raises(NotFound):
            store.execute(c.DeleteDag("sales"))
        save(store, "a.py", loading("sales", ORDERS_SPEC), seen=True)
        info = store.execute(c.GetDag("sales"))
        assert (info.paused, info.scheduled_until, info.created_at) == (False, None, clock.now)
        assert active(store) == ["orders"]

    def test_a_dag_in_a_file_that_a_scheduler_has_cannot_be_deleted(
        self, store: Store, clock: Clock
    ) -> None:
        save(store, "a.py", loading("sales", ORDERS_SPEC), loading("stock"), seen=True)

        with pytest.raises(Conflict, match=r"is in a\.py, which a scheduler has"):
            store.execute(c.DeleteDag("sales"))
        clock.forward(timedelta(minutes=1))
        store.execute(c.DeleteDag("sales"))

        assert holders(store) == {"stock": "a.py"}

    def test_no_run_goes_with_a_dag_whose_file_is_back(self, store: Store) -> None:
        save(store, "a.py", dag("sales"), seen=True)
        for day in (20, 21):
            make_run(store, day)
            end_run(store, day)
        store.execute(c.ForgetFile("a.py", ("sales",)))
        store.execute(c.DeleteRun("sales", "20", with_dag=True))

        save(store, "a.py", dag("sales"), seen=True)
        with pytest.raises(Conflict, match=r"is in a\.py, which a scheduler has"):
            store.execute(c.DeleteRun("sales", "21", with_dag=True))

        assert [run.run_id for run in store.execute(c.ListRuns(dag_id="sales"))] == ["21"]

    def test_a_run_that_has_not_ended_does_not_go_with_its_dag(self, store: Store) -> None:
        save(store, "a.py", dag("sales"))
        make_run(store, 20)

        with pytest.raises(Conflict, match="1 runs of DAG `sales` have not ended"):
            store.execute(c.DeleteRun("sales", "20", with_dag=True))
        end_run(store, 20)
        store.execute(c.DeleteRun("sales", "20", with_dag=True))

        assert store.execute(c.ListRuns(dag_id="sales")) == ()

    def test_a_dag_with_unfinished_runs_cannot_be_deleted(self, store: Store) -> None:
        save(store, "a.py", loading("sales"))
        make_run(store, 20)

        with pytest.raises(Conflict, match="1 runs of DAG `sales` have not ended"):
            store.execute(c.DeleteDag("sales", dry_run=True))

        assert ids(store) == ["sales"]
