"""Misbehaving tasks: a definite state, a clear message, and no process left behind."""

from __future__ import annotations

import shutil
from collections.abc import Callable

import pytest
from project import Project, Result

from holdfast.model.run import Outcome

MISBEHAVING = """
import ctypes, os, signal, socket, subprocess, sys, threading, time
from datetime import timedelta
from holdfast.sdk import DAG, Asset, task

orders = Asset("orders", uri="file:///orders")
strange = Asset("strange", uri="file:///strange")

def connection():
    [number] = [
        int(name) for name in os.listdir("/proc/self/fd")
        if int(name) > 2 and os.path.exists(f"/proc/self/fd/{name}")
        and os.readlink(f"/proc/self/fd/{name}").startswith("socket:")
    ]
    return number

with DAG("d", max_active_tasks=8):

    @task
    def returns_a_set():
        return {"rows": {1, 2}}

    @task
    def returns_a_dataframe():
        import pandas
        return pandas.DataFrame({"a": [1]})

    @task(outlets=[orders])
    def asks_for_an_undeclared_asset(asset_store=None):
        asset_store[strange].get("watermark")

    @task
    def exits():
        os._exit(3)

    @task
    def exits_well():
        os._exit(0)

    @task
    def crashes():
        os.kill(os.getpid(), signal.SIGSEGV)

    @task
    def is_killed():
        os.kill(os.getpid(), signal.SIGKILL)

    @task
    def forks_and_both_return(task_store=None):
        first = os.fork()
        if first:
            os.waitpid(first, 0)
            task_store.set("by", "the parent")
            return "the parent"
        try:
            task_store.set("by", "the child")
        except Exception as error:
            print("refused:", error)
        return "the child"

    @task
    def forks_and_the_child_lives_on():
        if os.fork() == 0:
            time.sleep(600)
        return "the parent"

    @task
    def forks_and_the_parent_dies():
        if os.fork() == 0:
            time.sleep(600)
        os._exit(4)

    @task
    def closes_its_connection():
        os.closerange(3, 1000)
        time.sleep(600)

    @task
    def closes_its_connection_and_returns():
        os.closerange(3, 1000)
        return "unheard"

    @task
    def writes_nonsense_to_its_connection():
        os.write(connection(), b"GET / HTTP/1.1\\r\\n\\r\\n")
        time.sleep(600)

    @task
    def announces_much_on_its_connection():
        os.write(connection(), b"\\xff\\xff\\xff\\xff")
        time.sleep(600)

    @task(execution_timeout=timedelta(seconds=3))  # enough to begin to ignore the signal
    def does_not_end_when_asked():
        signal.signal(signal.SIGTERM, signal.SIG_IGN)
        time.sleep(600)

    @task
    def calls_exit():
        sys.exit("enough")

    @task
    def raises_keyboard_interrupt():
        raise KeyboardInterrupt("from inside")

    @task
    def leaves_a_process_behind():
        subprocess.Popen(["sleep", "600"])
        return "done"

    @task
    def leaves_a_thread_behind():
        threading.Thread(target=time.sleep, args=(600,)).start()
        return "done"

    @task
    def terminates_itself():
        os.kill(os.getpid(), signal.SIGTERM)
        time.sleep(600)

    @task
    def leaves_a_process_that_prints_without_end():
        subprocess.Popen(["yes"], start_new_session=True)
        time.sleep(0.5)
        return "done"

    @task
    def closes_its_output():
        sys.stdout.close()
        os.close(1)
        os.close(2)
        return "done"

    for each in [one for one in list(globals().values()) if type(one).__name__.startswith("Task")]:
        each()
"""


@pytest.fixture(scope="module")
def ran(shared_project: Callable[..., Project]) -> tuple[Project, Result]:
    project = shared_project()
    return project, project.run_dag(MISBEHAVING)


def test_the_run_ends_and_leaves_no_process(ran: tuple[Project, Result]) -> None:
    project, ended = ran

    assert ended.status == 1
    assert project.run_of().state == "failed"
    assert project.processes() == []
    assert "holdfast.supervisor" not in ended.err and "unexpected" not in ended.err


FAILURES = {
    "returns_a_set": (1, None, "result of task `returns_a_set`"),
    "returns_a_dataframe": (1, None, "returned a DataFrame"),
    "asks_for_an_undeclared_asset": (1, None, "does not declare asset `strange`"),
    "exits": (3, None, "its process ended with exit status 3 before the task returned"),
    "exits_well": (0, None, "its process ended with exit status 0 before the task returned"),
    "crashes": (None, 11, "its process was killed by SIGSEGV"),
    "is_killed": (None, 9, "its process was killed by SIGKILL, perhaps for lack of memory"),
    "forks_and_the_parent_dies": (4, None, "ended with exit status 4 before the task returned"),
    "closes_its_connection": (None, 9, "closed its connection to its supervisor"),
    "closes_its_connection_and_returns": (1, None, "ended with exit status 1"),
    "writes_nonsense_to_its_connection": (None, 9, "connection"),
    "announces_much_on_its_connection": (None, 9, "connection"),
    "does_not_end_when_asked": (None, 9, "longer than its execution_timeout of 0:00:03"),
    "calls_exit": (1, None, "SystemExit: enough"),
    "raises_keyboard_interrupt": (1, None, "KeyboardInterrupt: from inside"),
    "terminates_itself": (1, None, "it was asked to stop"),
}


