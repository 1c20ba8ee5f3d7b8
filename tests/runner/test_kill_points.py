"""SIGKILL of each process of a run at the call and at the return of its functions.

A first run records which functions each kind of process calls. Then there is a run for each of
these points, in which the first process that reaches it is killed.
"""

from __future__ import annotations

import math
import random
from contextlib import AbstractContextManager
from pathlib import Path

import pytest
from project import Project, Result, new_project

HOOK = Path(__file__).parent / "killpoints"
"""Directory with a `sitecustomize.py`."""
TIMEOUT = 300.0

PLAIN = """
    from datetime import timedelta
    from holdfast.sdk import DAG, Asset, task

    total = Asset("total", uri="file:///total")

    def called(context):
        print("called back")

    with DAG("d", on_success_callback=called):

        @task(outlets=[total], retries=3, retry_delay=timedelta(0), on_success_callback=called)
        def count(task_store=None, asset_store=None):
            task_store.set("next", task_store.get("next", 0) + 1)
            asset_store.set("counted", True, on_success=True)
            return 1

        @task(retries=3, retry_delay=timedelta(0))
        def report(counted):
            return counted + 1

        report(count())
    """
HANDLE = """
    from datetime import timedelta
    from holdfast.sdk import DAG, task

    with DAG("d"):

        @task(retries=3, retry_delay=timedelta(0))
        def report(task_store=None):
            task_store.handle().set("handled", True)
            return 2

        report()
    """
SPARK = """
    from datetime import timedelta
    from holdfast.sdk import DAG, task

    with DAG("d"):

        @task.pyspark(retries=3, retry_delay=timedelta(0))
        def report(spark=None):
            return spark.range(2).count()

        report()
    """


@pytest.mark.full
@pytest.mark.chaos
@pytest.mark.parametrize(
    ("dag", "known", "in_a_round"),
    [
        pytest.param(PLAIN, "", 3, id="stores"),
        pytest.param(HANDLE, PLAIN, 1, id="server"),
        pytest.param(SPARK, PLAIN, 0.5, id="spark"),
    ],
)
def test_a_kill_at_any_point_costs_an_attempt_at_most(
    dag: str, known: str, in_a_round: float, rounds: int, tmp_path: Path
) -> None:
    """Kill at the points that a run of the DAG passes and one of `known` does not."""
    points = _points(dag, tmp_path / "dag") - _points(known, tmp_path / "known")
    some = random.Random(0).sample(sorted(points), len(points))[: math.ceil(in_a_round * rounds)]
    for number, point in enumerate(some):
        with _new_project(tmp_path / str(number)) as project:
            _run_with_a_kill(project, dag, point)


def _points(dag: str, directory: Path) -> set[str]:
    """Return the points that processes of a run without kills pass, and each message that they
    send."""
    if not dag:
        return set()
    with _new_project(directory) as project:
        project.write("dag.py", dag)
        ended = _run(project, RECORD_POINTS=str(project.path("points")))
        assert ended.status == 0, ended.err
        passed = set(project.read("points").splitlines())
    return passed | {
        point.replace(" call ", " half ")
        for point in passed
        if point.endswith(" call wire.channel.Channel.send")
    }


def _run_with_a_kill(project: Project, dag: str, point: str) -> None:
    project.write("dag.py", dag)
    killed = _run(project, KILL_AT=point, KILLED=str(project.path("killed")))
    what = f"killed at: {point}\n{killed.err}"
    # Not every run passes every point: some are passed only by chance.
    itself = point.startswith("run ") and project.path("killed").exists()
    assert killed.status == (-9 if itself else 0), what
    assert "Traceback" not in killed.err, what
    resumed = _run(project)
    what += f"\nand started again:\n{resumed.err}"
    assert resumed.status == 0, what
    assert "Traceback" not in resumed.err, what
    assert project.result("report") == [2], what


def _new_project(directory: Path) -> AbstractContextManager[Project]:
    directory.mkdir()
    return new_project(directory, PYTHONPATH=str(HOOK))


def _run(project: Project, **environ: str) -> Result:
    return project.holdfast("run", "dag.py", "--run-id", "r", timeout=TIMEOUT, **environ)
