"""Current activity, as monitoring sees it."""

from __future__ import annotations

from datetime import timedelta

from holdfast import commands as c
from holdfast.model.entry import ApiWriter
from holdfast.model.run import TaskState
from holdfast.model.scope import TaskScope
from holdfast.store import Store
from holdfast.testing import Clock
from holdfast.testing.runs.fixtures import RunFixtures
from holdfast.testing.runs.samples import (
    FIRST,
    MINUTE,
    ORDERS,
    ORDERS_CHANGED,
    begin,
    change,
    finish,
    start,
)


class ActivityCounts(RunFixtures):
    def test_tasks_are_counted_by_state_until_they_end(self, store: Store) -> None:
        before = store.execute(c.GetActivity()).tasks
        begin(store)
        change(store, *(c.TaskChange("sum", index, TaskState.SCHEDULED) for index in range(3)))
        writer = start(store)
        during = store.execute(c.GetActivity()).tasks
        finish(store, writer)

        assert before == {"scheduled": 0, "running": 0, "up_for_retry": 0}
        assert during == {"scheduled": 4, "running": 1, "up_for_retry": 0}
        assert store.execute(c.GetActivity()).tasks == during | {"running": 0}

    def test_tasks_of_external_runs_are_not_counted(self, store: Store) -> None:
        scope = TaskScope("script", "today", "load")
        store.execute(c.RegisterTask(scope))
        store.execute(c.StartAttempt(scope))
        store.execute(c.Set(scope, "cursor", "1", ApiWriter("ann")))

        assert not any(store.execute(c.GetActivity()).tasks.values())

    def test_import_errors_are_counted_until_they_are_fixed(self, store: Store) -> None:
        store.execute(c.SaveFileError("a.py", "SyntaxError"))
        store.execute(c.SaveFileError("b.py", "SyntaxError"))
        before = store.execute(c.GetActivity())
        store.execute(c.SaveFile("a.py", (), seen=True))

        assert (before.import_errors, before.dags) == (2, 0)
        assert store.execute(c.GetActivity()).import_errors == 1

    def test_a_watcher_has_its_last_event_and_is_forgotten_a_day_after_its_end(
        self, store: Store, clock: Clock
    ) -> None:
        store.execute(c.DeclareAsset("orders", "s3://orders"))
        watch = store.execute(
            c.StartWatch(asset=ORDERS, watcher="files", process=FIRST, lease=MINUTE)
        )
        [begun] = store.execute(c.GetActivity()).watchers
        at = store.execute(c.Now())
        store.execute(c.Emit(watch, (), ORDERS_CHANGED))
        clock.forward(MINUTE)
        [lost] = store.execute(c.GetActivity()).watchers
        clock.forward(timedelta(days=1))

        assert (begun.asset, begun.watcher, begun.alive) == ("orders", "files", True)
        assert (begun.last_event_at, lost.alive, lost.last_event_at) == (None, False, at)
        assert store.execute(c.GetActivity()).watchers == ()
