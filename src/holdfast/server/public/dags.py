"""Routes for the DAGs that schedulers have found in files."""

from __future__ import annotations

from datetime import datetime
from typing import Any

import msgspec
from pydantic import Field

from holdfast import commands as c
from holdfast.actions.dags import delete_dag
from holdfast.actions.log_retention import delete_logs
from holdfast.model.dag import TaskSpec, spec_of
from holdfast.model.run import TriggerRule
from holdfast.model.run_presentation import of_dag, of_import_error
from holdfast.model.schedule_text import asset_text
from holdfast.server.public.caller import CallerDep
from holdfast.server.public.error_docs import BODY, problems
from holdfast.server.public.model import Answer, Body
from holdfast.server.public.parameter import DagId, Limit, Offset
from holdfast.server.public.route import public_router
from holdfast.server.storage_threads import in_log_thread

router = public_router("Dags")


class Dag(Answer):
    """A DAG."""

    dag_id: str
    description: str
    tags: list[str]
    fileloc: str = Field(description="The file that defines it, or defined it last.")
    relative_fileloc: str | None = Field(
        description="Its path inside the DAG directory; null while no file defines the DAG."
    )
    is_stale: bool = Field(
        description="No scheduler has seen a file that defines it for some time."
    )
    is_paused: bool = Field(description="The schedule starts no runs of it.")
    timetable_summary: str | None = Field(
        description="The schedule as written in the file; null: runs are started manually."
    )
    timetable_description: str = Field(description="The schedule as text.")
    next_dagrun_run_after: datetime | None = Field(
        description="When the schedule starts the next run, possibly overdue; null if the "
        "schedule is not by time, or the DAG is paused."
    )
    start_date: datetime | None
    end_date: datetime | None
    catchup: bool
    max_active_tasks: int
    max_active_runs: int
    last_parsed_time: datetime = Field(description="When its file was last read.")


class DagTask(Answer):
    """A task of a DAG."""

    task_id: str
    operator_name: str
    upstream_task_ids: list[str]
    trigger_rule: TriggerRule
    retries: int
    is_mapped: bool
    uses_spark: bool
    inlets: list[str] = Field(description="The assets that the task reads, by name.")
    outlets: list[str] = Field(description="The assets that the task writes, by name.")
    doc_md: str


class DagDetails(Dag):
    """A DAG with its tasks, in an order in which each follows those that it waits for."""

    doc_md: str
    params: Any = Field(description="The default params of a run.")
    tasks: list[DagTask]


class DagCollection(Answer):
    """A page of DAGs, ordered by id, with the total number."""

    dags: list[Dag]
    total_entries: int


class FileImportError(Answer):
    """A DAG file that cannot be imported."""

    filename: str = Field(description="Its path inside the DAG directory.")
    timestamp: datetime = Field(description="When it was last read.")
    stack_trace: str


class ImportErrorCollection(Answer):
    """A page of the files that cannot be imported, ordered by name, with the total number."""

    import_errors: list[FileImportError]
    total_entries: int


class DagPatch(Body):
    """The changes of a DAG."""

    is_paused: bool = Field(
        description="Whether to pause the DAG, so that its schedule starts no more runs."
    )


@router.get("/dags")
async def list_dags(caller: CallerDep, limit: Limit = 100, offset: Offset = 0) -> DagCollection:
    """List DAGs, ordered by id."""
    listing = c.ListDags(limit, offset)
    found = await caller.aexecute(listing)
    now = await caller.aexecute(c.Now())
    dags = [Dag(**of_dag(dag, now)) for dag in found]
    return DagCollection(dags=dags, total_entries=await caller.aexecute(c.Count(listing)))


@router.get("/dags/{dag_id}", responses=problems(404))
async def get_dag(caller: CallerDep, dag_id: DagId) -> DagDetails:
    """Read a DAG, with its tasks."""
    dag = await caller.aexecute(c.GetDag(dag_id))
    now = await caller.aexecute(c.Now())
    spec = spec_of(dag)
    return DagDetails(
        **of_dag(dag, now),
        doc_md=spec.doc_md,
        params=msgspec.json.decode(spec.params),
        tasks=[of_task(task) for task in spec.tasks],
    )


@router.patch("/dags/{dag_id}", responses=problems(404, *BODY))
async def patch_dag(caller: CallerDep, dag_id: DagId, body: DagPatch) -> Dag:
    """Pause or unpause a DAG."""
    await caller.aexecute(c.PauseDag(dag_id, body.is_paused))
    dag = await caller.aexecute(c.GetDag(dag_id))
    return Dag(**of_dag(dag, await caller.aexecute(c.Now())))


@router.get("/importErrors")
async def list_import_errors(
    caller: CallerDep, limit: Limit = 100, offset: Offset = 0
) -> ImportErrorCollection:
    """List the DAG files that cannot be imported, with their tracebacks."""
    listing = c.ListFiles(broken=True, limit=limit, offset=offset)
    errors = [FileImportError(**of_import_error(one)) for one in await caller.aexecute(listing)]
    total = await caller.aexecute(c.Count(listing))
    return ImportErrorCollection(import_errors=errors, total_entries=total)


@router.delete("/dags/{dag_id}", status_code=204, responses=problems(404, 409, 502))
async def remove_dag(caller: CallerDep, dag_id: DagId) -> None:
    """Delete a DAG whose file is gone, with its runs, their task instances and state, and the logs
    that are on the server's machine or in `[logs] url`. For admins."""
    await caller.follow(delete_dag(dag_id))
    await in_log_thread(delete_logs, caller.settings, dag_id)


def of_task(task: TaskSpec) -> DagTask:
    return DagTask(
        task_id=task.task_id,
        operator_name=task.operator,
        upstream_task_ids=list(task.upstream),
        trigger_rule=task.trigger_rule,
        retries=task.retries,
        is_mapped=task.mapped is not None,
        uses_spark=task.spark,
        inlets=[asset_text(one) for one in task.inlets],
        outlets=[asset_text(one) for one in task.outlets],
        doc_md=task.doc_md,
    )
