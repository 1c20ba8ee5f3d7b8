"""Metrics that schedulers and triggerers count, and report with their signs of life."""

from __future__ import annotations

from typing import Final

from holdfast.model.figures import Family

_DURATIONS: Final = (1, 5, 15, 60, 300, 900, 3600, 14_400, 86_400)
_DELAYS: Final = (0.5, 1, 2, 5, 10, 30, 60, 300, 3600)

TASK_ENDS: Final = Family(
    "holdfast_task_ends",
    "Number of task instances that ended, by their state.",
    ("dag_id", "state"),
)
TASK_RETRIES: Final = Family(
    "holdfast_task_retries", "Number of failed attempts that are retried.", ("dag_id",)
)
TASK_INTERRUPTIONS: Final = Family(
    "holdfast_task_interruptions",
    "Number of attempts that ended because their supervisor stopped or died.",
    ("dag_id",),
)
TASK_DURATION: Final = Family(
    "holdfast_task_duration_seconds",
    "Duration of attempts of tasks in seconds.",
    ("dag_id",),
    _DURATIONS,
)
RUN_ENDS: Final = Family(
    "holdfast_run_ends", "Number of runs that ended, by their state.", ("dag_id", "state")
)
RUN_DURATION: Final = Family(
    "holdfast_run_duration_seconds",
    "Time from the first start of runs to their end in seconds.",
    ("dag_id",),
    _DURATIONS,
)
SCHEDULE_DELAY: Final = Family(
    "holdfast_schedule_delay_seconds",
    "Time from the logical date of scheduled runs to their start in seconds.",
    (),
    _DELAYS,
)
WATCHER_FAILURES: Final = Family(
    "holdfast_watcher_failures",
    "Number of times that watchers failed and were restarted.",
    ("asset", "watcher"),
)

FAMILIES: Final = (
    *(TASK_ENDS, TASK_RETRIES, TASK_INTERRUPTIONS, TASK_DURATION),
    *(RUN_ENDS, RUN_DURATION, SCHEDULE_DELAY, WATCHER_FAILURES),
)
