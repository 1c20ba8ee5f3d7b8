"""Routes for the runs of DAGs."""

from __future__ import annotations

from datetime import datetime
from typing import Annotated, Any, Literal

from fastapi import Query
from pydantic import Field

from holdfast import commands as c
from holdfast.accessor.base import located
from holdfast.actions.log_retention import delete_logs
from holdfast.actions.runs import check_startable, list_runs, manual_run, mark
from holdfast.errors import InvalidInput, InvalidType
from holdfast.model import run_presentation
from holdfast.model.run import Run, RunKind, RunState
from holdfast.model.value import decode, encode
from holdfast.server.public.assets import AssetEvent, of_event
from holdfast.server.public.caller import CallerDep
from holdfast.server.public.error_docs import BODY, problems
from holdfast.server.public.model import Answer, Body, Id, Time
from holdfast.server.public.parameter import ALL, DagId, Limit, Offset, RunId
from holdfast.server.public.route import public_router
from holdfast.server.storage_threads import in_log_thread

router = public_router("DAG runs")

PATH = "/dags/{dag_id}/dagRuns"


class RunOwner(Answer):
    """The process that executes a run."""

    hostname: str
    pid: int


class DagRun(Answer):
    """A run of a DAG."""

    dag_id: str
    dag_run_id: str
    run_type: RunKind
    state: RunState
    logical_date: datetime | None
    data_interval_start: datetime | None
    data_interval_end: datetime | None
    conf: Any = Field(description="The run's configuration: a JSON object.")
    queued_at: datetime
    start_date: datetime | None
    end_date: datetime | None
    owner: RunOwner | None = Field(description="The process that owns the run, or owned it last.")
    error: str = Field(description="Who stopped it or marked it as failed.")


class DagRunCollection(Answer):
    """A page of runs, newest first, with the total number."""

    dag_runs: list[DagRun]
    total_entries: int


class TriggerDagRunBody(Body):
    """A request for a run."""

    dag_run_id: Id | None = Field(
        None,
        description="The run's id; by default derived from the logical date.",
        examples=["after-the-fix"],
    )
    logical_date: Time | None = Field(None, description="The run's logical date; by default now.")
    conf: dict[str, Any] | None = Field(
        None, description="The run's configuration.", examples=[{"full": True}]
    )


class PatchDagRunBody(Body):
    """The new state of a run."""

    state: Literal["success", "failed"]


class UpstreamAssetEvents(Answer):
    """The asset events that started a run."""

    asset_events: list[AssetEvent]
    total_entries: int


@router.get(PATH, responses=problems(404))
async def list_dag_runs(
    caller: CallerDep,
    dag_id: DagId,
    state: Annotated[
        list[RunState], Query(description="Only runs in one of these states.", max_length=20)
    ] = [],  # noqa: B006  (FastAPI copies it)
    run_type: Annotated[
        list[RunKind], Query(description="Only runs of one of these kinds.", max_length=20)
    ] = [],  # noqa: B006
    limit: Limit = 100,
    offset: Offset = 0,
) -> DagRunCollection:
    """List the runs of a DAG, newest first. `~` in place of its id stands for every DAG."""
    listing = c.ListRuns(
        dag_id=None if dag_id == ALL else dag_id,
        states=tuple(dict.fromkeys(state)),
        kinds=tuple(dict.fromkeys(run_type)),
        limit=limit,
        offset=offset,
    )
    runs = [of_run(run) for run in await caller.follow(list_runs(listing))]
    return DagRunCollection(dag_runs=runs, total_entries=await caller.aexecute(c.Count(listing)))


@router.post(PATH, responses=problems(404, 409, *BODY))
async def trigger_dag_run(caller: CallerDep, dag_id: DagId, body: TriggerDagRunBody) -> DagRun:
    """Queue a run of a DAG. A scheduler executes it."""
    check_startable(await caller.aexecute(c.GetDag(dag_id)))
    now = await caller.aexecute(c.Now())
    try:
        conf = encode(body.conf or {})
    except (InvalidInput, InvalidType) as error:
        raise located(error, "conf") from None
    command = manual_run(dag_id, body.logical_date or now, body.dag_run_id, conf)
    return of_run(await caller.aexecute(command))


@router.get(PATH + "/{run_id}", responses=problems(404))
async def get_dag_run(caller: CallerDep, dag_id: DagId, run_id: RunId) -> DagRun:
    """Read a run."""
    return of_run(await caller.aexecute(c.GetRun(dag_id, run_id)))


@router.patch(PATH + "/{run_id}", responses=problems(404, 409, 502, *BODY))
async def patch_dag_run(
    caller: CallerDep, dag_id: DagId, run_id: RunId, body: PatchDagRunBody
) -> DagRun:
    """End a run as succeeded or failed, whether it has ended or not. Tasks that have not ended get
    the same state: running attempts are ended, and their staged asset writes are discarded."""
    state, clear = RunState(body.state), caller.rules.clear_on_success
    return of_run(await caller.aexecute(mark(dag_id, run_id, state, caller.writer, clear)))


@router.delete(PATH + "/{run_id}", status_code=204, responses=problems(404, 409, 502))
async def delete_dag_run(caller: CallerDep, dag_id: DagId, run_id: RunId) -> None:
    """Delete a run that no process is executing, with its task instances, their state, and the logs
    that are on the server's machine or in `[logs] url`. For admins."""
    await caller.aexecute(c.GetRun(dag_id, run_id))
    await caller.aexecute(c.DeleteRun(dag_id, run_id, unless_leased=True))
    await in_log_thread(delete_logs, caller.settings, dag_id, run_id)


@router.get(PATH + "/{run_id}/upstreamAssetEvents", responses=problems(404))
async def list_upstream_asset_events(
    caller: CallerDep, dag_id: DagId, run_id: RunId
) -> UpstreamAssetEvents:
    """List the asset events that started a run, oldest first."""
    events = [of_event(one) for one in await caller.aexecute(c.RunEvents(dag_id, run_id))]
    return UpstreamAssetEvents(asset_events=events, total_entries=len(events))


def of_run(run: Run) -> DagRun:
    return DagRun(**run_presentation.of_run(run, decode))
