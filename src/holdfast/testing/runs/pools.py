"""Pools, the slots that attempts take up, and the reasons why tasks wait."""

from __future__ import annotations

from functools import partial

import pytest

from holdfast import commands as c
from holdfast.errors import Conflict, InvalidInput, NoFreeSlot, NotFound
from holdfast.model.entry import TaskWriter
from holdfast.model.pool import DEFAULT_POOL, NO_LIMIT, STOPPING
from holdfast.model.run import Outcome, Process, TaskState
from holdfast.model.scope import TaskScope
from holdfast.store import Store
from holdfast.testing import Clock
from holdfast.testing.runs.fixtures import RunFixtures
from holdfast.testing.runs.samples import (
    FIRST,
    LOAD,
    MINUTE,
    REPORT,
    RUN,
    SECOND,
    at_once,
    begin,
    change,
    claim,
    finish,
    start,
    task,
)


def set_pool(store: Store, slots: int | None, exists: bool | None = None) -> None:
    store.execute(c.SetPool(name="warehouse", slots=slots, exists=exists))


def start_in(
    store: Store, scope: TaskScope = LOAD, slots: int = 1, pool: str = "warehouse"
) -> TaskWriter:
    worker = Process("here", 300, "t2")
    attempt = c.StartAttempt(scope, worker, MINUTE, pool=pool, pool_slots=slots)
    return TaskWriter(scope, store.execute(attempt))


def used(store: Store, name: str = "warehouse", besides: Process | None = None) -> int:
    return next(one.used for one in store.execute(c.ListPools(besides)) if one.name == name)


