"""Sample run with some tasks, and the processes that claim it."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from datetime import timedelta
from threading import Barrier
from typing import Any, TypeVar

from holdfast import commands as c
from holdfast.model.dag import AssetSpec, Condition, DagSpec, OnAssets, TaskSpec
from holdfast.model.entry import ApiWriter, TaskWriter
from holdfast.model.run import EmittedEvent, Ending, Outcome, Process, TaskInstance, TaskState
from holdfast.model.scope import AssetScope, TaskScope
from holdfast.store import Store

T = TypeVar("T")

ANN = ApiWriter("ann")
MINUTE = timedelta(minutes=1)
FIRST = Process("here", 100, "t0")
SECOND = Process("there", 200, "t1")
RUN = ("sales", "monday")
LOAD = TaskScope(*RUN, "load")
REPORT = TaskScope(*RUN, "report")
ORDERS = AssetScope(name="orders")
ORDERS_SPEC = AssetSpec("orders", "s3://orders")
CUSTOMERS_SPEC = AssetSpec("customers", "s3://customers")
ORDERS_CHANGED = EmittedEvent("orders", "s3://orders")
CUSTOMERS_CHANGED = EmittedEvent("customers", "s3://customers")
SUCCESS = Ending(outcome=Outcome.SUCCESS, state=TaskState.SUCCESS)
FAILED = Ending(outcome=Outcome.FAILED, state=TaskState.FAILED, error="ValueError: no")


def create(store: Store, run_id: str = "monday") -> None:
    store.execute(c.CreateRun(dag_id="sales", run_id=run_id))


def claim(store: Store, process: Process = FIRST, dead: Process | None = None) -> Any:
    return store.execute(
        c.ClaimRun(dag_id="sales", run_id="monday", process=process, lease=MINUTE, dead=dead)
    )


def change(store: Store, *changes: c.TaskChange, process: Process = FIRST) -> None:
    store.execute(c.ChangeTasks(*RUN, process, changes))


def begin(store: Store, process: Process = FIRST) -> None:
    """Create a run that a process holds, with two tasks that may start."""
    create(store)
    claim(store, process)
    scheduled = (c.TaskChange(task, -1, TaskState.SCHEDULED) for task in ("load", "report"))
    change(store, *scheduled, process=process)


def start(store: Store, scope: TaskScope = LOAD) -> TaskWriter:
    worker = Process("here", 300, "t2")
    return TaskWriter(scope, store.execute(c.StartAttempt(scope, worker, MINUTE)))


def finish(store: Store, writer: TaskWriter, ending: Ending = SUCCESS) -> None:
    succeeded = ending.outcome is Outcome.SUCCESS
    store.execute(c.FinishAttempt(writer, succeeded, ending=ending))


def task(store: Store, scope: TaskScope = LOAD) -> TaskInstance:
    found = store.execute(
        c.ListTaskInstances(dag_id=scope.dag_id, run_id=scope.run_id, task_id=scope.task_id)
    )
    [instance] = [each for each in found if each.scope == scope]
    return instance


def emit(store: Store, *events: EmittedEvent, dag_id: str = "producer") -> None:
    """Report events by a task of some program."""
    scope = TaskScope(dag_id, "r", "t")
    store.execute(c.RegisterTask(scope))
    writer = TaskWriter(scope, store.execute(c.StartAttempt(scope)))
    ending = Ending(outcome=Outcome.SUCCESS, state=TaskState.SUCCESS, events=events)
    store.execute(c.FinishAttempt(writer, True, ending=ending))


def dag(dag_id: str, condition: Condition | None = None, **options: Any) -> DagSpec:
    tasks = options.pop("tasks", (TaskSpec(task_id="load", operator="python"),))
    schedule = OnAssets(condition) if condition else None
    return DagSpec(dag_id=dag_id, file="f.py", tasks=tasks, schedule=schedule, **options)


def at_once(works: Sequence[Callable[[], T]]) -> list[T | Exception]:
    """Run the functions concurrently, each in a thread; return their results or errors."""
    barrier = Barrier(len(works))

    def run(work: Callable[[], T]) -> T | Exception:
        barrier.wait()
        try:
            return work()
        except Exception as error:
            return error

    with ThreadPoolExecutor(len(works)) as pool:
        return list(pool.map(run, works))
