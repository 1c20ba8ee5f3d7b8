"""SIGKILL at any step of a submission to Spark: one driver does the work."""

from __future__ import annotations

import shutil
import socket
from collections.abc import Iterator
from pathlib import Path
from random import Random

import pytest
from standalone import StandaloneCluster, standalone_cluster
from victims import Project

from holdfast import commands as c
from holdfast.model.run import Outcome, RunState
from holdfast.model.scope import TaskScope
from holdfast.model.value import decode
from holdfast.stores.sql import SqlStore

pytestmark = pytest.mark.chaos

PIPELINES = Path(__file__).parent / "pipelines"
STEPS = ("intent", "submitted", "stored", "stored+reconnecting", "done")
LONGEST = 300.0


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    if "seed" in metafunc.fixturenames:
        rounds = int(metafunc.config.getoption("--rounds"))
        metafunc.parametrize("seed", range(max(1, 2 * rounds // len(STEPS))))


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[StandaloneCluster]:
    with standalone_cluster(tmp_path_factory.mktemp("cluster")) as cluster:
        yield cluster


def kills(seed: int, page: str) -> Iterator[str]:
    """Yield, for each job, which process is killed at which steps, and where it looks for drivers:
    where no master answers, it cannot find the submitted driver, and submits a second one."""
    random = Random(seed)
    unlucky = random.randrange(len(STEPS))
    for number, step in enumerate(random.sample(STEPS, len(STEPS))):
        victim = "supervisor" if number == unlucky else "task"
        blind = step == "submitted" and seed % 2 == 0
        yield f"{step} {victim} {'http://127.0.0.1:1' if blind else page}"


def test_one_driver_does_the_work_of_each_job_whoever_is_killed(
    seed: int, tmp_path: Path, cluster: StandaloneCluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("submitting.py", "submitted.py"):
        shutil.copy(PIPELINES / name, tmp_path)
    (tmp_path / "kills.txt").write_text("\n".join(kills(seed, cluster.page)))
    with socket.create_server(("127.0.0.1", 0)) as probe:
        port = probe.getsockname()[1]
    (tmp_path / "holdfast.toml").write_text(
        f'[workers]\nserver_url = "http://127.0.0.1:{port}"\n[api]\naccess_log = false\n'
    )
    monkeypatch.setenv("CHAOS_MASTER", cluster.master)
    monkeypatch.setenv("CHAOS_REST", cluster.rest)
    project = Project(tmp_path)
    server = project.start("server", "--port", str(port))

    status = project.start("run", "submitting.py", "--run-id", "r").wait(LONGEST)
    server.terminate()
    server.wait(60)

    assert status == 0, project.output()
    with SqlStore(f"sqlite:///{tmp_path / '.holdfast' / 'holdfast.db'}") as store:
        assert store.execute(c.GetRun("submitting", "r")).state is RunState.SUCCESS
        for number, line in enumerate((tmp_path / "kills.txt").read_text().splitlines()):
            task = f"job-{number}"
            [(_, result)] = store.execute(c.GetResults("submitting", "r", task))
            worked = (tmp_path / f"{task}.work").read_text().splitlines()
            assert worked == [decode(result)]
            # Each was killed at its steps, unless it died with the supervisor just before one.
            attempts = store.execute(c.ListAttempts(TaskScope("submitting", "r", task)))
            reached = [
                (tmp_path / f"{task}.{step}").exists() for step in line.split()[0].split("+")
            ]
            assert all(reached) or Outcome.INTERRUPTED in [one.outcome for one in attempts]
    assert project.leftovers() == []
