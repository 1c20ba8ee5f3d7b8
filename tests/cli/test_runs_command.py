"""`holdfast runs`: lists, triggers, backfills, stops, marks and deletion."""

from __future__ import annotations

import getpass
import json
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pipeline
import pytest

from holdfast.actions.logs import log_key, log_path
from holdfast.commands import (
    ClaimRun,
    CreateRun,
    FinishRun,
    ForgetFile,
    GetRun,
    ListRuns,
    RegisterTask,
)
from holdfast.connection import open_store
from holdfast.errors import NotFound
from holdfast.logs.storage import LogStorage
from holdfast.model.run import RunKind, RunState
from holdfast.model.scope import TaskScope
from holdfast.settings import load
from holdfast.store import Store
from holdfast.stores.offload.objects import opening


@pytest.fixture
def store() -> Iterator[Store]:
    """Yield the embedded store of the project, with two DAGs."""
    with open_store(load()) as store:
        pipeline.save(store)
        yield store


def test_runs_are_listed_newest_first(holdfast, store):
    for number in range(3):
        pipeline.begin(store, f"r{number}")

    result = holdfast("runs", "list", "--limit", "2")

    header, *rows = result.out.splitlines()
    assert header == "dag\trun\tkind\tstate\tlogical date\tstarted\ttime"
    assert [row.split("\t")[1] for row in rows] == ["r2", "r1"]
    assert rows[0].startswith("etl\tr2\tmanual\trunning\t2026-01-05 03:00:00Z\t")
    assert result.err == "There are more; raise --limit to show them.\n"


def test_runs_are_listed_by_dag_and_state(holdfast, store):
    pipeline.begin(store)
    store.execute(CreateRun(dag_id="mart", run_id="m1"))

    def listed(*options: str) -> list[str]:
        found = json.loads(holdfast("runs", "list", "--json", *options).out)
        return [run["dag_run_id"] for run in found["dag_runs"]]

    assert listed("--dag-id", "mart") == ["m1"]
    assert listed("--state", "running") == ["r1"]
    assert listed("--state", "running", "--state", "queued") == ["m1", "r1"]
    assert listed("--state", "failed") == []


def test_without_runs_there_is_no_output(holdfast):
    assert holdfast("runs", "list") == (0, "", "There are no runs.\n")


def test_a_run_is_shown_with_its_tasks(holdfast, store):
    pipeline.half_way(store)

    lines = holdfast("runs", "show", "etl", "r1").out.splitlines()

    assert "state\trunning" in lines
    assert 'conf\t{"full":true}' in lines
    assert "data interval\t2026-01-05 03:00:00Z to 2026-01-05 03:00:00Z" in lines
    assert "task\tstate\ttime\tattempt\terror" in lines
    assert lines[-1] == "report\tscheduled\t\t\t"
    assert any(
        line.startswith("load[1]\tfailed\t") and line.endswith("\t1\tValueError: no data")
        for line in lines
    )


def test_a_run_of_a_dag_in_no_file_is_shown_as_waiting(holdfast, store):
    store.execute(CreateRun(dag_id="etl", run_id="here"))
    store.execute(CreateRun(dag_id="gone", run_id="r1"))

    assert "waiting for\ta DAG file that defines `gone`: there is none" in (
        holdfast("runs", "show", "gone", "r1").out.splitlines()
    )
    assert "waiting for" not in holdfast("runs", "show", "etl", "here").out


def test_a_run_of_a_dag_whose_file_was_removed_is_shown_as_waiting(holdfast, store):
    store.execute(CreateRun(dag_id="etl", run_id="r1"))
    store.execute(ForgetFile("dags/etl.py", ("etl",)))

    assert "waiting for\ta DAG file that defines `etl`: there is none" in (
        holdfast("runs", "show", "etl", "r1").out.splitlines()
    )


def test_a_run_is_shown_as_json(holdfast, store):
    pipeline.half_way(store)

    found = json.loads(holdfast("runs", "show", "etl", "r1", "--json").out)

    assert found["conf"] == {"full": True}
    assert found["owner"]["pid"] == 4711
    assert [one["state"] for one in found["task_instances"]] == [
        "success",
        "success",
        "failed",
        "scheduled",
        "scheduled",
    ]


def test_an_unknown_run_is_an_error(holdfast):
    assert holdfast("runs", "show", "etl", "nope").status == 1


