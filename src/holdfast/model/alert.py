"""Alerts: what is reported to a webhook or a callback, and the document that these receive."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime, timedelta
from enum import StrEnum
from typing import Any, Final

import msgspec

from holdfast.model.duration import duration_text
from holdfast.model.run import Run, TaskInstance, TaskState
from holdfast.portable.identifier import one_line

MOST_TASKS: Final = 10
"""Failed tasks of a run that an alert names."""
LONGEST_ERROR: Final = 2000
"""Characters of an error in an alert, from its end, where a traceback says what is wrong."""
LONGEST_TEXT: Final = 500


class AlertKind(StrEnum):
    RUN_FAILED = "run_failed"
    IMPORT_ERROR = "import_error"
    ASSET_LATE = "asset_late"


class Channel(StrEnum):
    """A way to deliver alerts."""

    WEBHOOK = "webhook"
    CALLBACK = "callback"


class AlertStatus(StrEnum):
    FIRING = "firing"
    RESOLVED = "resolved"


class Alert(msgspec.Struct, frozen=True, kw_only=True):
    """An alert, and how far its delivery by one channel is."""

    id: int
    channel: Channel
    kind: AlertKind
    facts: str
    """What it is about, as a JSON object."""
    raised_at: datetime
    resolved_at: datetime | None
    """When a file could be used again, or an asset had an event. A failed run stays failed."""
    delivered: AlertStatus | None
    """The status that was delivered last."""
    tries: int
    """Deliveries that were begun since the last that succeeded."""
    next_try_at: datetime | None
    """None: nothing is left to deliver."""
    error: str
    """Why the last delivery failed."""

    @property
    def status(self) -> AlertStatus:
        return AlertStatus.FIRING if self.resolved_at is None else AlertStatus.RESOLVED


def document(alert: Alert) -> dict[str, Any]:
    """Return what the receiver of an alert gets. `text` alone suffices for a chat."""
    facts = msgspec.json.decode(alert.facts)
    return {
        "id": alert.id,
        "kind": alert.kind,
        "status": alert.status,
        "text": text(alert.kind, alert.status, facts),
        "raised_at": alert.raised_at,
        "resolved_at": alert.resolved_at,
        **facts,
    }


def text(kind: AlertKind, status: AlertStatus, facts: dict[str, Any]) -> str:
    """Return an alert in one line."""
    resolved = status is AlertStatus.RESOLVED
    match kind:
        case AlertKind.RUN_FAILED:
            said = f"run {facts['run_id']} of {facts['dag_id']} failed"
            said += "".join(f": {task['task_id']}: {task['error']}" for task in facts["tasks"][:1])
        case AlertKind.IMPORT_ERROR if resolved:
            said = f"DAG file {facts['file']} is no longer broken"
        case AlertKind.IMPORT_ERROR:
            said = f"DAG file {facts['file']} cannot be used: {last_line(facts['error'])}"
        case AlertKind.ASSET_LATE if resolved:
            said = f"asset {facts['asset']} is no longer late"
        case AlertKind.ASSET_LATE:
            last = facts["last_event_at"]
            since = f"its last event was at {last}" if last else "it has had no event"
            said = f"asset {facts['asset']} is late: {since}, and one is expected every "
            said += duration_text(timedelta(seconds=facts["late_after_seconds"]))
    line = one_line(said)
    return line if len(line) <= LONGEST_TEXT else f"{line[:LONGEST_TEXT]}…"


def of_failed_run(run: Run, tasks: Sequence[TaskInstance]) -> dict[str, Any]:
    """Return the facts of a run that failed."""
    failed = [one for one in tasks if one.state is TaskState.FAILED]
    return {
        "dag_id": run.dag_id,
        "run_id": run.run_id,
        "run_type": run.kind,
        "logical_date": run.logical_date,
        "failed_tasks": len(failed),
        "tasks": [
            {
                "task_id": one.scope.task_id,
                "map_index": one.scope.map_index,
                "try_number": one.attempt,
                "error": one.error[-LONGEST_ERROR:],
            }
            for one in failed[:MOST_TASKS]
        ],
    }


def of_broken_file(file: str, error: str) -> dict[str, Any]:
    """Return the facts of a DAG file that cannot be used."""
    return {"file": file, "error": error[-LONGEST_ERROR:]}


def of_late_asset(name: str, last_event_at: datetime | None, limit: timedelta) -> dict[str, Any]:
    """Return the facts of an asset that has had no event for longer than `limit`."""
    seconds = limit.total_seconds()
    return {"asset": name, "last_event_at": last_event_at, "late_after_seconds": seconds}


def last_line(error: str) -> str:
    """Return the last line of a traceback or message, without its hint."""
    lines = [line for line in error.splitlines() if line and not line.startswith("hint: ")]
    return lines[-1] if lines else ""
