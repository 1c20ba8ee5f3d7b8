"""Attempts under a supervisor: outcomes and their effects, leases, interruptions."""

from __future__ import annotations

from datetime import timedelta
from functools import partial

import msgspec
import pytest

from holdfast import commands as c
from holdfast.errors import Conflict, InvalidInput, StaleAttempt, VersionConflict
from holdfast.model.entry import TaskWriter
from holdfast.model.run import AttemptInfo, Ending, Outcome, Process, TaskState
from holdfast.model.scope import AssetScope, TaskScope
from holdfast.store import Store
from holdfast.testing import Clock
from holdfast.testing.runs.fixtures import RunFixtures
from holdfast.testing.runs.samples import (
    FAILED,
    FIRST,
    LOAD,
    MINUTE,
    ORDERS,
    ORDERS_CHANGED,
    REPORT,
    RUN,
    SECOND,
    SUCCESS,
    at_once,
    begin,
    claim,
    finish,
    start,
    task,
)


def heartbeat(store: Store, *attempts: TaskWriter, process: Process = FIRST) -> c.Lost:
    return store.execute(c.Heartbeat(process=process, lease=MINUTE, runs=(RUN,), attempts=attempts))


def interrupt(
    store: Store, process: Process, *, limit: int = 3, expired: bool = False
) -> tuple[AttemptInfo, ...]:
    return store.execute(
        c.InterruptAttempts(
            dag_id=RUN[0],
            run_id=RUN[1],
            process=process,
            limit=limit,
            reason="it was killed",
            expired=expired,
        )
    )


