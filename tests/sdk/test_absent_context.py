"""Context of Airflow that Holdfast does not have: refused, not omitted silently."""

from __future__ import annotations

from pathlib import Path

import pytest
from task_runs import Pipeline, write_file

from holdfast.runner.protocol.messages import ParseStartup
from holdfast.runner.task.dag_import import parse

HEAD = "from holdfast.sdk import DAG, Asset, BaseOperator, asset, task\n"


@pytest.mark.parametrize("name", ["inlet_events", "var", "conn", "macros"])
@pytest.mark.parametrize("parameter", ["{}", "{}=None", "*, {}"])
def test_a_parameter_is_refused_when_the_file_is_read(
    name: str, parameter: str, tmp_path: Path
) -> None:
    signature = parameter.format(name)
    file = write_file(
        tmp_path, HEAD + f"@task\ndef load({signature}): ...\nwith DAG('d'): load()\n"
    )

    error = parse(ParseStartup(file)).error

    assert f"task `load`: Holdfast does not support its parameter `{name}`" in error
    assert "hint: " in error


def test_a_parameter_of_an_asset_function_is_refused(tmp_path: Path) -> None:
    text = "@asset(schedule=None)\ndef orders(self, inlet_events): ...\n"
    file = write_file(tmp_path, HEAD + text)

    error = parse(ParseStartup(file)).error

    assert (
        "asset function `orders`: Holdfast does not support its parameter `inlet_events`" in error
    )


def test_a_parameter_with_a_value_in_the_call_is_allowed(tmp_path: Path) -> None:
    text = "@task\ndef load(conn, var=None): return conn\nwith DAG('d'): load('c', var=1)\n"

    assert Pipeline(write_file(tmp_path, HEAD + text)).result("load") == "c"


def test_an_unsupported_context_key_is_an_error_that_says_so(tmp_path: Path) -> None:
    text = """
from holdfast.sdk import get_current_context

@task
def load(): return get_current_context()["inlet_events"]

@task
def mistyped(): return get_current_context()["logical_dat"]

with DAG("d"):
    load(), mistyped()
"""
    pipeline = Pipeline(write_file(tmp_path, HEAD + text))

    expected = "MissingKey: task `load`: Holdfast does not support `inlet_events` in the context"
    assert pipeline.failure("load") == expected
    assert "the context of task `mistyped` has no `logical_dat`" in pipeline.failure("mistyped")


@pytest.mark.parametrize(
    ("key", "explained"),
    [
        ("inlet_events", "Holdfast does not support `inlet_events` in the context"),
        ("asset_state", "there is no asset among its inlets and outlets"),
        ("spark", "decorate it with @task.pyspark"),
    ],
)
def test_an_unsupported_context_key_of_the_dict_is_explained_in_the_log(
    key: str, explained: str, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    text = f"@task\ndef load(**context): context['{key}']\nwith DAG('d'): load()\n"

    Pipeline(write_file(tmp_path, HEAD + text)).failure("load")

    assert explained in caplog.text


def test_a_key_of_the_authors_own_dict_is_not_explained(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    text = "@task\ndef load(**context): {}['run_id' if context else '']\nwith DAG('d'): load()\n"

    Pipeline(write_file(tmp_path, HEAD + text)).failure("load")

    assert "KeyError: 'run_id'" in caplog.text
    assert "context of task" not in caplog.text


def test_another_key_error_is_unchanged(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    text = "@task\ndef load(): raise KeyError({'a': 1})\nwith DAG('d'): load()\n"

    Pipeline(write_file(tmp_path, HEAD + text)).failure("load")

    assert "KeyError: {'a': 1}" in caplog.text