def test_a_run_is_triggered(holdfast, store):
    result = holdfast("runs", "trigger", "etl", "--conf", '{"day": 2}')

    run_id = result.out.strip()
    assert run_id.startswith("manual__20")
    run = store.execute(GetRun("etl", run_id))
    assert (run.state, run.kind, run.conf) == ("queued", RunKind.MANUAL, '{"day":2}')
    assert run.logical_date == run.data_interval_start == run.data_interval_end
    assert f"`holdfast run dags/etl.py --dag-id etl --run-id {run_id}`" in result.err


def test_a_run_is_triggered_with_id_and_date(holdfast, store):
    result = holdfast(
        "runs", "trigger", "etl", "--run-id", "x", "--logical-date", "2026-01-02", "--json"
    )

    assert json.loads(result.out)["logical_date"] == "2026-01-02T00:00:00Z"
    assert store.execute(GetRun("etl", "x")).logical_date == datetime(2026, 1, 2, tzinfo=UTC)


@pytest.mark.parametrize(
    ("options", "status", "message"),
    [
        (("nope",), 1, "DAG `nope` is not known"),
        (("etl", "--conf", "[1]"), 2, "--conf is not a JSON object"),
        (("etl", "--conf", "{"), 2, "error: "),
        (("etl", "--logical-date", "soon"), 2, "--logical-date is not a date: 'soon'"),
        (("etl", "--logical-date", "0001-01-01T00:00:00+10:00"), 2, "--logical-date is out of"),
        (("etl", "--run-id", "x" * 251), 2, "the limit is 250"),
    ],
)
def test_a_bad_trigger_is_refused(holdfast, store, options, status, message):
    result = holdfast("runs", "trigger", *options)

    assert result.status == status
    assert message in result.err
    assert store.execute(ListRuns()) == ()


def test_a_run_id_is_used_once(holdfast):
    holdfast("runs", "trigger", "etl", "--run-id", "x")

    assert holdfast("runs", "trigger", "etl", "--run-id", "x").status == 1


def backfilled(store: Store) -> list[str]:
    runs = store.execute(ListRuns(dag_id="etl", kinds=(RunKind.BACKFILL,)))
    return sorted(run.run_id for run in runs)


def test_a_backfill_creates_the_missing_runs(holdfast, store):
    pipeline.begin(store)

    result = holdfast("runs", "backfill", "etl", "--from", "2026-01-04", "--to", "2026-01-06")

    assert result.out.splitlines() == [
        "logical date\trun",
        "2026-01-04 03:00:00Z\tbackfill__2026-01-04T03:00:00+00:00",
        "2026-01-06 03:00:00Z\tbackfill__2026-01-06T03:00:00+00:00",
    ]
    assert result.err == "2 runs queued; 1 exist already.\n"
    assert backfilled(store) == [line.split("\t")[1] for line in result.out.splitlines()[1:]]


def test_a_dry_run_of_a_backfill_shows_the_runs_and_creates_none(holdfast, store):
    asked = ("runs", "backfill", "etl", "--from", "2026-01-04", "--to", "2026-01-06")

    planned = holdfast(*asked, "--dry-run")

    assert backfilled(store) == []
    assert holdfast(*asked).out == planned.out
    assert planned.err == "3 runs would be queued; 0 exist already.\n"


def test_a_repeated_backfill_creates_nothing(holdfast, store):
    asked = ("runs", "backfill", "etl", "--from", "2026-01-04", "--to", "2026-01-06", "--json")
    holdfast(*asked)

    assert json.loads(holdfast(*asked).out) == {"dag_runs": [], "existing": 3, "dry_run": False}
    assert len(backfilled(store)) == 3


def test_a_backfill_leaves_out_future_dates(holdfast, store):
    today = datetime.now(UTC).date()
    ends = str(today), str(today + timedelta(days=9))

    holdfast("runs", "backfill", "etl", "--from", ends[0], "--to", ends[1])

    assert len(backfilled(store)) <= 1


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (("etl", "--from", "2026-02-01", "--to", "2026-01-01"), "--to 2026-01-01 is before"),
        (("etl", "--from", "yesterday", "--to", "2026-01-01"), "--from is not a date: 'yesterday'"),
        (("mart", "--from", "2026-01-01", "--to", "2026-01-02"), "is not scheduled at regular"),
        (("etl", "--from", "2026-01-01"), "Missing option '--to'"),
        (
            ("etl", "--from", "2026-01-01", "--to", "9999-12-31T23:59:59-10:00"),
            "--to is out of range",
        ),
    ],
)
def test_a_bad_backfill_is_refused(holdfast, options, message):
    result = holdfast("runs", "backfill", *options)

    assert result.status == 2
    assert message in result.err