class RunAttempts(RunFixtures):
    def test_a_start_that_is_sent_again_starts_no_second_attempt(self, store: Store) -> None:
        begin(store)
        first = c.StartAttempt(LOAD, FIRST, MINUTE, after=0)

        assert [store.execute(first), store.execute(first)] == [1, 1]
        with pytest.raises(StaleAttempt, match="already has attempt 1"):
            store.execute(c.StartAttempt(LOAD, SECOND, MINUTE, after=0))

    def test_an_attempt_that_has_ended_cannot_mark_or_clear_another_task(
        self, store: Store
    ) -> None:
        begin(store)
        stale = start(store)
        finish(store, stale, FAILED)
        other = TaskScope(*RUN, "other")
        store.execute(c.RegisterTask(other))

        with pytest.raises(StaleAttempt):
            store.execute(c.MarkTask(scope=other, state=TaskState.SUCCESS, writer=stale))
        tasks = ((other.task_id, None),)
        with pytest.raises(StaleAttempt):
            store.execute(c.ClearTasks(dag_id=RUN[0], run_id=RUN[1], tasks=tasks, writer=stale))

    def test_a_task_is_running_once_its_attempt_has_started(
        self, store: Store, clock: Clock
    ) -> None:
        begin(store)

        start(store)

        running = task(store)
        assert (running.state, running.attempt) == (TaskState.RUNNING, 1)
        assert (running.started_at, running.ended_at) == (clock.now, None)

    def test_an_attempt_has_its_outcome(self, store: Store, clock: Clock) -> None:
        begin(store)
        began = clock.now
        writer = start(store)
        clock.forward(MINUTE)

        finish(store, writer, msgspec.structs.replace(FAILED, exit_status=1, signal=9))

        assert store.execute(c.ListAttempts(LOAD)) == (
            AttemptInfo(
                scope=LOAD,
                number=1,
                started_at=began,
                ended_at=clock.now,
                outcome=Outcome.FAILED,
                error="ValueError: no",
                exit_status=1,
                signal=9,
                worker=Process("here", 300, "t2"),
            ),
        )

    def test_a_failure_with_a_retry_left_is_counted(self, store: Store, clock: Clock) -> None:
        begin(store)
        ready_at = clock.now + MINUTE
        again = msgspec.structs.replace(FAILED, state=TaskState.UP_FOR_RETRY, ready_at=ready_at)

        finish(store, start(store), again)

        failed = task(store)
        assert (failed.state, failed.failures, failed.error) == (
            TaskState.UP_FOR_RETRY,
            1,
            "ValueError: no",
        )
        assert failed.ready_at == ready_at
        start(store)
        running = task(store)
        assert (running.ready_at, running.error, running.ended_at) == (None, "", None)

    def test_only_consecutive_interruptions_are_counted(self, store: Store) -> None:
        begin(store)
        interrupted = Ending(outcome=Outcome.INTERRUPTED, state=TaskState.SCHEDULED)

        for ending in (interrupted, interrupted):
            finish(store, start(store), ending)
        assert (task(store).interruptions, task(store).failures) == (2, 0)
        finish(store, start(store), msgspec.structs.replace(FAILED, state=TaskState.UP_FOR_RETRY))

        assert (task(store).interruptions, task(store).failures) == (0, 1)

    def test_success_takes_effect_atomically(self, store: Store) -> None:
        begin(store)
        store.execute(c.DeclareAsset("orders", "s3://orders"))
        writer = start(store)
        store.execute(c.Set(ORDERS, "mark", "7", writer, on_success=True))
        ending = msgspec.structs.replace(SUCCESS, result="[1]", events=(ORDERS_CHANGED,))

        finish(store, writer, ending)

        assert store.execute(c.Get(ORDERS, "mark")) == "7"
        assert store.execute(c.GetResults(*RUN, "load")) == ((-1, "[1]"),)
        [event] = store.execute(c.ListAssetEvents(ORDERS))
        assert (event.number, event.source) == (1, LOAD)
        assert task(store).state is TaskState.SUCCESS

    def test_a_success_with_a_conflict_writes_nothing(self, store: Store) -> None:
        begin(store)
        store.execute(c.DeclareAsset("orders", "s3://orders"))
        store.execute(c.DeclareAsset("stock", "s3://stock"))
        writer = start(store)
        store.execute(
            c.Set(AssetScope(name="stock"), "n", "1", writer, if_version=3, on_success=True)
        )
        ending = msgspec.structs.replace(SUCCESS, result="[1]", events=(ORDERS_CHANGED,))

        with pytest.raises(VersionConflict):
            finish(store, writer, ending)

        assert store.execute(c.ListAssetEvents(ORDERS)) == ()
        assert store.execute(c.GetResults(*RUN, "load")) == ()
        assert task(store).state is TaskState.RUNNING
        finish(store, writer, FAILED)

    def test_an_event_that_cannot_be_recorded_leaves_the_staged_write_unapplied(
        self,
        store: Store,
    ) -> None:
        begin(store)
        store.execute(c.DeclareAsset("orders", "s3://elsewhere"))
        writer = start(store)
        store.execute(c.Set(ORDERS, "mark", "7", writer, on_success=True))

        with pytest.raises(InvalidInput, match="conflicts with"):
            finish(store, writer, msgspec.structs.replace(SUCCESS, events=(ORDERS_CHANGED,)))

        assert store.execute(c.Get(ORDERS, "mark")) is None

    def test_a_failure_keeps_no_result(self, store: Store) -> None:
        begin(store)
        writer = start(store)

        finish(store, writer, msgspec.structs.replace(FAILED, result="1"))

        assert store.execute(c.GetResults(*RUN, "load")) == ()

    def test_a_failure_has_no_events(self, store: Store) -> None:
        begin(store)
        writer = start(store)

        with pytest.raises(InvalidInput, match="only a successful attempt can have events"):
            finish(store, writer, msgspec.structs.replace(FAILED, events=(ORDERS_CHANGED,)))

    def test_concurrent_ends_of_tasks_with_the_same_assets_do_not_deadlock(
        self, store: Store
    ) -> None:
        begin(store)
        pair = (ORDERS_CHANGED, msgspec.structs.replace(ORDERS_CHANGED, name="b", uri="s3://b"))
        writers = [start(store, scope) for scope in (LOAD, REPORT)]
        endings = [msgspec.structs.replace(SUCCESS, events=events) for events in (pair, pair[::-1])]

        ends = zip(writers, endings, strict=True)
        outcomes = at_once([partial(finish, store, writer, ending) for writer, ending in ends])

        assert outcomes == [None, None]
        assert len(store.execute(c.ListAssetEvents())) == 4

    def test_a_script_reports_only_whether_it_succeeded(self, store: Store) -> None:
        store.execute(c.RegisterTask(LOAD))
        for succeeded in (False, True):
            writer = TaskWriter(LOAD, store.execute(c.StartAttempt(LOAD)))
            store.execute(c.FinishAttempt(writer, succeeded))

        outcomes = [attempt.outcome for attempt in store.execute(c.ListAttempts(LOAD))]
        assert outcomes == [Outcome.FAILED, Outcome.SUCCESS]
        assert task(store).state is TaskState.SUCCESS
        assert store.execute(c.StartAttempt(LOAD)) == 3

    def test_a_superseded_attempt_was_interrupted(self, store: Store) -> None:
        begin(store)
        start(store)
        start(store)

        first, second = store.execute(c.ListAttempts(LOAD))
        assert (first.outcome, first.error) == (Outcome.INTERRUPTED, "a newer attempt has begun")
        assert (second.outcome, second.ended_at) == (None, None)

    def test_results_are_those_of_the_newest_attempt(self, store: Store) -> None:
        begin(store)
        first = start(store)
        store.execute(c.PutResult(first, "k", "1"))
        store.execute(c.PutResult(first, "k", "2"))
        assert store.execute(c.GetResults(*RUN, "load", "k")) == ((-1, "2"),)

        start(store)

        assert store.execute(c.GetResults(*RUN, "load", "k")) == ()
        with pytest.raises(StaleAttempt):
            store.execute(c.PutResult(first, "k", "3"))

    def test_results_of_a_mapped_task_are_in_order_of_map_index(self, store: Store) -> None:
        for index in (10, 2, 0):
            scope = TaskScope(*RUN, "sum", index)
            store.execute(c.RegisterTask(scope))
            writer = TaskWriter(scope, store.execute(c.StartAttempt(scope)))
            store.execute(c.PutResult(writer, "return_value", str(index)))

        assert store.execute(c.GetResults(*RUN, "sum")) == ((0, "0"), (2, "2"), (10, "10"))
        assert store.execute(c.GetResults(*RUN, "sum", map_index=2)) == ((2, "2"),)

    def test_a_heartbeat_renews_leases(self, store: Store, clock: Clock) -> None:
        begin(store)
        writers = start(store), start(store, REPORT)
        clock.forward(timedelta(seconds=59))

        assert heartbeat(store, *writers) == c.Lost()

        assert store.execute(c.GetRun(*RUN)).leased_until == clock.now + MINUTE
        clock.forward(timedelta(seconds=59))
        with pytest.raises(Conflict):
            claim(store, SECOND)

    def test_a_heartbeat_returns_lost_runs_and_attempts(self, store: Store) -> None:
        begin(store)
        ended, superseded = start(store), start(store, REPORT)
        finish(store, ended)
        live = start(store, REPORT)
        claim(store, SECOND, dead=FIRST)

        lost = heartbeat(store, ended, superseded, live)

        assert lost.runs == (RUN,)
        assert set(lost.attempts) == {ended, superseded}

    def test_attempts_without_supervisor_are_interrupted_and_their_tasks_restarted(
        self,
        store: Store,
    ) -> None:
        begin(store)
        finish(store, start(store, REPORT))
        zombie = start(store)
        claim(store, SECOND, dead=FIRST)

        [attempt] = interrupt(store, SECOND)

        assert (attempt.scope, attempt.number, attempt.error) == (LOAD, 1, "it was killed")
        assert (attempt.outcome, attempt.worker) == (
            Outcome.INTERRUPTED,
            Process("here", 300, "t2"),
        )
        again = task(store)
        assert (again.state, again.interruptions, again.failures) == (TaskState.SCHEDULED, 1, 0)
        with pytest.raises(StaleAttempt):
            finish(store, zombie)
        assert interrupt(store, SECOND) == ()

    def test_a_task_that_is_interrupted_repeatedly_fails(self, store: Store) -> None:
        begin(store)
        states = []
        for _ in range(3):
            start(store)
            interrupt(store, FIRST)
            states.append(task(store).state)

        assert states == [TaskState.SCHEDULED, TaskState.SCHEDULED, TaskState.FAILED]
        assert task(store).error == "it was killed, 3 times in a row"

    def test_only_attempts_with_an_expired_lease_can_be_interrupted(
        self, store: Store, clock: Clock
    ) -> None:
        begin(store)
        start(store)
        clock.forward(MINUTE / 2)
        start(store, REPORT)
        assert interrupt(store, FIRST, expired=True) == ()
        clock.forward(MINUTE / 2)

        [attempt] = interrupt(store, FIRST, expired=True)

        assert attempt.scope == LOAD
        assert task(store, REPORT).state is TaskState.RUNNING

    def test_only_the_holder_of_the_run_may_interrupt(self, store: Store) -> None:
        begin(store)
        start(store)

        with pytest.raises(StaleAttempt):
            interrupt(store, SECOND)

        assert task(store).state is TaskState.RUNNING

    def test_a_scripts_own_attempt_is_not_interrupted(self, store: Store) -> None:
        begin(store)
        store.execute(c.StartAttempt(LOAD))

        assert interrupt(store, FIRST) == ()

    def test_the_report_of_a_stale_supervisor_is_refused_and_changes_nothing(
        self, store: Store
    ) -> None:
        begin(store)
        store.execute(c.DeclareAsset("orders", "s3://orders"))
        stale = start(store)
        store.execute(c.Set(ORDERS, "mark", "7", stale, on_success=True))
        claim(store, SECOND, dead=FIRST)
        interrupt(store, SECOND)
        newer = start(store)

        for ending in (
            FAILED,
            msgspec.structs.replace(SUCCESS, result="1", events=(ORDERS_CHANGED,)),
        ):
            with pytest.raises(StaleAttempt):
                finish(store, stale, ending)
        with pytest.raises(StaleAttempt):
            interrupt(store, FIRST)

        assert heartbeat(store, stale) == c.Lost(runs=(RUN,), attempts=(stale,))
        assert store.execute(c.Get(ORDERS, "mark")) is None
        assert store.execute(c.ListAssetEvents()) == ()
        assert (task(store).state, task(store).attempt) == (TaskState.RUNNING, newer.attempt)
