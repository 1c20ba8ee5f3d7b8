"""Retention: runs and asset events are deleted by age, but nothing that is still needed."""

from __future__ import annotations

from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from functools import partial
from typing import Any

import pytest

from holdfast import commands as c
from holdfast.cleanup.retention import EventPlan, RunPlan
from holdfast.errors import InvalidInput, NotFound, UnknownTaskInstance
from holdfast.model.dag import AliasSpec, AnyOf
from holdfast.model.entry import TaskWriter
from holdfast.model.run import EmittedEvent, RunKind, RunState, TaskState
from holdfast.model.scope import TaskScope
from holdfast.model.value import as_reference
from holdfast.store import Store
from holdfast.testing import Clock
from holdfast.testing.runs.fixtures import RunFixtures
from holdfast.testing.runs.samples import (
    ANN,
    FAILED,
    FIRST,
    LOAD,
    MINUTE,
    ORDERS,
    ORDERS_CHANGED,
    ORDERS_SPEC,
    RUN,
    SUCCESS,
    at_once,
    dag,
    emit,
    finish,
    start,
)

DAY = timedelta(days=1)
DAYS = ("monday", "tuesday", "wednesday")


def run_once(store: Store, run_id: str = "monday", kind: RunKind = RunKind.MANUAL) -> TaskScope:
    """Execute a run with one task to its end."""
    run = ("sales", run_id)
    scope = TaskScope(*run, "load")
    store.execute(c.CreateRun(dag_id="sales", run_id=run_id, kind=kind))
    store.execute(c.ClaimRun(*run, process=FIRST, lease=MINUTE))
    scheduled = (c.TaskChange("load", -1, TaskState.SCHEDULED),)
    store.execute(c.ChangeTasks(*run, FIRST, scheduled))
    finish(store, start(store, scope))
    store.execute(c.FinishRun(*run, FIRST, RunState.SUCCESS))
    return scope


def run_all(store: Store, clock: Clock) -> None:
    """Execute three runs, and let a day pass."""
    for run_id in DAYS:
        run_once(store, run_id)
    clock.forward(DAY)


def plan(store: Store, age: timedelta = DAY) -> RunPlan:
    return RunPlan.now(store, age, age)


def prune(store: Store, age: timedelta = DAY) -> list[str]:
    return [run.run_id for run in plan(store, age).delete()]


def run_ids(store: Store) -> list[str]:
    return [run.run_id for run in store.execute(c.ListRuns(oldest_first=True))]


def prune_events(store: Store, age: timedelta = DAY) -> int:
    return sum(EventPlan.now(store, age).delete())


def numbers(store: Store) -> list[int]:
    return [event.number for event in store.execute(c.ListAssetEvents(ORDERS))]