def test_a_backfill_of_too_many_runs_is_refused(holdfast, store, monkeypatch):
    monkeypatch.setattr("holdfast.cli.runs.MOST_RUNS", 3)

    result = holdfast("runs", "backfill", "etl", "--from", "2026-01-02", "--to", "2026-01-05")

    assert result.status == 2
    assert result.err == (
        "error: more than 3 runs are between 2026-01-02 and 2026-01-05\n"
        "hint: give a shorter period\n"
    )
    assert backfilled(store) == []


def test_a_run_is_stopped(holdfast, store):
    pipeline.half_way(store)

    stopped = holdfast("runs", "stop", "etl", "r1", "--json")

    assert stopped.err == "Stopped run `r1` of `etl`.\n"
    assert json.loads(stopped.out)["state"] == "failed"
    shown = holdfast("runs", "show", "etl", "r1").out
    assert f"error\tstopped by api {getpass.getuser()}" in shown.splitlines()
    again = holdfast("runs", "stop", "etl", "r1")
    assert again.status == 1
    assert again.err == (
        "error: run etl/r1 has ended: failed\n"
        "hint: there is nothing to stop; `holdfast runs mark` changes its state\n"
    )


def test_a_stopped_run_is_resumed_by_clearing_its_failed_tasks(holdfast, store):
    pipeline.half_way(store)
    holdfast("runs", "stop", "etl", "r1")

    cleared = json.loads(holdfast("tasks", "clear", "etl", "r1", "--failed", "--yes", "--json").out)

    names = [f"{one['task_id']}{one['map_index']}" for one in cleared["cleared"]]
    assert names == ["load1", "load2", "report-1"]


def test_a_run_is_marked(holdfast, store):
    pipeline.half_way(store)

    marked = holdfast("runs", "mark", "etl", "r1", "--success", "--json")

    assert marked.err == "Marked run `r1` of `etl` as success.\n"
    assert json.loads(marked.out)["state"] == "success"
    assert holdfast("runs", "mark", "etl", "r1", "--failed").status == 0
    assert store.execute(GetRun("etl", "r1")).error == f"marked failed by api {getpass.getuser()}"


@pytest.mark.parametrize(
    ("args", "status", "message"),
    [
        (("mark", "etl", "r1"), 2, "no state is given\nhint: give --success or --failed"),
        (("mark", "etl", "r1", "--success", "--failed"), 2, "several states are given"),
        (("mark", "etl", "r9", "--success"), 1, "run etl/r9 is not known"),
        (("stop", "etl", "r9"), 1, "run etl/r9 is not known"),
        (("stop", "script", "r1"), 2, "run script/r1 is external"),
        (("mark", "script", "r1", "--failed"), 2, "run script/r1 is external"),
    ],
)
def test_an_invalid_stop_or_mark_is_refused(holdfast, store, args, status, message):
    pipeline.begin(store)
    store.execute(RegisterTask(TaskScope("script", "r1", "t")))

    result = holdfast("runs", *args)

    assert (result.status, message in result.err) == (status, True)


def test_a_run_is_deleted_with_its_logs(holdfast, store, project):
    pipeline.half_way(store)
    log = log_path(load().home, TaskScope("etl", "r1", "extract"), 1)
    log.parent.mkdir(parents=True)
    log.touch()

    result = holdfast("runs", "delete", "etl", "r1", "--yes")

    assert (result.status, result.err) == (0, "Deleted run `r1` of `etl`.\n")
    assert not (load().home / "logs" / "etl").exists()
    with pytest.raises(NotFound):
        store.execute(GetRun("etl", "r1"))


def test_a_run_is_deleted_with_its_logs_in_storage(holdfast, store, monkeypatch, tmp_path):
    pipeline.half_way(store)
    url = f"file://{tmp_path}/storage"
    monkeypatch.setenv("HOLDFAST__LOGS__URL", url)
    storage, key = LogStorage(url), log_key(TaskScope("etl", "r1", "extract"), 1)
    storage.put(key, 0, b"text\n")

    assert holdfast("runs", "delete", "etl", "r1", "--yes").status == 0

    assert not storage.log(key).exists()


def test_a_run_whose_logs_stay_in_storage_is_deleted_and_the_logs_are_named(
    holdfast, store, monkeypatch
):
    pipeline.half_way(store)
    monkeypatch.setattr(opening, "MAX_RETRIES", 0)
    monkeypatch.setenv("HOLDFAST__LOGS__URL", "s3://gone/logs")
    for name in ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY"):
        monkeypatch.setenv(name, "x")
    monkeypatch.setenv("AWS_ENDPOINT_URL", "http://127.0.0.1:1")

    result = holdfast("runs", "delete", "etl", "r1", "--yes")

    assert result.status == 1
    assert "run `r1` of `etl` is deleted, but not its logs: " in result.err
    assert "hint: delete s3://gone/logs/etl/r1 with the tools of the storage" in result.err


