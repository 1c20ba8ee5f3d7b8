"""Error messages for invalid DAG files."""

from __future__ import annotations

from pathlib import Path
from textwrap import dedent
from threading import Timer
from typing import Any

import pytest
from task_runs import write_file

from holdfast.errors import InvalidDag
from holdfast.runner.protocol.messages import ParseStartup
from holdfast.runner.task import dag_import
from holdfast.runner.task.dag_import import find_dag, load_file, parse
from holdfast.sdk import DAG, Asset, BaseOperator, Param, chain, task

CASES: dict[str, tuple[str, list[str]]] = {
    "a cycle": (
        """
        with DAG("d"):
            a, b, c = (BaseOperator(task_id=name) for name in "abc")
            a >> b >> c >> a
        """,
        ["DAG `d`", "cycle", "a", "b", "c"],
    ),
    "two tasks with one id": (
        """
        with DAG("d"):
            BaseOperator(task_id="a")
            BaseOperator(task_id="a")
        """,
        ["DAG `d`", "two tasks with the id `a`"],
    ),
    "two DAGs with one id": ("DAG('d')\nDAG('d')", ["two DAGs with the id `d`"]),
    "a bad dag_id": ("DAG('a b')", ["dag_id is 'a b'"]),
    "a long dag_id": ("DAG('a' * 251)", ["251 characters"]),
    "a long description": (
        "DAG('d', description='x' * 5_001)",
        ["DAG `d`", "description has 5,001 characters; the limit is 5,000"],
    ),
    "a description of another type": ("DAG('d', description=5)", ["must be text, not int"]),
    "a long doc_md": (
        "DAG('d', doc_md='x' * 100_001)",
        ["DAG `d`", "doc_md has 100,001 characters; the limit is 100,000"],
    ),
    "a long doc_md of a task": (
        "with DAG('d'): BaseOperator(task_id='a', doc_md='x' * 100_001)",
        ["task `a`", "doc_md has 100,001 characters"],
    ),
    "a bad task_id": (
        "with DAG('d'): BaseOperator(task_id='a/b')",
        ["task_id is 'a/b'"],
    ),
    "a bad cron expression": (
        "DAG('d', schedule='61 * * * *')",
        ["DAG `d`", "'61 * * * *'", "neither a cron expression nor a preset"],
    ),
    "a cron expression with seconds": (
        "DAG('d', schedule='0 0 0 * * *')",
        ["it does not have five fields"],
    ),
    "an unknown preset": ("DAG('d', schedule='@fortnightly')", ["@fortnightly"]),
    "@continuous": ("DAG('d', schedule='@continuous')", ["@continuous"]),
    "a schedule of another kind": ("DAG('d', schedule=5)", ["5 is not a schedule"]),
    "a negative schedule": (
        "from datetime import timedelta\nDAG('d', schedule=timedelta(-1))",
        ["its schedule is -1 day"],
    ),
    "an unknown trigger rule": (
        "with DAG('d'): BaseOperator(task_id='a', trigger_rule='all_sucess')",
        ["task `a`", "'all_sucess' is not a trigger rule", "all_success"],
    ),
    "mapped over a number": (
        """
        @task
        def f(x): ...
        with DAG("d"):
            f.expand(x=5)
        """,
        ["task `f`", "mapped over a int", "`x`"],
    ),
    "mapped over text": (
        "with DAG('d'): BaseOperator.partial(task_id='a').expand(retries='abc')",
        ["task `a`", "mapped over a str"],
    ),
    "mapped over nothing": (
        "with DAG('d'): BaseOperator.partial(task_id='a').expand()",
        ["task `a`", "no argument to map over"],
    ),
    "mapped over no dicts": (
        "with DAG('d'): BaseOperator.partial(task_id='a').expand_kwargs([1])",
        ["task `a`", "list of dicts"],
    ),
    "shared and mapped": (
        """
        @task
        def f(x): ...
        with DAG("d"):
            f.partial(x=1).expand(x=[1])
        """,
        ["task `f`", "`x` is both in partial() and in expand()"],
    ),
    "a task of another DAG": (
        """
        with DAG("one"):
            a = BaseOperator(task_id="a")
        with DAG("two"):
            b = BaseOperator(task_id="b")
        a >> b
        """,
        ["task `b` of DAG `two`", "task `a` of DAG `one`"],
    ),
    "a result of another DAG": (
        """
        @task
        def f(x=None): ...
        with DAG("one"):
            a = f()
        with DAG("two"):
            f(a)
        """,
        ["task `f` of DAG `two`", "DAG `one`"],
    ),
    "an argument that nothing has": (
        "with DAG('d'): BaseOperator(task_id='a', retires=3)",
        ["task `a`", "`retires`"],
    ),
    "an argument of a DAG that nothing has": ("DAG('d', scheduel=None)", ["DAG `d`", "`scheduel`"]),
    "depends_on_past": (
        "with DAG('d', default_args={'depends_on_past': True}): BaseOperator(task_id='a')",
        ["task `a`", "depends_on_past"],
    ),
    "fail_fast": ("DAG('d', fail_fast=True)", ["DAG `d`", "fail_fast"]),
    "negative retries": (
        "with DAG('d'): BaseOperator(task_id='a', retries=-1)",
        ["task `a`", "retries is -1"],
    ),
    "an outlet that is no asset": (
        "with DAG('d'): BaseOperator(task_id='a', outlets=['orders'])",
        ["task `a`", "'orders' is among its outlets"],
    ),
    "a callback that is no function": (
        "with DAG('d'): BaseOperator(task_id='a', on_failure_callback=3)",
        ["task `a`", "on_failure_callback is 3"],
    ),
    "a missing argument": (
        """
        @task
        def f(x, ti): ...
        with DAG("d"):
            f()
        """,
        ["task `f`", "is missing its argument `x`"],
    ),
    "an argument too many": (
        """
        @task
        def f(x): ...
        with DAG("d"):
            f(1, 2)
        """,
        ["task `f`", "too many positional arguments"],
    ),
    "a default for what the context gives": (
        """
        @task
        def f(run_id="x"): ...
        """,
        ["task `f`", "`run_id`"],
    ),
    "spark in a plain task": (
        """
        @task
        def f(spark): ...
        with DAG("d"):
            f()
        """,
        ["task `f`", "@task.pyspark"],
    ),
    "a loop over a result": (
        """
        @task
        def f(): ...
        with DAG("d"):
            for one in f(): ...
        """,
        ["the result of task `f`", "expand()"],
    ),
    "an arrow to a function": (
        """
        @task
        def f(): ...
        with DAG("d"):
            f() >> f
        """,
        ["is not a task"],
    ),
    "a default of a param that is not JSON": (
        "DAG('d', params={'x': {1, 2}})",
        ["DAG `d`", "param `x` is a set"],
    ),
    "an empty asset": ("Asset()", ["neither name nor URI"]),
    "a trigger that is none": (
        "from holdfast.sdk import AssetWatcher\nAssetWatcher('w', 3)",
        ["watcher `w`", "BaseEventTrigger"],
    ),
}


