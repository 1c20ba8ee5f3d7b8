"""Lease, heartbeat and limits that a scheduler and its supervisor share."""

from __future__ import annotations

from datetime import timedelta

from holdfast.model.dag import CallbackKind
from holdfast.model.run import TaskState

LEASE = timedelta(seconds=30)
"""Duration of the lease of a run, attempt or watch without a heartbeat."""
HEARTBEAT = 2.0
"""Interval between heartbeats in seconds."""
ALIVE = 2.0
"""Interval between a supervisor's `Alive` notices in seconds."""
MOST_INTERRUPTIONS = 5
"""Interruptions in a row after which a task has failed: it may be what kills other processes."""

CALLBACKS: dict[TaskState, CallbackKind] = {
    TaskState.SUCCESS: "success",
    TaskState.FAILED: "failure",
    TaskState.UP_FOR_RETRY: "retry",
    TaskState.SKIPPED: "skipped",
}