@pytest.fixture
def ended(store: Store) -> list[Path]:
    """Add three runs that have ended, each with a log; return the logs."""
    logs = []
    for number in range(3):
        run_id = f"r{number}"
        pipeline.begin(store, run_id)
        for task_id, index in [("extract", -1), *(("load", n) for n in range(3)), ("report", -1)]:
            pipeline.succeed(store, task_id, index, run_id)
        store.execute(FinishRun("etl", run_id, pipeline.WORKER, RunState.SUCCESS))
        logs.append(log_path(load().home, TaskScope("etl", run_id, "extract"), 1))
        logs[-1].parent.mkdir(parents=True)
        logs[-1].touch()
    return logs


def test_old_runs_are_pruned_with_their_logs(holdfast, store, ended):
    result = holdfast("runs", "prune", "--before", "0", "--yes")

    assert (result.status, result.out) == (0, "2 runs deleted.\n")
    assert [run.run_id for run in store.execute(ListRuns())] == ["r2"]
    assert [log.exists() for log in ended] == [False, False, True]
    assert sorted(path.name for path in (load().home / "logs" / "etl").iterdir()) == ["r2"]


def test_a_dry_run_shows_what_would_be_pruned(holdfast, store, ended):
    result = holdfast("runs", "prune", "--before", "0", "--dry-run")

    rows = [row.split("\t") for row in result.out.splitlines()]
    assert [row[:4] for row in rows] == [
        ["etl", "r0", "manual", "success"],
        ["etl", "r1", "manual", "success"],
    ]
    assert result.err == "2 runs would be deleted.\n"
    found = json.loads(holdfast("runs", "prune", "--before", "0", "--dry-run", "--json").out)
    assert ([run["dag_run_id"] for run in found["dag_runs"]], found["count"]) == (["r0", "r1"], 2)
    assert len(store.execute(ListRuns())) == 3


@pytest.mark.parametrize(
    "options",
    [
        ("--before", "1d"),
        ("--before", "2026-01-01"),
        ("--before", "0", "--dag-id", "mart"),
        ("--before", "0", "--state", "failed"),
    ],
    ids=" ".join,
)
def test_other_runs_are_not_pruned(holdfast, ended, options):
    for how in ("--yes", "--dry-run"):
        assert holdfast("runs", "prune", *options, how).out == "Nothing to delete.\n"
    found = json.loads(holdfast("runs", "prune", *options, "--yes", "--json").out)
    assert found["count"] == 0


def test_runs_are_not_pruned_without_confirmation(holdfast, store, ended):
    assert holdfast("runs", "prune", "--before", "0").status == 2
    assert len(store.execute(ListRuns())) == 3


@pytest.mark.parametrize("before", ["soon", "90", "-1d", "2026-13-01"])
def test_an_unclear_time_before_which_to_prune_is_an_error(holdfast, before):
    result = holdfast("runs", "prune", f"--before={before}", "--dry-run")

    assert (result.status, result.err) == (
        2,
        f"error: --before is not a date: '{before}'\nhint: write 90d or 2026-01-31\n",
    )


def test_a_run_is_not_deleted_without_confirmation(holdfast, store):
    pipeline.begin(store)

    assert holdfast("runs", "delete", "etl", "r1").status == 2
    assert store.execute(GetRun("etl", "r1"))


def test_a_running_run_is_not_deleted(holdfast, store):
    pipeline.begin(store)
    store.execute(
        ClaimRun(dag_id="etl", run_id="r1", process=pipeline.WORKER, lease=timedelta(hours=1))
    )

    result = holdfast("runs", "delete", "etl", "r1", "--yes")

    assert result.status == 1
    assert "is being run by process 4711 on here" in result.err


def test_runs_of_an_unknown_dag_are_an_error(holdfast, store):
    result = holdfast("runs", "list", "--dag-id", "elt")

    assert (result.status, result.out) == (1, "")
    assert result.err == "error: DAG `elt` is not known\nhint: known DAGs: etl, …\n"


def test_a_dag_without_matching_runs_is_no_error(holdfast, store):
    store.execute(CreateRun(dag_id="of a script", run_id="r1"))

    known = holdfast("runs", "list", "--dag-id", "etl")
    external = holdfast("runs", "list", "--dag-id", "of a script", "--state", "failed")

    assert known == (0, "", "There are no matching runs.\n")
    assert external == (0, "", "There are no matching runs.\n")
