"""DAG files, and the DAGs that they hold."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

import msgspec
import pytest
from sample_runs import CUSTOMERS_SPEC, ORDERS_CHANGED, ORDERS_SPEC, create, dag, emit

from holdfast import command as c
from holdfast import run_command as rc
from holdfast.dagspec import DagSpec, TaskSpec
from holdfast.errors import Conflict, InvalidInput, NotFound
from holdfast.run import DagInfo, FileInfo, RunKind
from holdfast.store import Store
from holdfast.testing import Clock

DAY = datetime(2026, 1, 31, tzinfo=UTC)


def save(store: Store, file: str, *dags: DagSpec) -> None:
    store.execute(rc.SaveFile(file, dags))


def ids(store: Store) -> list[str]:
    return [info.dag_id for info in store.execute(rc.ListDags())]


def active(store: Store) -> list[str]:
    assets = store.execute(c.ListAssets())
    return [info.name for info in assets if info.orphaned_at is None]


def loading(dag_id: str, *outlets: object) -> DagSpec:
    return dag(dag_id, tasks=(TaskSpec(task_id="load", operator="python", outlets=outlets),))  # type: ignore[arg-type]


def test_a_dag_is_as_its_file_has_it(store: Store, clock: Clock) -> None:
    spec = loading("sales", ORDERS_SPEC)

    save(store, "/dags/ä.py", spec)

    [info] = store.execute(rc.ListDags())
    assert info == store.execute(rc.GetDag("sales"))
    assert info == DagInfo(
        dag_id="sales",
        file="/dags/ä.py",
        spec=info.spec,
        paused=False,
        scheduled_until=None,
        saved_at=clock.now,
    )
    assert msgspec.json.decode(info.spec, type=DagSpec) == spec
    assert store.execute(rc.ListFiles()) == (FileInfo("/dags/ä.py", clock.now, ""),)


def test_a_file_holds_exactly_what_was_saved_last(store: Store) -> None:
    save(store, "a.py", loading("sales", ORDERS_SPEC), loading("stock", CUSTOMERS_SPEC))
    create(store)

    save(store, "a.py", loading("stock", CUSTOMERS_SPEC), dag("tax"))

    assert ids(store) == ["stock", "tax"]
    assert active(store) == ["customers"]
    assert store.execute(rc.GetRun("sales", "monday"))


def test_a_forgotten_file_takes_its_dags_with_it_and_no_others(store: Store) -> None:
    save(store, "a.py", loading("sales", ORDERS_SPEC))
    save(store, "b.py", loading("stock", ORDERS_SPEC, CUSTOMERS_SPEC))

    store.execute(rc.ForgetFile("b.py"))
    store.execute(rc.ForgetFile("never seen"))

    assert ids(store) == ["sales"]
    assert active(store) == ["orders"]
    assert [info.file for info in store.execute(rc.ListFiles())] == ["a.py"]


def test_a_file_that_cannot_be_imported_keeps_what_it_held(store: Store, clock: Clock) -> None:
    save(store, "a.py", loading("sales", ORDERS_SPEC))

    for file in ("b.py", "a.py"):
        store.execute(rc.SaveFileError(file, "Traceback …"))

    assert ids(store) == ["sales"]
    assert active(store) == ["orders"]
    files = store.execute(rc.ListFiles())
    assert files == tuple(FileInfo(name, clock.now, "Traceback …") for name in ("a.py", "b.py"))
    save(store, "a.py", dag("sales"))
    assert store.execute(rc.ListFiles())[0].error == ""


def test_a_dag_id_in_two_files_names_both(store: Store) -> None:
    save(store, "a.py", dag("sales"))

    with pytest.raises(Conflict, match=r"DAG `sales` of b\.py is already in a\.py"):
        save(store, "b.py", dag("other"), dag("sales"))

    assert ids(store) == ["sales"]
    assert len(store.execute(rc.ListFiles())) == 1


def test_a_dag_may_move_to_another_file_once_the_first_has_let_it_go(store: Store) -> None:
    save(store, "a.py", dag("sales"), dag("stock"))
    save(store, "a.py", dag("stock"))
    save(store, "b.py", dag("sales"))
    store.execute(rc.ForgetFile("a.py"))
    save(store, "c.py", dag("stock"))

    assert {info.dag_id: info.file for info in store.execute(rc.ListDags())} == {
        "sales": "b.py",
        "stock": "c.py",
    }


def test_a_dag_that_moves_from_a_file_that_is_gone_stays_as_it_is(store: Store) -> None:
    emit(store, ORDERS_CHANGED)
    save(store, "a.py", dag("sales", ORDERS_SPEC))
    make_run(store, 20)
    emit(store, ORDERS_CHANGED)
    store.execute(rc.PauseDag("sales", True))

    store.execute(rc.SaveFile("b.py", (dag("sales", ORDERS_SPEC),), gone=("z.py", "a.py")))
    store.execute(rc.ForgetFile("a.py"))

    info = store.execute(rc.GetDag("sales"))
    assert (info.file, info.paused) == ("b.py", True)
    assert info.scheduled_until == DAY.replace(day=20)
    assert active(store) == ["orders"]
    store.execute(rc.PauseDag("sales", False))
    assert store.execute(rc.CreateAssetRun("sales", "by assets")) is not None
    assert [one.number for one in store.execute(rc.RunEvents("sales", "by assets"))] == [2]


def test_a_dag_id_twice_in_one_file_is_refused(store: Store) -> None:
    with pytest.raises(InvalidInput, match="more than one DAG `sales`"):
        save(store, "a.py", dag("stock"), dag("sales"), dag("sales"))


def test_an_unknown_dag_is_told_with_those_that_there_are(store: Store) -> None:
    save(store, "a.py", dag("sales"), dag("stock"))

    commands: list[c.Command[Any]]
    commands = [rc.GetDag("sale"), rc.PauseDag("sale", True), rc.CreateAssetRun("sale", "r")]
    for command in commands:
        with pytest.raises(NotFound, match=r"DAG `sale` is not known\nhint: DAGs .*sales"):
            store.execute(command)


def test_a_pause_outlasts_a_change_of_the_file(store: Store) -> None:
    save(store, "a.py", dag("sales", paused_at_first=True))
    assert store.execute(rc.GetDag("sales")).paused

    store.execute(rc.PauseDag("sales", False))
    save(store, "a.py", dag("sales", paused_at_first=True))
    assert not store.execute(rc.GetDag("sales")).paused

    store.execute(rc.PauseDag("sales", True))
    assert store.execute(rc.GetDag("sales")).paused


def make_run(
    store: Store, day: int, kind: RunKind = RunKind.SCHEDULED, run_id: str | None = None
) -> None:
    run = rc.CreateRun(
        dag_id="sales",
        run_id=run_id or str(day),
        kind=kind,
        logical_date=DAY.replace(day=day),
        schedule=kind is RunKind.SCHEDULED,
    )
    store.execute(run)


def test_the_schedule_leaves_a_date_to_the_backfill_that_has_made_it(store: Store) -> None:
    save(store, "a.py", dag("sales"))
    make_run(store, 20, RunKind.BACKFILL, "backfilled")
    make_run(store, 21, RunKind.MANUAL, "by hand")

    for day in (20, 21):
        make_run(store, day)

    runs = store.execute(rc.ListRuns(dag_id="sales"))
    assert sorted(run.run_id for run in runs) == ["21", "backfilled", "by hand"]
    assert store.execute(rc.GetDag("sales")).scheduled_until == DAY.replace(day=21)


def test_the_schedule_remembers_how_far_it_has_come(store: Store) -> None:
    save(store, "a.py", dag("sales"))
    make_run(store, 20)
    make_run(store, 10)
    make_run(store, 31, RunKind.MANUAL)

    save(store, "a.py", dag("sales", tags=("new",)))

    assert store.execute(rc.GetDag("sales")).scheduled_until == DAY.replace(day=20)


def test_the_schedule_passes_over_a_run_that_exists(store: Store) -> None:
    save(store, "a.py", dag("sales"))
    make_run(store, 20, RunKind.BACKFILL)

    make_run(store, 20)

    assert store.execute(rc.GetRun("sales", "20")).kind is RunKind.BACKFILL
    assert store.execute(rc.GetDag("sales")).scheduled_until == DAY.replace(day=20)


def test_the_schedule_of_a_dag_that_comes_back_goes_on(store: Store) -> None:
    save(store, "a.py", dag("sales"))
    make_run(store, 20)
    make_run(store, 31, RunKind.MANUAL)
    store.execute(rc.ForgetFile("a.py"))

    save(store, "b.py", dag("sales"))

    assert store.execute(rc.GetDag("sales")).scheduled_until == DAY.replace(day=20)
