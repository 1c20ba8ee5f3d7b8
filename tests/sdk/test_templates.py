"""Jinja templates: refused when the file is read, as they are not rendered."""

from __future__ import annotations

from pathlib import Path
from textwrap import dedent

import pytest
from task_runs import write_file

from holdfast.runner.protocol.messages import ParseStartup
from holdfast.runner.task.dag_import import parse

HEAD = """
from holdfast.sdk import DAG, BaseOperator, task
from holdfast.spark import SparkJob

class Copy(BaseOperator):
    template_fields = ("path", "options")
    template_ext = (".sql",)

    def __init__(self, *, path="", options=None, note="", **arguments):
        super().__init__(**arguments)
        self.path, self.options, self.note = path, options, note

@task
def load(path, *more, **options): ...

@task
def each(path): ...

"""

REFUSED = {
    "a field": ("Copy(task_id='t', path='s3://lake/dt={{ ds }}/')", "t", "path"),
    "a statement": ("Copy(task_id='t', path='{% if x %}a{% endif %}')", "t", "path"),
    "a field in depth": (
        "Copy(task_id='t', options={'a': [1, ('x', '{{ ds }}')]})",
        "t",
        "options['a'][1][1]",
    ),
    "a field that is set later": (
        "copy = Copy(task_id='t')\n    copy.path = '{{ ds }}'",
        "t",
        "path",
    ),
    "a file": ("Copy(task_id='t', path='queries/load.sql')", "t", "path"),
    "an argument of a function": ("load('s3://raw/{{ ds }}')", "load", "op_args[0]"),
    "a named argument": ("each(path='{{ ds }}')", "each", "path"),
    "a named argument in depth": ("each(path={'a': ['{{ ds }}']})", "each", "path['a'][0]"),
    "a shared argument": ("load.partial(path='{{ ds }}').expand(x=[1])", "load", "path"),
    "a mapped argument": ("each.expand(path=['a', '{{ ds }}'])", "each", "path[1]"),
    "a mapped dict": (
        "each.expand_kwargs([{'path': 'a'}, {'path': '{{ ds }}'}])",
        "each",
        "path[1]",
    ),
    "a mapped operator": (
        "Copy.partial(task_id='t', path='{{ ds }}').expand(note=[1])",
        "t",
        "path",
    ),
    "a mapped operator's field": (
        "Copy.partial(task_id='t').expand(path=['{{ ds }}'])",
        "t",
        "path[0]",
    ),
    "a Spark job": (
        "SparkJob(task_id='t', application='job.py', args=['--date', '{{ ds }}'])",
        "t",
        "args[1]",
    ),
}

TAKEN = {
    "no template field": "Copy(task_id='t', note='{{ ds }}')",
    "single braces": "Copy(task_id='t', path='{ds}', options={'{{ key }}': 1})",
    "a result": "each(path=load('a'))",
    "mapped over a result": "each.expand(path=load('a'))",
    "a number": "each(path=5)",
}


@pytest.mark.parametrize("case", REFUSED)
def test_a_template_is_refused_when_the_file_is_read(case: str, tmp_path: Path) -> None:
    text, task_id, argument = REFUSED[case]
    file = write_file(tmp_path, HEAD + dedent(f"with DAG('d'):\n    {text}\n"))

    error = parse(ParseStartup(file)).error

    assert f"DAG `d`, task `{task_id}`, argument `{argument}`: " in error
    assert "Traceback" not in error
    assert "when the task runs" in error


@pytest.mark.parametrize("case", TAKEN)
def test_text_that_airflow_would_not_render_is_accepted(case: str, tmp_path: Path) -> None:
    file = write_file(tmp_path, HEAD + dedent(f"with DAG('d'):\n    {TAKEN[case]}\n"))

    assert parse(ParseStartup(file)).error == ""
