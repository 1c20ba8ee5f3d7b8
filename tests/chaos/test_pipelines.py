"""SIGKILL of any process at any time: the run ends as if nothing had happened."""

from __future__ import annotations

import shutil
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from random import Random
from typing import Any, NamedTuple

import pyarrow.parquet
import pytest
from victims import Project

from holdfast import commands as c
from holdfast.model.run import Outcome, RunState
from holdfast.model.scope import AssetScope
from holdfast.stores.sql import SqlStore

pytestmark = pytest.mark.chaos

PIPELINE = Path(__file__).parent / "pipelines" / "loading.py"
KINDS = ("child", "run", "spark", "supervisor", "launcher")
LONGEST = 180.0


class Outcomes(NamedTuple):
    """Effects of a run that a crash must not change."""

    tasks: list[tuple[str, int, str]]
    successes: list[int]
    """Number of successful attempts of each task instance."""
    results: list[tuple[tuple[int, str], ...]]
    task_entries: dict[tuple[str, int, str], str]
    asset_entries: dict[tuple[str, str], str]
    events: list[tuple[str, int]]
    rows: list[dict[str, Any]]
    summary: list[dict[str, Any]]


def outcomes(project: Project, run_id: str) -> Outcomes:
    with SqlStore(f"sqlite:///{project.directory / '.holdfast' / 'holdfast.db'}") as store:
        assert store.execute(c.GetRun("loading", run_id)).state is RunState.SUCCESS
        instances = store.execute(c.ListTaskInstances(dag_id="loading", run_id=run_id))
        attempts = [store.execute(c.ListAttempts(one.scope)) for one in instances]
        found = store.execute(c.List(c.TaskFilter("loading", run_id))).found
        assets = store.execute(c.List(c.AssetFilter())).found
        ids = sorted({one.scope.task_id for one in instances})
        events = store.execute(c.ListAssetEvents())
        return Outcomes(
            [(one.scope.task_id, one.scope.map_index, str(one.state)) for one in instances],
            [sum(one.outcome is Outcome.SUCCESS for one in several) for several in attempts],
            [store.execute(c.GetResults("loading", run_id, task_id)) for task_id in ids],
            {
                (one.scope.task_id, one.scope.map_index, one.entry.key): one.entry.value
                for one in found
                if one.entry.key != "spark_progress"
            },
            {
                (one.scope.name, one.entry.key): one.entry.value
                for one in assets
                if isinstance(one.scope, AssetScope)
            },
            [(str(one.asset), one.number) for one in events],
            sorted(table(project.directory / "out" / "orders"), key=lambda row: row["id"]),
            sorted(table(project.directory / "out" / "summary"), key=lambda row: row["part"]),
        )


def table(directory: Path) -> list[dict[str, Any]]:
    rows: list[dict[str, Any]] = pyarrow.parquet.read_table(directory).to_pylist()
    return rows


@pytest.fixture(scope="module")
def new_project(tmp_path_factory: pytest.TempPathFactory) -> Callable[[], Project]:
    def make() -> Project:
        directory = tmp_path_factory.mktemp("project")
        shutil.copy(PIPELINE, directory)
        return Project(directory)

    return make


@pytest.fixture(scope="module")
def undisturbed(new_project: Callable[[], Project]) -> Iterator[tuple[Outcomes, float]]:
    """Return the outcome of the pipeline without kills, and how long it takes."""
    project = new_project()
    began = time.monotonic()
    assert project.start("run", "loading.py", "--run-id", "r").wait(LONGEST) == 0, project.output()
    took = time.monotonic() - began
    assert project.leftovers() == []
    return outcomes(project, "r"), took


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    if "seed" in metafunc.fixturenames:
        rounds = int(metafunc.config.getoption("--rounds"))
        metafunc.parametrize("seed", range(3 if rounds == 1 else 30))


def test_a_run_in_which_something_is_killed_ends_as_if_nothing_had_happened(
    seed: int, new_project: Callable[[], Project], undisturbed: tuple[Outcomes, float]
) -> None:
    expected, took = undisturbed
    random, project = Random(seed), new_project()
    victim = KINDS[seed % len(KINDS)]
    command = ("run", "loading.py", "--run-id", "r")
    process = project.start(*command)

    time.sleep(random.uniform(0.1, 0.9) * took)
    project.kill(victim, timeout=took)
    while (status := process.wait(LONGEST)) != 0:
        assert status < 0, project.output()  # killed, and not failed
        process = project.start(*command)

    assert outcomes(project, "r") == expected
    assert project.leftovers() == []
