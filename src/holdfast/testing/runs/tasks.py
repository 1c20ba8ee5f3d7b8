"""Task instances: state changes by the holder of a run, and actions of users."""

from __future__ import annotations

import pytest

from holdfast import commands as c
from holdfast.errors import Conflict, InvalidInput, StaleAttempt, UnknownTaskInstance
from holdfast.model.run import Outcome, RunState, TaskInstance, TaskState
from holdfast.model.scope import TaskScope
from holdfast.store import Store
from holdfast.testing import Clock
from holdfast.testing.runs.fixtures import RunFixtures
from holdfast.testing.runs.samples import (
    ANN,
    FAILED,
    FIRST,
    LOAD,
    ORDERS,
    REPORT,
    RUN,
    SECOND,
    begin,
    change,
    claim,
    create,
    finish,
    start,
    task,
)


def clear(store: Store, *tasks: tuple[str, int | None], state: str = "default") -> list[str]:
    command = c.ClearTasks(dag_id=RUN[0], run_id=RUN[1], tasks=tasks, writer=ANN, state=state)  # type: ignore[arg-type]
    return [str(scope) for scope in store.execute(command)]


def mark(
    store: Store, state: TaskState, *, clear: bool = False, unless_ended: bool = False
) -> None:
    store.execute(
        c.MarkTask(scope=LOAD, state=state, writer=ANN, clear=clear, unless_ended=unless_ended)
    )


def end_run(store: Store, state: RunState) -> None:
    store.execute(c.MarkRun(dag_id=RUN[0], run_id=RUN[1], state=state, writer=ANN))


