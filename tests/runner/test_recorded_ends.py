"""Recording of the end of an attempt while the store is temporarily unavailable."""

from __future__ import annotations

from typing import Any, TypeVar, cast

import pytest
from servers import SqliteDatabase

from holdfast import commands as c
from holdfast.accessor.binding import Rules
from holdfast.commands import Command
from holdfast.errors import StoreUnavailable
from holdfast.model.dag import TaskSpec
from holdfast.model.entry import TaskWriter
from holdfast.model.run import Ending, Outcome, TaskState
from holdfast.model.scope import TaskScope
from holdfast.runner.protocol.messages import Succeeded
from holdfast.runner.protocol.orders import RunTask
from holdfast.runner.supervisor.attempt import Attempt, Resources
from holdfast.store import Store
from holdfast.stores.sql import SqlStore

A = TypeVar("A")

SCOPE = TaskScope("sales", "monday", "load")
TASK = TaskSpec(task_id="load", operator="@task")


class TemporarilyUnavailable(Store):
    """Store that fails at the first end of an attempt, before or after executing it."""

    def __init__(self, store: Store, before: c.FinishAttempt | None) -> None:
        self._store = store
        self._before = before
        self._failed = False

    def execute(self, command: Command[A]) -> A:
        if isinstance(command, c.FinishAttempt) and not self._failed:
            self._failed = True
            if self._before is not None:
                self._store.execute(self._before)
            raise StoreUnavailable("it is away")
        return self._store.execute(command)


@pytest.fixture
def store(sqlite_database: SqliteDatabase) -> SqlStore:
    store = SqlStore(sqlite_database.empty())
    store.execute(c.CreateRun(dag_id="sales", run_id="monday"))
    store.execute(c.RegisterTask(SCOPE))
    return store


def recorded(store: Store, before: c.FinishAttempt | None) -> tuple[Ending | None, Outcome | None]:
    """Return the end of a successful attempt for the supervisor, and the outcome in the store."""
    run = store.execute(c.GetRun("sales", "monday"))
    [instance] = store.execute(c.ListTaskInstances(dag_id="sales"))
    writer = TaskWriter(SCOPE, instance.attempt)
    around = cast(Any, (TemporarilyUnavailable(store, before), None, Rules(), None, None, None))
    attempt = Attempt(RunTask("sales.py", run, TASK, instance), Resources(*around))
    ending = attempt._finish(writer, Succeeded(), 0)
    [info] = store.execute(c.ListAttempts(SCOPE))
    return ending, info.outcome


def test_an_end_that_did_not_reach_the_store_is_recorded_again(store: SqlStore) -> None:
    store.execute(c.StartAttempt(SCOPE))

    ending, outcome = recorded(store, None)

    assert ending is not None
    assert (ending.outcome, outcome) == (Outcome.SUCCESS, Outcome.SUCCESS)


def test_an_end_whose_answer_was_lost_is_recorded(store: SqlStore) -> None:
    writer = TaskWriter(SCOPE, store.execute(c.StartAttempt(SCOPE)))

    ending, outcome = recorded(store, c.FinishAttempt(writer, True))

    assert ending is not None
    assert (ending.outcome, outcome) == (Outcome.SUCCESS, Outcome.SUCCESS)


def test_an_end_recorded_by_another_process_is_not_taken_for_its_own(store: SqlStore) -> None:
    writer = TaskWriter(SCOPE, store.execute(c.StartAttempt(SCOPE)))
    lost = Ending(outcome=Outcome.INTERRUPTED, state=TaskState.SCHEDULED)

    ending, outcome = recorded(store, c.FinishAttempt(writer, False, ending=lost))

    assert (ending, outcome) == (None, Outcome.INTERRUPTED)
