"""Routes for the task instances of runs, and their attempts."""

from __future__ import annotations

from datetime import datetime
from typing import Annotated, Literal
from uuid import UUID

from fastapi import Query
from pydantic import Field
from pydantic.json_schema import SkipJsonSchema

from holdfast import commands as c
from holdfast.actions.tasks import choose, find, mark
from holdfast.model.run import Outcome, TaskState
from holdfast.model.run_presentation import of_attempt, of_task_instance
from holdfast.server.public.caller import CallerDep
from holdfast.server.public.error_docs import BODY, problems
from holdfast.server.public.model import Answer, Body, Id, Index
from holdfast.server.public.parameter import ALL, DagId, Limit, Offset, RunId, TaskId, TaskInPath
from holdfast.server.public.route import public_router

router = public_router("Task instances", 404)

PATH = "/dags/{dag_id}/dagRuns/{run_id}/taskInstances"


class TaskInstance(Answer):
    """A task in a run, or one map index of it."""

    id: UUID = Field(description="The task instance's id, the same for every attempt.")
    dag_id: str
    dag_run_id: str
    task_id: str
    map_index: int
    state: TaskState | None = Field(
        description="Null if Holdfast does not run it: its run is external, and only its state "
        "is stored here."
    )
    try_number: int = Field(description="The number of the newest attempt; 0 before the first.")
    failures: int = Field(description="The number of failed attempts since it was last cleared.")
    interruptions: int = Field(
        description="The number of consecutive attempts that were interrupted because their "
        "supervisor ended."
    )
    not_before: datetime | None = Field(description="When it may be retried.")
    start_date: datetime | None
    end_date: datetime | None
    error: str = Field(description="Why it failed, was skipped, or will be retried.")
    waits_for: str = Field(
        description="The limit that keeps it from starting: a pool, or a setting; empty if none."
    )


class TaskInstanceAttempt(Answer):
    """One attempt of a task instance."""

    try_number: int
    start_date: datetime
    end_date: datetime | None
    outcome: Outcome | None = Field(description="Null while it runs.")
    error: str
    exit_status: int | None
    signal: int | None = Field(description="The signal that killed its process.")
    hostname: str | None
    pid: int | None


class TaskInstanceDetails(TaskInstance):
    """A task instance with its attempts, oldest first."""

    attempts: list[TaskInstanceAttempt]


class TaskInstanceCollection(Answer):
    """A page of task instances, ordered by DAG, run, task and map index, with the total number."""

    task_instances: list[TaskInstance]
    total_entries: int


class MarkTaskInstanceBody(Body):
    """The new state of a task."""

    new_state: Literal["success", "failed", "skipped"]


class MarkedTaskInstances(Answer):
    """The task instances that were marked, ordered by map index."""

    task_instances: list[TaskInstance]
    total_entries: int


class ClearTaskInstancesBody(Body):
    """The tasks that are to run again."""

    dag_run_id: Id = Field(description="The run's id.")
    task_ids: list[Id | Annotated[tuple[Id, Index], Field(strict=False)]] | None = Field(
        None,
        min_length=1,
        description="Ids of tasks, or pairs of an id and a map index; by default all tasks.",
        examples=[["load", ["export", 3]]],
    )
    only_failed: bool = Field(
        True, description="Of these, only tasks that failed, themselves or upstream."
    )
    include_downstream: bool = Field(False, description="Also all downstream tasks.")
    state_store: Literal["default", "keep", "discard"] = Field(
        "default",
        description="What happens to their task stores: kept, so that the tasks resume; "
        "deleted, so that they start over; or deleted for tasks that had succeeded "
        "and kept for the others.",
    )
    dry_run: bool = Field(True, description="Only report which tasks would be cleared.")


class ClearedTaskInstances(Answer):
    """The task instances that are to run again, as they were before."""

    task_instances: list[TaskInstance]
    total_entries: int
    whole_run: bool = Field(
        description="The run has ended without any task, such as one that was stopped while it was "
        "queued, and is to be queued again."
    )
    dry_run: bool


