"""Imports of pipelines, and their cost."""

from __future__ import annotations

import pickle
import subprocess
import sys
from pathlib import Path
from textwrap import dedent

import pytest
from task_runs import write_file

from holdfast import sdk
from holdfast.runner.protocol.messages import Parsed, ParseStartup, report_decoder
from holdfast.runner.task.dag_import import parse
from holdfast.wire.channel import encode


def test_the_sdk_has_the_names_of_airflow() -> None:
    names = {
        "DAG", "dag", "task", "asset", "Asset", "AssetAlias", "AssetWatcher", "BaseOperator",
        "BaseEventTrigger", "TriggerEvent", "ResumableJobMixin", "NEVER_EXPIRE",
        "get_current_context", "Param", "chain", "TriggerRule", "Context", "Metadata", "AssetAll",
        "AssetAny",
    }  # fmt: skip

    assert names <= set(sdk.__all__)
    assert all(hasattr(sdk, name) for name in names)


def test_importing_the_sdk_loads_no_database_and_no_spark() -> None:
    program = """
        import sys
        import holdfast.sdk
        import holdfast.runner.task.execution, holdfast.runner.task.dag_import
        import holdfast.runner.task.watching
        heavy = {"sqlalchemy", "alembic", "pyspark", "pandas", "cronsim", "click", "rich"}
        print(sorted(heavy & set(sys.modules)))
    """

    found = subprocess.run(
        [sys.executable, "-c", dedent(program)], capture_output=True, text=True, check=True
    )

    assert found.stdout.strip() == "[]"


def test_functions_of_a_dag_file_work_where_the_file_cannot_be_imported(tmp_path: Path) -> None:
    file = write_file(
        tmp_path,
        """
        from holdfast.sdk import DAG
        FACTOR = 3
        def times(x):
            return x * FACTOR
        DAG("d")
        """,
    )
    program = f"""
        import pickle, sys
        from pyspark import cloudpickle
        from holdfast.runner.task.dag_import import load_file, module_name
        load_file({file!r})
        module = sys.modules[module_name({file!r})]
        cloudpickle.register_pickle_by_value(module)
        sys.stdout.buffer.write(cloudpickle.dumps(module.times))
    """

    found = subprocess.run([sys.executable, "-c", dedent(program)], capture_output=True, check=True)

    assert pickle.loads(found.stdout)(2) == 6


@pytest.mark.parametrize(
    ("text", "uncalled"),
    [
        ("@dag\ndef noop(): pass", ("noop",)),
        ("@dag()\ndef noop(): pass\nnoop()", ()),
        ("from base import noop", ()),
        ("x = 1", ()),
    ],
)
def test_a_file_without_dags_names_the_dag_functions_that_it_does_not_call(
    tmp_path: Path, text: str, uncalled: tuple[str, ...]
) -> None:
    (tmp_path / "base.py").write_text("from holdfast.sdk import dag\n@dag\ndef noop(): pass\n")
    file = write_file(tmp_path, f"from holdfast.sdk import dag\n{text}\n")

    assert parse(ParseStartup(str(file))).uncalled == uncalled


@pytest.mark.parametrize("error", ["ValueError", "InvalidInput"])
def test_a_long_error_of_a_file_keeps_its_beginning_and_its_end(tmp_path: Path, error: str) -> None:
    file = write_file(
        tmp_path,
        f"""
        from holdfast.errors import InvalidInput
        raise {error}("<begin>" + "Z" * 30_000_000 + "<end>")
        """,
    )

    found = parse(ParseStartup(str(file))).error

    assert 19_900 < len(found) <= 20_000
    assert "<begin>" in found and found.endswith("<end>")
    assert " characters were left out here]" in found


def test_an_error_is_cut_by_the_process_that_receives_it_too() -> None:
    sent = encode({"type": "parsed", "error": "Z" * 100_000})

    received = report_decoder.decode(sent)

    assert isinstance(received, Parsed) and len(received.error) <= 20_000
