"""Mapped items: an instance has the task store of its own item, also after the list has changed."""

from __future__ import annotations

import json

import pytest
from project import Project

FILE = """
import json
from holdfast.sdk import DAG, task

with DAG("d"):

    @task
    def items():
        with open("items") as file:
            return json.load(file)

    @task
    def load(item, task_store, ti):
        found = task_store.get("item")
        with open("notes", "a") as notes:
            print(json.dumps([ti.map_index, item, found]), file=notes)
        task_store.set("item", item)
        with open("broken") as file:
            if item in file.read():
                raise RuntimeError(item)

    load.expand(item=items())
"""


def rerun(project: Project, items: list[str]) -> list[list[object]]:
    """Clear the source and its downstream, and run with another list; return the read state."""
    project.write("items", json.dumps(items))
    project.write("broken", "")
    project.path("notes").unlink()
    project.holdfast("tasks", "clear", "d", "r", "items", "--downstream", "--yes")
    assert project.holdfast("run", "d.py", "--run-id", "r").status == 0
    return sorted(json.loads(line) for line in project.read("notes").splitlines())


def failed_once(project: Project) -> None:
    project.write("d.py", FILE)
    project.write("items", json.dumps(["a", "b", "c"]))
    project.write("broken", "b")
    assert project.holdfast("run", "d.py", "--run-id", "r").status == 1


@pytest.mark.full
def test_another_item_does_not_inherit_the_state_of_the_previous_one(project: Project) -> None:
    failed_once(project)

    seen = rerun(project, ["z", "a", "b", "c"])

    assert seen == [[0, "z", None], [1, "a", None], [2, "b", None], [3, "c", None]]
    log = project.holdfast("tasks", "logs", "d", "r", "load", "--map-index", "1").out
    assert "map index 1 now has another item" in log


def test_the_same_item_resumes(project: Project) -> None:
    failed_once(project)

    assert rerun(project, ["z", "b", "c"])[1] == [1, "b", "b"]