@pytest.mark.parametrize("case", CASES)
def test_an_invalid_dag_file_has_one_clear_message(case: str, tmp_path: Path) -> None:
    text, expected = CASES[case]
    head = "from holdfast.sdk import DAG, Asset, BaseOperator, task\n"
    file = write_file(tmp_path, head + dedent(text))

    error = parse(ParseStartup(file)).error

    assert "Traceback" not in error
    for part in expected:
        assert part in error


def test_a_message_names_the_line_of_the_error(tmp_path: Path) -> None:
    file = write_file(tmp_path, "from holdfast.sdk import DAG\n\nDAG('a b')\n")

    assert parse(ParseStartup(file)).error.startswith(f"{file}:3: ")


def test_an_exception_of_the_file_is_shown_with_its_own_frames_only(tmp_path: Path) -> None:
    file = write_file(tmp_path, "def f():\n    return 1 / 0\n\nf()\n")

    error = parse(ParseStartup(file)).error

    assert error.startswith("Traceback")
    assert error.endswith("ZeroDivisionError: division by zero")
    assert error.count("File ") == error.count(file) == 2


def test_a_syntax_error_is_shown_where_it_is(tmp_path: Path) -> None:
    file = write_file(tmp_path, "x = (\n")

    error = parse(ParseStartup(file)).error

    assert "SyntaxError" in error and file in error and "dag_import.py" not in error


