"""`holdfast tasks`: lists, clearing, marking and logs."""

from __future__ import annotations

import json
import os
import socket
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import msgspec
import pipeline
import pytest

from holdfast.actions.logs import log_key, log_path
from holdfast.commands import (
    ChangeTasks,
    CreateRun,
    FinishRun,
    Get,
    GetRun,
    ListTaskInstances,
    MarkRun,
    RegisterTask,
    Set,
    StartAttempt,
    TaskChange,
)
from holdfast.connection import open_store
from holdfast.logs.storage import LogStorage
from holdfast.model.entry import ApiWriter
from holdfast.model.run import RunState, TaskState
from holdfast.model.scope import TaskScope
from holdfast.settings import load
from holdfast.store import Store
from holdfast.stores.offload.objects import opening

RUN = ("etl", "r1")


@pytest.fixture
def store() -> Iterator[Store]:
    """Yield the embedded store of the project, with a run that is half done."""
    with open_store(load()) as store:
        pipeline.half_way(store)
        yield store


def states(store: Store) -> dict[str, TaskState]:
    found = store.execute(ListTaskInstances(dag_id="etl", run_id="r1"))
    return {f"{one.scope.task_id}{one.scope.map_index}": one.state for one in found}


def test_task_instances_are_listed(holdfast):
    header, extract, *_, report = holdfast("tasks", "list", *RUN).out.splitlines()

    assert header == "task\tmap index\tstate\tattempt\tstarted\ttime\treason"
    assert extract.startswith("extract\t-1\tsuccess\t1\t20")
    assert report == "report\t-1\tscheduled\t0\t\t\t"


def test_a_task_that_the_dag_no_longer_has_stays_in_the_list(holdfast, store):
    removed = TaskChange("report", -1, TaskState.REMOVED)
    store.execute(ChangeTasks("etl", "r1", pipeline.WORKER, (removed,)))

    assert holdfast("tasks", "list", *RUN).out.splitlines()[-1] == "report\t-1\tremoved\t0\t\t\t"


def test_task_instances_are_listed_as_json(holdfast):
    found = json.loads(holdfast("tasks", "list", *RUN, "--json").out)

    assert found["total_entries"] == 5
    assert found["task_instances"][2] | {"id": "", "start_date": "", "end_date": ""} == {
        "id": "",
        "dag_id": "etl",
        "dag_run_id": "r1",
        "task_id": "load",
        "map_index": 1,
        "state": "failed",
        "try_number": 1,
        "failures": 1,
        "interruptions": 0,
        "not_before": None,
        "start_date": "",
        "end_date": "",
        "error": "ValueError: no data",
        "waits_for": "",
    }


def test_the_tasks_of_an_unknown_run_are_an_error(holdfast):
    assert holdfast("tasks", "list", "etl", "nope").status == 1


def test_a_task_is_shown_with_its_attempts(holdfast):
    lines = holdfast("tasks", "show", *RUN, "load", "--map-index", "1").out.splitlines()

    assert "state\tfailed" in lines
    assert "attempt\tstarted\ttime\toutcome\texit\thost\terror" in lines
    assert lines[-1].startswith("1\t20")
    assert lines[-1].endswith("\tfailed\tSIGKILL\there\tValueError: no data")


def test_a_task_is_shown_as_json(holdfast):
    result = holdfast("tasks", "show", *RUN, "extract", "--json")

    (attempt,) = json.loads(result.out)["attempts"]
    assert (attempt["outcome"], attempt["exit_status"], attempt["signal"]) == ("success", 0, None)
    assert (attempt["hostname"], attempt["pid"]) == ("here", 4711)


def test_a_mapped_task_without_index_is_an_error(holdfast):
    result = holdfast("tasks", "show", *RUN, "load")

    assert result.status == 2
    assert result.err.endswith("is mapped\nhint: give a map index: 0 to 2\n")


@pytest.mark.parametrize("command", ["show", "logs"])
def test_the_error_for_an_unknown_task_names_the_known_ones(holdfast, command):
    result = holdfast("tasks", command, *RUN, "lode")

    assert result.status == 1
    assert result.err == (
        "error: run `r1` of `etl` has no task `lode`\nhint: it has: extract, load, report\n"
    )