class Retention(RunFixtures):
    def test_old_runs_are_deleted_with_all_that_belongs_to_them(
        self, store: Store, clock: Clock
    ) -> None:
        run_all(store, clock)

        gone = prune(store)

        assert gone == ["monday", "tuesday"]
        assert run_ids(store) == ["wednesday"]
        assert [one.scope.run_id for one in store.execute(c.ListTaskInstances())] == ["wednesday"]
        with pytest.raises(UnknownTaskInstance):
            store.execute(c.ListAttempts(LOAD))

    def test_the_preview_lists_what_is_deleted_then(self, store: Store, clock: Clock) -> None:
        run_all(store, clock)
        today = plan(store)

        listed = list(today.rows())

        assert run_ids(store) == list(DAYS)
        assert [(run.run_id, run.kind, run.state) for run in listed] == [
            ("monday", RunKind.MANUAL, RunState.SUCCESS),
            ("tuesday", RunKind.MANUAL, RunState.SUCCESS),
        ]
        assert list(today.delete()) == listed
        assert (list(today.rows()), list(today.delete())) == ([], [])

    def test_younger_runs_are_kept(self, store: Store, clock: Clock) -> None:
        run_all(store, clock)

        assert prune(store, DAY + timedelta(seconds=1)) == []

    def test_the_cutoff_is_fixed_when_the_plan_is_made(self, store: Store, clock: Clock) -> None:
        run_once(store, "monday")
        early = RunPlan.now(store, DAY, DAY)
        run_once(store, "tuesday")
        clock.forward(2 * DAY)

        assert list(early.delete()) == []

    def test_nothing_is_deleted_where_no_age_is_set(self, store: Store, clock: Clock) -> None:
        run_all(store, clock)
        store.execute(c.RegisterTask(TaskScope("script", "r", "t")))
        clock.forward(1000 * DAY)

        assert prune(store, timedelta(0)) == []

    def test_the_newest_ended_run_of_each_kind_is_kept(self, store: Store, clock: Clock) -> None:
        for run_id in ("first", "second"):
            run_once(store, run_id, RunKind.SCHEDULED)
        for run_id in ("third", "fourth"):
            run_once(store, run_id)
        store.execute(c.CreateRun(dag_id="sales", run_id="queued"))
        clock.forward(DAY)

        assert prune(store) == ["first", "third"]

    def test_runs_that_have_not_ended_are_kept(self, store: Store, clock: Clock) -> None:
        store.execute(c.CreateRun(dag_id="sales", run_id="queued"))
        store.execute(c.CreateRun(dag_id="sales", run_id="running"))
        store.execute(c.ClaimRun("sales", "running", process=FIRST, lease=MINUTE))
        run_once(store, "monday")
        run_once(store, "tuesday")
        clock.forward(DAY)

        assert prune(store) == ["monday"]

    def test_a_run_that_was_cleared_is_kept_by_an_older_plan(
        self, store: Store, clock: Clock
    ) -> None:
        run_all(store, clock)
        today = plan(store)
        listed = tuple(run.id for run in today.rows())
        cleared = c.ClearTasks(dag_id="sales", run_id="monday", tasks=(("load", None),), writer=ANN)
        store.execute(cleared)

        gone = store.execute(c.PruneRuns(today.which, listed))

        assert gone == listed[1:]
        assert store.execute(c.GetRun("sales", "monday")).state is RunState.QUEUED

    def test_a_run_whose_entries_have_not_expired_is_kept(self, store: Store, clock: Clock) -> None:
        expiries = (None, clock.now + 3 * DAY, clock.now + DAY)
        for run_id, expires_at in zip(DAYS, expiries, strict=True):
            store.execute(c.Set(run_once(store, run_id), "k", "1", ANN, expires_at))
        run_once(store, "thursday")
        clock.forward(DAY)

        gone = prune(store)
        clock.forward(2 * DAY)

        assert gone == ["wednesday"]
        assert prune(store) == ["tuesday"]

    def test_an_entry_written_after_the_preview_keeps_its_run(
        self, store: Store, clock: Clock
    ) -> None:
        run_all(store, clock)
        today = plan(store)
        listed = tuple(run.id for run in today.rows())
        store.execute(c.Set(LOAD, "k", "1", ANN))

        assert store.execute(c.PruneRuns(today.which, listed)) == listed[1:]
        assert store.execute(c.Get(LOAD, "k")) == "1"

    def test_a_run_with_a_live_attempt_is_kept(self, store: Store, clock: Clock) -> None:
        run_once(store, "monday")
        cleared = c.ClearTasks(dag_id="sales", run_id="monday", tasks=(("load", None),), writer=ANN)
        store.execute(cleared)
        start(store)
        store.execute(c.ClaimRun("sales", "monday", process=FIRST, lease=MINUTE))
        store.execute(c.FinishRun("sales", "monday", FIRST, RunState.FAILED, waiting=1))
        run_once(store, "tuesday")
        clock.forward(DAY)

        assert prune(store) == []

    def test_versions_and_attempts_of_a_pruned_run_do_not_start_again(
        self, store: Store, clock: Clock
    ) -> None:
        scope = run_once(store)
        version = store.execute(c.Set(scope, "k", "1", ANN, clock.now + MINUTE))
        run_once(store, "tuesday")
        clock.forward(DAY)
        prune(store)

        store.execute(c.RegisterTask(scope))

        assert store.execute(c.Set(scope, "k", "2", ANN)) > version
        assert store.execute(c.StartAttempt(scope)) == 2

    def test_a_backfill_of_a_date_that_the_schedule_has_not_reached_is_kept(
        self, store: Store, clock: Clock
    ) -> None:
        store.execute(c.SaveFile("sales.py", (dag("sales"),)))
        dates = [datetime(2026, 1, day, tzinfo=UTC) for day in (1, 2, 3)]
        for date in dates:
            run = ("sales", f"{date:%a}")
            store.execute(
                c.CreateRun(dag_id=run[0], run_id=run[1], kind=RunKind.BACKFILL, logical_date=date)
            )
            store.execute(c.ClaimRun(*run, process=FIRST, lease=MINUTE))
            store.execute(c.FinishRun(*run, FIRST, RunState.SUCCESS))
        scheduled = partial(c.CreateRun, dag_id="sales", kind=RunKind.SCHEDULED, schedule=True)
        store.execute(scheduled(run_id="s", logical_date=dates[0]))
        clock.forward(DAY)

        gone = prune(store)
        again = store.execute(scheduled(run_id="s2", logical_date=dates[1]))

        assert gone == ["Thu"]
        assert again.run_id == "Fri"

    def test_runs_of_one_dag_or_state_are_selected(self, store: Store, clock: Clock) -> None:
        run_all(store, clock)
        now = store.execute(c.Now())

        def chosen(**filters: Any) -> list[str]:
            which = c.RunsToPrune(now=now, before=now, external_before=now, **filters)
            return [run.run_id for run in RunPlan(store, which).rows()]

        assert chosen(dag_id="sales") == ["monday", "tuesday"]
        assert chosen(dag_id="stock") == []
        assert chosen(state=RunState.SUCCESS) == ["monday", "tuesday"]
        assert chosen(state=RunState.FAILED) == []

    def test_concurrent_plans_delete_each_run_once(self, store: Store, clock: Clock) -> None:
        for number in range(30):
            run_once(store, f"run {number}")
        clock.forward(DAY)

        outcomes = at_once([partial(prune, store)] * 3)

        gone = [run for one in outcomes if isinstance(one, list) for run in one]
        assert sorted(gone) == sorted(set(gone))
        prune(store)
        assert run_ids(store) == ["run 29"]

    def test_a_run_that_is_cleared_at_the_same_time_is_deleted_or_kept_as_a_whole(
        self, store: Store, clock: Clock
    ) -> None:
        names = [f"run {number}" for number in range(8)]
        for run_id in (*names, "newest"):
            run_once(store, run_id)
        clock.forward(DAY)

        def clear(run_id: str) -> tuple[TaskScope, ...]:
            tasks = (("load", None),)
            return store.execute(
                c.ClearTasks(dag_id="sales", run_id=run_id, tasks=tasks, writer=ANN)
            )

        works: list[Callable[[], Any]] = [partial(prune, store)]
        works += (partial(clear, run_id) for run_id in names)
        gone, *cleared = at_once(works)

        kept = [name for name, one in zip(names, cleared, strict=True) if isinstance(one, tuple)]
        assert isinstance(gone, list)
        assert sorted([*gone, *kept]) == names
        assert run_ids(store) == [*kept, "newest"]
        queued = store.execute(c.ListRuns(states=(RunState.QUEUED,), oldest_first=True))
        assert [run.run_id for run in queued] == kept

    def test_objects_of_deleted_entries_are_queued_for_deletion(
        self, store: Store, clock: Clock
    ) -> None:
        scope = run_once(store)
        reference = as_reference("s3://bucket/object")
        store.execute(c.ReserveObjects(scope, (("k", reference, "r"),), ANN))
        expiring = partial(c.Set, expires_at=clock.now + MINUTE, reservation="r")
        store.execute(expiring(scope, "k", reference, ANN))
        run_once(store, "tuesday")
        clock.forward(DAY)
        before = store.execute(c.CountPurges()).waiting

        prune(store)

        assert (before, store.execute(c.CountPurges()).waiting) == (0, 1)

    def test_only_so_many_runs_are_deleted_at_once(self, store: Store) -> None:
        which = c.RunsToPrune(now=store.execute(c.Now()))

        with pytest.raises(InvalidInput, match="101 runs to prune"):
            c.PruneRuns(which, tuple(range(101)))

    def test_deleted_runs_are_known_until_they_are_created_again(
        self, store: Store, clock: Clock
    ) -> None:
        run_all(store, clock)
        prune(store)
        store.execute(c.CreateRun(dag_id="sales", run_id="tuesday"))

        found = store.execute(c.DeletedRuns("sales", (*DAYS, "thursday")))

        assert found == ("monday",)
        assert store.execute(c.DeletedRuns("stock", DAYS)) == ()

    def test_an_external_run_follows_its_attempts(self, store: Store, clock: Clock) -> None:
        store.execute(c.RegisterTask(LOAD))
        seen = [store.execute(c.GetRun(*RUN))]
        for ending in (FAILED, SUCCESS):
            writer = TaskWriter(LOAD, store.execute(c.StartAttempt(LOAD)))
            seen.append(store.execute(c.GetRun(*RUN)))
            clock.forward(MINUTE)
            finish(store, writer, ending)
            seen.append(store.execute(c.GetRun(*RUN)))

        first = clock.now - 2 * MINUTE
        assert [(run.state, run.started_at, run.ended_at) for run in seen] == [
            (RunState.IDLE, None, None),
            (RunState.RUNNING, first, None),
            (RunState.FAILED, first, first + MINUTE),
            (RunState.RUNNING, first, None),
            (RunState.SUCCESS, first, first + 2 * MINUTE),
        ]

    def test_an_external_run_ends_with_its_last_attempt(self, store: Store) -> None:
        writers = []
        for index in range(2):
            scope = TaskScope("script", "r", "t", index)
            store.execute(c.RegisterTask(scope))
            writers.append(TaskWriter(scope, store.execute(c.StartAttempt(scope))))

        states = []
        for writer, ending in zip(writers, (FAILED, SUCCESS), strict=True):
            finish(store, writer, ending)
            states.append(store.execute(c.GetRun("script", "r")).state)

        assert states == [RunState.RUNNING, RunState.FAILED]

    def test_an_external_run_is_deleted_by_its_last_use(self, store: Store, clock: Clock) -> None:
        scopes = {name: TaskScope("script", name, "t") for name in ("set", "ended", "silent", "at")}
        for scope in scopes.values():
            store.execute(c.RegisterTask(scope))
        store.execute(c.StartAttempt(scopes["silent"]))
        store.execute(c.StartAttempt(scopes["at"], FIRST, 9 * DAY))
        clock.forward(DAY)
        store.execute(c.Set(scopes["set"], "k", "1", ANN, clock.now + MINUTE))
        finish(store, TaskWriter(scopes["ended"], store.execute(c.StartAttempt(scopes["ended"]))))

        first = prune(store)
        clock.forward(DAY)

        assert first == ["silent"]
        assert sorted(prune(store)) == ["ended", "set"]
        assert run_ids(store) == ["at"]

    def test_a_run_of_a_program_that_may_be_at_work_is_kept(
        self, store: Store, clock: Clock
    ) -> None:
        for name in ("silent", "idle"):
            store.execute(c.RegisterTask(TaskScope("script", name, "t")))
        store.execute(c.StartAttempt(TaskScope("script", "silent", "t")))
        clock.forward(100 * DAY)
        now = store.execute(c.Now())
        chosen = RunPlan(store, c.RunsToPrune(now=now, before=now, external_before=now))

        assert [run.run_id for run in chosen.rows()] == ["idle"]

    def test_an_external_run_with_lasting_entries_or_staged_writes_is_kept(
        self, store: Store, clock: Clock
    ) -> None:
        store.execute(c.DeclareAsset("orders"))
        store.execute(c.RegisterTask(LOAD))
        store.execute(c.Set(LOAD, "k", "1", ANN))
        scope = TaskScope("script", "r", "t")
        store.execute(c.RegisterTask(scope))
        writer = TaskWriter(scope, store.execute(c.StartAttempt(scope)))
        store.execute(c.Set(ORDERS, "k", "1", writer, on_success=True))
        clock.forward(100 * DAY)

        assert prune(store) == []

    def test_old_events_are_deleted_except_for_the_newest(self, store: Store, clock: Clock) -> None:
        emit(store, *[ORDERS_CHANGED] * 3)
        clock.forward(DAY)
        before = store.execute(c.AssetChanges())

        gone = prune_events(store)
        changes = store.execute(c.AssetChanges())
        emit(store, ORDERS_CHANGED)

        assert (gone, changes) == (2, before)
        assert numbers(store) == [4, 3]
        assert prune_events(store) == 1
        assert prune_events(store, timedelta(days=2)) == 0

    def test_an_event_that_a_dag_has_not_consumed_is_kept(self, store: Store, clock: Clock) -> None:
        emit(store, ORDERS_CHANGED)
        store.execute(c.SaveFile("f.py", (dag("early", ORDERS_SPEC), dag("late", ORDERS_SPEC))))
        emit(store, *[ORDERS_CHANGED] * 3)
        clock.forward(DAY)

        first = prune_events(store)
        store.execute(c.CreateAssetRun("early", "e1"))
        second = prune_events(store)
        run = store.execute(c.CreateAssetRun("late", "l1"))

        assert (first, second) == (1, 0)
        assert run is not None
        events = store.execute(c.RunEvents("late", "l1"))
        assert [event.number for event in events] == [2, 3, 4]

    def test_the_events_of_an_existing_run_are_kept(self, store: Store, clock: Clock) -> None:
        emit(store, ORDERS_CHANGED)
        store.execute(c.SaveFile("f.py", (dag("sums", ORDERS_SPEC),)))
        emit(store, ORDERS_CHANGED)
        store.execute(c.CreateAssetRun("sums", "s1"))
        emit(store, ORDERS_CHANGED)
        store.execute(c.CreateAssetRun("sums", "s2"))
        clock.forward(DAY)

        first, kept = prune_events(store), numbers(store)
        store.execute(c.DeleteRun("sums", "s1"))

        assert (first, kept) == (1, [3, 2])
        assert (prune_events(store), numbers(store)) == (1, [3])

    def test_an_event_behind_an_alias_is_kept_for_the_dag_that_has_no_cursor_yet(
        self, store: Store, clock: Clock
    ) -> None:
        condition = AnyOf((AliasSpec("daily"),))
        store.execute(c.SaveFile("f.py", (dag("sums", condition),)))
        emit(store, ORDERS_CHANGED)
        emit(store, EmittedEvent("orders", "s3://orders", aliases=("daily",)))
        emit(store, ORDERS_CHANGED)
        clock.forward(DAY)

        gone = prune_events(store)
        store.execute(c.CreateAssetRun("sums", "s1"))

        assert gone == 1
        events = store.execute(c.RunEvents("sums", "s1"))
        assert [event.number for event in events] == [2, 3]

    def test_an_event_of_an_asset_declared_after_its_dag_is_kept(
        self, store: Store, clock: Clock
    ) -> None:
        store.execute(c.SaveFile("f.py", (dag("sums", ORDERS_SPEC),)))
        emit(store, ORDERS_CHANGED, ORDERS_CHANGED)
        clock.forward(DAY)

        assert prune_events(store) == 0

    def test_an_unknown_run_is_not_pruned(self, store: Store) -> None:
        which = c.RunsToPrune(now=store.execute(c.Now()))

        assert store.execute(c.PruneRuns(which, (10**6,))) == ()
        assert store.execute(c.PruneRuns(which, ())) == ()
        with pytest.raises(NotFound):
            store.execute(c.GetRun("sales", "monday"))