def test_a_file_that_ends_the_program_ends_its_own_import_only(tmp_path: Path) -> None:
    file = write_file(tmp_path, "import sys\nsys.exit(3)\n")

    assert "SystemExit: 3" in parse(ParseStartup(file)).error


def test_a_missing_file_is_an_error_that_says_so(tmp_path: Path) -> None:
    with pytest.raises(InvalidDag, match="there is no file"):
        load_file(str(tmp_path / "gone.py"))


WHOLE = """
from holdfast.sdk import DAG, task

with DAG("late"):

    @task
    def last(): pass

    last()
"""


@pytest.mark.parametrize("first", [None, "", WHOLE[:60], WHOLE.replace("last()", "")])
def test_a_task_rereads_a_file_that_is_being_replaced(tmp_path: Path, first: str) -> None:
    whole = Path(write_file(tmp_path, WHOLE))
    file = tmp_path / "dag.py"
    if first is not None:
        file.write_text(first)
    Timer(0.3, lambda: whole.rename(file)).start()

    assert find_dag(str(file), "late", "last").dag_id == "late"


@pytest.mark.parametrize(
    ("text", "message"),
    [(None, "there is no file"), ("", "has no DAG `late`"), (WHOLE, "has no task `first`")],
)
def test_the_error_of_a_task_names_what_its_file_lacks(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, text: str | None, message: str
) -> None:
    for name in ("REPLACED_WITHIN", "CHANGED_WITHIN"):
        monkeypatch.setattr(dag_import, name, 0.1)
    file = str(tmp_path / "away.py") if text is None else write_file(tmp_path, text)

    with pytest.raises(InvalidDag, match=message):
        find_dag(file, "late", "first")


def test_an_invalid_dag_error_is_also_a_value_error() -> None:
    with pytest.raises(ValueError, match="dag_id is empty") as caught:
        DAG("")

    assert isinstance(caught.value, InvalidDag)
    assert caught.value.exit_status == 2


def test_chain_refuses_lists_of_different_length() -> None:
    with DAG("d"):
        a, b, c = (BaseOperator(task_id=name) for name in "abc")

        with pytest.raises(InvalidDag, match="lists of 2 and 1"):
            chain([a, b], [c])


def test_the_error_for_an_unknown_kind_of_task_names_it() -> None:
    with pytest.raises(AttributeError, match=r"no @task\.branch"):
        _ = task.branch


@pytest.mark.parametrize(
    ("rules", "value"),
    [
        ({"type": "integer"}, "x"),
        ({"type": ["null", "string"]}, 3),
        ({"minimum": 3}, 2),
        ({"maximum": 3}, 4),
        ({"enum": ["a"]}, "b"),
        ({"pattern": "^a"}, "b"),
        ({"minLength": 2}, "a"),
    ],
)
def test_a_param_is_validated(rules: dict[str, Any], value: Any) -> None:
    with pytest.raises(InvalidDag, match="param `x`"):
        DAG("d", params={"x": Param(value, **rules)})


def test_a_reference_has_a_name_or_a_uri() -> None:
    with pytest.raises(ValueError, match="either name= or uri="):
        Asset.ref(name="a", uri="b")


def test_an_unknown_type_of_a_param_is_refused() -> None:
    with pytest.raises(InvalidDag, match="has no type 'sting'"):
        Param("a", type=["null", "sting"])
