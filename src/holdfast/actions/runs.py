"""Runs that people start, stop and mark, and checks before a start or deletion."""

from __future__ import annotations

from datetime import datetime

from holdfast import commands as c
from holdfast.errors import Conflict
from holdfast.model.entry import Writer
from holdfast.model.run import DagInfo, Run, RunKind, RunState
from holdfast.store import Steps
from holdfast.stores import refusals


def manual_run(
    dag_id: str, time: datetime, run_id: str | None = None, conf: str = "{}"
) -> c.CreateRun:
    """Return the command that creates a manual run, with that time as its logical date."""
    from holdfast.model.timetable import run_id as id_by_time

    return c.CreateRun(
        dag_id=dag_id,
        run_id=run_id or id_by_time(RunKind.MANUAL, time),
        kind=RunKind.MANUAL,
        logical_date=time,
        data_interval_start=time,
        data_interval_end=time,
        conf=conf,
    )


def list_runs(listing: c.ListRuns) -> Steps[tuple[Run, ...]]:
    """Return the runs. Raise NotFound, which names the DAGs that exist, where the listing names a
    DAG that does not exist and has no runs."""
    runs: tuple[Run, ...] = yield listing
    dag_id = listing.dag_id
    if not runs and dag_id is not None and not (yield c.ListRuns(dag_id=dag_id, limit=1)):
        yield c.GetDag(dag_id)
    return runs


def stop(dag_id: str, run_id: str, writer: Writer) -> c.MarkRun:
    """Return the command that ends a queued or running run as failed."""
    state = RunState.FAILED
    return c.MarkRun(dag_id=dag_id, run_id=run_id, state=state, writer=writer, stop=True)


def mark(dag_id: str, run_id: str, state: RunState, writer: Writer, clear: bool) -> c.MarkRun:
    """Return the command that sets the state of a run, whether it has ended or not."""
    return c.MarkRun(dag_id=dag_id, run_id=run_id, state=state, writer=writer, clear=clear)


def check_startable(dag: DagInfo) -> None:
    """Raise Conflict where no file has held the DAG for long: its runs would only wait."""
    if dag.stale_at is not None:
        raise Conflict(
            f"DAG `{dag.dag_id}` is stale since {dag.stale_at:%Y-%m-%d %H:%M:%S}Z: no DAG file "
            "defines it",
            hint="put its file back into the DAG directory, or `holdfast run FILE`",
        )


def check_deletable(run: Run, now: datetime) -> None:
    """Raise Conflict where a process is executing the run."""
    if run.leased_until is not None and run.leased_until > now:
        raise refusals.run_leased(run.dag_id, run.run_id, str(run.owner))