class Tasks(RunFixtures):
    def test_a_missing_task_instance_is_created(self, store: Store) -> None:
        begin(store)

        assert task(store) == TaskInstance(
            scope=LOAD,
            state=TaskState.SCHEDULED,
            attempt=0,
            failures=0,
            interruptions=0,
            ready_at=None,
            started_at=None,
            ended_at=None,
            error="",
        )

    def test_task_instances_are_listed_in_order_and_filtered(self, store: Store) -> None:
        begin(store)
        mapped = (c.TaskChange("load", index, TaskState.SKIPPED) for index in (10, 2))
        change(store, *mapped)

        def listed(command: c.ListTaskInstances) -> list[tuple[str, int]]:
            return [(each.scope.task_id, each.scope.map_index) for each in store.execute(command)]

        everything = [("load", -1), ("load", 2), ("load", 10), ("report", -1)]
        assert listed(c.ListTaskInstances()) == everything
        assert listed(c.ListTaskInstances(dag_id="sales", run_id="monday")) == everything
        assert listed(c.ListTaskInstances(run_id="tuesday")) == []
        assert listed(c.ListTaskInstances(task_id="report")) == everything[3:]
        assert listed(c.ListTaskInstances(states=(TaskState.SKIPPED,))) == everything[1:3]
        assert listed(c.ListTaskInstances(limit=2)) == everything[:2]

    def test_a_waiting_task_can_change_its_state(self, store: Store, clock: Clock) -> None:
        begin(store)

        change(store, c.TaskChange("report", -1, TaskState.UPSTREAM_FAILED, "load failed"))

        report = task(store, REPORT)
        assert (report.state, report.error) == (TaskState.UPSTREAM_FAILED, "load failed")
        assert report.ended_at == clock.now

    def test_a_running_or_ended_task_keeps_its_state(self, store: Store) -> None:
        begin(store)
        start(store)
        finish(store, start(store, REPORT))

        for name in ("load", "report"):
            change(store, c.TaskChange(name, -1, TaskState.SKIPPED))

        assert task(store).state is TaskState.RUNNING
        assert task(store, REPORT).state is TaskState.SUCCESS

    def test_a_removed_task_can_be_scheduled_again(self, store: Store) -> None:
        begin(store)
        for state in (TaskState.REMOVED, TaskState.SCHEDULED):
            change(store, c.TaskChange("report", -1, state))

        assert (task(store, REPORT).state, task(store, REPORT).ended_at) == (
            TaskState.SCHEDULED,
            None,
        )

    def test_a_process_that_has_lost_the_run_changes_no_task(self, store: Store) -> None:
        begin(store)
        claim(store, SECOND, dead=FIRST)

        with pytest.raises(StaleAttempt, match="process 200 on there does"):
            change(store, c.TaskChange("report", -1, TaskState.SKIPPED))

        assert task(store, REPORT).state is TaskState.SCHEDULED

    @pytest.mark.parametrize("end", [RunState.FAILED, RunState.SUCCESS])
    def test_a_run_that_ended_while_queued_is_queued_again(
        self, store: Store, end: RunState
    ) -> None:
        create(store)
        end_run(store, end)

        assert clear(store) == []

        run = store.execute(c.GetRun(*RUN))
        assert (run.state, run.ended_at, run.error) == (RunState.QUEUED, None, "")
        claim(store)

    def test_a_run_whose_tasks_were_all_removed_is_queued_again(self, store: Store) -> None:
        begin(store)
        for name in ("load", "report"):
            change(store, c.TaskChange(name, -1, TaskState.REMOVED))
        end_run(store, RunState.FAILED)

        clear(store)

        assert store.execute(c.GetRun(*RUN)).state is RunState.QUEUED

    def test_a_clear_of_no_task_changes_no_run_that_has_tasks(self, store: Store) -> None:
        begin(store)
        end_run(store, RunState.FAILED)

        clear(store)

        assert store.execute(c.GetRun(*RUN)).state is RunState.FAILED

    def test_a_cleared_task_may_start_again(self, store: Store) -> None:
        begin(store)
        finish(store, start(store), FAILED)
        with pytest.raises(StaleAttempt, match="has ended: failed"):
            start(store)

        assert clear(store, ("load", None)) == [str(LOAD)]

        cleared = task(store)
        assert (cleared.state, cleared.failures, cleared.error) == (TaskState.SCHEDULED, 0, "")
        assert (cleared.started_at, cleared.ended_at) == (None, None)
        assert start(store).attempt == 2

    def test_clearing_queues_a_run_that_had_ended(self, store: Store) -> None:
        begin(store)
        finish(store, start(store))
        store.execute(c.FinishRun(*RUN, FIRST, RunState.SUCCESS, waiting=1))

        clear(store, ("load", -1))

        run = store.execute(c.GetRun(*RUN))
        assert (run.state, run.started_at, run.ended_at) == (RunState.QUEUED, None, None)
        claim(store, SECOND)

    def test_a_run_does_not_end_after_a_concurrent_clear_of_a_task(self, store: Store) -> None:
        begin(store)
        finish(store, start(store))
        clear(store, ("load", -1))

        with pytest.raises(Conflict, match="its tasks have changed"):
            store.execute(c.FinishRun(*RUN, FIRST, RunState.SUCCESS, waiting=1))

        assert store.execute(c.GetRun(*RUN)).state is RunState.RUNNING

    def test_clearing_leaves_a_running_run_to_its_holder(self, store: Store) -> None:
        begin(store)

        clear(store, ("load", None))

        assert store.execute(c.GetRun(*RUN)).owner == FIRST

    @pytest.mark.parametrize(
        ("ended_well", "state", "kept"),
        [
            (True, "default", False),
            (False, "default", True),
            (True, "keep", True),
            (False, "discard", False),
        ],
    )
    def test_clearing_keeps_the_task_store_of_tasks_that_have_not_succeeded(
        self, store: Store, ended_well: bool, state: str, kept: bool
    ) -> None:
        begin(store)
        writer = start(store)
        store.execute(c.Set(LOAD, "page", "7", writer))
        store.execute(c.FinishAttempt(writer, ended_well))

        clear(store, ("load", None), state=state)

        assert (store.execute(c.Get(LOAD, "page")) == "7") == kept

    def test_clearing_ends_a_live_attempt_and_drops_its_results(self, store: Store) -> None:
        begin(store)
        writer = start(store)
        store.execute(c.PutResult(writer, "k", "1"))

        clear(store, ("load", None))

        [attempt] = store.execute(c.ListAttempts(LOAD))
        assert (attempt.outcome, attempt.error) == (Outcome.STOPPED, "cleared by api ann")
        assert store.execute(c.GetResults(*RUN, "load", "k")) == ()
        with pytest.raises(StaleAttempt):
            store.execute(c.Set(LOAD, "page", "8", writer))
        with pytest.raises(StaleAttempt):
            finish(store, writer)

    def test_clearing_applies_to_one_map_index_or_all(self, store: Store) -> None:
        begin(store)
        change(store, *(c.TaskChange("sum", index, TaskState.SKIPPED) for index in range(3)))

        assert clear(store, ("sum", 1), ("sum", 1), ("none", None)) == ["task sales/monday/sum[1]"]

        states = [task(store, TaskScope(*RUN, "sum", index)).state for index in range(3)]
        assert states == [TaskState.SKIPPED, TaskState.SCHEDULED, TaskState.SKIPPED]
        assert len(clear(store, ("sum", None))) == 3

    def test_a_run_that_holdfast_did_not_start_is_not_cleared(self, store: Store) -> None:
        store.execute(c.RegisterTask(LOAD))
        with pytest.raises(InvalidInput, match="external"):
            clear(store, ("load", None))

    def test_marking_ends_a_live_attempt_and_drops_its_staged_writes(
        self, store: Store, clock: Clock
    ) -> None:
        begin(store)
        store.execute(c.DeclareAsset("orders"))
        writer = start(store)
        store.execute(c.Set(ORDERS, "mark", "1", writer, on_success=True))

        mark(store, TaskState.SUCCESS)

        marked = task(store)
        assert (marked.state, marked.error, marked.ended_at) == (TaskState.SUCCESS, "", clock.now)
        assert (marked.failures, marked.interruptions) == (0, 0)
        [attempt] = store.execute(c.ListAttempts(LOAD))
        assert (attempt.outcome, attempt.error) == (Outcome.STOPPED, "marked success by api ann")
        with pytest.raises(StaleAttempt):
            finish(store, writer)
        assert store.execute(c.Get(ORDERS, "mark")) is None

    def test_a_task_marked_failed_names_the_user(self, store: Store) -> None:
        begin(store)

        mark(store, TaskState.FAILED)

        assert (task(store).state, task(store).error) == (
            TaskState.FAILED,
            "marked failed by api ann",
        )

    def test_marking_success_can_clear_the_task_store(self, store: Store) -> None:
        begin(store)
        store.execute(c.Set(LOAD, "page", "7", ANN))

        mark(store, TaskState.FAILED, clear=True)
        assert store.execute(c.Get(LOAD, "page")) == "7"
        mark(store, TaskState.SUCCESS, clear=True)

        assert store.execute(c.Get(LOAD, "page")) is None

    def test_unless_ended_does_not_mark_an_ended_task(self, store: Store) -> None:
        begin(store)
        finish(store, start(store))

        mark(store, TaskState.FAILED, unless_ended=True)
        assert task(store).state is TaskState.SUCCESS
        mark(store, TaskState.FAILED)

        assert task(store).state is TaskState.FAILED

    def test_unless_ended_marks_a_running_task(self, store: Store) -> None:
        begin(store)
        start(store)

        mark(store, TaskState.FAILED, unless_ended=True)

        assert task(store).state is TaskState.FAILED

    def test_a_task_can_only_be_marked_as_ended(self, store: Store) -> None:
        begin(store)
        with pytest.raises(InvalidInput, match="success, failed or skipped"):
            mark(store, TaskState.RUNNING)

    def test_an_unknown_task_cannot_be_marked(self, store: Store) -> None:
        create(store)
        with pytest.raises(UnknownTaskInstance):
            mark(store, TaskState.SUCCESS)

    def test_a_task_store_of_another_item_is_discarded(self, store: Store) -> None:
        begin(store)
        first, second = "1" * 64, "2" * 64
        writer = start(store)
        store.execute(c.Set(LOAD, "page", "7", writer))
        taken = [store.execute(c.TakeItem(writer, digest)) for digest in (first, first)]
        kept = store.execute(c.Get(LOAD, "page"))

        discarded = store.execute(c.TakeItem(writer, second))

        assert (taken, kept, discarded) == ([False, False], "7", True)
        assert store.execute(c.Get(LOAD, "page")) is None
        assert not store.execute(c.TakeItem(writer, second))

    def test_only_the_live_attempt_sets_its_item(self, store: Store) -> None:
        begin(store)
        zombie, writer = start(store), start(store)
        store.execute(c.TakeItem(writer, "1" * 64))
        store.execute(c.Set(LOAD, "page", "7", writer))

        with pytest.raises(StaleAttempt):
            store.execute(c.TakeItem(zombie, "2" * 64))

        assert store.execute(c.Get(LOAD, "page")) == "7"
