"""`holdfast dags`: lists, import errors, pausing."""

from __future__ import annotations

import json
from collections.abc import Iterator
from datetime import timedelta

import pipeline
import pytest

from holdfast.actions.logs import run_logs
from holdfast.commands import FinishRun, ListDags, ListRuns, SaveFileError
from holdfast.connection import open_store
from holdfast.logs.storage import LogStorage
from holdfast.model.dag import (
    AliasSpec,
    AllOf,
    AnyOf,
    AssetRefSpec,
    AssetSpec,
    Cron,
    Every,
    OnAssets,
    Once,
)
from holdfast.model.run import RunState
from holdfast.model.schedule_text import schedule_text
from holdfast.settings import load
from holdfast.store import Store


@pytest.fixture
def store() -> Iterator[Store]:
    """Yield the embedded store of the project, with two DAGs."""
    with open_store(load()) as store:
        pipeline.save(store)
        yield store


def test_dags_are_listed_with_schedule_and_runs(holdfast, store):
    pipeline.begin(store)

    result = holdfast("dags", "list")

    header, etl, mart = result.out.splitlines()
    assert header == "dag\tschedule\tpaused\tnext run\tlast run\tfile"
    assert etl.startswith("etl\tat 03:00 every day\tno\t20")
    assert etl.endswith("\trunning\tdags/etl.py")
    assert mart == "mart\ton orders\tno\t\t\tdags/mart.py"
    assert (result.status, result.err) == (0, "")


def test_dags_are_listed_as_json(holdfast):
    found = json.loads(holdfast("dags", "list", "--json").out)

    assert found["total_entries"] == 2
    etl = found["dags"][0]
    assert etl["dag_id"] == "etl"
    assert (etl["timetable_summary"], etl["is_paused"]) == ("0 3 * * *", False)
    assert etl["last_dag_run_state"] is None


def test_broken_files_are_reported_beside_the_list(holdfast, store):
    store.execute(SaveFileError("dags/bad.py", "Traceback\n  line 1\nNameError: x\n"))

    result = holdfast("dags", "list")

    assert len(result.out.splitlines()) == 3
    assert result.err == (
        "broken: dags/bad.py: NameError: x\nhint: `holdfast dags errors` shows the tracebacks\n"
    )


def test_a_broken_file_sends_no_escapes_to_the_terminal(holdfast, store):
    store.execute(SaveFileError("dags/bad.py", "Traceback\nNameError: \x1b[31mx\x07\n"))

    assert "broken: dags/bad.py: NameError: [31mx\n" in holdfast("dags", "list").err


def test_errors_are_shown_with_their_tracebacks(holdfast, store):
    store.execute(SaveFileError("dags/bad.py", "Traceback\n  line 1\nNameError: x\n"))

    assert holdfast("dags", "errors").out == ("dags/bad.py:\nTraceback\n  line 1\nNameError: x\n\n")
    assert json.loads(holdfast("dags", "errors", "--json").out)["import_errors"][0]["filename"]


def test_control_characters_of_errors_are_escaped(holdfast, store):
    store.execute(SaveFileError("bad.py", "Traceback\n\tline\nError: \x1b[2J\x9b31m\r\nend"))

    shown = holdfast("dags", "errors").out

    assert shown == "bad.py:\nTraceback\n\tline\nError: \\x1b[2J\\x9b31m\nend\n\n"


def test_without_errors_there_is_no_output(holdfast):
    assert holdfast("dags", "errors") == (0, "", "No file is broken.\n")


def test_a_dag_is_shown_with_its_tasks(holdfast):
    lines = holdfast("dags", "show", "etl").out.splitlines()

    assert "description\tLoads orders" in lines
    assert 'params\t{"day":1}' in lines
    assert "extract\t\tall_success\t2 after 5m\t\t\t\t" in lines
    assert "load\textract\tall_success\t0\tyes\tyes\t\torders" in lines


def test_a_dag_is_shown_as_json(holdfast):
    found = json.loads(holdfast("dags", "show", "etl", "--json").out)

    assert found["params"] == {"day": 1}
    assert [task["task_id"] for task in found["tasks"]] == ["extract", "load", "report"]
    assert found["tasks"][1]["mapped"] == {"axes": [{"type": "literal", "length": 3}]}


