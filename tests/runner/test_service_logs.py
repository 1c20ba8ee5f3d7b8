"""What services log about runs, tasks, watchers and their own start and stop."""

from __future__ import annotations

import re
import signal
from typing import Any

import landing
import msgspec
import pytest
from project import Project, send_signal, wait_until

DAGS = """
    from datetime import timedelta
    from holdfast.sdk import DAG, task

    with DAG("good", schedule="@once"):

        @task
        def load(number):
            pass

        load.expand(number=[1, 2])

    with DAG("bad", schedule="@once"):

        @task(retries=1, retry_delay=timedelta(seconds=0.5))
        def load():
            raise ValueError("no news")

        @task
        def report(loaded):
            pass

        report(load())
    """
TIMED = re.compile(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z (INFO|WARNING) holdfast[.\w]*: (.*)")


def ended(project: Project, *dag_ids: str) -> bool:
    runs = [project.runs(dag_id) for dag_id in dag_ids]
    return all(found and found[0].state.ended for found in runs)


@pytest.mark.full
def test_all_processes_of_standalone_log_lines_of_json(project: Project) -> None:
    project.write("dags/dag.py", DAGS)
    project.write("dags/watched.py", landing.DAG)
    project.write(".holdfast/logs/good", "in place of the directory")
    project.path("landing").mkdir()
    settings = {"HOLDFAST__LOGGING__FORMAT": "json", "HOLDFAST__LOGGING__LEVEL": "debug"}
    with project.service("standalone", "dags", **settings):
        wait_until((project.home / "holdfast.db").exists)
        wait_until(lambda: ended(project, "good", "bad"))
        project.path("landing/a").touch()
        wait_until(lambda: ended(project, "d"))
        send_signal(project.processes(), signal.SIGTERM)  # as systemd stops a service

    text = project.read("standalone.err").splitlines()
    lines: list[dict[str, Any]] = [
        msgspec.json.decode(line) for line in text if not line.startswith("listening on http")
    ]
    said = [line["message"] for line in lines]
    [retried] = [line for line in lines if line.get("state") == "up_for_retry"]
    [failed] = [line for line in lines if line.get("state") == "failed" and "task_id" in line]
    over = {line["dag_id"]: line for line in lines if "ended: " in line["message"]}
    assert all(line["time"] and line["level"] and line["logger"] for line in lines)
    assert sum("starts: " in message for message in said) == 3
    assert said.count("stopped") == 3
    assert "is retried at 2" in retried["message"] and retried["message"].endswith(": no news")
    assert (retried["level"], retried["attempt"], retried["task_id"]) == ("warning", 1, "load")
    assert (failed["level"], failed["attempt"], failed["dag_id"]) == ("warning", 2, "bad")
    assert (over["bad"]["state"], over["bad"]["level"]) == ("failed", "warning")
    assert (over["good"]["state"], over["good"]["level"]) == ("success", "info")
    assert over["good"]["seconds"] > 0
    assert sum(line.get("map_index") in (0, 1) for line in lines) == 2
    assert {line["level"] for line in lines if "map_index" in line} == {"debug"}
    assert any("good/" in message and "cannot be written" in message for message in said)
    assert not any("watcher" in message and "failed" in message for message in said)


def test_a_scheduler_logs_failures_and_not_the_success_of_each_task(project: Project) -> None:
    project.write("dags/dag.py", DAGS)
    project.write("dags/broken.py", "DAG holdfast")
    with project.service("scheduler", "dags"):
        wait_until((project.home / "holdfast.db").exists)
        wait_until(lambda: ended(project, "good", "bad"))

    text = project.read("scheduler.err")
    lines = [TIMED.fullmatch(line) for line in text.splitlines()]
    said = [line[2] for line in lines if line]
    assert all(lines), text
    assert said[0].endswith(f"{project.path('dags')}, database {project.url}")
    assert "SyntaxError: invalid syntax" in said
    assert sum("/load, attempt " in line for line in said) == 2
    assert not any("load[0]" in line or "report" in line for line in said)
    assert any(re.fullmatch(r"run \S+ of good ended: success after [\d.]+ s", one) for one in said)
    assert any(line.endswith(" s; failed: load") for line in said)
