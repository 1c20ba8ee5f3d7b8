"""Recording of the end of an attempt while the store is temporarily unavailable."""

from __future__ import annotations

from pathlib import Path
from threading import Timer
from types import SimpleNamespace
from typing import Any, TypeVar, cast

import msgspec
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
from holdfast.runner.protocol.messages import Failed, Succeeded
from holdfast.runner.protocol.orders import Ended, RunTask
from holdfast.runner.supervisor.attempt import Attempt, Resources
from holdfast.runner.supervisor.ending import StopReason
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
    attempt = Attempt(RunTask(7, "sales.py", run, TASK, instance), Resources(*around))
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


class EndedChild(SimpleNamespace):
    """Child whose process has ended, for an attempt that supervises it."""

    status = 1
    process = None
    channel = SimpleNamespace(send=lambda kind, body: None, close=lambda: None)

    def __enter__(self) -> EndedChild:
        return self

    def __exit__(self, *exception: object) -> None:
        pass

    def log_to(self, path: Path) -> None:
        pass

    def kill(self, number: int = 9) -> None:
        pass

    def wait(self, seconds: float | None = None) -> bool:
        return True


def attempt_of(
    store: Store, home: Path, child: EndedChild, task: TaskSpec = TASK, interruptions: int = 0
) -> Attempt:
    run = store.execute(c.GetRun("sales", "monday"))
    [instance] = store.execute(c.ListTaskInstances(dag_id="sales"))
    instance = msgspec.structs.replace(instance, interruptions=interruptions)
    lost_spark = SimpleNamespace(address=lambda: "sc://lost", is_lost=lambda address: True)
    resources = (store, SimpleNamespace(launch=lambda: child), Rules(), home, lost_spark, None)
    return Attempt(RunTask(7, "sales.py", run, task, instance), Resources(*cast(Any, resources)))


def test_a_failed_supervision_that_cannot_be_recorded_has_begun_and_not_been_called_back(
    store: SqlStore, tmp_path: Path
) -> None:
    class Away(Store):
        def execute(self, command: Command[A]) -> A:
            if isinstance(command, c.FinishAttempt):
                raise StoreUnavailable("it is away")
            return store.execute(command)

    class Broken(EndedChild):
        def log_to(self, path: Path) -> None:
            raise KeyError("a bug")

    ended = attempt_of(Away(), tmp_path, Broken()).run()

    assert ended == Ended(7, SCOPE, "it is away", begun=True, called=False)


def test_a_task_whose_spark_is_stopped_with_all_processes_ends_orderly(
    store: SqlStore, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    report = Failed(error="it was asked to stop", got_sigterm=True)
    monkeypatch.setattr("holdfast.runner.supervisor.attempt.relay", lambda *_: report)
    task = msgspec.structs.replace(TASK, spark=True)
    attempt = attempt_of(store, tmp_path, EndedChild(), task, interruptions=4)

    Timer(0.1, attempt.stop, [StopReason.INTERRUPT]).start()
    attempt.run()

    [instance] = store.execute(c.ListTaskInstances(dag_id="sales"))
    [info] = store.execute(c.ListAttempts(SCOPE))
    assert (instance.state, instance.interruptions) == (TaskState.SCHEDULED, 0)
    assert info.outcome is Outcome.INTERRUPTED