def test_an_unknown_index_is_named(holdfast):
    result = holdfast("tasks", "show", *RUN, "load", "--map-index", "7")

    assert result.status == 1
    assert "has no map index 7" in result.err


def test_failed_tasks_are_cleared_and_the_run_continues(holdfast, store):
    store.execute(FinishRun("etl", "r1", pipeline.WORKER, RunState.FAILED, waiting=2))

    result = holdfast("tasks", "clear", *RUN, "--failed", "--yes", "--json")

    assert json.loads(result.out)["cleared"] == [
        {"dag_id": "etl", "run_id": "r1", "task_id": "load", "map_index": 1}
    ]
    assert result.err.startswith("Cleared 1 task instance.\nhint: a scheduler continues")
    assert states(store)["load1"] is TaskState.SCHEDULED
    assert store.execute(GetRun("etl", "r1")).state is RunState.QUEUED


def test_a_task_is_cleared_with_its_downstream_tasks(holdfast, store):
    pipeline.succeed(store, "load", 2)

    holdfast("tasks", "clear", *RUN, "load", "--map-index", "0", "--yes")
    assert states(store)["load0"] is TaskState.SCHEDULED
    assert states(store)["load2"] is TaskState.SUCCESS

    holdfast("tasks", "clear", *RUN, "extract", "--downstream", "--yes")
    assert set(states(store).values()) == {TaskState.SCHEDULED}


def test_without_names_all_tasks_are_cleared(holdfast, store):
    result = holdfast("tasks", "clear", *RUN, "--yes")

    assert result.err.startswith("Cleared 5 task instances.")
    assert set(states(store).values()) == {TaskState.SCHEDULED}


@pytest.mark.parametrize(
    ("task_id", "option", "kept"),
    [
        ("extract", (), False),
        ("extract", ("--keep-state",), True),
        ("load", (), True),
        ("load", ("--discard-state",), False),
    ],
)
def test_a_failed_task_resumes_and_a_succeeded_one_starts_over(
    holdfast, store, task_id, option, kept
):
    scope = TaskScope("etl", "r1", task_id, -1 if task_id == "extract" else 1)
    store.execute(Set(scope, "job", '"app_1"', ApiWriter("ann")))

    holdfast("tasks", "clear", *RUN, task_id, *option, "--yes")

    assert (store.execute(Get(scope, "job")) is not None) is kept


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (("--keep-state", "--discard-state", "--yes"), "both --keep-state and --discard-state"),
        (("--map-index", "1", "--yes"), "--map-index is given without a task"),
        ((), "asks for confirmation"),
    ],
)
def test_a_bad_clear_is_refused(holdfast, store, options, message):
    before = states(store)

    result = holdfast("tasks", "clear", *RUN, *options)

    assert result.status == 2
    assert message in result.err
    assert states(store) == before


def test_contradicting_options_are_refused_where_nothing_is_to_be_cleared(holdfast):
    result = holdfast(
        *("tasks", "clear", *RUN, "extract", "--failed", "--yes"),
        *("--keep-state", "--discard-state"),
    )

    assert result.status == 2


def test_an_unknown_task_is_not_cleared(holdfast):
    assert holdfast("tasks", "clear", *RUN, "load", "lode", "--yes").status == 1


def test_clearing_nothing_is_reported(holdfast):
    result = holdfast("tasks", "clear", *RUN, "report", "--failed", "--yes")

    assert (result.status, result.err) == (0, "There is nothing to clear.\n")


@pytest.mark.parametrize(
    ("end", "options", "state"),
    [
        (RunState.FAILED, ["--failed"], RunState.QUEUED),
        (RunState.FAILED, ["--downstream"], RunState.QUEUED),
        (RunState.SUCCESS, [], RunState.QUEUED),
        (RunState.SUCCESS, ["--failed"], RunState.SUCCESS),
    ],
)
def test_a_run_that_ended_while_queued_is_cleared_as_a_whole(holdfast, store, end, options, state):
    store.execute(CreateRun(dag_id="etl", run_id="early"))
    store.execute(MarkRun(dag_id="etl", run_id="early", state=end, writer=ApiWriter("ann")))

    result = holdfast("tasks", "clear", "etl", "early", "--yes", "--json", *options)
    queued = state is RunState.QUEUED

    assert store.execute(GetRun("etl", "early")).state is state
    assert json.loads(result.out) == {"cleared": [], "whole_run": queued}
    again = "Queued run `early` of `etl` again: it had ended without any task."
    assert result.err.splitlines()[0] == (again if queued else "There is nothing to clear.")


