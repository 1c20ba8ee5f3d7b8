"""Journal of a scheduler: what became of runs and tasks, in its log and its figures."""

from __future__ import annotations

import logging
from collections.abc import Sequence
from datetime import datetime
from typing import Any, Final

from holdfast.model.families import (
    RUN_DURATION,
    RUN_ENDS,
    SCHEDULE_DELAY,
    TASK_DURATION,
    TASK_ENDS,
    TASK_INTERRUPTIONS,
    TASK_RETRIES,
)
from holdfast.model.figures import Figures
from holdfast.model.run import Outcome, Run, RunKind, RunState, TaskInstance, TaskState
from holdfast.model.scope import TaskScope
from holdfast.monitoring.service_log import fields
from holdfast.portable.identifier import one_line
from holdfast.runner.protocol.orders import AttemptEnd

LONGEST_ERROR: Final = 500
"""Characters of an error in a line of the log; the store has all of it."""

log = logging.getLogger("holdfast.scheduler")


class Journal:
    """Records each event of the runs that a process holds. `holdfast run` shows them itself, so its
    journal is not `logged`."""

    def __init__(self, logged: bool) -> None:
        self._logged = logged
        self.figures = Figures()

    def run_started(self, run: Run, before: Run) -> None:
        """Record that this process has claimed a run; `before` is the run as it was."""
        for state in (RunState.SUCCESS, RunState.FAILED):
            self.figures.begin(RUN_ENDS, run.dag_id, state.value)
        due = run.logical_date if run.kind is RunKind.SCHEDULED else None
        if before.started_at is None and run.started_at is not None and due is not None:
            self.figures.observe(SCHEDULE_DELAY, (run.started_at - due).total_seconds())
        started = "resumes" if before.state is RunState.RUNNING else "starts"
        self._log(logging.INFO, f"run {run.run_id} of {run.dag_id} {started}", _of_run(run))

    def run_ended(self, run: Run, tasks: Sequence[TaskInstance]) -> None:
        facts = _of_run(run) | {"state": run.state.value}
        self.figures.count(RUN_ENDS, run.dag_id, run.state.value)
        after = ""
        if run.started_at is not None and run.ended_at is not None:
            facts["seconds"] = seconds = (run.ended_at - run.started_at).total_seconds()
            self.figures.observe(RUN_DURATION, seconds, run.dag_id)
            after = f" after {seconds:.1f} s"
        text = f"run {run.run_id} of {run.dag_id} ended: {run.state}{after}"
        if run.state is RunState.SUCCESS:
            self._log(logging.INFO, text, facts)
            return
        failed = [one for one in tasks if one.state is TaskState.FAILED]
        if failed:
            text += f"; failed: {', '.join(sorted({one.scope.task_id for one in failed}))}"
        self._log(logging.WARNING, text, facts)

    def attempt_ended(self, scope: TaskScope, end: AttemptEnd) -> None:
        """Record the end of an attempt, and what the task does next."""
        facts = _of_task(scope) | {
            "attempt": end.attempt,
            "outcome": end.outcome.value,
            "state": end.state.value,
        }
        if end.seconds is not None:
            facts["seconds"] = round(end.seconds, 3)
            self.figures.observe(TASK_DURATION, end.seconds, scope.dag_id)
        if end.outcome is Outcome.INTERRUPTED:
            self.figures.count(TASK_INTERRUPTIONS, scope.dag_id)
        if end.state.ended:
            self.figures.count(TASK_ENDS, scope.dag_id, end.state.value)
        elif end.outcome is Outcome.FAILED:
            self.figures.count(TASK_RETRIES, scope.dag_id)
        if end.outcome in (Outcome.SUCCESS, Outcome.SKIPPED):
            done = "succeeded" if end.outcome is Outcome.SUCCESS else "was skipped"
            self._log(logging.DEBUG, f"{scope} {done}{_after(end)}", facts)
            return
        if end.state is TaskState.FAILED:
            became = "failed"
        elif end.outcome is Outcome.FAILED:
            became = f"failed and is retried{_at(end.ready_at)}"
        else:
            became = f"was interrupted and starts again{_at(end.ready_at)}"
        level = logging.INFO if end.orderly else logging.WARNING
        text = f"{scope}, attempt {end.attempt}, {became}: {_one_line(end.error)}"
        self._log(level, text, facts | {"error": end.error})

    def task_changed(self, scope: TaskScope, state: TaskState, error: str) -> None:
        """Record the end of a task without an attempt."""
        facts = _of_task(scope) | {"state": state.value}
        self.figures.count(TASK_ENDS, scope.dag_id, state.value)
        if state is TaskState.FAILED:
            text = f"{scope} failed: {_one_line(error)}"
            self._log(logging.WARNING, text, facts | {"error": error})
        else:
            self._log(logging.DEBUG, f"{scope} ended: {state}", facts)

    def _log(self, level: int, text: str, facts: dict[str, Any]) -> None:
        if self._logged:
            log.log(level, "%s", text, extra=fields(**facts))


def _of_run(run: Run) -> dict[str, Any]:
    return {"dag_id": run.dag_id, "run_id": run.run_id}


def _of_task(scope: TaskScope) -> dict[str, Any]:
    facts = {"dag_id": scope.dag_id, "run_id": scope.run_id, "task_id": scope.task_id}
    return facts | ({"map_index": scope.map_index} if scope.map_index >= 0 else {})


def _after(end: AttemptEnd) -> str:
    return "" if end.seconds is None else f" after {end.seconds:.1f} s"


def _at(time: datetime | None) -> str:
    return "" if time is None else f" at {time:%Y-%m-%dT%H:%M:%SZ}"


def _one_line(error: str) -> str:
    line = one_line(error)
    return line if len(line) <= LONGEST_ERROR else f"{line[:LONGEST_ERROR]}…"
