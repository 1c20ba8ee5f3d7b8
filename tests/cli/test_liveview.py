"""Live view of a run: lines, or a table at a terminal."""

from __future__ import annotations

import io
import re
import time
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from rich.cells import cell_len
from rich.console import Console

from holdfast.cli.liveview import LiveView, PlainView, duration_text, progress_text
from holdfast.model.run import Run, RunKind, RunState, TaskInstance, TaskState
from holdfast.model.scope import TaskScope

NOON = datetime(2026, 1, 1, 12, tzinfo=UTC)
SECOND = timedelta(seconds=1)


def run(state: RunState = RunState.RUNNING, **more: Any) -> Run:
    facts: dict[str, Any] = {
        "logical_date": None,
        "data_interval_start": None,
        "data_interval_end": None,
        "conf": "{}",
        "created_at": NOON,
        "started_at": NOON,
    }
    return Run(dag_id="etl", run_id="r1", kind=RunKind.MANUAL, state=state, **facts | more)


def one(task_id: str, state: TaskState, index: int = -1, **more: Any) -> TaskInstance:
    ran = state in (TaskState.SUCCESS, TaskState.FAILED, TaskState.UP_FOR_RETRY)
    facts: dict[str, Any] = {
        "attempt": 1 if ran or state is TaskState.RUNNING else 0,
        "failures": 0,
        "interruptions": 0,
        "ready_at": None,
        "started_at": NOON if ran or state is TaskState.RUNNING else None,
        "ended_at": NOON + 2 * SECOND if ran else None,
        "error": "",
    }
    return TaskInstance(scope=TaskScope("etl", "r1", task_id, index), state=state, **facts | more)


def plain(*updates: tuple[Run, Sequence[TaskInstance]]) -> list[str]:
    stream = io.StringIO()
    view = PlainView(stream)
    for of_run, tasks in updates:
        view.update(of_run, tasks, {})
    view.close()
    return stream.getvalue().splitlines()


def screen(
    tasks: Sequence[TaskInstance],
    progress: Mapping[TaskScope, Any] | None = None,
    width: int = 100,
    height: int = 24,
) -> list[str]:
    """Return the content of the terminal at the end."""
    stream = io.StringIO()
    console = Console(
        file=stream, force_terminal=True, width=width, height=height, color_system=None
    )
    view = LiveView(console)
    view.update(run(), tasks, progress or {})
    view.close()
    text = re.sub(r"\x1b\[[0-9;?]*[a-zA-Z]", "", stream.getvalue().replace("\r", "\n"))
    lines = text.splitlines()
    last = max(index for index, line in enumerate(lines) if line.startswith("etl "))
    return [line.rstrip() for line in lines[last:] if line.strip()]


def test_each_change_of_state_is_a_line():
    lines = plain(
        (run(), [one("a", TaskState.SCHEDULED)]),
        (run(), [one("a", TaskState.RUNNING)]),
        (run(), [one("a", TaskState.RUNNING)]),
        (
            run(RunState.SUCCESS, ended_at=NOON + 3 * SECOND),
            [one("a", TaskState.SUCCESS)],
        ),
    )

    assert lines == [
        "12:00:00Z run r1 of etl running",
        "12:00:00Z a attempt 1 running",
        "12:00:02Z a attempt 1 success after 2.0s",
        "12:00:03Z run r1 of etl success after 3.0s",
    ]


def test_a_failure_is_one_line_with_its_reason():
    failed = one("a", TaskState.FAILED, 3, attempt=2, error="ValueError: no\n\x1b[31mdata")

    assert plain((run(), [failed]))[1:] == [
        "12:00:02Z a[3] attempt 2 failed after 2.0s: ValueError: no [31mdata"
    ]


def test_a_second_attempt_is_a_line_even_if_the_end_of_the_first_was_not_seen():
    lines = plain(
        (run(), [one("a", TaskState.RUNNING)]),
        (run(), [one("a", TaskState.RUNNING, attempt=2)]),
    )

    assert lines[-1] == "12:00:00Z a attempt 2 running"


def test_a_task_that_returns_to_waiting_is_a_line():
    lines = plain(
        (run(), [one("a", TaskState.RUNNING)]),
        (run(), [one("a", TaskState.SCHEDULED, attempt=1, error="the supervisor died")]),
    )

    assert lines[-1].endswith("a attempt 1 scheduled: the supervisor died")


def test_placeholders_and_waiting_tasks_are_not_printed():
    waiting = [one("a", TaskState.SCHEDULED, index) for index in range(1000)]

    assert len(plain((run(), [one("a", TaskState.REMOVED), *waiting]))) == 1


def test_messages_are_lines_too():
    stream = io.StringIO()

    PlainView(stream).say("Stopping.")

    assert stream.getvalue() == "Stopping.\n"


def test_the_table_shows_each_task():
    shown = screen(
        [
            one("extract", TaskState.SUCCESS),
            one("load", TaskState.RUNNING, attempt=2, started_at=NOON + SECOND),
            one("report", TaskState.SCHEDULED),
        ]
    )

    assert shown[0].startswith("etl running, 1 of 3 done")
    assert shown[1].split() == ["task", "state", "time", "try"]
    assert shown[2].split() == ["extract", "success", "2.0s", "1"]
    assert shown[3].split()[:2] == ["load", "running"] and shown[3].endswith("2")
    assert shown[4].split() == ["report", "scheduled"]