def test_a_task_of_a_run_that_ended_while_queued_is_an_error(holdfast, store):
    store.execute(CreateRun(dag_id="etl", run_id="early"))
    end = MarkRun(dag_id="etl", run_id="early", state=RunState.FAILED, writer=ApiWriter("ann"))
    store.execute(end)

    result = holdfast("tasks", "clear", "etl", "early", "load", "--yes")

    assert result.status == 1
    assert result.err == (
        "error: run `early` of `etl` has no task `load`: it has ended without any\n"
        "hint: name no task, and the run is queued again\n"
    )


def test_a_task_is_marked(holdfast, store):
    result = holdfast("tasks", "mark", *RUN, "load", "--map-index", "1", "--success")

    assert (result.status, result.err) == (0, "Marked task etl/r1/load[1] as success.\n")
    assert states(store)["load1"] is TaskState.SUCCESS

    holdfast("tasks", "mark", *RUN, "report", "--failed")
    assert states(store)["report-1"] is TaskState.FAILED


def test_all_instances_of_a_mapped_task_are_marked(holdfast, store):
    result = holdfast("tasks", "mark", *RUN, "load", "--skipped", "--json")

    assert result.err == "Marked 3 instances of task load as skipped.\n"
    marked = json.loads(result.out)["task_instances"]
    assert [(one["map_index"], one["state"]) for one in marked] == [
        (0, "skipped"),
        (1, "skipped"),
        (2, "skipped"),
    ]
    assert states(store)["report-1"] is TaskState.SCHEDULED


def test_a_task_of_an_external_run_is_not_marked(holdfast, store):
    store.execute(RegisterTask(TaskScope("script", "r1", "t")))

    result = holdfast("tasks", "mark", "script", "r1", "t", "--success")

    assert (result.status, "is external" in result.err) == (2, True)


@pytest.mark.parametrize(("setting", "kept"), [("true", False), ("false", True)])
def test_marking_as_success_clears_the_task_store_where_success_does(
    holdfast, store, monkeypatch, setting, kept
):
    monkeypatch.setenv("HOLDFAST__STATE_STORE__CLEAR_ON_SUCCESS", setting)
    scope = TaskScope("etl", "r1", "load", 1)
    store.execute(Set(scope, "job", '"app_1"', ApiWriter("ann")))

    holdfast("tasks", "mark", *RUN, "load", "--map-index", "1", "--success")

    assert (store.execute(Get(scope, "job")) is not None) is kept


@pytest.mark.parametrize("options", [(), ("--success", "--failed")])
def test_marking_needs_a_state(holdfast, options):
    assert holdfast("tasks", "mark", *RUN, "extract", *options).status == 2


def write_log(text: str, task_id: str = "extract", attempt: int = 1) -> Path:
    path = log_path(load().home, TaskScope("etl", "r1", task_id), attempt)
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)
    return path


def test_the_log_of_the_newest_attempt_is_printed(holdfast):
    write_log("one\ntwo ü\n")

    assert holdfast("tasks", "logs", *RUN, "extract") == (0, "one\ntwo ü\n", "")


def test_the_log_of_an_earlier_attempt_is_printed(holdfast, store):
    holdfast("tasks", "clear", *RUN, "extract", "--yes")
    pipeline.succeed(store, "extract")
    write_log("first\n", attempt=1)
    write_log("second\n", attempt=2)

    assert holdfast("tasks", "logs", *RUN, "extract").out == "second\n"
    assert holdfast("tasks", "logs", *RUN, "extract", "--attempt", "1").out == "first\n"
    assert "the newest is 2" in holdfast("tasks", "logs", *RUN, "extract", "--attempt", "3").err


