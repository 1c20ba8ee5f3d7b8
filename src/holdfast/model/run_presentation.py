"""DAGs, runs, tasks, assets, events, pools and alerts in the form that people and programs see.

The CLI's `--json` and the public API share it; the names are Airflow's. They differ only in how
they read JSON text, such as a run's `conf`: the CLI prints it, the API decodes it.
"""

from __future__ import annotations

from collections.abc import Callable
from datetime import datetime
from typing import Any, TypeAlias

from holdfast.model.alert import Alert, document
from holdfast.model.dag import Cron, Every, OnAssets, Schedule, spec_of
from holdfast.model.entry import AssetInfo
from holdfast.model.pool import Pool
from holdfast.model.run import (
    AssetEvent,
    AttemptInfo,
    DagInfo,
    FileInfo,
    PrunableRun,
    Run,
    TaskInstance,
)
from holdfast.model.schedule_text import interval_text, schedule_text
from holdfast.model.timetable import next_run_at

Read: TypeAlias = Callable[[str], Any]


def of_dag(dag: DagInfo, now: datetime) -> dict[str, Any]:
    """Return the fields of a DAG, without its tasks."""
    spec = spec_of(dag)
    return {
        "dag_id": dag.dag_id,
        "description": spec.description,
        "tags": list(spec.tags),
        "fileloc": spec.file,
        "relative_fileloc": dag.file or None,
        "is_stale": dag.stale_at is not None,
        "is_paused": dag.paused,
        "timetable_summary": _summary(spec.schedule),
        "timetable_description": schedule_text(spec.schedule),
        "next_dagrun_run_after": next_run_at(dag, now),
        "start_date": spec.start_date,
        "end_date": spec.end_date,
        "catchup": spec.catchup,
        "max_active_tasks": spec.max_active_tasks,
        "max_active_runs": spec.max_active_runs,
        "last_parsed_time": dag.saved_at,
    }


def of_run(run: Run, read: Read) -> dict[str, Any]:
    """Return the fields of a run."""
    return {
        "dag_id": run.dag_id,
        "dag_run_id": run.run_id,
        "run_type": run.kind,
        "state": run.state,
        "logical_date": run.logical_date,
        "data_interval_start": run.data_interval_start,
        "data_interval_end": run.data_interval_end,
        "conf": read(run.conf),
        "queued_at": run.created_at,
        "start_date": run.started_at,
        "end_date": run.ended_at,
        "owner": {"hostname": run.owner.hostname, "pid": run.owner.pid} if run.owner else None,
        "error": run.error,
    }


def of_prunable_run(run: PrunableRun) -> dict[str, Any]:
    """Return the fields of a run that can be deleted by age."""
    return {
        "dag_id": run.dag_id,
        "dag_run_id": run.run_id,
        "run_type": run.kind,
        "state": run.state,
        "queued_at": run.created_at,
        "end_date": run.ended_at,
    }


def of_task_instance(one: TaskInstance) -> dict[str, Any]:
    """Return the fields of a task instance."""
    return {
        "id": one.scope.ti_id,
        "dag_id": one.scope.dag_id,
        "dag_run_id": one.scope.run_id,
        "task_id": one.scope.task_id,
        "map_index": one.scope.map_index,
        "state": one.state,
        "try_number": one.attempt,
        "failures": one.failures,
        "interruptions": one.interruptions,
        "not_before": one.ready_at,
        "start_date": one.started_at,
        "end_date": one.ended_at,
        "error": one.error,
        "waits_for": one.waits_for,
    }


def of_attempt(attempt: AttemptInfo) -> dict[str, Any]:
    """Return the fields of an attempt."""
    return {
        "try_number": attempt.number,
        "start_date": attempt.started_at,
        "end_date": attempt.ended_at,
        "outcome": attempt.outcome,
        "error": attempt.error,
        "exit_status": attempt.exit_status,
        "signal": attempt.signal,
        "hostname": attempt.worker.hostname if attempt.worker else None,
        "pid": attempt.worker.pid if attempt.worker else None,
    }


def of_asset(asset: AssetInfo) -> dict[str, Any]:
    """Return the fields of an asset."""
    return {
        "id": asset.asset_id,
        "name": asset.name,
        "uri": asset.uri,
        "dags": list(asset.dags),
        "declared_by_hand": asset.by_hand,
        "is_active": asset.orphaned_at is None,
        "inactive_since": asset.orphaned_at,
    }


def of_event(event: AssetEvent, read: Read) -> dict[str, Any]:
    """Return the fields of an event; those of its source are None if no task reported it."""
    source = event.source
    return {
        "asset_id": event.asset.asset_id,
        "name": event.asset.name,
        "uri": event.asset.uri,
        "number": event.number,
        "timestamp": event.at,
        "extra": read(event.extra),
        "source_dag_id": source.dag_id if source else None,
        "source_run_id": source.run_id if source else None,
        "source_task_id": source.task_id if source else None,
        "source_map_index": source.map_index if source else None,
        "user": event.user,
        "key": event.key,
    }


def of_import_error(file: FileInfo) -> dict[str, Any]:
    """Return the fields of a file that cannot be imported."""
    return {"filename": file.file, "timestamp": file.saved_at, "stack_trace": file.error}


def of_pool(pool: Pool) -> dict[str, Any]:
    """Return the fields of a pool."""
    return {
        "name": pool.name,
        "slots": pool.slots,
        "description": pool.description,
        "occupied_slots": pool.used,
        "open_slots": pool.free,
    }


def of_alert(alert: Alert) -> dict[str, Any]:
    """Return the fields of an alert: those of its document that all alerts have, and how far its
    delivery is."""
    shared = ("id", "kind", "status", "text", "raised_at", "resolved_at")
    said = document(alert)
    return {
        **{name: said.pop(name) for name in shared},
        "facts": said,
        "channel": alert.channel,
        "delivered": alert.delivered,
        "tries": alert.tries,
        "next_try_at": alert.next_try_at,
        "error": alert.error,
    }


def _summary(schedule: Schedule | None) -> str | None:
    """Return a schedule in its shortest form."""
    match schedule:
        case None:
            return None
        case Cron(expression=expression):
            return expression
        case Every(interval=interval):
            return interval_text(interval)
        case OnAssets():
            return "Asset"
        case _:
            return "@once"
