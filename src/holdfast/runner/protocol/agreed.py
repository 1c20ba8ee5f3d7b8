"""What a scheduler and its supervisor agree on."""

from __future__ import annotations

from datetime import timedelta

from holdfast.model.dag import CallbackKind
from holdfast.model.run import TaskState

LEASE = timedelta(seconds=30)
"""How long a run, an attempt or a watch belongs to who has it without a heartbeat."""
HEARTBEAT = 2.0
"""Seconds from one heartbeat to the next."""
ALIVE = 2.0
"""Seconds from one sign of life of a supervisor to the next."""
MOST_INTERRUPTIONS = 5
"""In a row, after which a task has failed: perhaps it is what kills those around it."""

CALLBACKS: dict[TaskState, CallbackKind] = {
    TaskState.SUCCESS: "success",
    TaskState.FAILED: "failure",
    TaskState.UP_FOR_RETRY: "retry",
    TaskState.SKIPPED: "skipped",
}