def test_the_error_for_an_unknown_dag_names_the_known_dags(holdfast):
    result = holdfast("dags", "show", "etk")

    assert (result.status, result.out) == (1, "")
    assert result.err == "error: DAG `etk` is not known\nhint: known DAGs: etl, …\n"


def test_a_paused_dag_has_no_next_run_until_it_is_unpaused(holdfast):
    assert holdfast("dags", "pause", "etl").err == "DAG `etl` is paused.\n"
    assert "\tyes\t\t" in holdfast("dags", "list").out

    assert holdfast("dags", "unpause", "etl").err == "DAG `etl` is no longer paused.\n"
    assert "\tno\t20" in holdfast("dags", "list").out


def test_pausing_an_unknown_dag_is_an_error(holdfast):
    assert holdfast("dags", "pause", "nope").status == 1


A, B = AssetSpec("a", "s3://a"), AssetRefSpec(uri="s3://b")


@pytest.mark.parametrize(
    ("schedule", "text"),
    [
        (None, "by hand"),
        (Once(), "once"),
        (Every(timedelta(minutes=90)), "every 90m"),
        (Every(timedelta(seconds=1.5)), "every 1.5s"),
        (Cron("*/5 * * * *", "Europe/Berlin"), "every fifth minute of every hour, Europe/Berlin"),
        (OnAssets(A), "on a"),
        (OnAssets(AllOf((A, AnyOf((B, AliasSpec("x")))))), "on a and (s3://b or alias x)"),
    ],
)
def test_schedules_are_described_in_words(schedule, text):
    assert schedule_text(schedule) == text


def test_a_dag_is_deleted_after_a_preview(holdfast, store, project):
    pipeline.half_way(store)
    busy = holdfast("dags", "delete", "etl", "--dry-run")
    store.execute(FinishRun("etl", "r1", pipeline.WORKER, RunState.FAILED, waiting=2))
    logs = run_logs(project / ".holdfast", "etl", "r1")
    logs.mkdir(parents=True)

    preview = holdfast("dags", "delete", "etl", "--dry-run", "--json")
    kept = logs.exists()
    deleted = holdfast("dags", "delete", "etl", "--yes")

    assert busy.status == 1
    assert busy.err.startswith("error: 1 runs of DAG `etl` have not ended\nhint: ")
    assert json.loads(preview.out) == {"dag_id": "etl", "runs": 1, "dry_run": True}
    assert preview.err == "Would delete DAG `etl` with 1 run.\n"
    assert deleted.err == "Deleted DAG `etl` with 1 run.\n"
    assert (kept, logs.exists()) == (True, False)
    assert [one.dag_id for one in store.execute(ListDags())] == ["mart"]
    assert store.execute(ListRuns(dag_id="etl")) == ()
    assert holdfast("dags", "delete", "etl", "--yes").status == 1


def test_a_dag_is_deleted_with_its_logs_in_storage(holdfast, store, monkeypatch, tmp_path):
    pipeline.half_way(store)
    store.execute(FinishRun("etl", "r1", pipeline.WORKER, RunState.FAILED, waiting=2))
    monkeypatch.setenv("HOLDFAST__LOGS__URL", f"file://{tmp_path}/storage")
    storage = LogStorage(f"file://{tmp_path}/storage")
    for key in ("etl/r1/extract/1.log", "etl2/r1/extract/1.log"):
        storage.put(key, 0, b"text\n")

    holdfast("dags", "delete", "etl", "--dry-run")
    kept = storage.log("etl/r1/extract/1.log").exists()
    holdfast("dags", "delete", "etl", "--yes")

    assert kept
    assert [name for name, _ in storage.names("")] == ["etl2/r1/extract/1.log/" + "0" * 20]


def test_a_dag_is_not_deleted_without_confirmation(holdfast, store):
    assert holdfast("dags", "delete", "etl").status == 2
    assert [one.dag_id for one in store.execute(ListDags())] == ["etl", "mart"]