def test_tasks_are_in_the_order_in_which_they_started():
    shown = screen(
        [
            one("a", TaskState.SCHEDULED),
            one("b", TaskState.RUNNING, started_at=NOON + SECOND),
            one("c", TaskState.SUCCESS),
        ]
    )

    assert [line.split()[0] for line in shown[2:]] == ["c", "b", "a"]


def test_progress_is_a_bar():
    load = one("load", TaskState.RUNNING)
    progress = {"stages": 3, "done_stages": 1, "tasks": 200, "done_tasks": 50, "rows": 1234}

    shown = screen([load], {load.scope: progress})

    assert shown[2].endswith("━━━───────── 1/3 stages, 50/200 tasks")


@pytest.mark.parametrize(
    ("progress", "text"),
    [
        ("half way", "half way"),
        ("two\nlines \x1b[31m", "two lines [31m"),
        (0.5, "0.5"),
        ([1, 2], "[1,2]"),
        ({"page": 7, "of": None}, "page 7, of null"),
        ({"rows": 10, "done_rows": 99}, "━━━━━━━━━━━━ 99/10 rows"),
        (
            {"tasks": 2, "done_tasks": 1, "bytes_read": 9, "rows_read": 1000, "rows_written": 0},
            "━━━━━━────── 1/2 tasks, 1,000 rows read, 0 rows written",
        ),
        ({"rows": 0, "done_rows": 0}, "rows 0, done_rows 0"),
        ({}, ""),
    ],
)
def test_any_progress_can_be_shown(progress, text):
    assert progress_text(progress) == text


def test_few_map_indices_have_a_row_each():
    shown = screen([one("load", TaskState.SUCCESS, index) for index in range(3)])

    assert [line.split()[0] for line in shown[2:]] == ["load[0]", "load[1]", "load[2]"]


def test_many_map_indices_are_one_row_with_counts():
    tasks = [one("load", TaskState.SUCCESS, index) for index in range(750)]
    tasks += [one("load", TaskState.RUNNING, index) for index in range(750, 766)]
    tasks += [one("load", TaskState.SCHEDULED, index) for index in range(766, 1000)]

    shown = screen([one("load", TaskState.REMOVED), *tasks])

    assert len(shown) == 3
    assert shown[2].startswith("load (1,000)  running")
    assert shown[2].endswith("━━━━━━━━━─── 16 running, 234 scheduled, 750 success")


def test_a_thousand_map_indices_are_drawn_quickly():
    tasks = [one("load", TaskState.RUNNING, index) for index in range(1000)]
    begun = time.perf_counter()

    screen(tasks, {task.scope: {"rows": 1} for task in tasks})

    assert time.perf_counter() - begun < 1


def test_a_short_terminal_shows_running_and_failed_tasks():
    tasks = [one(f"t{index:03}", TaskState.SUCCESS) for index in range(200)]
    tasks[70] = one("t070", TaskState.RUNNING)
    tasks[150] = one("t150", TaskState.FAILED, error="ValueError: no data")

    shown = screen(tasks, height=10)

    assert any(line.startswith("t070") for line in shown)
    assert any(line.startswith("t150") for line in shown)
    assert "… and 194 more: 194 success" in shown
    assert len(shown[: shown.index("… and 194 more: 194 success")]) == 8


@pytest.mark.parametrize("width", [10, 20, 39, 45, 55, 80, 200])
def test_no_line_is_wider_than_the_terminal(width):
    load = one("load 🚀" * 20, TaskState.RUNNING)
    bad = one("👩‍👩‍👧 wörk", TaskState.UP_FOR_RETRY, error="x" * 300)

    shown = screen([load, bad], {load.scope: "y" * 300}, width=width)

    assert all(cell_len(line) <= width for line in shown)
    assert len(shown) == 4


def test_a_long_error_fits_beside_the_other_columns():
    (line,) = screen([one("load", TaskState.UP_FOR_RETRY, error="x" * 300)], width=60)[2:]

    assert line == f"load  up_for_retry  2.0s    1  {'x' * 28}…"


def test_ids_are_shown_as_they_are():
    shown = screen([one("[red]:smile:", TaskState.SUCCESS)])

    assert shown[2].startswith("[red]:smile:  success")


def test_a_retry_shows_its_time_and_reason():
    ready_at = datetime.now(UTC) + 90 * SECOND
    retry = one("load", TaskState.UP_FOR_RETRY, ready_at=ready_at, error="ValueError: no data")

    (line,) = screen([retry])[2:]

    assert re.search(r"retry in 1m (29|30)s: ValueError: no data$", line)


def test_failures_are_shown_in_full_at_the_end():
    tasks = [
        one("load", TaskState.FAILED, index, error=f"ValueError: {'long ' * 30}{index}")
        for index in range(30)
    ]

    shown = screen(tasks, width=60)

    assert "load[0] failed: ValueError: long" in shown[3]
    assert shown[-1] == "… and 20 more failed"


def test_the_view_can_be_closed_twice_and_before_it_has_shown_anything():
    view = LiveView(Console(file=io.StringIO(), force_terminal=True))
    view.say("Hello.")
    view.close()
    view.update(run(), [], {})
    view.close()
    view.close()


@pytest.mark.parametrize(
    ("seconds", "text"),
    [(0.44, "0.4s"), (12.7, "12s"), (185, "3m 05s"), (3720, "1h 02m"), (183600, "2d 03h")],
)
def test_durations_are_short(seconds, text):
    assert duration_text(timedelta(seconds=seconds)) == text