class Pools(RunFixtures):
    def test_there_is_a_default_pool_from_the_start(self, store: Store) -> None:
        [pool] = store.execute(c.ListPools())

        assert (pool.name, pool.slots, pool.used, pool.free) == (DEFAULT_POOL, 128, 0, 128)

    def test_a_pool_is_created_changed_and_deleted(self, store: Store) -> None:
        made = store.execute(c.SetPool(name="warehouse", slots=2, description="the old one"))
        changed = store.execute(c.SetPool(name="warehouse", slots=3))
        names = [one.name for one in store.execute(c.ListPools())]

        store.execute(c.DeletePool("warehouse"))

        assert (made.slots, made.description, changed.slots) == (2, "the old one", 3)
        assert changed.description == "the old one"
        assert names == [DEFAULT_POOL, "warehouse"]
        assert [one.name for one in store.execute(c.ListPools())] == [DEFAULT_POOL]

    def test_a_pool_that_is_to_be_new_may_not_exist(self, store: Store) -> None:
        set_pool(store, 1, exists=False)

        with pytest.raises(Conflict, match="exists already"):
            set_pool(store, 2, exists=False)

        assert store.execute(c.ListPools())[-1].slots == 1

    @pytest.mark.parametrize(("slots", "exists"), [(2, True), (None, True), (None, None)])
    def test_a_pool_that_is_to_exist_is_not_created(
        self, store: Store, slots: int | None, exists: bool | None
    ) -> None:
        with pytest.raises(NotFound, match="no pool `warehouse`"):
            set_pool(store, slots, exists)

        assert [one.name for one in store.execute(c.ListPools())] == [DEFAULT_POOL]

    def test_slots_that_are_not_given_stay(self, store: Store) -> None:
        set_pool(store, 3)
        store.execute(c.SetPool(name="warehouse", description="new", exists=True))
        store.execute(c.SetPool(name=DEFAULT_POOL, description="all others", exists=True))

        pools = store.execute(c.ListPools())

        assert [(one.slots, one.description) for one in pools] == [(128, "all others"), (3, "new")]

    def test_the_default_pool_and_unknown_pools_cannot_be_deleted(self, store: Store) -> None:
        with pytest.raises(InvalidInput, match="cannot be deleted"):
            store.execute(c.DeletePool(DEFAULT_POOL))
        with pytest.raises(NotFound, match="no pool `ware`"):
            store.execute(c.DeletePool("ware"))

    @pytest.mark.parametrize("slots", [-2, 10**9])
    def test_a_pool_has_a_sensible_number_of_slots(self, store: Store, slots: int) -> None:
        with pytest.raises(InvalidInput, match="slots"):
            set_pool(store, slots)

    def test_an_attempt_takes_up_slots_until_it_ends(self, store: Store) -> None:
        begin(store)
        set_pool(store, 3)
        first = start_in(store, slots=2)

        with pytest.raises(NoFreeSlot, match="has 1 free slots of the 2"):
            start_in(store, REPORT, slots=2)
        during = used(store)
        finish(store, first)
        start_in(store, REPORT, slots=2)

        assert (during, used(store)) == (2, 2)
        assert task(store, REPORT).attempt == 1

    def test_a_refused_attempt_leaves_no_trace(self, store: Store) -> None:
        begin(store)
        set_pool(store, 1)
        start_in(store)

        with pytest.raises(NoFreeSlot):
            start_in(store, REPORT)

        assert (task(store, REPORT).state, task(store, REPORT).attempt) == (TaskState.SCHEDULED, 0)
        assert store.execute(c.ListAttempts(REPORT)) == ()

    def test_a_task_that_starts_again_does_not_wait_for_its_own_slot(self, store: Store) -> None:
        begin(store)
        set_pool(store, 1)

        attempts = [start_in(store).attempt, start_in(store).attempt]

        assert (attempts, used(store)) == ([1, 2], 1)

    def test_a_dead_supervisor_keeps_no_slots(self, store: Store, clock: Clock) -> None:
        begin(store)
        set_pool(store, 1)
        start_in(store)
        clock.forward(MINUTE)

        start_in(store, REPORT)

        assert used(store) == 1

    def test_interrupted_attempts_keep_no_slots_and_stopped_ones_for_a_moment(
        self, store: Store, clock: Clock
    ) -> None:
        begin(store)
        set_pool(store, 2)
        start_in(store)
        start_in(store, REPORT)
        marked = c.MarkTask(scope=REPORT, state=TaskState.FAILED, writer=TaskWriter(REPORT, 1))
        store.execute(marked)
        ending = used(store)
        clock.forward(STOPPING)
        between = used(store)

        interrupted = store.execute(
            c.InterruptAttempts(
                dag_id=RUN[0], run_id=RUN[1], process=FIRST, limit=3, reason="it was killed"
            )
        )

        assert [one.outcome for one in interrupted] == [Outcome.INTERRUPTED]
        assert (ending, between, used(store)) == (2, 1, 0)

    def test_an_attempt_in_an_unknown_pool_is_refused(self, store: Store) -> None:
        begin(store)

        with pytest.raises(NoFreeSlot, match="no pool `warehouse`"):
            start_in(store)

    def test_a_pool_may_have_no_limit(self, store: Store) -> None:
        begin(store)
        set_pool(store, NO_LIMIT)

        start_in(store, slots=1000)

        assert used(store) == 1000

    def test_concurrent_starts_never_take_more_slots_than_there_are(self, store: Store) -> None:
        begin(store)
        set_pool(store, 3)
        indices = range(8)
        change(store, *(c.TaskChange("sum", index, TaskState.SCHEDULED) for index in indices))
        scopes = [TaskScope(*RUN, "sum", index) for index in indices]

        outcomes = at_once([partial(start_in, store, scope) for scope in scopes])

        refused = [one for one in outcomes if isinstance(one, NoFreeSlot)]
        assert (len(refused), used(store)) == (5, 3)

    def test_a_process_can_ask_for_the_slots_that_others_use(self, store: Store) -> None:
        begin(store)
        set_pool(store, 3)
        start_in(store)

        assert (used(store, besides=FIRST), used(store, besides=SECOND)) == (0, 1)

    def test_a_waiting_task_has_the_reason_that_its_scheduler_reports(self, store: Store) -> None:
        begin(store)
        waits = {"load": "a free slot", "report": "parallelism"}
        start(store)

        store.execute(c.ReportWaits(FIRST, (c.Waits(*RUN, waits),)))
        told = task(store).waits_for, task(store, REPORT).waits_for
        store.execute(c.ReportWaits(FIRST, (c.Waits(*RUN, {}),)))

        assert told == ("", "parallelism")
        assert task(store, REPORT).waits_for == ""

    def test_the_reasons_of_a_scheduler_that_is_gone_are_not_shown(
        self, store: Store, clock: Clock
    ) -> None:
        begin(store)
        waits = (c.Waits(*RUN, {"load": "a free slot"}),)
        store.execute(c.ReportWaits(SECOND, waits))
        of_another = task(store).waits_for
        store.execute(c.ReportWaits(FIRST, waits))
        clock.forward(MINUTE)
        expired = task(store).waits_for
        claim(store, SECOND)

        assert (of_another, expired, task(store).waits_for) == ("", "", "")
