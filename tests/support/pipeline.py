"""Pipeline in a store: a DAG with its file, and a run that is half done."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

from holdfast.commands import (
    ChangeTasks,
    ClaimRun,
    CreateRun,
    FinishAttempt,
    SaveFile,
    StartAttempt,
    TaskChange,
)
from holdfast.model.dag import AssetSpec, Cron, DagSpec, LiteralAxis, MappedSpec, OnAssets, TaskSpec
from holdfast.model.entry import TaskWriter
from holdfast.model.run import EmittedEvent, Ending, Outcome, Process, TaskState
from holdfast.model.scope import TaskScope
from holdfast.store import Store

ORDERS = AssetSpec("orders", "s3://lake/orders")
WORKER = Process("here", 4711, "1")
DATE = datetime(2026, 1, 5, 3, tzinfo=UTC)

ETL = DagSpec(
    dag_id="etl",
    file="dags/etl.py",
    description="Loads orders",
    schedule=Cron("0 3 * * *"),
    start_date=datetime(2026, 1, 1, tzinfo=UTC),
    tags=("sales",),
    params='{"day":1}',
    tasks=(
        TaskSpec(task_id="extract", operator="task", retries=2),
        TaskSpec(
            task_id="load",
            operator="task.pyspark",
            upstream=("extract",),
            spark=True,
            mapped=MappedSpec((LiteralAxis(3),)),
            outlets=(ORDERS,),
        ),
        TaskSpec(task_id="report", operator="task", upstream=("load",)),
    ),
)
CONSUMER = DagSpec(dag_id="mart", file="dags/mart.py", schedule=OnAssets(ORDERS), tasks=())


def save(store: Store) -> None:
    """Save both DAGs."""
    store.execute(SaveFile("dags/etl.py", (ETL,)))
    store.execute(SaveFile("dags/mart.py", (CONSUMER,)))


def begin(store: Store, run_id: str = "r1") -> None:
    """Create a run with all its tasks scheduled, and none started."""
    store.execute(
        CreateRun(
            dag_id="etl",
            run_id=run_id,
            logical_date=DATE,
            data_interval_start=DATE,
            data_interval_end=DATE,
            conf='{"full":true}',
        )
    )
    store.execute(
        ClaimRun(dag_id="etl", run_id=run_id, process=WORKER, lease=timedelta(microseconds=1))
    )
    tasks = [("extract", -1), *(("load", index) for index in range(3)), ("report", -1)]
    changes = tuple(TaskChange(task, index, TaskState.SCHEDULED) for task, index in tasks)
    store.execute(ChangeTasks("etl", run_id, WORKER, changes))


def succeed(store: Store, task_id: str, index: int = -1, run_id: str = "r1") -> None:
    scope = TaskScope("etl", run_id, task_id, index)
    writer = TaskWriter(scope, store.execute(StartAttempt(scope, WORKER)))
    events = (EmittedEvent("orders", "s3://lake/orders", '{"rows":7}'),) * (task_id == "load")
    ending = Ending(outcome=Outcome.SUCCESS, state=TaskState.SUCCESS, exit_status=0, events=events)
    store.execute(FinishAttempt(writer, True, ending=ending))


def fail(store: Store, task_id: str, index: int = -1, signal: int | None = None) -> None:
    scope = TaskScope("etl", "r1", task_id, index)
    writer = TaskWriter(scope, store.execute(StartAttempt(scope, WORKER)))
    ending = Ending(
        outcome=Outcome.FAILED,
        state=TaskState.FAILED,
        error="ValueError: no data",
        exit_status=None if signal else 1,
        signal=signal,
    )
    store.execute(FinishAttempt(writer, False, ending=ending))


def half_way(store: Store) -> None:
    """Create a run with extract done, and of three loads one done, one killed, one waiting."""
    save(store)
    begin(store)
    succeed(store, "extract")
    succeed(store, "load", 0)
    fail(store, "load", 1, signal=9)
