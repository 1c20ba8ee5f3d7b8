"""What a scheduler counts and logs of its runs."""

from __future__ import annotations

import logging
from datetime import UTC, datetime

import pytest

from holdfast.model.families import RUN_ENDS
from holdfast.model.run import Run, RunKind, RunState, TaskState
from holdfast.model.scope import TaskScope
from holdfast.runner.scheduler.journal import Journal

RUN = Run(
    dag_id="etl",
    run_id="r1",
    kind=RunKind.MANUAL,
    state=RunState.RUNNING,
    logical_date=None,
    data_interval_start=None,
    data_interval_end=None,
    conf="{}",
    created_at=datetime(2026, 1, 1, tzinfo=UTC),
)


def test_the_ends_of_a_dags_runs_are_counted_from_0() -> None:
    journal = Journal(logged=False)

    journal.run_started(RUN, RUN)

    assert journal.figures.of(RUN_ENDS) == [(("etl", "failed"), [0]), (("etl", "success"), [0])]


def test_an_error_sends_no_escapes_to_the_terminal(caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.INFO):
        Journal(logged=True).task_changed(
            TaskScope("etl", "r1", "load"), TaskState.FAILED, "no\n\x1b[31mdata\x07"
        )

    assert caplog.messages[0].endswith("failed: no [31mdata")
