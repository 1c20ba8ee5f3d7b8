"""Secrets in a task's process: neither the database nor its password is known."""

from __future__ import annotations

from pathlib import Path

import pytest
import sqlalchemy as sa
from project import new_project
from servers import Server

PASSWORD = "correct-horse-battery-staple"

CURIOUS = """
    import os
    from holdfast.sdk import DAG, task

    def copy(path):
        with open(path, "rb") as source:
            return source.read().decode(errors="replace")

    def copy_memory():
        with open("/proc/self/maps") as maps, open("memory", "wb") as target:
            memory = os.open("/proc/self/mem", os.O_RDONLY)
            for line in maps:
                area, rights = line.split()[:2]
                if rights.startswith("rw"):
                    start, end = (int(part, 16) for part in area.split("-"))
                    for place in range(start, end, 1 << 20):
                        target.write(os.pread(memory, min(1 << 20, end - place), place))

    with DAG("d"):

        @task
        def look_around(task_store=None):
            task_store.set("stored", "by the task")
            copy_memory()
            parent = os.getppid()
            return {
                "environ": dict(os.environ),
                "own environ": copy("/proc/self/environ"),
                "own command": copy("/proc/self/cmdline"),
                "environ of the parent": copy(f"/proc/{parent}/environ"),
                "command of the parent": copy(f"/proc/{parent}/cmdline"),
                "files": [os.readlink(f"/proc/self/fd/{n}") for n in (0, 1, 2)],
                "open": len(os.listdir("/proc/self/fd")),
            }

        look_around()
    """


def test_a_task_finds_no_trace_of_the_database(postgres: Server, tmp_path: Path) -> None:
    pytest.importorskip("psycopg")
    url = sa.make_url(postgres.new_database()).set(password=PASSWORD)
    text = url.render_as_string(hide_password=False)
    with new_project(tmp_path, HOLDFAST__DATABASE__URL=text) as project:
        assert project.holdfast("db", "migrate").status == 0

        ended = project.run_dag(CURIOUS)

        assert ended.status == 0, ended.err
        [found] = project.result("look_around")
        assert project.task_store("look_around") == {"stored": "by the task"}
        assert "holdfast.runner.launcher" in found["command of the parent"]
        for where, content in found.items():
            assert PASSWORD not in str(content), where
            assert str(url.database) not in str(content), where
            assert "HOLDFAST__" not in str(content), where
        memory = project.path("memory").read_bytes()
        assert b"look_around" in memory
        assert PASSWORD.encode() not in memory
        assert PASSWORD not in project.log("look_around")
        # Its standard streams, its connection, the launcher's lifeline, and the listing itself.
        assert found["files"][0] == "/dev/null"
        assert found["open"] <= 7