@pytest.mark.parametrize("task_id", FAILURES)
def test_a_misbehaving_task_fails_with_its_reason(
    ran: tuple[Project, Result], task_id: str
) -> None:
    project, _ = ran
    status, signal, reason = FAILURES[task_id]
    [attempt] = project.attempts(task_id)

    assert project.states()[task_id] == "failed"
    assert reason in attempt.error
    assert (attempt.outcome, attempt.exit_status, attempt.signal) == (
        Outcome.FAILED,
        status,
        signal,
    )


@pytest.mark.parametrize(
    "task_id",
    [
        "forks_and_both_return",
        "forks_and_the_child_lives_on",
        "leaves_a_process_behind",
        "leaves_a_thread_behind",
        "leaves_a_process_that_prints_without_end",
        "closes_its_output",
    ],
)
def test_a_harmless_task_succeeds(ran: tuple[Project, Result], task_id: str) -> None:
    project, _ = ran

    assert project.states()[task_id] == "success"
    assert project.result(task_id)[0] in ("the parent", "done")


def test_a_task_whose_report_was_lost_has_the_reason_in_its_log(
    ran: tuple[Project, Result],
) -> None:
    project, _ = ran

    log = project.log("closes_its_connection_and_returns")

    assert "the task's connection to its supervisor is closed" in log


def test_a_forked_process_has_no_stores(ran: tuple[Project, Result]) -> None:
    project, _ = ran

    assert project.task_store("forks_and_both_return") == {"by": "the parent"}
    assert "refused: this is a fork of the task's process" in project.log("forks_and_both_return")


def test_commands_show_the_reason(ran: tuple[Project, Result]) -> None:
    project, ended = ran

    shown = project.holdfast("tasks", "show", "d", "r", "crashes")

    assert "crashes attempt 1 failed after" in ended.err
    assert "SIGSEGV" in shown.out and "its process was killed by SIGSEGV" in shown.out


PRINTS_MUCH = """
import os
from holdfast.sdk import DAG, task

with DAG("d"):

    @task
    def prints_much():
        for first in range(0, {lines}, 100):
            os.write(1, b"".join(b"%09d\\n" % number for number in range(first, first + 100)))
        return "done"

    prints_much()
"""


def log_of(project: Project) -> tuple[list[int], str, list[int]]:
    """Return the numbers at the beginning of the log, the line after them, and the others."""
    lines = project.holdfast("tasks", "logs", "d", "r", "prints_much").out.splitlines()
    (note,) = (at for at, line in enumerate(lines) if not line.isdecimal())
    return list(map(int, lines[:note])), lines[note], list(map(int, lines[note + 1 :]))


def assert_both_ends_are_there(project: Project, limit: int, lines: int) -> None:
    size = sum(file.stat().st_size for file in project.path(LOG_DIRECTORY).iterdir())
    begin, note, end = log_of(project)
    assert limit / 2 < size <= limit
    assert begin == list(range(len(begin))) and len(begin) * 10 > limit / 5
    assert end == list(range(end[0], lines)) and len(end) * 10 > limit / 3
    assert note == f"[{(end[0] - len(begin)) * 10:,} bytes were left out here]"


LOG_DIRECTORY = ".holdfast/logs/d/r/prints_much"


def test_a_log_has_a_limit(project: Project) -> None:
    limit, lines = 2**20, 300_000

    ended = project.run_dag(PRINTS_MUCH.format(lines=lines), HOLDFAST__LOGS__MAX_SIZE=str(limit))

    assert ended.status == 0, ended.err
    assert_both_ends_are_there(project, limit, lines)


@pytest.mark.full
def test_a_log_of_300_mb_keeps_its_beginning_and_its_end(project: Project) -> None:
    limit, lines = 64 * 2**20, 30_000_000

    ended = project.run_dag(PRINTS_MUCH.format(lines=lines))

    assert ended.status == 0, ended.err
    assert_both_ends_are_there(project, limit, lines)
    shutil.rmtree(project.path(LOG_DIRECTORY))


@pytest.mark.full
def test_a_log_that_cannot_be_written_is_reported_and_the_task_runs_without(
    project: Project,
) -> None:
    project.write(".holdfast/logs", "a file where a directory should be")

    ended = project.run_dag(
        """
        from holdfast.sdk import DAG, task

        with DAG("d"):

            @task
            def prints():
                print("x" * 1_000_000)
                return "done"

            prints()
        """
    )
    shown = project.holdfast("tasks", "logs", "d", "r", "prints")

    assert ended.status == 0, ended.err
    assert project.result("prints") == ["done"]
    assert "cannot be written" in ended.err and "prints/1.log" in ended.err
    assert "Traceback" not in ended.err
    assert shown.status == 1 and shown.err.startswith("error: ")
    assert "unexpected" not in shown.err
