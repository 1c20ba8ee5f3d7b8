"""Runs and tasks that users stop and mark."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

import pytest

from holdfast import commands as c
from holdfast.errors import Conflict, InvalidInput, NotFound, StaleAttempt, UnknownTaskInstance
from holdfast.model.run import Ending, Outcome, Run, RunState, TaskState
from holdfast.model.scope import AssetScope, TaskScope
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
    REPORT,
    RUN,
    SECOND,
    at_once,
    begin,
    change,
    claim,
    create,
    finish,
    start,
    task,
)

ROUNDS = 10


def stop(store: Store, run_id: str = "monday") -> Run:
    return mark(store, RunState.FAILED, stop=True, run_id=run_id)


def mark(
    store: Store,
    state: RunState,
    *,
    stop: bool = False,
    clear: bool = False,
    run_id: str = "monday",
) -> Run:
    return store.execute(
        c.MarkRun(dag_id="sales", run_id=run_id, state=state, writer=ANN, stop=stop, clear=clear)
    )


def mark_all(store: Store, state: TaskState, *, clear: bool = False) -> None:
    scope = TaskScope(*RUN, "sum")
    store.execute(
        c.MarkTask(scope=scope, state=state, writer=ANN, all_map_indices=True, clear=clear)
    )


def expand(store: Store, count: int = 3) -> list[TaskScope]:
    """Give the run a mapped task with instances that may start, and a removed one."""
    begin(store)
    wanted = [c.TaskChange("sum", index, TaskState.SCHEDULED) for index in range(count)]
    change(store, c.TaskChange("sum", -1, TaskState.REMOVED), *wanted)
    return [TaskScope(*RUN, "sum", index) for index in range(count)]


def states(store: Store) -> dict[str, TaskState | None]:
    found = store.execute(c.ListTaskInstances(dag_id="sales", run_id="monday"))
    return {f"{one.scope.task_id}{one.scope.map_index}": one.state for one in found}


class Marking(RunFixtures):
    def test_a_stopped_run_has_failed_and_names_the_user(self, store: Store, clock: Clock) -> None:
        begin(store)

        stopped = stop(store)

        assert (stopped.state, stopped.error) == (RunState.FAILED, "stopped by api ann")
        assert (stopped.ended_at, stopped.owner, stopped.leased_until) == (clock.now, None, None)
        assert store.execute(c.GetRun(*RUN)) == stopped
        assert store.execute(c.ListRuns()) == (stopped,)

    def test_a_queued_run_can_be_stopped(self, store: Store) -> None:
        create(store)

        assert stop(store).state is RunState.FAILED

        with pytest.raises(InvalidInput, match="has ended: failed"):
            claim(store)

    def test_a_stop_ends_live_attempts_and_drops_their_staged_writes(self, store: Store) -> None:
        begin(store)
        store.execute(c.DeclareAsset("orders"))
        writer = start(store)
        store.execute(c.Set(ORDERS, "mark", "1", writer, on_success=True))

        stop(store)

        [attempt] = store.execute(c.ListAttempts(LOAD))
        assert attempt.outcome is Outcome.STOPPED
        assert attempt.error == "its run was stopped by api ann"
        assert store.execute(
            c.Heartbeat(process=FIRST, lease=MINUTE, runs=(RUN,), attempts=(writer,))
        ) == c.Lost(runs=(RUN,), attempts=(writer,))
        with pytest.raises(StaleAttempt):
            finish(store, writer)
        with pytest.raises(StaleAttempt):
            store.execute(c.Set(LOAD, "page", "8", writer))
        assert store.execute(c.Get(ORDERS, "mark")) is None

    def test_a_stop_fails_tasks_that_have_not_ended_and_no_other(self, store: Store) -> None:
        begin(store)
        kept = [TaskState.SKIPPED, TaskState.UPSTREAM_FAILED, TaskState.REMOVED]
        change(store, *(c.TaskChange("sum", index, state) for index, state in enumerate(kept)))
        retry = Ending(outcome=Outcome.FAILED, state=TaskState.UP_FOR_RETRY, error="no")
        finish(store, start(store), retry)
        store.execute(c.RegisterTask(TaskScope(*RUN, "by hand")))

        stop(store)

        assert states(store) == {
            "by hand-1": None,
            "load-1": TaskState.FAILED,
            "report-1": TaskState.FAILED,
            **{f"sum{index}": state for index, state in enumerate(kept)},
        }
        assert task(store, REPORT).error == "its run was stopped by api ann"
        assert task(store).failures == 1

    def test_nothing_of_a_stopped_run_begins(self, store: Store) -> None:
        begin(store)
        stop(store)

        with pytest.raises(StaleAttempt, match="has ended: failed"):
            start(store)
        with pytest.raises(StaleAttempt, match="no process does"):
            change(store, c.TaskChange("more", -1, TaskState.SCHEDULED))
        for state in (RunState.FAILED, RunState.SUCCESS):
            with pytest.raises(StaleAttempt):
                store.execute(c.FinishRun(*RUN, FIRST, state))
        with pytest.raises(InvalidInput, match="has ended: failed"):
            claim(store, SECOND, dead=FIRST)
        assert store.execute(c.UnfinishedRuns()) == ()

    def test_a_run_that_has_ended_is_not_stopped(self, store: Store) -> None:
        create(store)
        claim(store)
        store.execute(c.FinishRun(*RUN, FIRST, RunState.SUCCESS))

        with pytest.raises(Conflict, match="has ended: success"):
            stop(store)

        assert store.execute(c.GetRun(*RUN)).state is RunState.SUCCESS

    def test_an_unknown_or_external_run_is_not_stopped(self, store: Store) -> None:
        store.execute(c.RegisterTask(LOAD))
        with pytest.raises(InvalidInput, match="external"):
            stop(store)
        with pytest.raises(NotFound):
            stop(store, "tuesday")

    def test_a_success_during_a_stop_counts_as_a_whole_or_not_at_all(self, store: Store) -> None:
        store.execute(c.DeclareAsset("orders", "s3://orders"))
        succeeded = 0
        for number in range(ROUNDS):
            run_id = f"run {number}"
            scope = TaskScope("sales", run_id, "load")
            create(store, run_id)
            store.execute(c.ClaimRun(dag_id="sales", run_id=run_id, process=FIRST, lease=MINUTE))
            scheduled = c.TaskChange("load", -1, TaskState.SCHEDULED)
            store.execute(c.ChangeTasks("sales", run_id, FIRST, (scheduled,)))
            writer = start(store, scope)
            store.execute(c.Set(ORDERS, run_id, "1", writer, on_success=True))
            ending = Ending(
                outcome=Outcome.SUCCESS, state=TaskState.SUCCESS, events=(ORDERS_CHANGED,)
            )

            works: list[Callable[[], Any]] = [
                partial(finish, store, writer, ending),
                partial(stop, store, run_id),
            ]
            finished, stopped = at_once(works)

            assert isinstance(stopped, Run)
            won = not isinstance(finished, StaleAttempt)
            succeeded += won
            assert (task(store, scope).state is TaskState.SUCCESS) == won
            assert (store.execute(c.Get(ORDERS, run_id)) == "1") == won
            assert len(store.execute(c.ListAssetEvents(AssetScope(name="orders")))) == succeeded

    def test_of_a_stop_and_the_end_of_a_run_one_takes_effect(self, store: Store) -> None:
        for number in range(ROUNDS):
            run_id = f"run {number}"
            create(store, run_id)
            store.execute(c.ClaimRun(dag_id="sales", run_id=run_id, process=FIRST, lease=MINUTE))
            end = c.FinishRun("sales", run_id, FIRST, RunState.SUCCESS)

            ended, stopped = at_once([partial(store.execute, end), partial(stop, store, run_id)])

            assert isinstance(ended, StaleAttempt) != isinstance(stopped, Conflict)
            state = RunState.FAILED if isinstance(stopped, Run) else RunState.SUCCESS
            assert store.execute(c.GetRun("sales", run_id)).state is state

    def test_a_stopped_run_can_be_resumed(self, store: Store) -> None:
        begin(store)
        store.execute(c.Set(LOAD, "page", "7", start(store)))
        stop(store)

        everything = (("load", None), ("report", None))
        store.execute(c.ClearTasks(dag_id=RUN[0], run_id=RUN[1], tasks=everything, writer=ANN))

        run = store.execute(c.GetRun(*RUN))
        assert (run.state, run.error) == (RunState.QUEUED, "")
        claim(store, SECOND)
        assert start(store).attempt == 2
        assert store.execute(c.Get(LOAD, "page")) == "7"

    def test_a_stopped_run_can_be_deleted(self, store: Store) -> None:
        begin(store)
        start(store)
        stop(store)

        store.execute(c.DeleteRun(*RUN))

        assert store.execute(c.ListTaskInstances()) == ()

    def test_a_run_marked_as_success_gives_its_unfinished_tasks_that_state(
        self, store: Store
    ) -> None:
        begin(store)
        writer = start(store)

        marked = mark(store, RunState.SUCCESS)

        assert (marked.state, marked.error) == (RunState.SUCCESS, "")
        assert states(store) == {"load-1": TaskState.SUCCESS, "report-1": TaskState.SUCCESS}
        [attempt] = store.execute(c.ListAttempts(LOAD))
        assert attempt.outcome is Outcome.STOPPED
        assert attempt.error == "its run was marked success by api ann"
        with pytest.raises(StaleAttempt):
            finish(store, writer)

    def test_a_run_marked_as_success_can_clear_the_task_stores_of_these_tasks(
        self, store: Store
    ) -> None:
        begin(store)
        for scope in (LOAD, REPORT):
            store.execute(c.Set(scope, "page", "7", ANN))
        finish(store, start(store), FAILED)

        mark(store, RunState.SUCCESS, clear=True)

        assert store.execute(c.Get(LOAD, "page")) == "7"
        assert store.execute(c.Get(REPORT, "page")) is None

    def test_a_run_that_has_ended_can_be_marked(self, store: Store, clock: Clock) -> None:
        begin(store)
        finish(store, start(store), FAILED)
        finish(store, start(store, REPORT))
        store.execute(c.FinishRun(*RUN, FIRST, RunState.FAILED))
        ended = clock.now
        clock.forward(MINUTE)

        marked = [mark(store, state) for state in (RunState.SUCCESS, RunState.FAILED)]

        assert [one.state for one in marked] == [RunState.SUCCESS, RunState.FAILED]
        assert [one.error for one in marked] == ["", "marked failed by api ann"]
        assert [one.ended_at for one in marked] == [ended, ended]
        assert states(store) == {"load-1": TaskState.FAILED, "report-1": TaskState.SUCCESS}
        assert mark(store, RunState.FAILED) == marked[1]

    @pytest.mark.parametrize("state", [RunState.QUEUED, RunState.RUNNING])
    def test_a_run_can_only_be_marked_as_ended(self, store: Store, state: RunState) -> None:
        create(store)
        with pytest.raises(InvalidInput, match="success or failed"):
            mark(store, state)

    def test_all_instances_of_a_mapped_task_are_marked_at_once(self, store: Store) -> None:
        first, second, third = expand(store)
        writer = start(store, first)
        finish(store, start(store, second), FAILED)

        mark_all(store, TaskState.SKIPPED)

        assert states(store) == {
            "load-1": TaskState.SCHEDULED,
            "report-1": TaskState.SCHEDULED,
            "sum-1": TaskState.REMOVED,
            "sum0": TaskState.SKIPPED,
            "sum1": TaskState.SKIPPED,
            "sum2": TaskState.SKIPPED,
        }
        assert task(store, third).error == "marked skipped by api ann"
        with pytest.raises(StaleAttempt):
            finish(store, writer)

    def test_one_instance_of_a_mapped_task_can_be_marked(self, store: Store) -> None:
        scopes = expand(store)

        store.execute(c.MarkTask(scope=scopes[1], state=TaskState.SUCCESS, writer=ANN))

        found = [task(store, scope).state for scope in scopes]
        assert found == [TaskState.SCHEDULED, TaskState.SUCCESS, TaskState.SCHEDULED]

    def test_marking_all_instances_can_clear_their_task_stores(self, store: Store) -> None:
        scopes = expand(store)
        for scope in scopes:
            store.execute(c.Set(scope, "page", "7", ANN))

        mark_all(store, TaskState.SUCCESS, clear=True)

        assert [store.execute(c.Get(scope, "page")) for scope in scopes] == [None] * 3

    def test_a_removed_task_instance_cannot_be_marked(self, store: Store) -> None:
        expand(store)
        removed = c.MarkTask(scope=TaskScope(*RUN, "sum"), state=TaskState.SUCCESS, writer=ANN)
        with pytest.raises(UnknownTaskInstance):
            store.execute(removed)

    def test_a_task_of_an_external_run_cannot_be_marked(self, store: Store) -> None:
        store.execute(c.RegisterTask(LOAD))
        with pytest.raises(InvalidInput, match="external"):
            store.execute(c.MarkTask(scope=LOAD, state=TaskState.SUCCESS, writer=ANN))
        assert task(store).state is None