@pytest.mark.parametrize(
    ("text", "tail", "printed"),
    [
        ("a\nb\nc\n", "2", "b\nc\n"),
        ("a\nb\nc", "2", "b\nc"),
        ("a\nb\nc\n", "9", "a\nb\nc\n"),
        ("a\nb\nc\n", "0", ""),
        ("\n\n\n", "2", "\n\n"),
        ("", "2", ""),
        ("x" * 200_000 + "\n" + "y" * 100_000 + "\n", "1", "y" * 100_000 + "\n"),
        ("line\n" * 100_000, "50000", "line\n" * 50_000),
    ],
)
def test_the_end_of_a_log_is_printed(holdfast, text, tail, printed):
    write_log(text)

    assert holdfast("tasks", "logs", *RUN, "extract", "--tail", tail).out == printed


def test_the_error_for_a_log_on_another_machine_names_the_machine(holdfast):
    result = holdfast("tasks", "logs", *RUN, "extract")

    assert result.status == 1
    assert f"on {socket.gethostname()}\n" in result.err
    assert "the machine that ran the attempt, here," in result.err
    assert "[logs] url" in result.err


def test_the_error_for_a_log_that_is_missing_on_its_machine_names_the_file(holdfast, store):
    worker = msgspec.structs.replace(pipeline.WORKER, host=socket.gethostname())
    store.execute(StartAttempt(TaskScope("etl", "r1", "report"), worker))

    result = holdfast("tasks", "logs", *RUN, "report")

    assert result.status == 1
    assert "no file" in result.err and "report/1.log" in result.err


def test_a_log_of_another_machine_is_printed_from_storage(holdfast, tmp_path, monkeypatch):
    url = f"file://{tmp_path}/storage"
    monkeypatch.setenv("HOLDFAST__LOGS__URL", url)
    storage, key = LogStorage(url), log_key(TaskScope("etl", "r1", "extract"), 1)
    storage.put(key, 0, b"one\ntwo\n")

    incomplete = holdfast("tasks", "logs", *RUN, "extract")
    storage.finish(key, 8)

    assert (incomplete.status, incomplete.out) == (0, "one\ntwo\n")
    assert incomplete.err == "The end of this log has not been uploaded yet: it is on here.\n"
    assert holdfast("tasks", "logs", *RUN, "extract", "--tail", "1") == (0, "two\n", "")
    assert holdfast("tasks", "logs", *RUN, "extract", "-f") == (0, "one\ntwo\n", "")


def test_a_storage_that_cannot_be_read_is_one_clear_error(holdfast, monkeypatch):
    monkeypatch.setenv("HOLDFAST__LOGS__URL", "s3://bucket/logs")
    monkeypatch.setenv("AWS_ENDPOINT_URL", "http://127.0.0.1:1")
    monkeypatch.setenv("AWS_ACCESS_KEY_ID", "x")
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", "x")
    monkeypatch.setattr(opening, "MAX_RETRIES", 0)

    result = holdfast("tasks", "logs", *RUN, "extract")

    assert result.status == 1
    assert result.err.startswith("error: cannot list s3://bucket/logs/etl/r1/extract/1.log: ")
    assert len(result.err.splitlines()) == 2


def test_a_task_that_has_not_started_has_no_log(holdfast):
    result = holdfast("tasks", "logs", *RUN, "report")

    assert result.status == 1
    assert "has not started" in result.err


def follow(*options: str) -> subprocess.Popen[str]:
    return subprocess.Popen(
        [sys.executable, "-m", "holdfast", "tasks", "logs", *RUN, "report", *options],
        stdout=subprocess.PIPE,
        text=True,
        env=os.environ,
    )


def test_a_log_is_followed_until_the_attempt_ends(store, holdfast):
    store.execute(StartAttempt(TaskScope("etl", "r1", "report")))
    with follow("--follow") as process:
        assert process.stdout is not None
        path = write_log("begun\n", "report")
        assert process.stdout.readline() == "begun\n"
        with path.open("a") as log:
            log.write("ended\n")
        assert process.stdout.readline() == "ended\n"
        holdfast("tasks", "mark", *RUN, "report", "--success")
        assert process.stdout.read() == ""
    assert process.returncode == 0


def test_a_closed_pipe_ends_a_followed_log(store):
    store.execute(StartAttempt(TaskScope("etl", "r1", "report")))
    write_log("line\n" * 1_000_000, "report")
    command = f"{sys.executable} -m holdfast tasks logs etl r1 report | head -1"

    done = subprocess.run(command, shell=True, capture_output=True, text=True, check=True)

    assert (done.stdout, done.stderr) == ("line\n", "")
