"""DAG files without anything to run: one clear message, without Holdfast's own frames."""

from __future__ import annotations

import pytest
from project import Project

from holdfast import commands as c

HEAD = "from holdfast.sdk import DAG, task\n"
TASK = """
@task
def hello(x=None):
    return x
"""


@pytest.mark.parametrize(
    ("text", "message"),
    [
        pytest.param(
            "with DAG('d'):\n    a, b = hello(), hello.override(task_id='b')()\n    a >> b >> a\n",
            "depend on each other in a cycle: hello >> b >> hello",
            id="a cycle",
        ),
        pytest.param(
            "from holdfast.sdk import BaseOperator\n"
            "with DAG('d'):\n"
            "    BaseOperator(task_id='a')\n"
            "    BaseOperator(task_id='a')\n",
            "two tasks with the id `a`",
            id="two tasks with one id",
        ),
        pytest.param("", "defines no DAG", id="no DAG"),
        pytest.param("with DAG('d') as:\n", "SyntaxError: invalid syntax", id="a syntax error"),
        pytest.param("import os; os._exit(7)\n", "could not be imported", id="os._exit"),
    ],
)
def test_an_unusable_file_has_one_message(project: Project, text: str, message: str) -> None:
    project.write("dag.py", HEAD + TASK + text)

    ended = project.holdfast("run", "dag.py")

    assert (ended.status, ended.out) == (2, "")
    assert message in ended.err
    assert ended.err.startswith("error: ") and ended.err.count("error: ") == 1
    assert "holdfast/runner" not in ended.err and "holdfast/cli" not in ended.err
    assert project.store.execute(c.ListRuns()) == ()


def test_a_traceback_shows_the_lines_of_the_file(project: Project) -> None:
    project.write("broken.py", "def fail():\n    raise KeyError('lost')\n\n\nfail()\n")

    ended = project.holdfast("run", "broken.py")

    assert ended.status == 2
    assert 'broken.py", line 2, in fail' in ended.err
    assert ended.err.rstrip().endswith("KeyError: 'lost'")


@pytest.mark.parametrize(
    ("name", "shown"), [("latin\udcff.py", r"latin\xff.py"), ("two\nlines.py", r"two\nlines.py")]
)
def test_a_file_with_an_unusable_name_is_an_error(project: Project, name: str, shown: str) -> None:
    project.write(name, HEAD + TASK + "with DAG('d'):\n    hello()\n")

    ended = project.holdfast("run", name)

    assert (ended.status, ended.out) == (2, "")
    assert f"{shown} has control characters, or bytes that are not UTF-8\nhint: " in ended.err
