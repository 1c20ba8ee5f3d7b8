"""Runs: creation, claims by one process at a time, and their end."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from functools import partial

import pytest

from holdfast import commands as c
from holdfast.errors import Conflict, InvalidInput, NotFound, StaleAttempt
from holdfast.model.run import Process, Run, RunKind, RunState, TaskState
from holdfast.model.scope import TaskScope
from holdfast.store import Store
from holdfast.testing import Clock
from holdfast.testing.runs.fixtures import RunFixtures
from holdfast.testing.runs.samples import (
    FIRST,
    MINUTE,
    RUN,
    SECOND,
    at_once,
    begin,
    change,
    claim,
    create,
    dag,
    start,
)


class Runs(RunFixtures):
    def test_a_run_is_returned_as_it_was_created(self, store: Store, clock: Clock) -> None:
        day = datetime(2026, 1, 31, tzinfo=UTC)

        made = store.execute(
            c.CreateRun(
                dag_id="sales",
                run_id="Ünïcödé",
                kind=RunKind.BACKFILL,
                logical_date=day,
                data_interval_start=day,
                data_interval_end=day + timedelta(days=1),
                conf='{"a":1}',
            )
        )

        assert made == Run(
            dag_id="sales",
            run_id="Ünïcödé",
            kind=RunKind.BACKFILL,
            state=RunState.QUEUED,
            logical_date=day,
            data_interval_start=day,
            data_interval_end=day + timedelta(days=1),
            conf='{"a":1}',
            created_at=clock.now,
        )
        assert store.execute(c.GetRun("sales", "Ünïcödé")) == made

    def test_a_run_is_created_once(self, store: Store) -> None:
        create(store)
        with pytest.raises(Conflict, match="run sales/monday exists already"):
            create(store)

    def test_one_of_several_concurrent_creations_of_a_run_succeeds(self, store: Store) -> None:
        outcomes = at_once([partial(create, store)] * 6)

        assert sum(isinstance(each, Conflict) for each in outcomes) == 5
        assert outcomes.count(None) == 1

    def test_an_unknown_run_is_an_error_that_says_so(self, store: Store) -> None:
        with pytest.raises(NotFound, match="run sales/monday is not known"):
            store.execute(c.GetRun(*RUN))

    def test_a_script_registers_an_external_run(self, store: Store) -> None:
        store.execute(c.RegisterTask(TaskScope(*RUN, "load")))

        run = store.execute(c.GetRun(*RUN))

        assert (run.kind, run.state, run.conf) == (RunKind.EXTERNAL, RunState.IDLE, "{}")
        with pytest.raises(InvalidInput, match="external"):
            claim(store)

    def test_runs_are_listed_newest_first_and_filtered(self, store: Store) -> None:
        for run_id in ("monday", "tuesday"):
            create(store, run_id)
        store.execute(c.CreateRun(dag_id="stock", run_id="monday", kind=RunKind.SCHEDULED))
        claim(store)

        def listed(command: c.ListRuns) -> list[tuple[str, str]]:
            return [(run.dag_id, run.run_id) for run in store.execute(command)]

        everything = [("stock", "monday"), ("sales", "tuesday"), ("sales", "monday")]
        assert listed(c.ListRuns()) == everything
        assert listed(c.ListRuns(dag_id="sales")) == everything[1:]
        assert listed(c.ListRuns(states=(RunState.RUNNING,))) == everything[2:]
        assert listed(c.ListRuns(states=(RunState.RUNNING, RunState.QUEUED))) == everything
        assert listed(c.ListRuns(kinds=(RunKind.SCHEDULED,))) == everything[:1]
        assert listed(c.ListRuns(limit=1, offset=1)) == everything[1:2]

    def test_a_claimed_run_is_held_by_the_claiming_process(
        self, store: Store, clock: Clock
    ) -> None:
        create(store)

        run = claim(store)

        assert (run.state, run.owner) == (RunState.RUNNING, FIRST)
        assert (run.started_at, run.leased_until) == (clock.now, clock.now + MINUTE)

    def test_a_held_run_cannot_be_claimed_by_another_process(self, store: Store) -> None:
        create(store)
        claim(store)

        with pytest.raises(Conflict, match="being run by process 100 on here"):
            claim(store, SECOND)
        assert claim(store).owner == FIRST

    def test_a_run_whose_lease_has_expired_is_free(self, store: Store, clock: Clock) -> None:
        create(store)
        began = claim(store).started_at
        clock.forward(MINUTE)

        run = claim(store, SECOND)

        assert (run.owner, run.started_at) == (SECOND, began)

    def test_a_run_of_a_process_that_is_known_to_be_dead_is_free(self, store: Store) -> None:
        create(store)
        claim(store)

        assert claim(store, SECOND, dead=FIRST).owner == SECOND

    def test_a_released_run_is_free(self, store: Store) -> None:
        create(store)
        claim(store)

        store.execute(c.ReleaseRun(*RUN, SECOND))
        assert store.execute(c.GetRun(*RUN)).owner == FIRST
        store.execute(c.ReleaseRun(*RUN, FIRST))

        assert claim(store, SECOND).owner == SECOND

    def test_one_of_several_concurrent_claims_of_a_run_succeeds(self, store: Store) -> None:
        create(store)
        rivals = [FIRST, SECOND] * 3

        outcomes = at_once([partial(claim, store, rival) for rival in rivals])

        holder = store.execute(c.GetRun(*RUN)).owner
        assert [isinstance(each, Run) for each in outcomes] == [each == holder for each in rivals]

    def test_only_the_holder_of_a_run_may_end_it(self, store: Store, clock: Clock) -> None:
        create(store)
        claim(store)

        with pytest.raises(
            StaleAttempt, match="process 200 on there does not hold run sales/monday"
        ):
            store.execute(c.FinishRun(*RUN, SECOND, RunState.FAILED))
        store.execute(c.FinishRun(*RUN, FIRST, RunState.SUCCESS))

        run = store.execute(c.GetRun(*RUN))
        assert (run.state, run.ended_at, run.owner) == (RunState.SUCCESS, clock.now, None)

    def test_a_repeated_end_of_a_run_changes_nothing(self, store: Store) -> None:
        create(store)
        claim(store)
        for _ in range(2):
            store.execute(c.FinishRun(*RUN, FIRST, RunState.SUCCESS))

        with pytest.raises(StaleAttempt):
            store.execute(c.FinishRun(*RUN, FIRST, RunState.FAILED))
        with pytest.raises(InvalidInput, match="has ended: success"):
            claim(store)

    def test_the_end_of_a_run_that_another_has_taken_over_and_ended_is_refused(
        self, store: Store, clock: Clock
    ) -> None:
        create(store)
        claim(store)
        clock.forward(MINUTE)
        claim(store, SECOND)
        store.execute(c.FinishRun(*RUN, SECOND, RunState.SUCCESS))

        with pytest.raises(StaleAttempt, match="does not hold run sales/monday: no process does"):
            store.execute(c.FinishRun(*RUN, FIRST, RunState.SUCCESS))

    def test_a_run_is_not_lost_for_the_process_that_ended_it(self, store: Store) -> None:
        create(store)
        claim(store)
        store.execute(c.FinishRun(*RUN, FIRST, RunState.SUCCESS))

        def lost(process: Process) -> c.Lost:
            return store.execute(c.Heartbeat(process=process, lease=MINUTE, runs=(RUN,)))

        assert (lost(FIRST), lost(SECOND)) == (c.Lost(), c.Lost(runs=(RUN,)))
        store.execute(c.ReleaseRun(*RUN, FIRST))
        store.execute(c.FinishRun(*RUN, FIRST, RunState.SUCCESS))
        run = store.execute(c.GetRun(*RUN))
        assert (run.owner, run.leased_until) == (None, None)

    def test_a_run_does_not_end_as_running(self, store: Store) -> None:
        create(store)
        with pytest.raises(InvalidInput, match="running"):
            store.execute(c.FinishRun(*RUN, FIRST, RunState.RUNNING))

    def test_deleting_a_run_deletes_all_its_rows(self, store: Store) -> None:
        begin(store)
        writer = start(store)
        store.execute(c.PutResult(writer, "k", "1"))

        store.execute(c.DeleteRun(*RUN))

        assert store.execute(c.ListRuns()) == ()
        assert store.execute(c.ListTaskInstances()) == ()
        lost = store.execute(
            c.Heartbeat(process=FIRST, lease=MINUTE, runs=(RUN,), attempts=(writer,))
        )
        assert lost == c.Lost(runs=(RUN,), attempts=(writer,))
        with pytest.raises(NotFound):
            change(store, c.TaskChange("load", -1, TaskState.SKIPPED))

    def test_a_run_that_a_process_executes_can_be_kept_from_deletion(
        self, store: Store, clock: Clock
    ) -> None:
        begin(store)
        deletion = c.DeleteRun(*RUN, unless_leased=True)

        with pytest.raises(Conflict, match="`monday` of `sales` is being run by process 100"):
            store.execute(deletion)
        clock.forward(2 * MINUTE)
        store.execute(deletion)

        assert store.execute(c.ListRuns()) == ()

    def test_a_dag_has_no_more_running_runs_than_its_limit(self, store: Store) -> None:
        store.execute(c.SaveFile("sales.py", (dag("sales"),)))
        for n in range(6):
            create(store, f"run {n}")

        def begin_one(n: int) -> Run:
            claim = c.ClaimRun(
                dag_id="sales", run_id=f"run {n}", process=FIRST, lease=MINUTE, most_running=2
            )
            return store.execute(claim)

        outcomes = at_once([partial(begin_one, n) for n in range(6)])

        refused = [each for each in outcomes if isinstance(each, Conflict)]
        assert len(refused) == 4
        assert "must wait: 2 runs of its DAG are active" in str(refused[0])
        begun = [each.run_id for each in outcomes if isinstance(each, Run)]
        store.execute(c.FinishRun("sales", begun[0], FIRST, RunState.SUCCESS))
        waiting = next(n for n in range(6) if f"run {n}" not in begun)
        assert begin_one(waiting).state is RunState.RUNNING
        assert begin_one(waiting).state is RunState.RUNNING