@router.get(PATH)
async def list_task_instances(
    caller: CallerDep,
    dag_id: DagId,
    run_id: RunId,
    task_id: Annotated[
        Id | SkipJsonSchema[None], Query(description="Only instances of this task.")
    ] = None,
    state: Annotated[
        list[TaskState], Query(description="Only instances in one of these states.", max_length=20)
    ] = [],  # noqa: B006  (FastAPI copies it)
    limit: Limit = 100,
    offset: Offset = 0,
) -> TaskInstanceCollection:
    """List the task instances of a run. `~` in place of an id stands for every DAG or run."""
    if ALL not in (dag_id, run_id):
        await caller.aexecute(c.GetRun(dag_id, run_id))
    listing = c.ListTaskInstances(
        dag_id=None if dag_id == ALL else dag_id,
        run_id=None if run_id == ALL else run_id,
        task_id=task_id,
        states=tuple(dict.fromkeys(state)),
        limit=limit,
        offset=offset,
    )
    found = [TaskInstance(**of_task_instance(one)) for one in await caller.aexecute(listing)]
    return TaskInstanceCollection(
        task_instances=found, total_entries=await caller.aexecute(c.Count(listing))
    )


@router.get(PATH + "/{task_id}")
async def get_task_instance(caller: CallerDep, scope: TaskInPath) -> TaskInstanceDetails:
    """Read a task instance, with its attempts."""
    one = await caller.follow(find(scope.dag_id, scope.run_id, scope.task_id, scope.map_index))
    attempts = [
        TaskInstanceAttempt(**of_attempt(each))
        for each in await caller.aexecute(c.ListAttempts(scope))
    ]
    return TaskInstanceDetails(**of_task_instance(one), attempts=attempts)


@router.patch(PATH + "/{task_id}", responses=problems(409, 502, *BODY))
async def mark_task_instances(
    caller: CallerDep,
    dag_id: DagId,
    run_id: RunId,
    task_id: TaskId,
    body: MarkTaskInstanceBody,
    map_index: Annotated[
        Index | SkipJsonSchema[None],
        Query(description="Index of a mapped task; by default all its instances."),
    ] = None,
) -> MarkedTaskInstances:
    """Mark a task as succeeded, failed or skipped; a mapped one with all its instances, or one of
    them. Running attempts are ended, and their staged asset writes are discarded."""
    marked = await caller.follow(
        mark(
            *(dag_id, run_id, task_id, map_index),
            state=TaskState(body.new_state),
            writer=caller.writer,
            clear=caller.rules.clear_on_success,
        )
    )
    found = [TaskInstance(**of_task_instance(one)) for one in marked]
    return MarkedTaskInstances(task_instances=found, total_entries=len(found))


@router.post("/dags/{dag_id}/clearTaskInstances", responses=problems(409, 502, *BODY))
async def clear_task_instances(
    caller: CallerDep, dag_id: DagId, body: ClearTaskInstancesBody
) -> ClearedTaskInstances:
    """Clear tasks of a run, so that they run again. Running attempts of them are ended. A run that
    has ended without any task is queued again; with `only_failed`, if it has failed."""
    named = [(one, None) if isinstance(one, str) else one for one in body.task_ids or ()]
    choice = await caller.follow(
        choose(
            dag_id,
            body.dag_run_id,
            named,
            failed=body.only_failed,
            downstream=body.include_downstream,
        )
    )
    if not (choice.empty or body.dry_run):
        await caller.aexecute(
            c.ClearTasks(
                dag_id=dag_id,
                run_id=body.dag_run_id,
                tasks=choice.tasks,
                writer=caller.writer,
                state=body.state_store,
            )
        )
    found = [TaskInstance(**of_task_instance(one)) for one in choice.concerned]
    return ClearedTaskInstances(
        task_instances=found,
        total_entries=len(found),
        whole_run=choice.whole_run,
        dry_run=body.dry_run,
    )
