"""Public API: DAGs, their runs and task instances."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from http.client import HTTPConnection
from pathlib import Path
from threading import current_thread
from typing import Any
from urllib.parse import quote

import msgspec
import pipeline
import pytest
from public_client import STATE, Api, serving, state_of
from servers import SqliteDatabase
from talk import ask

from holdfast import commands as c
from holdfast.actions.logs import run_logs
from holdfast.model.run import Process, RunState
from holdfast.model.scope import TaskScope
from holdfast.server.execution import routes as execution
from holdfast.server.public import dags, runs
from holdfast.stores.http import HttpStore

RUNS = "/dags/etl/dagRuns"
TASKS = f"{RUNS}/r1/taskInstances"


@pytest.fixture
def api(sqlite_database: SqliteDatabase, tmp_path: Path) -> Iterator[Api]:
    with serving(sqlite_database.empty(), tmp_path) as api:
        pipeline.half_way(api.store)
        yield api


def states(api: Api, **query: Any) -> dict[str, str]:
    found = api.get(TASKS, **query)["task_instances"]
    return {f"{one['task_id']}{one['map_index']}": one["state"] for one in found}


def test_dags_are_listed_page_by_page(api: Api) -> None:
    everything = api.get("/dags")
    assert [dag["dag_id"] for dag in everything["dags"]] == ["etl", "mart"]
    page = api.get("/dags", limit=1, offset=1)
    assert [dag["dag_id"] for dag in page["dags"]] == ["mart"]
    assert page["total_entries"] == everything["total_entries"] == 2


def test_a_dag_has_its_schedule_and_tasks(api: Api) -> None:
    dag = api.get("/dags/etl")

    assert (dag["timetable_summary"], dag["timetable_description"]) == (
        "0 3 * * *",
        "at 03:00 every day",
    )
    assert (dag["fileloc"], dag["params"], dag["tags"]) == ("dags/etl.py", {"day": 1}, ["sales"])
    assert datetime.fromisoformat(dag["next_dagrun_run_after"]).hour == 3
    load = dag["tasks"][1]
    assert (load["task_id"], load["upstream_task_ids"]) == ("load", ["extract"])
    assert (load["is_mapped"], load["uses_spark"], load["outlets"]) == (True, True, ["orders"])
    assert api.get("/dags/mart")["timetable_description"] == "on orders"


def test_a_dag_is_paused_and_unpaused(api: Api) -> None:
    paused = api.ask("PATCH", "/dags/etl", {"is_paused": True})
    assert (paused.json["is_paused"], paused.json["next_dagrun_run_after"]) == (True, None)
    assert api.get("/dags/etl")["is_paused"]
    assert not api.ask("PATCH", "/dags/etl", {"is_paused": False}).json["is_paused"]


@pytest.mark.parametrize("body", [{}, {"is_paused": "true"}, {"is_paused": 1}, {"paused": True}])
def test_a_body_without_changes_does_not_change_a_dag(api: Api, body: Any) -> None:
    assert api.ask("PATCH", "/dags/etl", body).status == 422
    assert not api.get("/dags/etl")["is_paused"]


@pytest.mark.parametrize(
    ("method", "path", "body"),
    [
        ("GET", "/dags/elt", None),
        ("PATCH", "/dags/elt", {"is_paused": True}),
        ("POST", "/dags/elt/dagRuns", {}),
        ("GET", f"{RUNS}/r9", None),
        ("PATCH", f"{RUNS}/r9", {"state": "failed"}),
        ("DELETE", f"{RUNS}/r9", None),
        ("GET", f"{RUNS}/r9/upstreamAssetEvents", None),
        ("GET", f"{RUNS}/r9/taskInstances", None),
        ("GET", f"{TASKS}/lode", None),
        ("GET", f"{TASKS}/load?map_index=9", None),
        ("GET", f"{TASKS}/load", None),
        ("PATCH", f"{TASKS}/lode", {"new_state": "success"}),
        ("POST", "/dags/etl/clearTaskInstances", {"dag_run_id": "r9"}),
        ("POST", "/dags/etl/clearTaskInstances", {"dag_run_id": "r1", "task_ids": ["lode"]}),
    ],
)
def test_unknown_dags_runs_and_tasks_are_not_found(
    api: Api, method: str, path: str, body: Any
) -> None:
    reply = api.ask(method, path, body)

    assert (reply.status, reply.reason) == (404, "not_found")


def test_a_run_is_triggered_with_an_id_by_its_time(api: Api) -> None:
    reply = api.ask("POST", RUNS, {"conf": {"full": True}})

    run = reply.json
    assert (reply.status, run["state"], run["run_type"]) == (200, "queued", "manual")
    assert run["conf"] == {"full": True}
    date = datetime.fromisoformat(run["logical_date"])
    assert run["dag_run_id"] == f"manual__{date.isoformat()}"
    assert abs(datetime.now(UTC) - date) < timedelta(minutes=1)
    assert api.get(f"{RUNS}/{quote(run['dag_run_id'], safe='')}") == run


def test_a_run_is_triggered_with_the_id_and_date_that_are_given(api: Api) -> None:
    asked = {"dag_run_id": "again/1", "logical_date": "2026-01-31T01:00:00+01:00", "conf": None}

    run = api.ask("POST", RUNS, asked).json

    assert (run["dag_run_id"], run["logical_date"]) == ("again/1", "2026-01-31T00:00:00Z")
    assert run["data_interval_start"] == run["data_interval_end"] == "2026-01-31T00:00:00Z"
    assert api.get(f"{RUNS}/again%2F1") == run
    again = api.ask("POST", RUNS, asked)
    assert (again.status, again.reason) == (409, "conflict")


@pytest.mark.parametrize(
    "body",
    [
        {"conf": [1]},
        {"conf": {"a": 2**64}},
        {"dag_run_id": ""},
        {"dag_run_id": "a\x00"},
        {"dag_run_id": "x" * 251},
        {"logical_date": "2026-01-31"},
        {"run_id": "r2"},
    ],
)
def test_an_invalid_trigger_is_refused(api: Api, body: Any) -> None:
    assert api.ask("POST", RUNS, body).status == 422
    assert api.get(RUNS)["total_entries"] == 1


def test_runs_are_listed_newest_first_and_filtered(api: Api) -> None:
    for number in range(3):
        api.ask("POST", RUNS, {"dag_run_id": f"m{number}"})
    api.store.execute(c.RegisterTask(TaskScope("other", "x", "t")))

    def ids(path: str = RUNS, **query: Any) -> list[str]:
        found = api.get(path, **query)
        assert found["total_entries"] >= len(found["dag_runs"])
        return [run["dag_run_id"] for run in found["dag_runs"]]

    assert ids() == ["m2", "m1", "m0", "r1"]
    assert ids(limit=2, offset=1) == ["m1", "m0"]
    assert ids(state="running") == ["r1"]
    assert ids(state=["running", "queued"], run_type="manual") == ["m2", "m1", "m0", "r1"]
    assert ids(run_type="scheduled") == []
    assert ids("/dags/~/dagRuns", run_type="external") == ["x"]
    assert api.get(RUNS, state="queued", limit=1)["total_entries"] == 3
    assert api.ask("GET", RUNS, state="done").status == 422


def test_deleting_a_run_deletes_its_tasks_state_and_logs(api: Api, tmp_path: Path) -> None:
    api.put(f"{STATE}/k", 1)
    logs = run_logs(tmp_path / ".holdfast", "etl", "r1")
    logs.mkdir(parents=True)

    assert api.ask("DELETE", f"{RUNS}/r1").status == 204

    assert api.ask("GET", f"{RUNS}/r1").status == 404
    assert api.ask("GET", f"{STATE}/k").reason == "unknown_task_instance"
    assert not logs.exists()


def test_logs_are_not_deleted_by_the_threads_of_the_database(
    api: Api, monkeypatch: pytest.MonkeyPatch
) -> None:
    threads: list[str] = []

    def note(*which: object) -> None:
        threads.append(current_thread().name.split("_")[0])

    for module in (runs, dags, execution):
        monkeypatch.setattr(module, "delete_logs", note)
    api.store.execute(c.CreateRun(dag_id="etl", run_id="r2"))

    api.ask("DELETE", f"{RUNS}/r1")
    HttpStore(api.server.url, api.token).execute(c.DeleteRun("etl", "r2"))
    api.ask("DELETE", "/dags/etl")

    assert threads == ["logs"] * 3


def test_a_deletion_that_is_sent_again_keeps_the_logs_of_a_new_run(
    api: Api, monkeypatch: pytest.MonkeyPatch
) -> None:
    deleted: list[object] = []
    monkeypatch.setattr(execution, "delete_logs", lambda *which: deleted.append(which[1:]))
    body = msgspec.json.encode({"command": "DeleteRun", "dag_id": "etl", "run_id": "r2"})
    headers = {"Authorization": f"Bearer {api.token}", "Idempotency-Key": "client:1"}
    headers["Content-Type"] = "application/json"
    answers = []
    for _ in range(2):
        api.store.execute(c.CreateRun(dag_id="etl", run_id="r2"))
        connection = HTTPConnection(api.server.url.removeprefix("http://"), timeout=20)
        answers.append(ask(connection, "POST", "/execution/commands", body, headers))

    assert [answer.status for answer in answers] == [200, 200]
    assert deleted == [("etl", "r2")]
    assert api.store.execute(c.GetRun("etl", "r2")).run_id == "r2"


def test_a_run_with_a_holder_is_not_deleted(api: Api) -> None:
    process = Process("here", 1, "now")
    lease = timedelta(minutes=5)
    api.store.execute(c.ClaimRun(dag_id="etl", run_id="r1", process=process, lease=lease))

    reply = api.ask("DELETE", f"{RUNS}/r1")

    assert (reply.status, reply.reason) == (409, "conflict")
    assert api.get(f"{RUNS}/r1")["owner"] == {"hostname": "here", "pid": 1}


def test_a_run_has_the_asset_events_that_started_it(api: Api) -> None:
    api.store.execute(c.CreateAssetRun("mart", "a1"))

    found = api.get("/dags/mart/dagRuns/a1/upstreamAssetEvents")

    [event] = found["asset_events"]
    assert (event["name"], event["extra"], found["total_entries"]) == ("orders", {"rows": 7}, 1)
    assert (event["source_dag_id"], event["source_task_id"]) == ("etl", "load")
    assert api.get(f"{RUNS}/r1/upstreamAssetEvents")["asset_events"] == []


def test_task_instances_are_listed_and_filtered(api: Api) -> None:
    assert states(api) == {
        "extract-1": "success",
        "load0": "success",
        "load1": "failed",
        "load2": "scheduled",
        "report-1": "scheduled",
    }
    assert states(api, task_id="load", state=["failed", "scheduled"]) == {
        "load1": "failed",
        "load2": "scheduled",
    }
    assert list(states(api, limit=2, offset=1)) == ["load0", "load1"]
    assert api.get(TASKS, state="success", limit=1)["total_entries"] == 2
    assert api.get("/dags/~/dagRuns/~/taskInstances")["total_entries"] == 5
    assert api.get("/dags/other/dagRuns/~/taskInstances")["total_entries"] == 0


def test_a_task_instance_has_its_attempts(api: Api) -> None:
    one = api.get(f"{TASKS}/load", map_index=1)

    assert (one["state"], one["try_number"], one["failures"]) == ("failed", 1, 1)
    assert one["id"] == str(TaskScope("etl", "r1", "load", 1).ti_id)
    [attempt] = one["attempts"]
    assert (attempt["outcome"], attempt["signal"], attempt["pid"]) == ("failed", 9, 4711)
    assert attempt["error"] == one["error"] == "ValueError: no data"


def test_a_task_instance_is_marked_with_the_users_name(api: Api) -> None:
    reply = api.ask("PATCH", f"{TASKS}/load", {"new_state": "success"}, map_index=1)
    [marked] = reply.json["task_instances"]
    assert (reply.status, marked["map_index"], marked["state"]) == (200, 1, "success")
    failed = api.ask("PATCH", f"{TASKS}/report", {"new_state": "failed"})
    assert failed.json["task_instances"][0]["error"] == "marked failed by api ann"
    for state in ("running", "done", 1):
        assert api.ask("PATCH", f"{TASKS}/report", {"new_state": state}).status == 422


def test_all_instances_of_a_mapped_task_are_marked_without_an_index(api: Api) -> None:
    reply = api.ask("PATCH", f"{TASKS}/load", {"new_state": "skipped"})

    assert (reply.status, reply.json["total_entries"]) == (200, 3)
    found = [(one["map_index"], one["state"]) for one in reply.json["task_instances"]]
    assert found == [(0, "skipped"), (1, "skipped"), (2, "skipped")]


def test_a_task_of_an_external_run_is_not_marked(api: Api) -> None:
    api.store.execute(c.RegisterTask(TaskScope("other", "x", "t")))
    path = "/dags/other/dagRuns/x"
    reply = api.ask("PATCH", f"{path}/taskInstances/t", {"new_state": "success"})
    assert (reply.status, "external" in str(reply.json)) == (422, True)
    assert api.ask("PATCH", path, {"state": "failed"}).status == 422


def test_a_run_is_ended_with_the_users_name(api: Api) -> None:
    reply = api.ask("PATCH", f"{RUNS}/r1", {"state": "failed"})

    assert (reply.status, reply.json["state"]) == (200, "failed")
    assert reply.json["error"] == "marked failed by api ann"
    assert (reply.json["end_date"] is None, reply.json["owner"]) == (False, None)
    assert states(api) == {
        "extract-1": "success",
        "load0": "success",
        "load1": "failed",
        "load2": "failed",
        "report-1": "failed",
    }
    success = api.ask("PATCH", f"{RUNS}/r1", {"state": "success"}).json
    assert (success["state"], success["error"]) == ("success", "")
    for body in ({}, {"state": "queued"}, {"state": "running"}, {"new_state": "failed"}):
        assert api.ask("PATCH", f"{RUNS}/r1", body).status == 422


def clear(api: Api, **body: Any) -> list[tuple[str, int]]:
    reply = api.ask("POST", "/dags/etl/clearTaskInstances", {"dag_run_id": "r1", **body})
    assert reply.status == 200, reply
    found = reply.json["task_instances"]
    assert reply.json["total_entries"] == len(found)
    return [(one["task_id"], one["map_index"]) for one in found]


def test_a_clear_is_a_dry_run_by_default(api: Api) -> None:
    assert clear(api) == [("load", 1)]
    assert states(api)["load1"] == "failed"

    assert clear(api, dry_run=False) == [("load", 1)]
    assert states(api)["load1"] == "scheduled"


def test_a_run_that_was_stopped_while_queued_is_cleared_as_a_whole(api: Api) -> None:
    api.store.execute(c.CreateRun(dag_id="etl", run_id="early"))
    api.ask("PATCH", f"{RUNS}/early", {"state": "failed"})
    path, body = "/dags/etl/clearTaskInstances", {"dag_run_id": "early"}

    preview = api.ask("POST", path, body).json
    before = api.get(f"{RUNS}/early")["state"]
    cleared = api.ask("POST", path, body | {"dry_run": False}).json

    assert preview == {"task_instances": [], "total_entries": 0, "whole_run": True, "dry_run": True}
    assert cleared == preview | {"dry_run": False}
    assert (before, api.get(f"{RUNS}/early")["state"]) == ("failed", "queued")


def test_a_clear_applies_to_the_given_tasks(api: Api) -> None:
    assert clear(api, task_ids=["extract"]) == []
    assert clear(api, task_ids=["extract"], only_failed=False) == [("extract", -1)]
    assert clear(api, task_ids=[["load", 0]], only_failed=False) == [("load", 0)]
    assert clear(api, task_ids=["load", ["load", 0]]) == [("load", 1)]
    everything = clear(api, task_ids=["extract"], only_failed=False, include_downstream=True)
    assert everything == [("extract", -1), ("load", 0), ("load", 1), ("load", 2), ("report", -1)]


@pytest.mark.parametrize(
    ("said", "kept"), [("default", {"load1"}), ("keep", {"load0", "load1"}), ("discard", set())]
)
def test_a_clear_keeps_or_drops_the_task_store(api: Api, said: str, kept: set[str]) -> None:
    for index in (0, 1):
        api.put(state_of("etl", "r1", "load", "k"), 1, map_index=index)

    clear(api, task_ids=["load"], only_failed=False, state_store=said, dry_run=False)

    found = api.get("/state-store/tasks")["task_state_store"]
    assert {f"{one['task_id']}{one['map_index']}" for one in found} == kept


def test_a_clear_queues_an_ended_run(api: Api) -> None:
    for task, index in (("load", 1), ("load", 2), ("report", -1)):
        api.ask("PATCH", f"{TASKS}/{task}", {"new_state": "failed"}, map_index=index)
    api.store.execute(c.FinishRun("etl", "r1", pipeline.WORKER, RunState.FAILED))

    clear(api, dry_run=False)

    assert api.get(f"{RUNS}/r1")["state"] == "queued"


@pytest.mark.parametrize(
    "body",
    [
        {},
        {"task_ids": []},
        {"task_ids": [["load"]]},
        {"task_ids": [["load", "0"]]},
        {"task_ids": [["load", -2]]},
        {"task_ids": [""]},
        {"state_store": "drop"},
        {"dry_run": "no"},
        {"run_id": "r1"},
    ],
)
def test_an_invalid_clear_is_refused(api: Api, body: Any) -> None:
    asked = body and {"dag_run_id": "r1", "only_failed": False, "dry_run": False, **body}

    assert api.ask("POST", "/dags/etl/clearTaskInstances", asked).status == 422
    assert states(api)["load1"] == "failed"


def test_tasks_of_other_programs_are_not_cleared(api: Api) -> None:
    api.store.execute(c.RegisterTask(TaskScope("script", "x", "t")))
    body = {"dag_run_id": "x", "only_failed": False, "dry_run": False}

    reply = api.ask("POST", "/dags/script/clearTaskInstances", body)

    assert (reply.status, reply.reason) == (422, "invalid")


def test_the_runs_of_an_unknown_dag_are_not_found(api: Api) -> None:
    reply = api.ask("GET", "/dags/elt/dagRuns")

    assert (reply.status, reply.reason) == (404, "not_found")
    assert api.get("/dags/etl/dagRuns?state=failed") == {"dag_runs": [], "total_entries": 0}


def test_a_dag_without_a_file_is_deleted_with_its_runs_and_logs(api: Api, tmp_path: Path) -> None:
    logs = run_logs(tmp_path / ".holdfast", "etl", "r1")
    logs.mkdir(parents=True)
    busy = api.ask("DELETE", "/dags/etl")
    api.store.execute(c.FinishRun("etl", "r1", pipeline.WORKER, RunState.FAILED, waiting=2))

    deleted = api.ask("DELETE", "/dags/etl")

    assert (busy.status, busy.reason) == (409, "conflict")
    assert deleted.status == 204
    assert api.ask("GET", "/dags/etl").status == 404
    assert api.ask("GET", f"{RUNS}/r1").status == 404
    assert not logs.exists()
    assert api.ask("DELETE", "/dags/etl").status == 404


def test_files_that_cannot_be_imported_are_listed_with_their_tracebacks(api: Api) -> None:
    api.store.execute(c.SaveFileError("dags/broken.py", "Traceback\nSyntaxError: x"))

    found = api.get("/importErrors")

    [error] = found["import_errors"]
    assert (error["filename"], error["stack_trace"]) == (
        "dags/broken.py",
        "Traceback\nSyntaxError: x",
    )
    assert found["total_entries"] == 1


def test_files_that_cannot_be_imported_are_listed_in_pages(api: Api) -> None:
    for name in "abc":
        api.store.execute(c.SaveFileError(f"{name}.py", "SyntaxError: x"))

    found = api.get("/importErrors", limit=1, offset=1)

    assert [one["filename"] for one in found["import_errors"]] == ["b.py"]
    assert found["total_entries"] == 3
    assert api.ask("GET", "/importErrors", limit=1001).status == 422
